"""How events bypass the JVM: only ranges of offsets go through Spark, and events go from the node straight to the task.

Spark turns a Python source's rows from Arrow into rows of the JVM, and then into Arrow again for the Python that uses
them. That is two thirds of all the work, and useless for pipelines that do nothing with the rows in the JVM. So
``weft-ranges`` plans like ``weft`` (the source does offsets, limits, losses and lag), but a task's row says only what
to read. ``fetched`` reads the events, in the task that needs them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from weft.errors import UsageError
from weft.heap import WORKER_KEPT_BYTES, keep_freed_memory
from weft.limits import SPARK_BATCH_ROWS
from weft.spark.options import COLUMNS, SourceOptions, parse_options
from weft.spark.planning import Range, split
from weft.spark.reading import Reading
from weft.spark.rows import schema_of
from weft.spark.source import BatchReader, RangePartition, StreamReader, WeftSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "weft-ranges"
TO_READ: Final = pa.schema([("to_read", pa.binary())])
TO_READ_ROW: Final = StructType([StructField("to_read", BinaryType())])


def read_ranges(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """A stream of the ranges to read; options are those of ``format("weft")``. Apply ``only_ranges`` to its rows."""
    spark.dataSource.register(RangeSource)
    return spark.readStream.format(NAME).options(**options).load()


def planned_ranges(spark: SparkSession, options: SourceOptions, planned: Sequence[Range]) -> DataFrame:
    """A frame of just these ranges, for a job that plans by itself: ``fetched`` reads them."""
    parts = split(planned, options.partitions_min)
    return spark.createDataFrame([(bytearray(_to_read(options, part)),) for part in parts], TO_READ_ROW)


def events_of(ranges: DataFrame) -> DataFrame:
    """The events of these ranges as rows in Spark, with all columns of ``format("weft")``."""
    return ranges.mapInArrow(fetched, from_arrow_schema(schema_of(COLUMNS)))


def only_ranges(rows: DataFrame) -> DataFrame:
    """Drop the rows that exist only to be counted."""
    return rows.where("to_read IS NOT NULL")


def fetched(ranges: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events, with all columns of ``format("weft")``."""
    keep_freed_memory(WORKER_KEPT_BYTES, arenas_max=1)
    for batch in ranges:
        for row in batch.column(0):
            reading, wanted = pickle.loads(row.as_py())  # noqa: S301  from our own driver
            yield from reading.rows(wanted)


class RangeSource(WeftSource):
    """``format("weft-ranges")``: streaming only, with the options of ``format("weft")``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return TO_READ_ROW

    def reader(self, schema: StructType) -> BatchReader:
        raise UsageError("weft-ranges is for streams: read weft")

    def streamReader(self, schema: StructType) -> RangeReader:  # noqa: N802  Spark's
        return RangeReader(parse_options(self.options))


class RangeReader(StreamReader):
    """Plans like its base class."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One row that says what to read, and an empty row for each further event, because Spark counts rows and people
        look at its counts. The empty rows are dropped before anything is done with them."""
        if not isinstance(partition, RangePartition):
            return  # Spark makes an empty partition of its own when there is nothing to read
        yield _rows(pa.array([_to_read(self._options, partition.ranges)], pa.binary()))
        left = sum(map(len, partition.ranges)) - 1
        empty = _rows(pa.nulls(SPARK_BATCH_ROWS, pa.binary()))
        for first in range(0, left, SPARK_BATCH_ROWS):
            yield empty.slice(0, min(SPARK_BATCH_ROWS, left - first))


def _to_read(options: SourceOptions, ranges: Sequence[Range]) -> bytes:
    """The bytes that ``fetched`` reads."""
    return pickle.dumps((Reading(options.connection, COLUMNS, options.fail_on_data_loss), ranges))


def _rows(to_read: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([to_read], schema=TO_READ)
