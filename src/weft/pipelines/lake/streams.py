"""For pipelines: streaming queries that write tables, and reading tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.lake.settings import TableSettings
from weft.pipelines.lake.staging import prepare
from weft.pipelines.lake.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def register(spark: SparkSession) -> None:
    """Let a session write with ``format("weft-lake")``."""
    from weft.pipelines.lake.source import LakeSource

    spark.dataSource.register(LakeSource)


def read(spark: SparkSession, table: TableSettings) -> DataFrame:
    """A table's rows as they are now; later commits do not change the frame."""
    return open_table(table).read(spark)


def write_stream(
    frame: DataFrame, table: TableSettings, *, query_name: str, checkpoint: Path | str, trigger: Mapping[str, Any]
) -> StreamingQuery:
    """Start adding a stream's rows to a table, each batch exactly once.

    ``trigger`` has the arguments of ``DataStreamWriter.trigger`` (``RunSection.trigger_arguments``).
    """
    prepare(table, frame.schema)
    register(frame.sparkSession)
    writer = frame.writeStream.format("weft-lake").options(**table.options()).queryName(query_name)
    return writer.option("checkpointLocation", str(checkpoint)).outputMode("append").trigger(**trigger).start()
