"""Which files nobody will ask for: the rule, case by case."""

from __future__ import annotations

import pytest

from weft.pipelines.lake.vacuum import LAKE_BATCH_S_MAX, is_dead

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
