"""What plain Parquet adds: decisions that are cut short at any point are carried out by whoever comes next."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelines.lake.made import made_table, offsets_of, rows, written
from weft.pipelines.lake.parquet import ParquetLake

DECIDED = 2  # steps before it only look whether earlier decisions were carried out


class Killed(BaseException):
    """As SIGKILL: nothing that follows is done."""


@pytest.fixture
def table(tmp_path: Path) -> ParquetLake:
    made = made_table(tmp_path, "parquet")
    assert isinstance(made, ParquetLake)
    return made


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die instead of making the given rename or removal."""
    done = iter(range(1000))
    rename, unlink = Path.rename, Path.unlink

    def mortal_rename(self: Path, target: Path) -> Path:
        if next(done) == step:
            raise Killed
        return rename(self, target)

    def mortal_unlink(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".parquet" and next(done) == step:
            raise Killed
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "rename", mortal_rename)
    monkeypatch.setattr(Path, "unlink", mortal_unlink)


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize("step", range(4))
def test_a_commit_that_was_cut_short_is_finished_and_not_done_again(
    table: ParquetLake, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    days = [rows(range(n * 5, n * 5 + 5), day=20_000 + n) for n in range(4)]
    with monkeypatch.context() as patch:
        killed_at(step, patch)
        with pytest.raises(Killed):
            table.commit(written(table, *days), "q", 0)
    assert len(offsets_of(table)) == step * 5
    assert table.committed("q") == 0
    assert offsets_of(table) == list(range(20)), "who hears that it is in does not commit it again"
    assert not table.commit(written(table, *days), "q", 0)
    assert offsets_of(table) == list(range(20))


@pytest.mark.req("SPK-03")
@given(st.lists(st.integers(0, 12), max_size=8))
@settings(max_examples=60, deadline=None)
def test_a_driver_that_dies_at_any_step_and_comes_back_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[int]
) -> None:
    """As ``append_batch`` does it: a batch that is in is not written again, and the next one follows."""
    table = made_table(tmp_path_factory.mktemp("t"), "parquet")
    assert isinstance(table, ParquetLake)
    lives = iter([*deaths, 1_000_000])
    batch = 0
    while batch < 5:
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            killed_at(next(lives), patch)
            while batch < 5:
                last = table.committed("q")
                if last is None or last < batch:
                    days = [rows(range(batch * 4 + n * 2, batch * 4 + n * 2 + 2), day=20_000 + n) for n in range(2)]
                    table.commit(written(table, *days, batch=batch), "q", batch)
                batch += 1
    assert offsets_of(table) == list(range(20))


@pytest.mark.req("SPK-05")
@pytest.mark.parametrize("step", range(6))
def test_a_compaction_that_was_cut_short_is_finished_by_whoever_looks(
    table: ParquetLake, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    for batch in range(3):
        table.commit(written(table, rows(range(batch * 5, batch * 5 + 5)), batch=batch), "q", batch)
    with monkeypatch.context() as patch:
        killed_at(step, patch)
        with pytest.raises(Killed):
            table.replace(table.files(), written(table, rows(range(15)), query="compact"))
    assert len(table.files()) == (3 if step < DECIDED else 1)
    assert offsets_of(table) == list(range(15))


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize("later", [0, 1], ids=["the same batch", "and the one after it"])
def test_of_two_drivers_at_a_batch_one_wins(table: ParquetLake, monkeypatch: pytest.MonkeyPatch, later: int) -> None:
    """The second comes while the first is between looking and deciding, and may get further than it."""
    mine, others = written(table, rows(range(5))), written(table, rows(range(5)))
    look = ParquetLake._carried_out
    looks = iter([True])

    def slow(self: ParquetLake, query: str) -> object:
        found = look(self, query)
        if self is table and next(looks, False):
            other = ParquetLake(table.settings)
            assert other.commit(others, "q", 0)
            if later:
                assert other.commit(written(table, rows(range(5, 9)), batch=1), "q", 1)
        return found

    monkeypatch.setattr(ParquetLake, "_carried_out", slow)
    assert not table.commit(mine, "q", 0)
    assert offsets_of(table) == list(range(9 if later else 5))


def test_decisions_do_not_pile_up(table: ParquetLake) -> None:
    for batch in range(5):
        table.commit(written(table, rows(range(batch, batch + 1)), batch=batch), "q", batch)
    names = [path.name for path in (Path(table.settings.path) / "_weft" / "decisions").iterdir()]
    assert sorted(names) == ["lock", "q.json"]


def test_pandas_sees_the_rows_and_the_day(table: ParquetLake) -> None:
    table.commit(written(table, rows(range(5)), rows(range(5, 7), day=20_773)), "q", 0)
    written(table, rows(range(7, 9)), batch=1)
    found = pd.read_parquet(table.settings.path)
    assert sorted(found["offset"]) == list(range(7))
    assert sorted(found["date"].astype(str).unique()) == ["2026-11-15", "2026-11-16"]
