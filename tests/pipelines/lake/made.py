"""Rows and tables for tests of the lake: small, made up, and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyiceberg.catalog
import pytest
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config
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

from tests.pipelines.s3 import S3
from weft.lake.files import Attempt, WrittenFile
from weft.pipelines.lake import Table, TableFormat, TableSettings, open_table
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


def made_table(place: Path | str, kind: TableFormat | str, **settings: object) -> Table:
    """An empty table, partitioned by day."""
    wanted = TableSettings(f"{place}/table", TableFormat(kind), ("date",), ("topic",))
    table = open_table(replace(wanted, **settings))  # type: ignore[arg-type]
    table.create(SCHEMA)
    return table


def made_in_s3(s3: S3, place: Path, kind: TableFormat, monkeypatch: pytest.MonkeyPatch, **settings: object) -> Table:
    """The same in a bucket of its own; an Iceberg table has a SQL catalog in ``place``."""
    catalog = None
    if kind is TableFormat.ICEBERG:
        catalog = "lake"
        configure_catalog(monkeypatch, catalog, s3.iceberg(place / "catalog.db"))
    return made_table(s3.bucket(), kind, access=s3.access, catalog=catalog, **settings)


def configure_catalog(monkeypatch: pytest.MonkeyPatch, name: str, properties: dict[str, str]) -> None:
    """As ``.pyiceberg.yaml`` or the environment would; pyiceberg reads both when it is imported."""
    for each, value in properties.items():
        variable = each.upper().replace(".", "__").replace("-", "_")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{variable}", value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())


def written(table: Table, *batches: pa.RecordBatch, query: str = "q", batch: int = 0) -> list[WrittenFile]:
    """Files of one task, not committed."""
    attempt = Attempt(query, batch, 0, f"{next(TOKENS):08x}")
    return FileWriter(table.settings, COLUMNS, attempt, table.place).write_all(batches)


def offsets_of(table: Table) -> list[int]:
    """What a reader of the format, which knows nothing of ours, finds in the table."""
    return sorted(arrow_rows(table).column("offset").to_pylist())


def arrow_rows(table: Table) -> pa.Table:
    """All of it, by the format's own reader."""
    settings = table.settings
    match settings.format:
        case TableFormat.DELTA:
            from deltalake import DeltaTable

            return pa.table(DeltaTable(settings.path, storage_options=settings.credentials().delta()).scan())
        case TableFormat.ICEBERG:
            if settings.catalog is not None:
                catalog = pyiceberg.catalog.load_catalog(settings.catalog)
            else:
                catalog = SqlCatalog("weft", uri=f"sqlite:///{settings.path}/catalog.db", warehouse=settings.path)
            return catalog.load_table(settings.identifier).scan().to_arrow()
        case TableFormat.PARQUET:
            path, filesystem = _for_arrow(settings)
            found = ds.dataset(path, format="parquet", partitioning="hive", filesystem=filesystem)
            return found.to_table() if found.files else COLUMNS.empty_table()


def _for_arrow(settings: TableSettings) -> tuple[str, Any]:
    if settings.address.is_directory:
        return settings.path, None
    keys = settings.credentials().values
    return settings.path.removeprefix("s3://"), S3FileSystem(
        access_key=keys["aws_access_key_id"],
        secret_key=keys["aws_secret_access_key"],
        endpoint_override=keys["aws_endpoint"],
        region=keys["aws_region"],
    )


def on_disk(table: Table) -> Iterator[str]:
    """Every file that holds rows, committed or not."""
    for path, _ in table.settings.store().files():
        if ".parquet" in path:
            yield path
