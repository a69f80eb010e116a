"""What Delta adds: statistics to skip files by, a zombie driver, two compactions at once, merging."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.lake.made import COLUMNS, arrow_rows, made_table, offsets_of, rows, written
from weft.pipelines.lake import TableChanged
from weft.pipelines.lake.delta import DeltaLake, _later


@pytest.fixture
def table(tmp_path: Path) -> DeltaLake:
    made = made_table(tmp_path, "delta")
    assert isinstance(made, DeltaLake)
    return made


def test_readers_skip_files_by_offset_topic_time_and_day(table: DeltaLake) -> None:
    for batch in range(4):
        table.commit(
            written(table, rows(range(batch * 5, batch * 5 + 5), topic=f"plant.{batch}"), batch=batch), "q", batch
        )
    read = DeltaTable(table.settings.path)
    assert len(read.file_uris()) == 4
    for predicate, files in [
        ("offset >= 17", 1),
        ("topic = 'plant.2'", 1),
        ("timestamp < '2026-11-15T00:00:00.000005Z'", 1),
        ("date = '2026-11-15'", 4),
        ("date = '2026-11-16'", 0),
    ]:
        assert len(read.file_uris(file_pruning_predicate=predicate)) == files, predicate


def test_a_driver_that_was_taken_for_dead_commits_nothing_twice(
    table: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked at the table before the new driver committed the batch, and commits after it."""
    seen_before = table.load()
    table.commit(written(table, rows(range(5))), "q", 0)
    loads = iter([seen_before])
    fresh = DeltaLake.load
    monkeypatch.setattr(DeltaLake, "load", lambda self: next(loads, None) or fresh(self))
    assert not table.commit(written(table, rows(range(5))), "q", 0)
    assert offsets_of(table) == list(range(5))


def test_two_compactions_that_read_the_same_files_do_not_both_succeed(
    table: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit(written(table, rows(range(5))), "q", 0)
    seen_before, small = table.load(), table.files()
    table.replace(small, written(table, rows(range(5)), query="compact"))
    monkeypatch.setattr(DeltaLake, "load", lambda _: seen_before)
    with pytest.raises(TableChanged, match="Delta refused to replace files"):
        table.replace(small, written(table, rows(range(5)), query="compact"))
    monkeypatch.undo()
    assert offsets_of(table) == list(range(5))


# --- tables of current state -----------------------------------------------------------------------------------------


def state(offset: int, *topics: str) -> pa.Table:
    batches = [rows(range(offset, offset + 1), topic=topic) for topic in topics]
    return pa.Table.from_batches(batches, COLUMNS)


def current(table: DeltaLake) -> dict[str | None, int]:
    found = arrow_rows(table)
    assert found.num_rows == len(set(found["topic"].to_pylist())), "one row per key"
    return dict(zip(found["topic"].to_pylist(), found["offset"].to_pylist(), strict=True))


def test_a_merge_keeps_the_latest_whatever_order_batches_come_in(table: DeltaLake) -> None:
    assert table.merge(state(5, "a", "b"), ["topic"], ["offset"], "q", 0)
    assert table.merge(state(3, "a", "c"), ["topic"], ["offset"], "q", 1)
    assert table.merge(state(9, "b"), ["topic"], ["offset"], "q", 2)
    assert current(table) == {"a": 5, "b": 9, "c": 3}


def test_a_merge_done_again_changes_nothing(table: DeltaLake) -> None:
    assert table.merge(state(5, "a"), ["topic"], ["offset"], "q", 0)
    assert not table.merge(state(6, "a"), ["topic"], ["offset"], "q", 0)
    assert current(table) == {"a": 5}


def test_a_merge_and_a_compaction_of_the_same_files_do_not_both_succeed(
    table: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.merge(state(5, "a"), ["topic"], ["offset"], "q", 0)
    seen_before = table.load()
    table.replace(table.files(), written(table, rows(range(5, 6), topic="a"), query="compact"))
    loads = iter([seen_before])
    fresh = DeltaLake.load
    monkeypatch.setattr(DeltaLake, "load", lambda self: next(loads, None) or fresh(self))
    with pytest.raises(TableChanged, match="Delta refused batch 1"):
        table.merge(state(9, "a"), ["topic"], ["offset"], "q", 1)
    assert table.merge(state(9, "a"), ["topic"], ["offset"], "q", 1), "and again, on what is there now"
    assert current(table) == {"a": 9}


def test_a_key_can_be_of_several_columns_and_null(table: DeltaLake) -> None:
    def rows_of(offset: int, *topics: str | None) -> pa.Table:
        made = state(offset, *["x"] * len(topics))
        return made.set_column(0, "topic", pa.array(topics, pa.string()))

    assert table.merge(rows_of(1, "a", None), ["topic", "date"], ["offset"], "q", 0)
    assert table.merge(rows_of(2, None, "b"), ["topic", "date"], ["offset"], "q", 1)
    assert current(table) == {"a": 1, None: 2, "b": 2}


def test_times_long_ago_can_be_read_again(table: DeltaLake) -> None:
    old = rows(range(1)).set_column(
        2, "timestamp", pa.array([datetime(7, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    )
    table.commit(written(table, old), "q", 0)
    assert offsets_of(table) == [0]
    (least,) = DeltaTable(table.settings.path).get_add_actions(flatten=True).column("min.timestamp").to_pylist()
    assert least == datetime(7, 1, 2, tzinfo=UTC)


@given(st.tuples(*[st.integers(0, 3)] * 6))
def test_later_compares_the_first_column_that_differs(values: tuple[int, ...]) -> None:
    names = ["time", "epoch", "offset"]
    source, target = values[:3], values[3:]
    sql = _later(names).replace(" = ", " == ").replace(" AND ", " and ").replace(" OR ", " or ")
    for side, numbers in (("source", source), ("target", target)):
        for name, number in zip(names, numbers, strict=True):
            sql = sql.replace(f'{side}."{name}"', str(number))
    assert eval(sql) is (source > target)
