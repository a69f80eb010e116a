"""Tables that grow: columns and fields are added, numbers widen, all else is refused, and other readers see it all."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from tests.pipelines.lake.made import TOKENS, arrow_rows
from weft.lake.address import TableError
from weft.lake.files import Attempt, WrittenFile
from weft.pipelines.lake import Table, TableChanged, TableFormat, TableSettings, evolution, open_table
from weft.pipelines.lake.compaction import Bin, rewrite_bin
from weft.pipelines.lake.delta import DeltaLake
from weft.pipelines.lake.evolution import evolve
from weft.pipelines.lake.reading import columns_of, file_rows
from weft.pipelines.lake.writing import FileWriter

pytestmark = pytest.mark.req("LAK-02")

FIRST = pa.schema(
    [
        ("topic", pa.string()),
        ("n", pa.int32()),
        ("s", pa.struct([("x", pa.int32())])),
        ("list", pa.list_(pa.field("element", pa.struct([("p", pa.float32())])))),
        ("price", pa.decimal128(8, 2)),
        ("date", pa.date32()),
    ]
)
SECOND = pa.schema(
    [
        ("topic", pa.string()),
        ("n", pa.int64()),
        ("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ("list", pa.list_(pa.field("element", pa.struct([("p", pa.float64()), ("q", pa.bool_())])))),
        ("price", pa.decimal128(12, 2)),
        ("wall", pa.timestamp("us")),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("date", pa.date32()),
    ]
)
OLD = {"topic": "a", "n": 1, "s": {"x": 2}, "list": [{"p": 0.5}], "price": None, "date": None}
NEW = {
    "topic": "b",
    "n": 1 << 40,
    "s": {"x": 1 << 41, "y": "z"},
    "list": [{"p": 1e300, "q": True}],
    "price": None,
    "wall": None,
    "tags": [("k", 1)],
    "date": None,
}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written again in this process; tests of ``archive`` do it with Spark."""

    def rewrite(_: object, table: Table, bins: list[Bin], columns: pa.Schema) -> list[WrittenFile]:
        written = (rewrite_bin(table.settings, columns, each, f"{next(TOKENS):08x}") for each in bins)
        return [file for files in written for file in files]

    monkeypatch.setattr(evolution, "rewrite", rewrite)


def made(place: Path, kind: TableFormat) -> Table:
    table = open_table(TableSettings(f"{place}/table", kind, ("date",), ("topic",)))
    table.create(from_arrow_schema(FIRST))
    return table


def add(table: Table, columns: pa.Schema, row: dict[str, Any], batch: int) -> None:
    rows = pa.Table.from_pylist([row], columns).to_batches()
    files = FileWriter(table.settings, columns, Attempt("q", batch, 0, "aa"), table.place).write_all(rows)
    assert table.commit(files, "q", batch)


def evolved(table: Table, columns: pa.Schema) -> tuple[pa.Schema, list[str]]:
    said: list[str] = []
    found = evolve(None, table, columns, said.append)  # type: ignore[arg-type]
    return found, said


@pytest.mark.parametrize("kind", TableFormat)
def test_a_table_grows_and_widens_and_keeps_its_rows(tmp_path: Path, kind: TableFormat) -> None:
    table = made(tmp_path, kind)
    add(table, FIRST, OLD, 0)
    found, said = evolved(table, SECOND)
    assert {each.name: each.type for each in found} == {each.name: each.type for each in SECOND}
    assert len(said) == (0 if kind is TableFormat.ICEBERG else 1)
    assert evolved(table, SECOND) == (found, [])  # there is nothing left to do
    assert evolved(table, FIRST) == (found, [])  # what is narrower fits
    add(table, found, NEW, 1)
    assert table.committed("q") == 1
    store = table.settings.store()
    rows = [row for file in table.files() for batch in file_rows(store, found, file) for row in batch.to_pylist()]
    old, new = sorted(rows, key=lambda row: row["topic"])
    assert (old["n"], old["s"], old["list"], old["tags"]) == (1, {"x": 2, "y": None}, [{"p": 0.5, "q": None}], None)
    assert (new["n"], new["s"], new["tags"]) == (1 << 40, {"x": 1 << 41, "y": "z"}, [("k", 1)])


