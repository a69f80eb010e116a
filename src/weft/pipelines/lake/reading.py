"""Between a table and Spark: a table's files as a frame, a frame's columns as a table's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.pipelines.lake.files import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read_files(spark: SparkSession, root: str, schema: StructType, files: Sequence[DataFile]) -> DataFrame:
    """The rows of these files, exactly; partitions come from the names of their directories."""
    if not files:
        return spark.createDataFrame([], schema)
    paths = [f"{root}/{file.path}" for file in files]
    return spark.read.schema(schema).option("basePath", root).parquet(*paths).select(schema.names)


def nullable(schema: StructType) -> StructType:
    """The same columns, all of which may be null: what a column is today need not be what it is next year."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, each.dataType, nullable=True) for each in schema])


def columns_of(schema: StructType) -> pa.Schema:
    """A frame's columns in Arrow, as tables have them. Times are UTC, whatever the session's zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(nullable(schema), timezone="UTC")
