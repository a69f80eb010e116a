from __future__ import annotations

from tests.core.groups.talk import ONE, B, C, T, member, stream
from weft.core.groups.reports import Report, Reports
from weft.model import Epoch, NodeId

U = stream("plant.u")
TWO = Epoch(2)


def test_only_living_nodes_count_and_they_count_again_when_they_return() -> None:
    lives: dict[NodeId, Epoch] = {B: ONE}
    reports = Reports(lives)
    assert reports.hear(B, Report(ONE, 3, {"m": member(T)}))
    assert reports.hear(C, Report(ONE, 8, {"n": member(T)}))
    assert reports.holders(T) == [(B, "m")]
    lives[C] = ONE
    del lives[B]
    assert reports.holders(T) == [(C, "n")]
    assert [node for node, _ in reports.live()] == [C]
    lives[B] = ONE
    assert reports.holders(T) == [(B, "m"), (C, "n")]


def test_the_latest_statement_counts_whatever_comes_again() -> None:
    reports = Reports({B: ONE})
    old, new = Report(ONE, 3, {"m": member(T)}), Report(ONE, 4, {"m": member(U)})
    assert reports.hear(B, old)
    assert reports.hear(B, new)
    assert not reports.hear(B, old)
    assert not reports.hear(B, new)
    assert (reports.holders(T), reports.holders(U)) == ([], [(B, "m")])


def test_what_went_with_a_disk_counts_no_more() -> None:
    lives: dict[NodeId, Epoch] = {B: ONE}
    reports = Reports(lives)
    reports.hear(B, Report(ONE, 300, {"m": member(T)}))
    lives[B] = TWO
    assert reports.holders(T) == []
    assert reports.hear(B, Report(TWO, 0, {"m": member(U)}))
    assert not reports.hear(B, Report(ONE, 301, {"m": member(T)}))
    assert (reports.holders(T), reports.holders(U)) == ([], [(B, "m")])


def test_what_is_held_twice_is_let_go_of_at_once() -> None:
    """No honest node says so, but it is no reason to fall over."""
    reports = Reports({B: ONE, C: ONE})
    reports.hear(C, Report(ONE, 1, {"x": member(T)}))
    reports.hear(B, Report(ONE, 1, {"m": member(T), "n": member(T)}))
    reports.hear(B, Report(ONE, 2, {}))
    assert reports.holders(T) == [(C, "x")]
    reports.hear(C, Report(ONE, 2, {}))
    assert reports.holders(T) == []


def test_turns_are_those_of_anybody_ever_heard() -> None:
    reports = Reports({})
    assert reports.turn("m") == 0
    reports.hear(B, Report(ONE, 1, {"m": member(turn=4)}))
    reports.hear(C, Report(ONE, 1, {"m": member(turn=3), "n": member(turn=9)}))
    assert reports.turn("m") == 4
