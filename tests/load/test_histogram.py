"""The histogram beside the whole list of times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.load import Histogram

TIMES = st.lists(st.floats(min_value=1e-6, max_value=1e4), min_size=1, max_size=200)


def of(times: list[float]) -> Histogram:
    found = Histogram()
    for time_s in times:
        found.record(time_s)
    return found


@given(times=TIMES, share=st.floats(min_value=0, max_value=1))
def test_a_percentile_is_right_to_two_percent(times: list[float], share: float) -> None:
    exact = sorted(times)[min(math.floor(share * len(times)), len(times) - 1)]
    assert of(times).percentile_s(share) == pytest.approx(exact, rel=0.02)


@given(times=TIMES)
def test_the_ends_are_exact(times: list[float]) -> None:
    found = of(times)
    assert (found.least_s, found.greatest_s, found.count) == (min(times), max(times), len(times))


@given(times=TIMES)
def test_bars_hold_every_time_once(times: list[float]) -> None:
    bars = list(of(times).bars())
    assert sum(count for _, count in bars) == len(times)
    assert bars[0][1] and bars[-1][1], "nothing empty at either end"
    assert [end for end, _ in bars] == sorted({end for end, _ in bars})


def test_bars_end_at_round_numbers() -> None:
    found = of([0.0009, 0.0011, 0.0011, 0.0301])
    assert [(f"{end:g}", count) for end, count in found.bars()] == [
        ("0.001", 1),
        ("0.002", 2),
        ("0.005", 0),
        ("0.01", 0),
        ("0.02", 0),
        ("0.05", 1),
    ]


def test_many_at_once_count_as_many() -> None:
    found = Histogram()
    found.record(0.001, 99)
    found.record(1.0)
    assert found.count == 100 and found.percentile_s(0.98) == pytest.approx(0.001, rel=0.02)
    assert found.percentile_s(0.995) == pytest.approx(1.0, rel=0.02)


def test_nothing_has_no_percentile_and_no_bars() -> None:
    assert Histogram().percentile_s(0.5) == 0 and not list(Histogram().bars())
