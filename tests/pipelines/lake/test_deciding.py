"""Two tables of one query: a driver that dies at any step, and comes back with other files, leaves each row once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.pipelines.lake.made import SCHEMA, offsets_of, rows, written
from weft.lake.files import WrittenFile
from weft.pipelines.lake import Table, TableChanged, TableFormat, TableSettings, open_table
from weft.pipelines.lake.compaction import LAKE_BATCH_S_MAX, vacuum
from weft.pipelines.lake.deciding import Pair, Staged

pytestmark = pytest.mark.req("LAK-02")


class Died(Exception):
    """The driver is gone."""


def made(place: Path, kind: TableFormat) -> Pair:
    pair = Pair(*(TableSettings(f"{place}/{name}", kind, ("date",), ("topic",)) for name in ("good", "dead")))
    for table in pair.opened():
        table.create(SCHEMA)
    return pair


def staged(pair: Pair, batch: int, good: range, dead: range) -> Staged:
    first, second = (
        written(table, rows(offsets), batch=batch) if offsets else []
        for table, offsets in zip(pair.opened(), (good, dead), strict=True)
    )
    return Staged(first, second)


def found(pair: Pair) -> tuple[list[int], list[int]]:
    first, second = map(offsets_of, pair.opened())
    return first, second


def die_at(monkeypatch: pytest.MonkeyPatch, pair: Pair, at: int) -> None:
    """At the commit of the first table (0) or of the second (1)."""
    kind = type(open_table(pair.first))
    commit = kind.commit
    calls: list[int] = []

    def dying(self: Table, files: list[WrittenFile], query: str, batch: int) -> bool:
        if len(calls) == at:
            raise Died
        calls.append(batch)
        return commit(self, files, query, batch)

    monkeypatch.setattr(kind, "commit", dying)


@pytest.mark.parametrize("kind", TableFormat)
@pytest.mark.parametrize("at", [0, 1])
def test_a_driver_that_died_after_it_decided(
    tmp_path: Path, kind: TableFormat, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = made(tmp_path, kind)
    assert not pair.is_done("q", 0)
    pair.commit("q", 0, staged(pair, 0, range(5), range(5, 7)))
    assert pair.is_done("q", 0) and not pair.is_done("q", 1)
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_at(patch, pair, at)
        pair.commit("q", 1, staged(pair, 1, range(10, 15), range(15, 17)))
    if at:
        assert pair.is_done("q", 1)  # the driver came back
    else:
        pair.finish()  # somebody without its checkpoint came
    pair.commit("q", 1, staged(pair, 1, range(10, 12), range(12, 17)))  # and judged otherwise
    assert found(pair) == ([*range(5), *range(10, 15)], [5, 6, 15, 16])


def test_a_batch_whose_decided_files_are_gone_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = made(tmp_path, TableFormat.DELTA)
    lost = staged(pair, 0, range(5), range(5, 7))
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_at(patch, pair, 0)
        pair.commit("q", 0, lost)
    pair.opened()[0].settings.store().remove(lost.first[0].path)
    pair.finish()
    assert not pair.is_done("q", 0)
    pair.commit("q", 0, staged(pair, 0, range(4), range(4, 7)))
    assert found(pair) == ([*range(4)], [4, 5, 6])


def test_of_two_drivers_one_wins_and_a_late_one_is_told(tmp_path: Path) -> None:
    pair = made(tmp_path, TableFormat.DELTA)
    ours, theirs = staged(pair, 0, range(5), range(0)), staged(pair, 0, range(3), range(3, 5))
    pair.commit("q", 0, ours)
    pair.commit("q", 0, theirs)
    assert found(pair) == ([*range(5)], [])
    pair.commit("q", 1, staged(pair, 1, range(5, 6), range(0)))
    with pytest.raises(TableChanged, match="a later batch"):
        pair.is_done("q", 0)


@pytest.mark.parametrize("kind", TableFormat)
def test_vacuum_leaves_decisions_alone(tmp_path: Path, kind: TableFormat) -> None:
    pair = made(tmp_path, kind)
    pair.commit("q", 0, staged(pair, 0, range(5), range(5, 6)))
    vacuum(pair.opened()[0], now_s=time.time() + 2 * LAKE_BATCH_S_MAX, grace_s=0)
    assert pair.is_done("q", 0)
    assert found(pair) == ([*range(5)], [5])
