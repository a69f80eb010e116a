"""Stored batches as the rows that Spark wants, column by column: nothing here looks at a single event. Pure.

Spark takes Arrow only with exactly the types and nullability that its schema says. (SPARK.md, trap 7)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from weft.client import ReceivedBatch
from weft.lake.events import HEADERS, STORED, TYPES
from weft.limits import MIB, SPARK_BATCH_ROWS
from weft.model import SCHEMA
from weft.spark.offsets import Place

SPARK_BATCH_BYTES: Final = 16 * MIB  # in one Arrow batch for Spark, unless a single event is larger: the JVM copies it
Run: TypeAlias = tuple[Place, int]


def schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, TYPES[name]) for name in columns])


def stored_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The stored columns to fetch for these columns; empty means all columns, just as they are stored.

    At least one column is fetched, because only rows show which offsets exist. Timestamps are the smallest column.
    """
    wanted = tuple(STORED[name] for name in columns if name in STORED) or ("timestamp",)
    return () if len(wanted) == len(SCHEMA) else wanted


class RowMaker:
    """Makes rows from stored batches of any streams. All batches for one Arrow batch are handled in one pass, so a
    thousand small streams take as long as one large one. What all events of a stream share is made once and kept."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._schema = schema_of(columns)
        self._repeated: dict[str, tuple[Place, pa.Array]] = {}  # by column: the last stream's value, repeated

    def rows(self, batches: Iterable[ReceivedBatch]) -> Iterator[pa.RecordBatch]:
        """The same events in Arrow batches of a size that suits Spark."""
        for group in grouped(batches):
            yield self._made(group)

    def _made(self, group: Sequence[ReceivedBatch]) -> pa.RecordBatch:
        stored = [batch.record_batch for batch in group]
        events = stored[0] if len(stored) == 1 else pa.concat_batches(stored)
        runs = _runs(group)
        columns = [self._column(name, events, group, runs) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(
        self, name: str, events: pa.RecordBatch, group: Sequence[ReceivedBatch], runs: Sequence[Run]
    ) -> pa.Array:
        match name:
            case "key" | "value":
                return events.column(STORED[name])
            case "timestamp":
                return events.column(name).view(TYPES[name])
            case "headers":
                return events.column(name).cast(HEADERS)
            case "offset":
                return pa.array(np.concatenate([np.arange(each.first_offset, each.end_offset) for each in group]))
            case _ if len(runs) == 1:
                return self._same(name, *runs[0])
            case _:
                values = pa.array([_common(name, place) for place, _ in runs], TYPES[name])
                return values.take(pa.array(np.repeat(np.arange(len(runs)), [count for _, count in runs])))

    def _same(self, name: str, place: Place, count: int) -> pa.Array:
        """The same value for so many rows."""
        known = self._repeated.get(name)
        if known is None or known[0] != place or len(known[1]) < count:
            known = self._repeated[name] = place, pa.repeat(pa.scalar(_common(name, place), TYPES[name]), count)
        return known[1].slice(0, count)


def _runs(group: Sequence[ReceivedBatch]) -> list[Run]:
    """For neighbouring rows of one stream: the stream, and how many rows."""
    by_place = groupby(group, key=lambda batch: Place(batch.stream, batch.epoch))
    return [(place, sum(map(len, batches))) for place, batches in by_place]


def _common(name: str, place: Place) -> str | int:
    """The value that all events of a stream have in this column."""
    stream, epoch = place
    common: dict[str, str | int] = {
        "topic": stream.topic,
        "partition": stream.partition,
        "origin": stream.origin,
        "epoch": epoch,
    }
    return common[name]


def grouped(batches: Iterable[ReceivedBatch]) -> Iterator[list[ReceivedBatch]]:
    """Group neighbouring batches, even of different streams, and cut large ones, so that each group makes a good batch
    for Spark: a batch costs the JVM as much as a hundred rows."""
    group: list[ReceivedBatch] = []
    rows = size = 0
    for part in chain.from_iterable(map(_parts, batches)):
        more_rows, more_size = len(part), _bytes_of(part.record_batch)
        if group and (rows + more_rows > SPARK_BATCH_ROWS or size + more_size > SPARK_BATCH_BYTES):
            yield group
            group, rows, size = [], 0, 0
        group.append(part)
        rows += more_rows
        size += more_size
    if group:
        yield group


def _bytes_of(rows: pa.RecordBatch) -> int:
    """A rough size; a slice counts as much as the whole it is cut from. An exact size takes twenty times as long."""
    return int(rows.get_total_buffer_size())


def _parts(batch: ReceivedBatch) -> Iterator[ReceivedBatch]:
    """Equal parts, none of which is too large."""
    count = len(batch)
    parts = max(-(-count // SPARK_BATCH_ROWS), -(-_bytes_of(batch.record_batch) // SPARK_BATCH_BYTES))
    if parts <= 1:
        yield batch
        return
    step = -(-count // parts)
    for begin in range(0, count, step):
        rows = batch.record_batch.slice(begin, step)
        yield ReceivedBatch(batch.stream, batch.epoch, batch.first_offset + begin, rows)