def test_other_readers_see_what_came(tmp_path: Path) -> None:
    for kind in TableFormat:
        table = made(tmp_path / kind, kind)
        add(table, FIRST, OLD, 0)
        found, _ = evolved(table, SECOND)
        add(table, found, NEW, 1)
        if kind is not TableFormat.PARQUET:  # whose listing has the columns of one file
            rows = sorted(arrow_rows(table).to_pylist(), key=lambda row: row["topic"])
            found_in = [(row["n"], row["s"]["y"], row["tags"]) for row in rows]
            assert found_in == [(1, None, None), (1 << 40, "z", [("k", 1)])]
    delta, parquet = f"{tmp_path}/delta/table", f"{tmp_path}/parquet/table/**/*.parquet"
    wanted = [(1, None), (1 << 40, "z")]
    assert pl.read_delta(delta).sort("n").select("n", pl.col("s").struct.field("y")).rows() == wanted
    sql = f"SELECT n, s.y FROM read_parquet('{parquet}', union_by_name = true) ORDER BY n"  # noqa: S608
    assert duckdb.sql(sql).fetchall() == wanted


@pytest.mark.parametrize("kind", TableFormat)
def test_what_is_not_wider_is_refused_before_anything_changes(tmp_path: Path, kind: TableFormat) -> None:
    table = made(tmp_path, kind)
    add(table, FIRST, OLD, 0)
    before = columns_of(table.schema())
    for change, words in (
        ([("n", pa.string())], "n INT.*n STRING"),
        ([("n", pa.float64())], "n INT.*n DOUBLE"),
        ([("N", pa.int32())], "n INT.*N INT"),
        ([("s", pa.struct([("x", pa.date32())]))], "STRUCT<x: DATE>"),
        ([("late", pa.int32()), ("temp (C)", pa.int32())], r"tables cannot have a column of this name.*temp \(C\)"),
        ([("a.b", pa.int32())], "tables cannot have a column of this name"),
        ([("t", pa.struct([("x y", pa.int32())]))], "tables cannot have a column of this name.*x y"),
    ):
        with pytest.raises(TableError, match=words):
            evolved(table, pa.schema(change))
    assert columns_of(table.schema()) == before


def test_a_file_that_came_while_others_were_written_again_is_written_again_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, TableFormat.DELTA)
    add(table, FIRST, OLD, 0)
    others = [table]

    def meanwhile(*_: object) -> None:  # between the look at the table and the commit
        if others:
            add(others.pop(), FIRST, {**OLD, "topic": "late"}, 1)

    monkeypatch.setattr(DeltaLake, "_check_there", meanwhile)
    evolved(table, pa.schema([("n", pa.int64())]))
    assert not others
    store = table.settings.store()
    for file in table.files():
        with store.reader(file.path) as stored:
            assert pq.read_schema(stored).field("n").type == pa.int64()
    assert sorted(row["topic"] for row in arrow_rows(table).to_pylist()) == ["a", "late"]


def test_rows_that_come_while_files_are_written_again_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large table takes minutes, and its archive goes on while a replay of dead letters widens it."""
    table = made(tmp_path, TableFormat.DELTA)
    add(table, FIRST, OLD, 0)
    rewrite = vars(evolution)["rewrite"]
    batches = iter(range(1, 3))

    def slow(*arguments: Any) -> list[WrittenFile]:
        found: list[WrittenFile] = rewrite(*arguments)
        if (batch := next(batches, None)) is not None:
            add(table, FIRST, {**OLD, "topic": f"late {batch}"}, batch)
        return found

    monkeypatch.setattr(evolution, "rewrite", slow)
    evolved(table, pa.schema([("n", pa.int64())]))
    assert next(batches, None) is None
    assert sorted(row["topic"] for row in arrow_rows(table).to_pylist()) == ["a", "late 1", "late 2"]
    store = table.settings.store()
    for file in table.files():
        with store.reader(file.path) as stored:
            assert pq.read_schema(stored).field("n").type == pa.int64()


def test_a_table_that_others_never_leave_alone_is_not_widened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, TableFormat.DELTA)
    add(table, FIRST, OLD, 0)
    rewrite = vars(evolution)["rewrite"]
    batches = count(1)

    def busy(*arguments: Any) -> list[WrittenFile]:
        found: list[WrittenFile] = rewrite(*arguments)
        add(table, FIRST, OLD, next(batches))
        return found

    monkeypatch.setattr(evolution, "rewrite", busy)
    monkeypatch.setattr(evolution, "LAKE_COMMIT_ATTEMPTS", 2)
    with pytest.raises(TableChanged, match="others keep adding files to the table"):
        evolved(table, pa.schema([("n", pa.int64())]))
    assert len(arrow_rows(table)) == next(batches)
    assert columns_of(table.schema()).field("n").type == pa.int32()
