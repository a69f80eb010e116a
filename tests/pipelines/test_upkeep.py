"""A table that keeps itself in order while ``archive`` writes it: small files go, rows stay, late ones are counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipelines.archiving import Publisher, in_order, table_rows
from tests.pipelines.lake.made import FIRST_DAY, made_table, offsets_of, on_disk, rows, written
from tests.spark.meshes import until
from weft.configuration import BadConfig, Source, validated
from weft.pipelines import archive, lake, upkeep
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.lake import goals
from weft.pipelines.lake.goals import Goal
from weft.pipelines.upkeep import Keeper, keeping
from weft.testing import blocking_mesh

pytestmark = pytest.mark.xdist_group("spark")
NOW_S = FIRST_DAY * 86_400.0 + 43_200
HOUR_S = 3600.0
LONG_OVER = 19_000  # a day of 2022


def settings_of(place: Path, mesh: dict[str, Any], **table: object) -> ArchiveSettings:
    values = {
        "mesh": mesh,
        "source": {"subscribe": "plant.>"},
        "table": {"path": str(place / "table"), "freshness": "1s", "file_bytes": "128MiB", **table},
        "run": {"checkpoint": str(place / "checkpoint")},
        "upkeep": {"share": 0.5},
    }
    return validated(ArchiveSettings, [Source("a test", values)])


def keeper_of(spark: Any, table: lake.Table, say: Callable[[str], None]) -> Keeper:
    return Keeper(spark, table, Goal(1 << 20, share=0.5), 24 * HOUR_S, say)


def fill(table: lake.Table, batches: range, day: int = FIRST_DAY) -> None:
    for batch in batches:
        files = written(table, rows(range(batch * 5, batch * 5 + 5), day=day), batch=batch)
        assert table.commit(files, "q", batch)


@pytest.mark.req("LAK-03")
def test_an_archive_compacts_while_it_runs_and_is_as_fresh_as_wanted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "UPKEEP_PASS_S", 0.1)
    monkeypatch.setattr(goals, "BIN_FILES_MIN", 2)  # a busy machine takes long to write eight
    said: list[str] = []
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        settings = settings_of(tmp_path, {"nodes": [mesh.address("n0")], "insecure": True})
        assert settings.trigger_arguments() == {"processingTime": "500 milliseconds"}
        publisher = Publisher(client, seed=5, topics=2)
        publisher.publish()
        queries = archive.start(spark, settings)
        try:
            with archive.keep(spark, settings, queries, said.append) as done:

                def compacted() -> bool:
                    assert queries[0].exception() is None, queries[0].exception()
                    publisher.publish()
                    return done.files_before > 0

                until(compacted)
                until(lambda: len(table_rows(settings)) == len(publisher.rows))
        finally:
            for query in queries:
                query.stop()
        assert in_order(table_rows(settings)) == in_order(publisher.rows)
        assert done.files_after < done.files_before
        assert not [line for line in said if "not compacted" in line]


@pytest.mark.req("LAK-03")
@pytest.mark.parametrize("kind", list(lake.TableFormat))
def test_a_pass_writes_small_files_together_and_sweeps(
    spark: SparkSession, tmp_path: Path, kind: lake.TableFormat
) -> None:
    said: list[str] = []
    table = made_table(tmp_path, kind)
    fill(table, range(8))
    written(table, rows(range(5)))  # what a dead attempt left of batch 0
    keeper = keeper_of(spark, table, said.append)
    keeper.pass_over(time.time())
    assert (keeper.done.files_before, keeper.done.files_after) == (8, 1)
    assert offsets_of(table) == list(range(40))
    keeper.grace_s = 0
    keeper.pass_over(time.time() + 2 * HOUR_S)
    assert offsets_of(table) == list(range(40))
    if kind is not lake.TableFormat.DELTA:  # whose vacuum counts in hours from the removal
        assert len(list(on_disk(table))) == 1
    assert said == []


@pytest.mark.req("LAK-03")
def test_late_rows_are_kept_and_counted(tmp_path: Path) -> None:
    table = made_table(tmp_path, "parquet")
    fill(table, range(1), day=FIRST_DAY - 3)
    keeper = keeper_of(None, table, print)
    keeper.pass_over(NOW_S)
    assert keeper.done.late_rows == 0, "what was there before is nobody's doing now"
    fill(table, range(1, 3), day=FIRST_DAY - 1)
    fill(table, range(3, 4))
    keeper.pass_over(NOW_S)
    keeper.pass_over(NOW_S)
    assert keeper.done.late_rows == 10
    assert offsets_of(table) == list(range(20))
    assert str(keeper.done) == "10 late rows kept"


@pytest.mark.req("LAK-03")
@pytest.mark.parametrize(("ends", "share"), [(True, 0.2), (True, 0.0), (False, 0.2)])
def test_late_rows_of_a_short_run_are_counted(tmp_path: Path, ends: bool, share: float) -> None:
    """A run of cron is over before the first pass."""
    table = made_table(tmp_path, "parquet")
    fill(table, range(1), day=LONG_OVER)
    keeper = replace(keeper_of(None, table, print), goal=Goal(lake.TableSettings("/t").file_bytes, None, share))
    with keeping(keeper, [], to_the_end=ends):
        fill(table, range(1, 3), day=LONG_OVER)
    assert keeper.done.late_rows == 10
    with keeping(keeper, [], to_the_end=ends):
        """Nothing more comes."""
    assert keeper.done.late_rows == 10


def test_a_pass_that_fails_is_told_once_and_the_next_may_succeed(tmp_path: Path) -> None:
    import threading

    said: list[str] = []
    table = made_table(tmp_path, "parquet")
    keeper = keeper_of(None, lake.open_table(replace(table.settings, path=str(tmp_path / "none"))), said.append)
    for _ in range(2):
        keeper.try_pass(threading.Event())
    assert len(said) == 1
    assert said[0].startswith(
        "the table was not compacted: TableError: there is no Parquet table that Weft has written"
    )
    keeper.table = table
    keeper.try_pass(threading.Event())
    assert len(said) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"table": {"path": "/t", "freshness": "soon"}}, "is a time such as 15m, 30s or 500ms"),
        ({"table": {"path": "/t", "freshness": "1ms"}}, "table.freshness"),
        ({"table": {"path": "/t", "file_bytes": "12 apples"}}, "table.file_bytes"),
        ({"upkeep": {"share": 1.5}}, "upkeep.share"),
        (
            {"table": {"path": "/t", "freshness": "10s"}, "run": {"checkpoint": "/c", "trigger": "5 seconds"}},
            "table.freshness picks the trigger: give it, or run.trigger",
        ),
    ],
)
def test_goals_that_cannot_be_are_refused(change: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {
        "source": {"subscribe": "plant.>"},
        "table": {"path": "/t"},
        "run": {"checkpoint": "/c"},
    }
    with pytest.raises(BadConfig) as refusal:
        validated(ArchiveSettings, [Source("a test", values | change)])
    assert words in str(refusal.value)


def test_rows_can_be_sorted_by_key_and_time(tmp_path: Path) -> None:
    table = made_table(tmp_path, "delta", sort_by=("value", "timestamp"))
    (file,) = written(table, rows(range(12)))
    table.commit([file], "q", 0)
    stored = table.settings.store()
    import pyarrow.parquet as pq

    values = pq.ParquetFile(stored.reader(file.path)).read().column("value").to_pylist()
    assert values == sorted(values)
    assert values[1] == b"payload 1"
    assert values[2] == b"payload 10"
