"""Rows and tables for tests of the lake: small, made up, and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.types import (
    BinaryType,
    DateType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from weft.pipelines.lake import Table, TableFormat, TableSettings, open_table
from weft.pipelines.lake.files import Attempt, WrittenFile
from weft.pipelines.lake.reading import columns_of
from weft.pipelines.lake.writing import FileWriter

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("value", BinaryType()),
        StructField("date", DateType()),
    ]
)
COLUMNS = columns_of(SCHEMA)
DAY_US = 86_400_000_000
FIRST_DAY = 20_772  # 2026-11-15
TOKENS = count()


def rows(offsets: range, *, topic: str = "plant.temp", day: int = FIRST_DAY) -> pa.RecordBatch:
    """Events of one topic and day."""
    size = len(offsets)
    columns = [
        pa.array([topic] * size),
        pa.array(list(offsets), pa.int64()),
        pa.array([day * DAY_US + offset for offset in offsets], pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array([[("unit", "C")]] * size, COLUMNS.field("headers").type),
        pa.array([b"payload %d" % offset for offset in offsets], pa.binary()),
        pa.array([day] * size, pa.int32()).cast(pa.date32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


def made_table(place: Path, kind: TableFormat | str, **settings: object) -> Table:
    """An empty table, partitioned by day."""
    wanted = TableSettings(str(place / "table"), TableFormat(kind), ("date",), ("topic",))
    table = open_table(replace(wanted, **settings))  # type: ignore[arg-type]
    table.create(SCHEMA)
    return table


def written(table: Table, *batches: pa.RecordBatch, query: str = "q", batch: int = 0) -> list[WrittenFile]:
    """Files of one task, not committed."""
    attempt = Attempt(query, batch, 0, f"{next(TOKENS):08x}")
    return FileWriter(table.settings, COLUMNS, attempt, table.place).write_all(batches)


def offsets_of(table: Table) -> list[int]:
    """What a reader of the format, which knows nothing of ours, finds in the table."""
    return sorted(arrow_rows(table).column("offset").to_pylist())


def arrow_rows(table: Table) -> pa.Table:
    """All of it, by the format's own reader."""
    path = table.settings.path
    match table.settings.format:
        case TableFormat.DELTA:
            from deltalake import DeltaTable

            return pa.table(DeltaTable(path).scan())
        case TableFormat.ICEBERG:
            from pyiceberg.catalog.sql import SqlCatalog

            catalog = SqlCatalog("weft", uri=f"sqlite:///{path}/catalog.db", warehouse=path)
            return catalog.load_table(table.settings.identifier).scan().to_arrow()
        case TableFormat.PARQUET:
            found = ds.dataset(path, format="parquet", partitioning="hive")
            return found.to_table() if found.files else COLUMNS.empty_table()


def on_disk(table: Table) -> Iterator[Path]:
    """Every file that holds rows, committed or not."""
    for path in sorted(table.settings.root.rglob("*")):
        if path.is_file() and ".parquet" in path.name:
            yield path
