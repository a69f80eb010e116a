"""Which table, as a configuration says it."""

from __future__ import annotations

from pathlib import Path

from weft.lake.settings import TableFormat, TableSection, TableSettings


def test_a_table_is_where_the_driver_says_wherever_executors_stand() -> None:
    assert Path(TableSettings("relative/table").path).is_absolute()
    assert TableSettings("file:///lake/events").path == "/lake/events"


def test_a_configuration_becomes_settings(tmp_path: Path) -> None:
    section = TableSection(path=str(tmp_path), format=TableFormat.PARQUET, file_bytes=1 << 20)
    assert section.settings(("date",), ("topic",)) == TableSettings(
        str(tmp_path), TableFormat.PARQUET, ("date",), ("topic",), 1 << 20
    )
