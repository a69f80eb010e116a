"""Tables that we write, read by engines that nobody here wrote: the same rows, and the same types."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, date, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql.pandas.types import from_arrow_schema

from weft.lake.files import Attempt
from weft.model import parse_topic
from weft.pipelines.archive import SORT_BY
from weft.pipelines.archive_events import Events
from weft.pipelines.lake import Table, TableFormat, TableSettings, open_table
from weft.pipelines.lake.writing import FileWriter

EVENTS = Events()
COLUMNS = EVENTS.columns()
NOON = datetime(2026, 11, 15, 12, 0, 0, 123_456, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "topic": str(parse_topic("plant.line1.temp")),
        "origin": "node-a",
        "epoch": 1_794_745_694_903,
        "partition": 3,
        "offset": number,
        "timestamp": NOON.replace(day=15 + number % 2),
        "key": None if number % 3 == 0 else b"pump-\xff\x00",
        "value": b"\x00payload %d" % number,
        "headers": None if number == 1 else [] if number == 2 else [("unit", "°C"), ("n", str(number))],
        "date": date(2026, 11, 15 + number % 2),
    }
    for number in range(7)
]
NAMES = list(COLUMNS.names)
TESTS = Path(__file__).parents[2]
SPARK = TESTS.parent / "build" / "interop" / "spark-tables"  # another Spark, and its connectors
READS_S_MAX = 300.0


def filled(place: Path, kind: TableFormat) -> Table:
    """A table as ``archive`` has it, in two commits, one of which was compacted."""
    table = open_table(TableSettings(f"{place}/table", kind, EVENTS.partition_by(), SORT_BY))
    table.create(from_arrow_schema(COLUMNS))
    for batch, part in enumerate((ROWS[:4], ROWS[4:])):
        rows = pa.Table.from_pylist(part, COLUMNS).to_batches()
        made = FileWriter(table.settings, COLUMNS, Attempt("q", batch, 0, "aa"), table.place).write_all(rows)
        assert table.commit(made, "q", batch)
    rows = pa.Table.from_pylist(ROWS[:4], COLUMNS).to_batches()
    merged = FileWriter(table.settings, COLUMNS, Attempt("compact", 0, 0, "bb"), table.place).write_all(rows)
    table.replace([file for file in table.files() if "q.0." in file.path], merged)
    return table


def metadata_of(table: Table) -> str:
    catalog = SqlCatalog("weft", uri=f"sqlite:///{table.settings.path}/catalog.db", warehouse=table.settings.path)
    found: str = catalog.load_table(table.settings.identifier).metadata_location
    return found.removeprefix("file://")


def same(found: pa.Table) -> None:
    """Rows and types, whatever order the columns come in. Engines have large and small texts: both are text."""
    told = found.select(NAMES).cast(COLUMNS).sort_by("offset").to_pylist()
    assert [{**row, "headers": _pairs(row["headers"])} for row in told] == [
        {**row, "headers": _pairs(row["headers"])} for row in ROWS
    ]


def _pairs(headers: Any) -> Any:
    return None if headers is None else sorted((str(name), str(value)) for name, value in headers)


@pytest.fixture(params=list(TableFormat))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return filled(tmp_path, request.param)


@pytest.mark.req("LAK-06")
def test_duckdb(table: Table) -> None:
    path = table.settings.path
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        match table.settings.format:
            case TableFormat.DELTA:
                load(engine, "delta")
                query = f"delta_scan('{path}')"
            case TableFormat.ICEBERG:
                load(engine, "avro")
                load(engine, "iceberg")
                query = f"iceberg_scan('{metadata_of(table)}')"
            case TableFormat.PARQUET:
                query = f"read_parquet('{path}/*/*.parquet', hive_partitioning = true)"
        described = f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {query})"  # noqa: S608  our own
        kinds = dict(engine.execute(described).fetchall())
        assert {name: kinds[name] for name in NAMES} == {
            "topic": "VARCHAR",
            "origin": "VARCHAR",
            "epoch": "BIGINT",
            "partition": "INTEGER",
            "offset": "BIGINT",
            "timestamp": "TIMESTAMP WITH TIME ZONE",
            "key": "BLOB",
            "value": "BLOB",
            "headers": "MAP(VARCHAR, VARCHAR)",
            "date": "DATE",
        }
        same(engine.sql(f"SELECT * FROM {query}").to_arrow_table())  # noqa: S608  our own


def load(engine: duckdb.DuckDBPyConnection, name: str) -> None:
    """DuckDB's own reader of a format, from a wheel instead of its site; it is signed, and DuckDB checks that."""
    found = Path(str(files(f"duckdb_extension_{name}"))) / "extensions" / f"v{duckdb.__version__}"
    engine.execute(f"LOAD '{found / f'{name}.duckdb_extension'}'")


