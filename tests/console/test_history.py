"""How far behind groups were: bounded, one point in an interval, and without those that are long gone."""

from __future__ import annotations

import pytest

from weft.console.history import AGE_S_MAX, GROUPS_MAX, INTERVAL_S, POINTS_MAX, LagHistory, Point


@pytest.mark.req("SEE-01")
def test_an_hour_of_points_the_oldest_first() -> None:
    history = LagHistory()
    for number in range(POINTS_MAX + 5):
        history.add(number * INTERVAL_S, [("billing", number, number / 2)])
    points = history.of("billing")
    assert len(points) == POINTS_MAX
    assert points[0] == Point(5 * INTERVAL_S, 5, 2.5) and points[-1].lag_events == POINTS_MAX + 4


@pytest.mark.req("SEE-01")
def test_of_what_several_tell_at_once_the_largest_counts() -> None:
    history = LagHistory()
    history.add(100.0, [("billing", 0, 0.0)])
    history.add(102.0, [("billing", 7, 1.5)])
    history.add(104.0, [("billing", 3, 0.5)])
    history.add(110.0, [("billing", 4, 0.5)])
    assert history.of("billing") == [Point(100.0, 7, 1.5), Point(110.0, 4, 0.5)]


@pytest.mark.req("SEE-01", "SEC-05")
def test_groups_that_are_gone_or_too_many_are_not_kept() -> None:
    history = LagHistory()
    history.add(0.0, [("gone", 1, 0.0)])
    history.add(AGE_S_MAX + 1, [(f"g{number:04}", 1, 0.0) for number in range(GROUPS_MAX + 1)])
    assert history.of("gone") == [] and history.of(f"g{GROUPS_MAX:04}") == []
    assert len(history.of("g0000")) == 1
