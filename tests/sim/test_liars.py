"""Nodes that lie at random: between honest nodes every promise is kept all the same (SEC-06).

What is not promised is in docs/security.md: where a liar is on the way between two nodes, or the way to an origin is
broken. So it is on no such way here, and nothing breaks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

import pytest

from weft.core.incoming import Incoming
from weft.membership import Members
from weft.node.twins import TwinFound
from weft.testing.sim import Violation, run
from weft.testing.sim.node import SimNotary
from weft.transport.peers.signed_states import StateNotary

SEEDS = 10
CHUNK = 5

# A rule that is taken away, and seeds in which it was found last; then the others are looked through.
RULES: dict[str, tuple[Callable[[], AbstractContextManager[object]], tuple[int, ...]]] = {
    "streams come from the peer that was asked": (
        lambda: mock.patch.object(Incoming, "may_bring", lambda *_: True),
        (4, 1),
    ),
    "states are signed by their nodes": (
        lambda: mock.patch.object(StateNotary, "is_genuine_untrusted", lambda *_: True),
        (4, 1),
    ),
    "what a node signs nobody else can say": (
        lambda: mock.patch.object(Members, "_signs", lambda *_: False),
        (4, 8),
    ),
    "a twin has signed that it heard of us": (
        lambda: mock.patch.object(SimNotary, "is_signed_untrusted", lambda *_: True),
        (4, 1),
    ),
}


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_between_honest_nodes_is_kept(first: int) -> None:
    for seed in range(first, first + CHUNK):
        world = run(seed, liars=True)
        assert sum(liar.lies for liar in world.liars) > 0


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_taken_away_is_missed(rule: str) -> None:
    without, last_seen = RULES[rule]
    for seed in (*last_seen, *range(SEEDS)):
        try:
            with without():
                run(seed, liars=True)
        except (Violation, TwinFound):
            return
    pytest.fail(f"{rule}: nobody misses it in {SEEDS} seeds")


def test_a_seed_tells_the_same_lies_again() -> None:
    first, second = (run(3, liars=True, traces=True) for _ in range(2))
    assert first.schedule.trace.checksum == second.schedule.trace.checksum
    assert [liar.lies for liar in first.liars] == [liar.lies for liar in second.liars]
