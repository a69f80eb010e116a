"""The pace as a formula: how much leaves in a time, what congestion takes, how it comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.datagram_node import Pace
from weft.errors import UsageError


def taken(pace: Pace, now_s: float) -> int:
    count = 0
    while pace.take(now_s):
        count += 1
    return count


@pytest.mark.req("EMC-14")
@pytest.mark.parametrize(
    ("congested_at_s", "expected"),
    [
        ([], 1000),
        ([0.0], 500),
        ([0.0, 0.1, 0.9], 500 + 45),  # the same congestion, and a twentieth comes back in a second
        ([0.0, 1.0], (500 + 50) / 2),
        ([0.0, 1.0, 2.0], (275 + 50) / 2),
        ([float(second) for second in range(60)], 100),  # never less
    ],
)
def test_congestion_halves_the_rate_once_a_second(congested_at_s: list[float], expected: float) -> None:
    pace = Pace(100, 1000, now_s=0.0)
    for now_s in congested_at_s:
        pace.congested(now_s)
    assert pace.rate_per_s(max(congested_at_s, default=0.0)) == pytest.approx(expected)


def test_the_rate_comes_back() -> None:
    pace = Pace(10, 1000, now_s=0.0)
    pace.congested(0.0)
    assert [pace.rate_per_s(second) for second in (0.0, 2.0, 5.0, 10.0, 100.0)] == [500, 600, 750, 1000, 1000]


@given(st.floats(1, 10_000), st.lists(st.floats(0, 3), max_size=30))
def test_no_more_leaves_than_the_rate_and_a_burst(rate_per_s: float, steps_s: list[float]) -> None:
    pace, now_s, total = Pace(1, rate_per_s, now_s=5.0), 5.0, 0
    for step_s in steps_s:
        now_s += step_s
        total += taken(pace, now_s)
        burst = max(16, rate_per_s * 0.02)
        assert total <= burst + rate_per_s * (now_s - 5.0) + 1


@given(st.floats(1, 10_000), st.floats(0, 1e6), st.lists(st.booleans(), max_size=10))
def test_when_it_says_ready_it_is(rate_per_s: float, start_s: float, congestion: list[bool]) -> None:
    pace, now_s = Pace(1, rate_per_s, now_s=start_s), start_s
    for is_congested in congestion:
        taken(pace, now_s)
        if is_congested:
            pace.congested(now_s)
        ready_s = pace.ready_s()
        assert ready_s > now_s
        assert ready_s - now_s <= 1 + 1e-6
        assert pace.take(ready_s)
        now_s = ready_s


def test_time_that_goes_back_gives_nothing() -> None:
    pace = Pace(1, 100, now_s=10.0)
    taken(pace, 10.0)
    assert not pace.take(9.0)
    assert pace.take(10.02)


@pytest.mark.parametrize(("least", "most"), [(0, 10), (-1, 10), (11, 10)])
def test_rates_that_make_no_sense(least: float, most: float) -> None:
    with pytest.raises(UsageError, match="a rate must be more than 0"):
        Pace(least, most, now_s=0.0)
