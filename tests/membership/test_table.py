"""What a node keeps of what it hears."""

from __future__ import annotations

from dataclasses import replace

from weft.membership import Digest, Liveness, NodeState
from weft.membership.table import Table
from weft.model import Epoch, NodeId

A, S, D, L = Liveness.ALIVE, Liveness.SUSPECT, Liveness.DEAD, Liveness.LEFT


def state(name: str, incarnation: int = 1, version: int = 1, liveness: Liveness = A) -> NodeState:
    return NodeState(NodeId(name), incarnation, version, Epoch(1), liveness)


def table(**limits: int) -> Table:
    return Table(state("me"), **limits)


def test_dead_is_heard_as_suspect_and_runs_out_here() -> None:
    known = table()
    known.merge(state("x"), 0.0)
    assert known.merge(state("x", liveness=D), 1.0) == state("x", liveness=S)
    assert known.merge(state("x", liveness=D), 2.0) is None
    assert known.expired_suspects(5.0, now_s=5.9) == []
    assert known.expired_suspects(5.0, now_s=6.0) == [state("x", liveness=S)]


def test_a_digest_alone_tells_liveness() -> None:
    known = table()
    known.merge(state("x", version=3), 0.0)
    assert known.hear(Digest(NodeId("x"), 1, 3, S), 1.0) == state("x", version=3, liveness=S)
    assert known.hear(Digest(NodeId("x"), 1, 2, L), 1.0) == state("x", version=3, liveness=L)
    assert known.hear(Digest(NodeId("x"), 2, 1, A), 1.0) is None, "what it says in that incarnation is not known"


def test_a_suspicion_that_was_refuted_does_not_shorten_the_next() -> None:
    known = table()
    known.merge(state("x", liveness=S), 0.0)
    known.merge(state("x", incarnation=2, liveness=S), 4.0)  # the refutation between them was lost
    assert known.expired_suspects(5.0, now_s=5.0) == []
    assert len(known.expired_suspects(5.0, now_s=9.0)) == 1


def test_whoever_was_gone_when_first_heard_of_is_no_member() -> None:
    known = table()
    assert known.merge(state("x", liveness=D), 0.0) is None
    assert known.hear(Digest(NodeId("y"), 5, 1, L), 0.0) is None
    assert list(known.states) == ["me"]
    assert known.merge(state("y", incarnation=5), 0.0) is None, "old gossip"
    assert known.merge(state("y", incarnation=6), 0.0) == state("y", incarnation=6)


def test_the_forgotten_stay_forgotten_but_may_return() -> None:
    known = table()
    known.merge(state("x", version=4), 0.0)
    known.keep(state("x", version=4, liveness=D), 10.0)
    assert known.live_count == 1
    assert known.forget(60.0, now_s=69.0) == []
    assert known.forget(60.0, now_s=70.0) == ["x"]
    assert "x" not in known.states
    for old in (state("x"), state("x", version=4), state("x", version=4, liveness=S), state("x", liveness=D)):
        assert known.merge(old, 71.0) is None
    assert known.digest_of(NodeId("x")) == Digest(NodeId("x"), 1, 4, D), "what others are told who still believe in it"
    assert known.merge(state("x", incarnation=2), 72.0) is not None
    assert known.live_count == 2
    assert known.tombstones == {}


def test_tombstones_are_bounded_and_the_oldest_go_first() -> None:
    known = table(tombstones_max=3)
    for number in range(5):
        known.hear(Digest(NodeId(f"x{number}"), 1, 1, D), 0.0)
    assert list(known.tombstones) == ["x2", "x3", "x4"]


def test_members_are_bounded_and_those_refused_are_counted() -> None:
    known = table(members_max=2)
    assert known.merge(state("x"), 0.0) is not None
    assert known.merge(state("y"), 0.0) is None
    assert known.merge(state("x", version=2), 0.0) is not None
    assert known.refused == 1


def test_changes_are_told_latest_first() -> None:
    known = table()
    for name in ("x", "y", "z"):
        known.merge(state(name), 0.0)
    seen = known.changes
    known.merge(state("x", version=2), 0.0)
    known.keep(replace(state("y"), liveness=S), 0.0)
    assert list(known.changed_since(seen)) == ["y", "x"]
    assert list(known.changed_since(known.changes)) == []