@pytest.mark.req("LAK-06")
def test_polars(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    path = table.settings.path
    match table.settings.format:
        case TableFormat.DELTA:
            frame = pl.scan_delta(path).collect()
        case TableFormat.ICEBERG:
            frame = pl.scan_iceberg(metadata_of(table)).collect()
        case TableFormat.PARQUET:
            frame = pl.scan_parquet(f"{path}/*/*.parquet", hive_partitioning=True).collect()
    kinds = frame.schema
    assert {name: str(kinds[name]) for name in NAMES if name != "headers"} == {
        "topic": "String",
        "origin": "String",
        "epoch": "Int64",
        "partition": "Int32",
        "offset": "Int64",
        "timestamp": "Datetime(time_unit='us', time_zone='UTC')",
        "key": "Binary",
        "value": "Binary",
        "date": "Date",
    }
    pairs = frame.sort("offset")
    for row, wanted in zip(pairs.to_dicts(), ROWS, strict=True):
        told = row["headers"]
        headers = None if told is None else sorted(told.items())
        assert {**row, "headers": headers} == {**wanted, "headers": _pairs(wanted["headers"])}


@pytest.mark.req("LAK-06")
def test_pandas(table: Table) -> None:
    path = table.settings.path
    match table.settings.format:
        case TableFormat.DELTA:
            frame = DeltaTable(path).to_pandas()
        case TableFormat.ICEBERG:
            catalog = SqlCatalog("weft", uri=f"sqlite:///{path}/catalog.db", warehouse=path)
            frame = catalog.load_table(table.settings.identifier).scan().to_pandas()
        case TableFormat.PARQUET:
            frame = pd.read_parquet(path)
    frame = frame.sort_values("offset")
    assert str(frame["timestamp"].dtype).endswith(", UTC]")
    assert (str(frame["offset"].dtype), str(frame["partition"].dtype)) == ("int64", "int32")
    assert list(frame["value"]) == [row["value"] for row in ROWS]
    assert list(frame["key"]) == [row["key"] for row in ROWS]
    assert [each.to_pydatetime() for each in frame["timestamp"]] == [row["timestamp"] for row in ROWS]
    assert [str(each) for each in frame["date"]] == [str(row["date"]) for row in ROWS]
    assert [_pairs(each) for each in frame["headers"]] == [_pairs(row["headers"]) for row in ROWS]


@pytest.mark.req("LAK-06")
@pytest.mark.skipif(
    not (SPARK / ".ready").exists(), reason="Spark's own connectors are missing: `make peers` fetches them with Maven"
)
def test_spark_with_its_own_connectors(tmp_path: Path) -> None:
    """In a Spark of its own: connectors belong to one version of it, which is not always ours."""
    delta = filled(tmp_path / "d", TableFormat.DELTA)
    iceberg = filled(tmp_path / "i", TableFormat.ICEBERG)
    read = TESTS / "interop" / "spark_tables" / "read.py"
    places = [str(SPARK / "jars"), delta.settings.path, metadata_of(iceberg), str(tmp_path)]
    subprocess.run([str(SPARK / "venv" / "bin" / "python"), str(read), *places], check=True, timeout=READS_S_MAX)
    types = json.loads((tmp_path / "types.json").read_text())
    for kind in ("delta", "iceberg"):
        assert {name: types[kind][name] for name in NAMES} == {
            "topic": "string",
            "origin": "string",
            "epoch": "bigint",
            "partition": "int",
            "offset": "bigint",
            "timestamp": "timestamp",
            "key": "binary",
            "value": "binary",
            "headers": "map<string,string>",
            "date": "date",
        }
        same(pq.read_table(tmp_path / kind))
