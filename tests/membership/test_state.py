"""Which of two pieces of knowledge counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.limits import INCARNATION_MAX, INTEREST_PATTERNS_MAX
from weft.membership import Digest, Liveness, NodeState, join
from weft.membership.state import NEIGHBOURS_MAX, unknown
from weft.model import Epoch, NodeId, Pattern

A, S, D, L = Liveness.ALIVE, Liveness.SUSPECT, Liveness.DEAD, Liveness.LEFT
X = NodeId("x")


def state(incarnation: int, version: int, liveness: Liveness = A) -> NodeState:
    """A node says one thing in one version: its content follows from its numbers."""
    content = (Pattern(f"i{incarnation}.v{version}"),)
    return NodeState(X, incarnation, version, Epoch(1), liveness, interest=content)


STATES = st.builds(state, st.integers(1, 3), st.integers(1, 3), st.sampled_from(Liveness))


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        # the node says something new
        ((1, 1, A), (1, 2, A), (1, 2, A)),
        ((1, 9, A), (2, 1, A), (2, 1, A)),
        # a suspicion overrides alive in the same incarnation, whatever the version
        ((1, 1, A), (1, 1, S), (1, 1, S)),
        ((1, 2, A), (1, 1, S), (1, 2, S)),
        ((1, 1, S), (1, 2, A), (1, 2, S)),
        # a higher incarnation refutes
        ((1, 1, S), (2, 1, A), (2, 1, A)),
        ((1, 1, D), (2, 1, A), (2, 1, A)),
        ((1, 1, L), (2, 1, A), (2, 1, A)),
        # dead and left are final in theirs
        ((1, 1, D), (1, 1, A), (1, 1, D)),
        ((1, 1, D), (1, 1, S), (1, 1, D)),
        ((1, 1, D), (1, 9, A), (1, 9, D)),
        ((1, 1, L), (1, 9, A), (1, 9, L)),
        # whoever has left did not die
        ((1, 1, D), (1, 2, L), (1, 2, L)),
        ((1, 2, L), (1, 1, D), (1, 2, L)),
        # old news of a higher kind stay old
        ((2, 1, A), (1, 9, D), (2, 1, A)),
        ((2, 1, A), (1, 9, L), (2, 1, A)),
    ],
)
def test_precedence(
    one: tuple[int, int, Liveness], other: tuple[int, int, Liveness], joined: tuple[int, int, Liveness]
) -> None:
    assert join(state(*one), state(*other)) == state(*joined)
    assert join(state(*other), state(*one)) == state(*joined)


@given(STATES, STATES, STATES)
def test_order_and_repetition_make_no_difference(one: NodeState, other: NodeState, third: NodeState) -> None:
    assert join(one, other) == join(other, one)
    assert join(join(one, other), third) == join(one, join(other, third))
    assert join(one, one) is one


@given(STATES, STATES)
def test_a_digest_knows_what_a_join_would_do(one: NodeState, other: NodeState) -> None:
    assert one.digest.covers(other.digest) == (join(one, other) == one)
    assert one.digest.has_content_of(other.digest) == (join(one, other).interest == one.interest)


@given(STATES)
def test_nothing_known_is_behind_everything(any_state: NodeState) -> None:
    assert not unknown(X).covers(any_state.digest)
    assert any_state.digest.covers(unknown(X))


def test_a_digest_is_four_fields_of_the_state() -> None:
    assert state(3, 7, S).digest == Digest(X, 3, 7, S)
    assert replace(state(3, 7), version=8).digest.version == 8


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"incarnation": 0}, "incarnation"),
        ({"incarnation": INCARNATION_MAX + 1}, "incarnation"),
        ({"version": 0}, "version"),
        ({"epoch": 0}, "epoch"),
        ({"node_id": ""}, "node ids"),
        ({"node_id": "x" * 65}, "node ids"),
        ({"addresses": ("a:1",) * 17}, "addresses"),
        ({"addresses": ("a" * 301,)}, "addresses"),
        ({"neighbours": ("n",) * (NEIGHBOURS_MAX + 1)}, "neighbours"),
        ({"interest": ("t",) * (INTEREST_PATTERNS_MAX + 1)}, "patterns"),
        ({"interest": ("ü" * 128,)}, "patterns"),
    ],
)
def test_a_state_is_bounded(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        replace(state(1, 1), **change)  # type: ignore[arg-type]
