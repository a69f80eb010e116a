"""What Iceberg adds: races that its own retries would lose, a catalog of one's own, statistics to skip files by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table import Table as Loaded

from tests.pipelines.lake.made import configure_catalog, made_table, offsets_of, rows, written
from weft.pipelines.lake import TableChanged, open_table
from weft.pipelines.lake.iceberg import IcebergLake
from weft.pipelines.lake.vacuum import vacuum


@pytest.fixture
def table(tmp_path: Path) -> IcebergLake:
    made = made_table(tmp_path, "iceberg")
    assert isinstance(made, IcebergLake)
    return made


def show_once(seen: Loaded, patch: pytest.MonkeyPatch) -> None:
    """The next look at the table shows what was seen before, as if that look had been slow."""
    looks = iter([seen])
    fresh = IcebergLake._load
    patch.setattr(IcebergLake, "_load", lambda self: next(looks, None) or fresh(self))


def test_a_driver_that_was_taken_for_dead_commits_nothing_twice(
    table: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = table._load()
    assert table.commit(written(table, rows(range(5))), "q", 0)
    show_once(seen, monkeypatch)
    assert not table.commit(written(table, rows(range(5))), "q", 0)
    assert offsets_of(table) == list(range(5))


def test_a_commit_that_loses_a_race_is_made_again(table: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    seen, small = table._load(), table.files()
    table.commit(written(table, rows(range(5, 9)), batch=1), "q", 1)
    show_once(seen, monkeypatch)
    table.replace(small, written(table, rows(range(5)), query="compact"))
    assert offsets_of(table) == list(range(9))


def test_a_table_that_others_never_leave_alone_is_given_up(table: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = table._load()
    table.commit(written(table, rows(range(5))), "q", 0)
    monkeypatch.setattr(IcebergLake, "_load", lambda _: behind)
    with pytest.raises(TableChanged, match=r"others keep committing to the table .*attempts 10"):
        table.commit(written(table, rows(range(5, 9)), query="r"), "r", 0)


@pytest.mark.req("SPK-05")
def test_files_stay_for_their_grace_from_when_they_were_replaced_however_old_they_are(table: IcebergLake) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    (old,) = table.files()
    table.replace([old], written(table, rows(range(5)), query="compact"))
    first, second = (each.timestamp_ms for each in table._load().snapshots())
    grace_s, a_day_s = 3600.0, 86_400.0
    while_read_s = (first + second) / 2 / 1000  # as if there were days between the two
    assert first < second
    assert vacuum(table, now_s=while_read_s + grace_s, grace_s=grace_s) == []
    assert vacuum(table, now_s=second / 1000 + a_day_s, grace_s=grace_s) == [old.path]
    assert offsets_of(table) == list(range(5))


def test_readers_skip_files_by_offset_topic_and_day(table: IcebergLake) -> None:
    for batch in range(3):
        files = written(table, rows(range(batch * 5, batch * 5 + 5), topic=f"plant.{batch}"), batch=batch)
        table.commit(files, "q", batch)
    for filtered, count in [
        ("offset >= 12", 1),
        ("topic == 'plant.1'", 1),
        ("date == '2026-11-15'", 3),
        ("date == '2026-11-16'", 0),
    ]:
        assert len(list(table._load().scan(row_filter=filtered).plan_files())) == count, filtered


def test_a_catalog_of_pyicebergs_own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_catalog(monkeypatch, "prod", {"uri": f"sqlite:///{tmp_path}/prod.db", "type": "sql"})
    table = made_table(tmp_path, "iceberg", catalog="prod", identifier="plant.events")
    table.commit(written(table, rows(range(5))), "q", 0)
    assert not (Path(table.settings.path) / "catalog.db").exists()
    again = open_table(replace(table.settings, partition_by=(), sort_by=()))
    assert [file.path for file in again.files()] == [file.path for file in table.files()]
