"""A source for Spark whose rows are there already: what Spark does with Arrow, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pyarrow as pa
from bench.spark_common import events
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from weft.client import ReceivedBatch
from weft.limits import SPARK_BATCH_ROWS
from weft.model import Epoch, NodeId, Stream, Topic
from weft.spark.offsets import Place
from weft.spark.options import COLUMNS
from weft.spark.rows import RowMaker, schema_of

PLACE = Place(Stream(Topic("bench.t0"), NodeId("one"), 0), Epoch(1))


class InMemory(DataSource):
    @classmethod
    def name(cls) -> str:
        return "in_memory"

    def schema(self) -> StructType:
        return from_arrow_schema(schema_of(COLUMNS))

    def reader(self, schema: StructType) -> DataSourceReader:
        return InMemoryReader(int(self.options["rows"]), int(self.options["partitions"]))


class InMemoryReader(DataSourceReader):
    def __init__(self, rows: int, partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for _ in range(partition.value, self._rows // SPARK_BATCH_ROWS, self._partitions):
            yield prepared()


@functools.cache
def prepared() -> pa.RecordBatch:
    """One batch as the source hands it over, made once in every worker."""
    stored = events(0, SPARK_BATCH_ROWS)
    return next(RowMaker(COLUMNS).rows([ReceivedBatch(*PLACE, 0, stored)]))
