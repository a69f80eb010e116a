"""One suite for the three formats: a batch is in the table once, whoever tries how often, and readers see just that."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from tests.pipelines.lake.made import FIRST_DAY, SCHEMA, made_in_s3, made_table, offsets_of, on_disk, rows, written
from weft.pipelines.lake import Table, TableChanged, TableError, TableFormat, TableSettings, open_table
from weft.pipelines.lake.compaction import vacuum
from weft.pipelines.lake.table import ensure

DAY_S = 86_400
WEEK_S = 7 * DAY_S


PLACES = ("directory", "s3")
pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture(params=[(kind, place) for kind in TableFormat for place in PLACES], ids="-".join)
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    kind, place = request.param
    if place == "directory":
        return made_table(tmp_path, kind)
    return made_in_s3(request.getfixturevalue("s3"), tmp_path, kind, monkeypatch)


@pytest.mark.req("SPK-03")
def test_a_batch_is_committed_once(table: Table) -> None:
    assert table.commit(written(table, rows(range(10))), "q", 0)
    assert not table.commit(written(table, rows(range(10))), "q", 0), "batch 0 is a batch: 0 is not none"
    assert table.commit(written(table, rows(range(10, 20)), batch=1), "q", 1)
    assert not table.commit(written(table, rows(range(10))), "q", 0), "nor is a batch before the last done again"
    assert table.committed("q") == 1
    assert offsets_of(table) == list(range(20))


def test_queries_do_not_know_each_other(table: Table) -> None:
    assert table.committed("one") is None
    assert table.commit(written(table, rows(range(5)), query="one"), "one", 7)
    assert table.commit(written(table, rows(range(5, 9)), query="two"), "two", 0)
    assert (table.committed("one"), table.committed("two"), table.committed("three")) == (7, 0, None)
    assert offsets_of(table) == list(range(9))


def test_what_is_not_committed_is_not_seen(table: Table) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    written(table, rows(range(5, 10)), batch=1)
    assert offsets_of(table) == list(range(5))
    assert len(table.files()) == 1


def test_a_table_says_what_it_is_made_of(table: Table) -> None:
    files = written(table, rows(range(3)), rows(range(3, 5), day=FIRST_DAY + 1))
    table.commit(files, "q", 0)
    assert table.partition_by() == ("date",)
    assert [(each.name, each.dataType) for each in table.schema()] == [(each.name, each.dataType) for each in SCHEMA]
    found = sorted(table.files(), key=lambda file: file.path)
    assert [(file.path, file.size_bytes, dict(file.partition)) for file in found] == [
        (file.path, file.size_bytes, dict(file.partition)) for file in sorted(files, key=lambda file: file.path)
    ]
    assert [dict(file.partition) for file in found] == [{"date": "2026-11-15"}, {"date": "2026-11-16"}]


@pytest.mark.req("SPK-05")
def test_files_are_swapped_beside_what_is_added(table: Table) -> None:
    for batch in range(3):
        table.commit(written(table, rows(range(batch * 5, batch * 5 + 5)), batch=batch), "q", batch)
    small = table.files()
    together = written(table, rows(range(15)), query="compact")
    table.commit(written(table, rows(range(15, 20)), batch=3), "q", 3)
    table.replace(small, together)
    assert offsets_of(table) == list(range(20))
    assert len(table.files()) == 2
    assert not table.commit(written(table, rows(range(10, 15)), batch=2), "q", 2), "swapped files keep their batches"


@pytest.mark.req("SPK-05")
def test_of_two_who_swap_the_same_files_one_wins(table: Table) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    small = table.files()
    table.replace(small, written(table, rows(range(5)), query="compact"))
    with pytest.raises(TableChanged, match="files to be replaced are gone"):
        table.replace(small, written(table, rows(range(5)), query="compact"))
    assert offsets_of(table) == list(range(5))


def test_files_can_go_without_others_in_their_place(table: Table) -> None:
    table.commit(written(table, rows(range(5)), rows(range(5, 9), day=FIRST_DAY + 1)), "q", 0)
    table.replace([file for file in table.files() if file.partition["date"] == "2026-11-15"], [])
    assert offsets_of(table) == list(range(5, 9))


def test_a_partition_can_have_any_name_and_none(table: Table) -> None:
    named = open_table(
        replace(
            table.settings, path=f"{table.settings.path}2", partition_by=("topic",), sort_by=(), identifier="weft.named"
        )
    )
    named.create(SCHEMA)
    topics = ["a b%/ü=1", "plain", "x" * 100]
    batches = [rows(range(n * 3, n * 3 + 3), topic=topic) for n, topic in enumerate(topics)]
    named.commit(written(named, *batches), "q", 0)
    assert sorted(str(file.partition["topic"]) for file in named.files()) == sorted(topics)
    assert offsets_of(named) == list(range(9))
    named.replace(named.files(), written(named, *batches, query="compact"))
    assert offsets_of(named) == list(range(9))


def test_making_a_table_again_leaves_it_as_it_is(table: Table) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    table.create(SCHEMA)
    ensure(table, SCHEMA)
    assert offsets_of(table) == list(range(5))


def test_rows_that_do_not_fit_are_refused_before_anything_is_written(table: Table) -> None:
    with pytest.raises(TableError, match=r"the table has other columns .*column extra, there missing, coming bigint"):
        ensure(table, StructType([*SCHEMA, StructField("extra", LongType())]))
    with pytest.raises(TableError, match="column offset, there bigint, coming missing"):
        ensure(table, StructType([each for each in SCHEMA if each.name != "offset"]))
    otherwise = open_table(replace(table.settings, partition_by=()))
    with pytest.raises(TableError, match=r"the table is partitioned otherwise .*there date, coming not at all"):
        ensure(otherwise, SCHEMA)


@pytest.mark.parametrize("kind", list(TableFormat))
def test_where_there_is_no_table_errors_say_so(tmp_path: Path, kind: TableFormat) -> None:
    nothing = open_table(TableSettings(str(tmp_path / "none"), kind))
    assert not nothing.exists()
    for question in (nothing.schema, nothing.files, nothing.partition_by):
        with pytest.raises(TableError, match=f"there is no .*{tmp_path / 'none'}"):
            question()


# --- what attempts that died leave behind ---------------------------------------------------------------------------


@pytest.mark.req("SPK-05")
def test_dead_files_go_and_those_of_a_running_batch_stay(table: Table) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    dead = written(table, rows(range(5)))  # of batch 0, which another attempt has committed
    running = written(table, rows(range(5, 9)), batch=1)
    assert len(list(on_disk(table))) == 3
    removed = vacuum(table, now_s=time.time() + 1, grace_s=0)
    assert [path.rpartition("/")[2].removesuffix(".staged") for path in removed] == [
        file.path.rpartition("/")[2] for file in dead
    ]
    assert table.commit(running, "q", 1)
    assert offsets_of(table) == list(range(9))


@pytest.mark.req("SPK-05")
def test_a_batch_that_is_committed_while_dead_files_are_looked_for_keeps_its_files(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    running = written(table, rows(range(5, 9)), batch=1)
    look = type(table).forget
    looks: list[list[str]] = []

    def slow(self: Table, now_s: float, grace_s: float) -> list[str]:
        found = look(self, now_s, grace_s)
        if not looks:
            table.commit(running, "q", 1)
        looks.append(found)
        return found

    monkeypatch.setattr(type(table), "forget", slow)
    assert vacuum(table, now_s=time.time() + 1, grace_s=0) == []
    assert len(looks[0]) == 1, "it was taken for one that nobody needs"
    assert offsets_of(table) == list(range(9))


def test_what_was_replaced_stays_as_long_as_readers_may_be_at_it(table: Table) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    table.replace(table.files(), written(table, rows(range(5)), query="compact"))
    kept = len(list(on_disk(table)))
    assert vacuum(table, now_s=time.time(), grace_s=DAY_S) == []
    assert len(list(on_disk(table))) == kept
    vacuum(table, now_s=time.time() + 1, grace_s=0)
    assert len(list(on_disk(table))) == 1
    assert offsets_of(table) == list(range(5))
