"""Stored batches as the rows that Spark wants, column by column: nothing here looks at a single event. Pure.

Spark takes Arrow only with exactly the types and nullability that its schema says. (SPARK.md, trap 7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from weft.client import ReceivedBatch
from weft.lake.events import HEADERS, STORED, TYPES
from weft.limits import MIB, SPARK_BATCH_ROWS
from weft.model import SCHEMA
from weft.spark.offsets import Place

SPARK_BATCH_BYTES: Final = 16 * MIB  # of one Arrow batch for Spark, unless a single event is larger: the JVM copies it
T = TypeVar("T")


def schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, TYPES[name]) for name in columns])


def stored_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """What has to be fetched for these; nothing means all of it, just as it is stored.

    Something has to be: which offsets there are is known from rows alone. Times are the smallest.
    """
    wanted = tuple(STORED[name] for name in columns if name in STORED) or ("timestamp",)
    return () if len(wanted) == len(SCHEMA) else wanted


class RowMaker:
    """Makes rows of one stream. What all of its events have in common is made once, as long as it has to be."""

    def __init__(self, place: Place, columns: Sequence[str]) -> None:
        self._schema = schema_of(columns)
        stream, epoch = place
        common = {"topic": stream.topic, "partition": stream.partition, "origin": stream.origin, "epoch": epoch}
        self._common = {name: pa.array([value], TYPES[name]) for name, value in common.items()}

    def rows(self, batches: Iterable[ReceivedBatch]) -> Iterator[pa.RecordBatch]:
        """The same events in Arrow batches of a size that suits Spark."""
        for group in grouped(batches):
            yield self._made(group)

    def _made(self, group: Sequence[ReceivedBatch]) -> pa.RecordBatch:
        stored = [batch.record_batch for batch in group]
        events = stored[0] if len(stored) == 1 else pa.concat_batches(stored)
        columns = [self._column(name, events, group) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, events: pa.RecordBatch, group: Sequence[ReceivedBatch]) -> pa.Array:
        match name:
            case "key" | "value":
                return events.column(STORED[name])
            case "timestamp":
                return events.column(name).view(TYPES[name])
            case "headers":
                return events.column(name).cast(HEADERS)
            case "offset":
                return pa.array(np.concatenate([np.arange(each.first_offset, each.end_offset) for each in group]))
            case _:
                if len(self._common[name]) < events.num_rows:
                    self._common[name] = pa.repeat(self._common[name][0], events.num_rows)
                return self._common[name].slice(0, events.num_rows)


def grouped(batches: Iterable[ReceivedBatch]) -> Iterator[list[ReceivedBatch]]:
    """Neighbours together and large ones in parts, so that each group is a good batch for Spark."""
    return _gathered(chain.from_iterable(map(_parts, batches)), lambda part: part.record_batch)


def coalesced(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small ones together, also of different streams: every batch costs the JVM as much as a hundred rows."""
    for group in _gathered(rows, lambda each: each):
        yield group[0] if len(group) == 1 else pa.concat_batches(group)


def _gathered(items: Iterable[T], rows_of: Callable[[T], pa.RecordBatch]) -> Iterator[list[T]]:
    """Neighbours, up to SPARK_BATCH_ROWS rows and SPARK_BATCH_BYTES bytes; an item that is larger is alone."""
    group: list[T] = []
    rows = size = 0
    for item in items:
        more = rows_of(item)
        more_rows, more_size = more.num_rows, _bytes_of(more)
        if group and (rows + more_rows > SPARK_BATCH_ROWS or size + more_size > SPARK_BATCH_BYTES):
            yield group
            group, rows, size = [], 0, 0
        group.append(item)
        rows += more_rows
        size += more_size
    if group:
        yield group


def _bytes_of(rows: pa.RecordBatch) -> int:
    """About; a part counts as much as what it is part of. To know it exactly takes twenty times as long."""
    return int(rows.get_total_buffer_size())


def _parts(batch: ReceivedBatch) -> Iterator[ReceivedBatch]:
    """Equal parts, none of them too large."""
    count = len(batch)
    parts = max(-(-count // SPARK_BATCH_ROWS), -(-_bytes_of(batch.record_batch) // SPARK_BATCH_BYTES))
    if parts <= 1:
        yield batch
        return
    step = -(-count // parts)
    for begin in range(0, count, step):
        rows = batch.record_batch.slice(begin, step)
        yield ReceivedBatch(batch.stream, batch.epoch, batch.first_offset + begin, rows)
