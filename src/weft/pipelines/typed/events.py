"""What tasks make of events: rows of a typed table, and dead letters of those that cannot be kept there. Pure.

A dead letter is the whole raw event with its identity, the reason, and the schema that it was judged by. ``replayed``
says when it was put into the table after all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from weft.lake.events import TYPES
from weft.pipelines.archive_events import Events
from weft.pipelines.days import days
from weft.schema import CORRUPT, RESCUED
from weft.spark.options import COLUMNS
from weft.spark.rows import schema_of
from weft.spark.typed import EVENT_COLUMNS, TypedEvents, TypedReader, TypedTopics

IDENTITY: Final = ("topic", "origin", "epoch", "partition", "offset")
REASON, SCHEMA, REPLAYED, DAY = "reason", "schema", "replayed", "date"
DEAD: Final = pa.schema(
    [
        *schema_of(COLUMNS),
        (REASON, pa.string()),
        (SCHEMA, pa.string()),
        (REPLAYED, TYPES["timestamp"]),
        (DAY, pa.date32()),
    ]
)


def typed_columns(topics: TypedTopics, layout: Events) -> pa.Schema:
    """The columns of a typed table: the event's own, the payload's, what did not fit, and those to partition by."""
    of_events = [(name, TYPES[name]) for name in EVENT_COLUMNS]
    return pa.schema([*of_events, *topics.columns(), (RESCUED, pa.string()), *layout.partitions()])


@dataclass(frozen=True, slots=True)
class TypedArchive:
    """How events become rows. Spark pickles it to executors."""

    topics: TypedTopics
    columns: pa.Schema  # the table's: at least those of the schemas, and wide enough for them
    layout: Events
    strict: bool

    def rows(self, events: Iterable[pa.RecordBatch], dead: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of the table; what cannot be kept is put into ``dead``."""
        reader = TypedReader(self.topics)
        for batch in events:
            typed = reader.read(batch)
            unfit = self._unfit(typed)
            if unfit is None:
                yield self._stored(batch, typed.columns)
                continue
            kept, unkept = pa.array(~unfit), pa.array(unfit)
            dead.append(_letters(batch.filter(unkept), typed.reasons().filter(unkept), reader))
            yield self._stored(batch.filter(kept), typed.columns.filter(kept))

    def _unfit(self, typed: TypedEvents) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """A mask of the events that cannot be kept in the table; None: all can."""
        corrupt = typed.columns.column(CORRUPT)
        if not typed.faults or (not self.strict and corrupt.null_count == len(corrupt)):
            return None
        if not self.strict:
            return corrupt.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        unfit = np.zeros(len(typed), dtype=np.bool_)
        unfit[list(typed.faults)] = True
        return unfit

    def _stored(self, events: pa.RecordBatch, typed: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in the table's columns. Columns that no schema names any longer are null."""
        added = self.layout.partition_columns(events)
        columns = []
        for each in self.columns:
            if each.name in added:
                columns.append(added[each.name])
            elif each.name in EVENT_COLUMNS:
                columns.append(events.column(each.name))
            elif each.name in typed.schema.names:
                columns.append(typed.column(each.name).cast(each.type))
            else:
                columns.append(pa.nulls(events.num_rows, each.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.columns)


def _letters(events: pa.RecordBatch, reasons: pa.Array, reader: TypedReader) -> pa.RecordBatch:
    topics = events.column("topic").dictionary_encode()
    schemas = [
        None if (found := reader.schema_of(topic)) is None else str(found) for topic in topics.dictionary.to_pylist()
    ]
    added = {
        REASON: reasons,
        SCHEMA: pa.array(schemas, pa.string()).take(topics.indices),
        REPLAYED: pa.nulls(events.num_rows, DEAD.field(REPLAYED).type),
        DAY: days(events.column("timestamp")),
    }
    columns = [added[name] if name in added else events.column(name) for name in DEAD.names]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD)
