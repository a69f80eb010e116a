"""Which files are written together, that a file written again has the same rows, and which files nobody wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.lake.made import COLUMNS, FIRST_DAY, made_table, offsets_of, rows, written
from weft.lake.files import DataFile
from weft.pipelines.lake import TableFormat
from weft.pipelines.lake.compaction import LAKE_BATCH_S_MAX, SMALL_SHARE, Bin, is_dead, plan, rewrite_bin

TARGET = 1000
FILES = st.lists(st.tuples(st.integers(1, 1500), st.sampled_from(["2026-11-14", "2026-11-15", None])), max_size=30)


def named(sizes: Sequence[tuple[int, str | None]]) -> list[DataFile]:
    return [DataFile(f"f{number:03}", size, {"date": day}) for number, (size, day) in enumerate(sizes)]


@pytest.mark.req("SPK-05")
@given(FILES)
def test_bins_hold_small_files_of_one_partition_up_to_the_target(sizes: list[tuple[int, str | None]]) -> None:
    files = named(sizes)
    bins = plan(files, TARGET)
    taken = [file.path for each in bins for file in each.files]
    assert len(taken) == len(set(taken))
    for each in bins:
        assert len(each.files) > 1
        assert each.size_bytes <= TARGET
        assert len({file.partition["date"] for file in each.files}) == 1
        assert all(file.size_bytes < TARGET * SMALL_SHARE for file in each.files)


@given(FILES)
def test_compacting_again_and_again_comes_to_an_end(sizes: list[tuple[int, str | None]]) -> None:
    files = named(sizes)
    for _ in range(len(files) + 1):
        bins = plan(files, TARGET)
        if not bins:
            return
        gone = {file.path for each in bins for file in each.files}
        made = [
            DataFile(min(file.path for file in each.files), each.size_bytes, each.files[0].partition) for each in bins
        ]
        files = [file for file in files if file.path not in gone] + made
    raise AssertionError("it goes on for ever")


def test_a_few_small_files_become_one() -> None:
    (together,) = plan(named([(100, None)] * 5 + [(900, None)]), TARGET)
    assert [file.path for file in together.files] == ["f000", "f001", "f002", "f003", "f004"]
    assert plan(named([(100, None)]), TARGET) == []


@pytest.mark.parametrize("kind", list(TableFormat))
def test_files_written_together_have_the_rows_of_each(tmp_path: Path, kind: TableFormat) -> None:
    table = made_table(tmp_path, kind)
    for batch in range(4):
        topic = "plant.b" if batch % 2 else "plant.a"
        day = FIRST_DAY + batch // 2
        files = written(table, rows(range(batch * 5, batch * 5 + 5), topic=topic, day=day), batch=batch)
        table.commit(files, "q", batch)
    before = table.files()
    bins = plan(before, 1 << 20)
    assert len(bins) == 2
    made = [file for n, each in enumerate(bins) for file in rewrite_bin(table.settings, COLUMNS, each, f"a{n}")]
    table.replace(before, made)
    assert offsets_of(table) == list(range(20))
    assert [file.rows for file in made] == [10, 10]
    assert [(file.ranges["topic"].least, file.ranges["topic"].most) for file in made] == [("plant.a", "plant.b")] * 2


def test_a_bin_knows_its_size() -> None:
    assert Bin(tuple(named([(3, None), (4, None)]))).size_bytes == 7


NOW_S = 10_000_000.0
JUST_NOW_S = NOW_S - 60
LONG_AGO_S = NOW_S - LAKE_BATCH_S_MAX


@pytest.mark.req("SPK-05")
@pytest.mark.parametrize(
    ("path", "written_s", "dead"),
    [
        ("q.3.0.aa.0.parquet", JUST_NOW_S, True),  # another attempt's files are in the table
        ("q.2.0.aa.0.parquet", JUST_NOW_S, True),
        ("_weft/staged/q.2.0.aa.0.parquet.staged", JUST_NOW_S, True),
        ("q.4.0.aa.0.parquet", JUST_NOW_S, False),  # the next batch, perhaps running
        ("q.4.0.aa.0.parquet", LONG_AGO_S, True),  # given up
        ("zero.0.0.aa.0.parquet", JUST_NOW_S, True),  # 0 is a batch
        ("new.0.0.aa.0.parquet", JUST_NOW_S, False),  # a query that has committed nothing yet
        ("new.0.0.aa.0.parquet", LONG_AGO_S, True),
        ("compact.0.0.aa.0.parquet", JUST_NOW_S, False),
        ("part-00000-of-others.parquet", JUST_NOW_S, False),
        ("part-00000-of-others.parquet", LONG_AGO_S, True),
    ],
)
def test_a_file_is_dead_if_no_batch_can_want_it(path: str, written_s: float, dead: bool) -> None:
    committed = {"q": 3, "zero": 0, "new": None, "compact": None}
    assert is_dead(path, written_s, committed, NOW_S) is dead
