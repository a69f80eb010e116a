"""Conversions between a table and Spark: a table's files as a frame, and a frame's columns as a table's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from weft.lake.files import DataFile
from weft.lake.settings import TableSettings
from weft.lake.store import Store
from weft.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LAKE_READ_ROWS: Final = 65_536  # rows read from a file at a time
LAKE_TASK_BYTES: Final = 128 * MIB  # of files that one task reads from a store; the same size as Spark's own


def read_files(
    spark: SparkSession, settings: TableSettings, schema: StructType, files: Sequence[DataFile]
) -> DataFrame:
    """The rows of exactly these files. In a directory, Spark reads them itself, and takes partitions from the paths."""
    if not files:
        return spark.createDataFrame([], schema)
    if not settings.address.is_directory:
        return _from_store(spark, settings, schema, files)
    paths = [f"{settings.path}/{file.path}" for file in files]
    return spark.read.schema(schema).option("basePath", settings.path).parquet(*paths).select(schema.names)


def _from_store(
    spark: SparkSession, settings: TableSettings, schema: StructType, files: Sequence[DataFile]
) -> DataFrame:
    """Read files from an object store. Spark needs no jar for that: tasks read the files themselves."""
    return map_files(spark, settings, columns_of(schema), files, iter, schema)


def map_files(
    spark: SparkSession,
    settings: TableSettings,
    columns: pa.Schema,
    files: Sequence[DataFile],
    make: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    made: StructType,
    task_bytes: int = LAKE_TASK_BYTES,
) -> DataFrame:
    """Apply a function to the rows of these files, which the tasks read themselves."""
    tasks = shares(files, task_bytes)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = settings.store()
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for file in tasks[number]:
                yield from make(file_rows(store, columns, file))

    return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(read, made)


def shares(files: Sequence[DataFile], size_bytes: int) -> list[list[DataFile]]:
    """Group files, in their order, up to this size. Pure."""
    found: list[list[DataFile]] = []
    left = 0
    for file in files:
        if not found or file.size_bytes > left:
            found.append([])
            left = size_bytes
        found[-1].append(file)
        left -= file.size_bytes
    return found


def file_rows(store: Store, schema: pa.Schema, file: DataFile) -> Iterator[pa.RecordBatch]:
    """A file's rows with all columns of the table. The partition columns are not in the file itself, and columns that
    the table got later are null."""
    with closing(store.reader(file.path)) as source, pq.ParquetFile(source) as stored:
        for batch in stored.iter_batches(batch_size=LAKE_READ_ROWS):
            columns = [
                batch.column(each.name).cast(each.type)
                if each.name in batch.schema.names
                else pa.repeat(pa.scalar(file.partition[each.name], pa.string()).cast(each.type), batch.num_rows)
                if each.name in file.partition
                else pa.nulls(batch.num_rows, each.type)
                for each in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, names=schema.names)


def nullable(schema: StructType) -> StructType:
    """The same columns, all nullable: a column that is never null today may have nulls next year."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, each.dataType, nullable=True) for each in schema])


def columns_of(schema: StructType) -> pa.Schema:
    """A frame's columns as Arrow types for a table. Times are in UTC, whatever the session's zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(nullable(schema), timezone="UTC")
