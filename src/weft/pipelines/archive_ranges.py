"""How ``archive`` moves events: ranges of offsets go through Spark, events go from the node straight into files.

Spark's own way for rows of a Python source is Arrow, then rows of the JVM, then Arrow again for the Python that writes
them; that is two thirds of all the work, and an archive has nothing to do with the rows there. So ``weft-ranges`` plans
like ``weft`` (offsets, limits, losses, lag: all of it is the source's), but a task's row says only what to read. The
task that writes reads it.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from weft.errors import UsageError
from weft.limits import SPARK_BATCH_ROWS
from weft.spark.options import COLUMNS, parse_options
from weft.spark.reading import Reading
from weft.spark.rows import schema_of
from weft.spark.source import BatchReader, RangePartition, StreamReader, WeftSource

NAME: Final = "weft-ranges"
TO_READ: Final = pa.schema([("to_read", pa.binary())])
DAY_US: Final = 86_400_000_000

# Publishers set timestamps, and a clock gone mad must not make a directory for every day there ever was, nor dates that
# Python and the readers of Parquet cannot hold: such days are null.
FIRST_DAY: Final = 10_957  # 2000-01-01
END_DAY: Final = 47_482  # 2100-01-01


class RangeSource(WeftSource):
    """``format("weft-ranges")``: streaming only, with the options of ``format("weft")``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return StructType([StructField("to_read", BinaryType())])

    def reader(self, schema: StructType) -> BatchReader:
        raise UsageError("weft-ranges is for streams: read weft")

    def streamReader(self, schema: StructType) -> RangeReader:  # noqa: N802  Spark's
        return RangeReader(parse_options(self.options))


class RangeReader(StreamReader):
    """Plans as its base does."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One row that says what to read, and an empty one for each further event: Spark counts rows, and people
        look at its counts. The empty ones are dropped before anything is done with them."""
        if not isinstance(partition, RangePartition):
            return  # Spark makes one of its own when there is nothing to read
        options = self._options
        reading = Reading(options.connection, COLUMNS, options.fail_on_data_loss)
        yield _rows(pa.array([pickle.dumps((reading, partition.ranges))], pa.binary()))
        left = sum(map(len, partition.ranges)) - 1
        empty = _rows(pa.nulls(SPARK_BATCH_ROWS, pa.binary()))
        for first in range(0, left, SPARK_BATCH_ROWS):
            yield empty.slice(0, min(SPARK_BATCH_ROWS, left - first))


def _rows(to_read: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([to_read], schema=TO_READ)


# --- in the task that writes ----------------------------------------------------------------------------------------


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

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fetch what is to be read."""
        for batch in batches:
            for row in batch.column(0):
                reading, ranges = pickle.loads(row.as_py())
                for events in reading.rows(ranges):
                    yield self.laid_out(events)

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
