"""How ``archive`` turns events from the log into rows of files: it adds the columns to partition by."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from weft.pipelines.days import days
from weft.pipelines.ranges import fetched
from weft.spark.options import COLUMNS
from weft.spark.rows import schema_of


@dataclass(frozen=True, slots=True)
class TopicColumn:
    """A column that is computed from the topic: its name, and the function that computes its value."""

    name: str
    kind: pa.DataType
    of_topic: Callable[[str], str | int]


@dataclass(frozen=True, slots=True)
class Events:
    """Makes a table's rows from the ranges of ``weft-ranges``. Spark pickles it to executors."""

    by_topic: TopicColumn | None = None

    def columns(self) -> pa.Schema:
        """An event's own columns, then those that the table is partitioned by."""
        return pa.schema([*schema_of(COLUMNS), *self.partitions()])

    def partitions(self) -> pa.Schema:
        """The columns that the table is partitioned by."""
        added = [("date", pa.date32())]
        if self.by_topic is not None:
            added.append((self.by_topic.name, self.by_topic.kind))
        return pa.schema(added)

    def partition_by(self) -> tuple[str, ...]:
        return tuple(self.partitions().names)

    def rows(self, ranges: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fetch the events of these ranges as rows."""
        return map(self.laid_out, fetched(ranges))

    def laid_out(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Events with the columns that the table is partitioned by."""
        added = self.partition_columns(events)
        return pa.RecordBatch.from_arrays([*events.columns, *added.values()], schema=self.columns())

    def partition_columns(self, events: pa.RecordBatch) -> dict[str, pa.Array]:
        """Only the columns to partition by, by name."""
        added = {"date": days(events.column("timestamp"))}
        if self.by_topic is not None:
            topics = events.column("topic").dictionary_encode()
            values = [self.by_topic.of_topic(topic) for topic in topics.dictionary.to_pylist()]
            added[self.by_topic.name] = pa.array(values, self.by_topic.kind).take(topics.indices)
        return added


def first_token(topic: str) -> str:
    return topic.partition(".")[0]


def bucket(topic: str, buckets: int) -> int:
    """The bucket of a topic. It must be the same on every machine and must never change: tables depend on it."""
    return zlib.crc32(topic.encode()) % buckets
