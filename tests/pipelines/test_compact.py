"""``compact``: fewer files with the same rows, beside a writer; the latest of each key; old days; dead files."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.pipelines.lake.made import FIRST_DAY, made_table, offsets_of, on_disk, rows, written
from weft.configuration import BadConfig, Source, validated
from weft.pipelines import compact, lake
from weft.pipelines.base import JobRun, Outcome
from weft.pipelines.compact import CompactSettings

pytestmark = pytest.mark.xdist_group("spark")
FORMATS = list(lake.TableFormat)


def compacted(spark: SparkSession, table: lake.Table, **wanted: object) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    values = {
        "table": {"path": table.settings.path, "format": table.settings.format.value},
        "compact": {"grace_hours": 0} | wanted,
    }
    return compact.run(spark, validated(CompactSettings, [Source("test", values)]), JobRun(False, said.append)), said


def filled(place: Path, kind: lake.TableFormat, batches: int = 6) -> lake.Table:
    table = made_table(place, kind)
    for batch in range(batches):
        files = written(table, rows(range(batch * 5, batch * 5 + 5), day=FIRST_DAY + batch % 2), batch=batch)
        table.commit(files, "q", batch)
    return table


@pytest.mark.req("SPK-05")
@pytest.mark.parametrize("kind", FORMATS)
def test_small_files_become_large_and_dead_ones_go(spark: SparkSession, tmp_path: Path, kind: lake.TableFormat) -> None:
    table = filled(tmp_path, kind)
    written(table, rows(range(5)))  # what a dead attempt left of batch 0
    outcome, said = compacted(spark, table)
    assert outcome.ok
    assert outcome.summary.startswith(f"{table.settings.path}: 6 files with ")
    assert [row["files_before"] for row in outcome.rows] == [6]
    assert [row["files_after"] for row in outcome.rows] == [2]
    assert said == ["2 of 2 groups of small files written together", "small files: 6 files replaced by 2"]
    assert offsets_of(table) == list(range(30))
    assert lake.read(spark, table.settings).count() == 30
    assert len(table.files()) == 2
    again, _ = compacted(spark, table)
    assert [row["files_before"] for row in again.rows] == [0], "there is nothing left to do"
    if kind is not lake.TableFormat.DELTA:  # whose vacuum counts in hours from the removal
        assert len(list(on_disk(table))) == 2


class Meddling:
    """A table to which somebody else does something just before files are replaced."""

    def __init__(self, table: lake.Table, meddle: Callable[[], None]) -> None:
        self._table = table
        self._meddle = meddle

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    def replace(self, *arguments: object) -> None:
        self._meddle()
        self._table.replace(*arguments)  # type: ignore[arg-type]


@pytest.mark.req("SPK-05")
@pytest.mark.parametrize("kind", FORMATS)
def test_what_an_archive_adds_meanwhile_stays(spark: SparkSession, tmp_path: Path, kind: lake.TableFormat) -> None:
    table = filled(tmp_path, kind)
    batches = iter(range(6, 100))

    def append() -> None:
        batch = next(batches)
        assert table.commit(written(table, rows(range(batch * 5, batch * 5 + 5)), batch=batch), "q", batch)

    meddling: lake.Table = Meddling(table, append)  # type: ignore[assignment]
    compact.merge_small(spark, meddling, lambda _: None)
    assert offsets_of(table) == list(range(next(batches) * 5))
    assert len(table.files()) == 3


def test_a_step_that_another_was_faster_with_is_planned_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(tmp_path, lake.TableFormat.DELTA)
    kind = type(table)
    swap = kind.replace
    others = iter([True])

    def slow(self: lake.Table, removed: list[object], added: list[object]) -> None:
        if next(others, False):
            monkeypatch.setattr(kind, "replace", swap)
            compact.merge_small(spark, table, lambda _: None)
            monkeypatch.setattr(kind, "replace", slow)
        swap(self, removed, added)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "replace", slow)
    outcome, _ = compacted(spark, table)
    assert [row["files_before"] for row in outcome.rows] == [0]
    assert offsets_of(table) == list(range(30))
    assert len(list(on_disk(table))) <= 8 + 2, "what was written in vain is gone"


@pytest.mark.req("SPK-05")
@pytest.mark.parametrize("kind", FORMATS)
def test_days_that_are_old_go(spark: SparkSession, tmp_path: Path, kind: lake.TableFormat) -> None:
    table = made_table(tmp_path, kind)
    undated = rows(range(9, 11)).set_column(5, "date", pa.nulls(2, pa.date32()))
    table.commit(written(table, rows(range(5), day=10_000), rows(range(5, 9), day=40_000), undated), "q", 0)
    outcome, _ = compacted(spark, table, keep_days=30)
    assert outcome.rows[0]["step"] == "days removed"
    assert offsets_of(table) == [5, 6, 7, 8, 9, 10], "rows without a day are kept"


def test_days_need_a_table_that_has_them(spark: SparkSession, tmp_path: Path) -> None:
    table = made_table(tmp_path, "delta", partition_by=())
    with pytest.raises(lake.TableError, match="keep_days needs a table that is partitioned by date"):
        compacted(spark, table, keep_days=30)


@pytest.mark.req("SPK-05")
def test_the_latest_of_each_key_stays(spark: SparkSession, tmp_path: Path) -> None:
    table = made_table(tmp_path, "delta")
    chance = random.Random(1)  # noqa: S311  a seed is the point
    latest: dict[str, int] = {}
    kept = set()
    for batch in range(4):
        topics = []
        for offset in range(batch * 20, batch * 20 + 20):
            topic = chance.choice(["a", "b", "c", None])
            topics.append(topic)
            kept.add(offset) if topic is None else latest.__setitem__(topic, offset)
        data = rows(range(batch * 20, batch * 20 + 20)).set_column(0, "topic", pa.array(topics))
        table.commit(written(table, data, batch=batch), "q", batch)
    outcome, _ = compacted(spark, table, latest_per_key=True, keys=["topic"], order_by=["offset"])
    assert outcome.rows[0]["step"] == "latest per key"
    assert offsets_of(table) == sorted(kept | set(latest.values()))
    with pytest.raises(lake.TableError, match=r"no such column .*column origin"):
        compacted(spark, table, latest_per_key=True)


def test_an_order_that_cannot_be_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(lake.TableError, match=r"no such column to lay the table out by .*column colour"):
        compacted(spark, filled(tmp_path, lake.TableFormat.DELTA), sort_by=["colour"])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"keep_days": 0}, r"compact.keep_days = 0: has to be at least 1"),
        ({"keys": []}, r"compact.keys = \[\]: "),
        ({"keep": 1}, r"unknown setting \"compact.keep\""),
    ],
)
def test_settings_are_refused_in_words(wanted: dict[str, object], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        validated(CompactSettings, [Source("test", {"table": {"path": "/t"}, "compact": wanted})])
