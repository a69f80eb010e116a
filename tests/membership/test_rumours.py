"""What is believed when one node tells of another."""

from __future__ import annotations

import pytest

from weft.limits import INCARNATION_MAX
from weft.membership import Digest, Liveness
from weft.membership.rumours import INCARNATION_JUMP, INSISTING_KEPT_MAX, INSISTING_S, Rumours, Verdict
from weft.membership.state import unknown
from weft.model import NodeId

A, S, D, L = Liveness.ALIVE, Liveness.SUSPECT, Liveness.DEAD, Liveness.LEFT
BELIEVE, ASK, REFUSE = Verdict.BELIEVE, Verdict.ASK, Verdict.REFUSE
X = NodeId("x")
NOW_MS = 1_800_000_000_000


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize(
    ("known", "heard", "linked", "unlinked"),
    [
        # it is as well as before, or says something new
        ((5, 1, A), (5, 1, A), BELIEVE, BELIEVE),
        ((5, 1, A), (5, 2, A), BELIEVE, BELIEVE),
        ((5, 1, A), (4, 9, L), BELIEVE, BELIEVE),  # nothing new: it adds nothing
        # a suspicion is a rumour that the node refutes in time
        ((5, 1, A), (5, 1, S), BELIEVE, BELIEVE),
        ((5, 1, A), (5, 1, D), BELIEVE, BELIEVE),
        # what would expel it
        ((5, 1, A), (5, 1, L), ASK, BELIEVE),
        ((5, 1, S), (5, 1, L), ASK, BELIEVE),
        ((5, 1, A), (6, 1, A), ASK, BELIEVE),
        ((5, 1, A), (6, 1, L), ASK, BELIEVE),
        # the refutation of a suspicion that its own link may have lost
        ((5, 1, S), (6, 1, A), BELIEVE, BELIEVE),
        # it is gone for us: nobody there to ask
        ((5, 1, D), (6, 1, A), BELIEVE, BELIEVE),
        ((5, 1, L), (6, 1, A), BELIEVE, BELIEVE),
        # too far away
        ((5, 1, A), (6 + INCARNATION_JUMP, 1, A), REFUSE, REFUSE),
        ((5, 1, A), (INCARNATION_MAX, 1, L), REFUSE, REFUSE),
    ],
)
def test_verdicts(
    known: tuple[int, int, Liveness], heard: tuple[int, int, Liveness], linked: Verdict, unlinked: Verdict
) -> None:
    found = [Rumours().judge(Digest(X, *heard), Digest(X, *known), 0.0, linked=each) for each in (True, False)]
    assert found == [linked, unlinked]


def test_a_node_that_nobody_knew_may_have_a_clock() -> None:
    heard = Digest(X, NOW_MS, 1, A)
    assert Rumours().judge(heard, unknown(X), 0.0, linked=False) is BELIEVE


@pytest.mark.req("SEC-06")
def test_who_insists_for_long_is_believed_a_jump_further_each_minute() -> None:
    """So that nodes that missed an attack follow, and an attack never comes to the last incarnation."""
    rumours, known = Rumours(), Digest(X, NOW_MS, 1, A)
    far = Digest(X, NOW_MS + 3 * INCARNATION_JUMP, 1, A)
    believed = [rumours.is_near(far, known, now_s * INSISTING_S) for now_s in range(4)]
    assert believed == [False, False, True, True]
    assert rumours.is_near(known, known, 4 * INSISTING_S)
    assert rumours.is_near(far, known, 4 * INSISTING_S), "who has not heard yet does not hold it up"
    further = Digest(X, far.incarnation + 2 * INCARNATION_JUMP, 1, A)
    assert not rumours.is_near(further, far, 4 * INSISTING_S), "it was believed: it begins again"


def test_who_was_silent_for_long_begins_again() -> None:
    rumours, known = Rumours(), Digest(X, NOW_MS, 1, A)
    far = Digest(X, NOW_MS + 2 * INCARNATION_JUMP, 1, A)
    assert not rumours.is_near(far, known, 0.0)
    assert not rumours.is_near(far, known, 2 * INSISTING_S + 1)
    assert rumours.is_near(far, known, 3 * INSISTING_S + 1)


def test_the_last_incarnation_is_never_believed() -> None:
    rumours = Rumours()
    last = Digest(X, INCARNATION_MAX, 1, L)
    assert not any(rumours.is_near(last, Digest(X, INCARNATION_MAX - 1, 1, A), float(n)) for n in range(1000))


def test_claims_are_bounded() -> None:
    rumours = Rumours()
    for number in range(2 * INSISTING_KEPT_MAX):
        name = NodeId(f"n{number}")
        assert not rumours.is_near(Digest(name, 1 << 60, 1, A), unknown(name), 0.0)
    assert len(rumours._claims) == INSISTING_KEPT_MAX
