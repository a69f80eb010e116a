"""What ``archive`` makes of events on their way from the log into files: columns to partition by are added."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.pipelines.ranges import fetched
from weft.spark.options import COLUMNS
from weft.spark.rows import schema_of

DAY_US: Final = 86_400_000_000

# Publishers set timestamps, and a clock gone mad must not make a directory for every day there ever was, nor dates that
# Python and the readers of Parquet cannot hold: such days are null.
FIRST_DAY: Final = 10_957  # 2000-01-01
END_DAY: Final = 47_482  # 2100-01-01


@dataclass(frozen=True, slots=True)
class TopicColumn:
    """A column that follows from the topic: its name, and what it is for one topic."""

    name: str
    kind: pa.DataType
    of_topic: Callable[[str], str | int]


@dataclass(frozen=True, slots=True)
class Events:
    """Makes a table's rows of what ``weft-ranges`` gives. Spark pickles it to executors."""

    by_topic: TopicColumn | None = None

    def columns(self) -> pa.Schema:
        """An event's own, then those that the table is partitioned by."""
        added = [("date", pa.date32())]
        if self.by_topic is not None:
            added.append((self.by_topic.name, self.by_topic.kind))
        return pa.schema([*schema_of(COLUMNS), *added])

    def partition_by(self) -> tuple[str, ...]:
        return tuple(self.columns().names[len(COLUMNS) :])

    def rows(self, ranges: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fetch what is to be read."""
        return map(self.laid_out, fetched(ranges))

    def laid_out(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Events with the columns that the table is partitioned by."""
        added = [days(events.column("timestamp"))]
        if self.by_topic is not None:
            topics = events.column("topic").dictionary_encode()
            values = [self.by_topic.of_topic(topic) for topic in topics.dictionary.to_pylist()]
            added.append(pa.array(values, self.by_topic.kind).take(topics.indices))
        return pa.RecordBatch.from_arrays([*events.columns, *added], schema=self.columns())


def days(timestamps: pa.Array) -> pa.Array:
    """The day of each by UTC; null for those that cannot be."""
    micros = timestamps.cast(pa.int64())
    found = pc.divide(micros, DAY_US)  # towards zero: right for all days that are kept
    likely = pc.and_(pc.greater_equal(found, FIRST_DAY), pc.less(found, END_DAY))
    return pc.if_else(likely, found, pa.scalar(None, pa.int64())).cast(pa.int32()).cast(pa.date32())


def first_token(topic: str) -> str:
    return topic.partition(".")[0]


def bucket(topic: str, buckets: int) -> int:
    """The same on every machine and in every year: tables depend on it."""
    return zlib.crc32(topic.encode()) % buckets
