"""Merging rows into a Delta table by several keys."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructType

from weft.pipelines.lake import TableSettings
from weft.pipelines.lake.delta import DeltaLake

COLUMNS = StructType().add("namespace", StringType()).add("id", StringType()).add("at", LongType())


def test_rows_are_found_by_all_of_their_keys(tmp_path: Path) -> None:
    """Also where a key is null: that is one key like any other."""
    table = DeltaLake(TableSettings(str(tmp_path / "table")))
    table.create(COLUMNS)

    def merge(batch: int, *rows: tuple[str | None, str, int]) -> set[tuple[str | None, str, int]]:
        columns = zip(*rows, strict=True)
        frame = pa.table(dict(zip(COLUMNS.names, map(list, columns), strict=True)))
        assert table.merge(frame, ("namespace", "id"), ("at",), "query", batch)
        found = DeltaTable(table.settings.path).to_pyarrow_table().to_pylist()
        return {(row["namespace"], row["id"], row["at"]) for row in found}

    first = {("a", "1", 5), ("a", "2", 5), ("b", "1", 5), (None, "1", 5)}
    assert merge(0, *first) == first
    assert merge(1, ("b", "1", 6), (None, "1", 4), ("a", "2", 7)) == {
        ("a", "1", 5),
        ("a", "2", 7),
        ("b", "1", 6),
        (None, "1", 5),
    }
