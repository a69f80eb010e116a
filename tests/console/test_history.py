"""How far behind groups were: bounded, and without those that are gone."""

from __future__ import annotations

import pytest

from weft.console.history import GROUPS_MAX, POINTS_MAX, LagHistory, Point


@pytest.mark.req("SEE-01")
def test_an_hour_of_points_the_oldest_first() -> None:
    history = LagHistory()
    for at in range(POINTS_MAX + 5):
        history.add(at, [("billing", at, at / 2)])
    points = history.of("billing")
    assert len(points) == POINTS_MAX
    assert points[0] == Point(5, 5, 2.5) and points[-1].at_s == POINTS_MAX + 4


@pytest.mark.req("SEE-01", "SEC-05")
def test_groups_that_are_gone_or_too_many_are_not_kept() -> None:
    history = LagHistory()
    history.add(0, [("gone", 1, 0.0)])
    history.add(1, [(f"g{number:04}", 1, 0.0) for number in range(GROUPS_MAX + 1)])
    assert history.of("gone") == [] and history.of(f"g{GROUPS_MAX:04}") == []
    assert len(history.of("g0000")) == 1
