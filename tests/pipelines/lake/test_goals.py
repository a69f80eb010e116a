"""What follows from a table's goal: triggers, which files are written together, when to rest, and what is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.lake.files import DataFile
from weft.pipelines.lake.compaction import SMALL_SHARE
from weft.pipelines.lake.goals import Freshness, Sizes, late_files, rest_s, trigger_ms, worthwhile

TARGET = 1 << 20
NOON_S = 1_794_744_000.0  # 2026-11-15, midday by UTC


@pytest.mark.req("LAK-03")
def test_the_trigger_leaves_half_of_the_time_to_the_batch() -> None:
    assert [trigger_ms(each) for each in (0.5, 1.0, 10.0, 600.0)] == [250, 500, 5000, 300_000]


def files(*sizes: int, day: str = "2026-11-15") -> list[DataFile]:
    return [DataFile(f"q.{number}.0.aa.0.parquet", size, {"date": day}) for number, size in enumerate(sizes)]


@pytest.mark.req("LAK-03")
@pytest.mark.parametrize(
    ("sizes", "worth"),
    [
        ([1000] * 7, False),  # few, and together still small
        ([1000] * 8, True),
        ([500_000, *[1000] * 20], False),  # the large one would be written again for nearly nothing
        ([500_000, 400_000], True),  # a whole file
        ([TARGET], False),
    ],
)
def test_files_are_written_together_where_it_pays(sizes: list[int], worth: bool) -> None:
    assert bool(worthwhile(files(*sizes), TARGET)) is worth


@pytest.mark.req("LAK-03")
@given(st.lists(st.integers(500, 5000), min_size=1, max_size=400))
def test_a_byte_is_written_again_seldom_and_few_files_stay(batches: list[int]) -> None:
    """A batch at a time, compacted whenever it is worth it."""
    table: list[DataFile] = []
    rewritten = 0
    for number, size in enumerate(batches):
        table.append(DataFile(f"q.{number:04}.0.aa.0.parquet", size, {}))
        for together in worthwhile(table, TARGET):
            gone = {file.path for file in together.files}
            table = [file for file in table if file.path not in gone]
            table.append(DataFile(f"q.{number:04}.0.bb.0.parquet", together.size_bytes, {}))
            rewritten += together.size_bytes
    assert rewritten <= sum(batches) * 12, "by doublings from 500 bytes to a MiB"
    small = [file for file in table if file.size_bytes < TARGET * SMALL_SHARE]
    assert len(small) <= 60, "a few of each size"


def test_the_share_of_the_time_is_kept() -> None:
    for worked_s, share in ((1.0, 0.2), (30.0, 0.5), (0.0, 0.1)):
        assert worked_s <= share * (worked_s + rest_s(worked_s, share)) + 1e-9


@pytest.mark.req("LAK-03")
def test_slow_batches_are_told_once_and_once_when_it_is_over() -> None:
    freshness = Freshness(10.0)
    told = [freshness.take(each) for each in (1.0, 9.0, 1.0, *[9.0] * 7, 2.0, 2.0)]
    assert [each is not None for each in told] == [False] * 7 + [True] + [False] * 2 + [True, False]
    assert told[7] == (
        "the table cannot be as fresh as wanted: a batch takes 9.0 s, and with the wait before it 14.0 s instead of "
        "10 s. Allow more time (freshness), or give Spark more cores"
    )
    assert told[10] == "the table is as fresh as wanted again (10 s)"


@pytest.mark.req("LAK-03")
def test_compaction_that_falls_behind_is_told() -> None:
    sizes = Sizes(0.2)
    told = [sizes.take(each) for each in (0, 10, 20, 15, 20, 30, 40, 50)]
    assert [each is not None for each in told] == [False] * 6 + [True, False]
    assert "40 bytes of small files wait, and 20% of the time is not enough" in str(told[6])


@pytest.mark.req("LAK-03")
def test_late_files_are_those_that_writers_added_to_days_that_are_over() -> None:
    def named(path: str, day: str | None) -> DataFile:
        return DataFile(path, 1, {"date": day})

    found = late_files(
        [
            named("q.1.0.aa.0.parquet", "2026-11-14"),
            named("q.2.0.aa.0.parquet", "2026-11-15"),
            named("q.3.0.aa.0.parquet", None),
            named("q.0.0.aa.0.parquet", "2026-11-13"),
            named("compact.0.0.aa.0.parquet", "2026-11-13"),
            named("others.parquet", "2026-11-13"),
        ],
        {"q.0.0.aa.0.parquet"},
        "date",
        NOON_S,
    )
    assert [file.path for file in found] == ["q.1.0.aa.0.parquet"]
    just_after_midnight_s = NOON_S - 12 * 3600 + 600
    yesterday = named("q.9.0.aa.0.parquet", "2026-11-14")
    assert late_files([yesterday], set(), "date", just_after_midnight_s) == [], "a day ends slowly"
