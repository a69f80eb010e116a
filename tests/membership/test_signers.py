"""Nodes that sign what they say of themselves: what others can still say of them, and what not (SEC-06)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from weft.membership import (
    Digest,
    Gossip,
    GossipRefused,
    LinkUp,
    Liveness,
    MemberChanged,
    Members,
    MessageReceived,
    NodeState,
    Send,
    Settings,
    SignAgain,
    Signed,
    Start,
)
from weft.membership.messages import Effect
from weft.model import Epoch, NodeId
from weft.wire.mesh.checks import Signature

A, B, EVIL = NodeId("a"), NodeId("b"), NodeId("evil")


def sign(state: NodeState) -> Signed:
    """By the node itself; that nobody else can is proven where signatures are checked."""
    return Signed(repr(state).encode(), Signature(b"by " + state.node_id.encode()))


def state(node_id: NodeId = B, incarnation: int = 10, version: int = 1, **changes: object) -> NodeState:
    return replace(NodeState(node_id, incarnation, version, Epoch(1)), **changes)  # type: ignore[arg-type]


def signed(node_id: NodeId = B, incarnation: int = 10, version: int = 1, **changes: object) -> NodeState:
    said = state(node_id, incarnation, version, **changes)
    return replace(said, signed=sign(said))


def told_by_evil(members: Members, *states: NodeState, digests: tuple[Digest, ...] = ()) -> list[Effect]:
    return members.step(MessageReceived(EVIL, Gossip(digests, states)), now_s=1.0)


def a_that_knows_b() -> Members:
    """And is linked to the liar alone: it has no way to ask b."""
    members = Members(state(A), Settings(), Random(1), sign=sign)  # noqa: S311
    members.step(Start(), now_s=0.0)
    members.step(LinkUp(EVIL, gossips=True), now_s=0.0)
    told_by_evil(members, signed())
    assert members.states[B].signed is not None
    return members


LIES = {
    "another incarnation": state(incarnation=11),
    "something new": state(version=2, neighbours=(EVIL,)),
    "left": state(version=2, liveness=Liveness.LEFT),
    "left in this version": state(liveness=Liveness.LEFT),
}


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_nobody_else_says_what_only_the_node_itself_can(lie: NodeState) -> None:
    members = a_that_knows_b()
    before = members.states[B]
    effects = told_by_evil(members, lie) + told_by_evil(members, digests=(lie.digest,))
    assert members.states[B] is before
    assert not [each for each in effects if isinstance(each, MemberChanged)]
    is_new = (lie.incarnation, lie.version) > (10, 1)
    assert [each.fault for each in effects if isinstance(each, GossipRefused)] == ["signature"] * is_new


@pytest.mark.req("SEC-06")
def test_what_the_node_has_signed_is_believed_whoever_brings_it() -> None:
    members = a_that_knows_b()
    told_by_evil(members, signed(incarnation=1 << 50, version=7, neighbours=(A,)))
    assert (members.states[B].incarnation, members.states[B].neighbours) == (1 << 50, (A,))
    told_by_evil(members, signed())
    assert members.states[B].incarnation == 1 << 50, "what it said earlier does not count any more"
    told_by_evil(members, signed(incarnation=1 << 50, version=8, liveness=Liveness.LEFT))
    assert members.states[B].liveness is Liveness.LEFT


@pytest.mark.req("SEC-06", "PL-07")
@pytest.mark.parametrize("found", [Liveness.SUSPECT, Liveness.DEAD])
def test_that_it_does_not_answer_is_for_others_to_find(found: Liveness) -> None:
    members = a_that_knows_b()
    told_by_evil(members, digests=(Digest(B, 10, 1, found),))
    assert members.states[B].liveness is Liveness.SUSPECT
    told_by_evil(members, signed(incarnation=11))
    assert members.states[B].liveness is Liveness.ALIVE, "b has refuted it"


@pytest.mark.req("SEC-06")
def test_only_an_earlier_life_of_its_own_makes_a_node_step_over_it() -> None:
    members = a_that_knows_b()
    told_by_evil(members, state(A, incarnation=500), digests=(Digest(A, 600, 1, Liveness.ALIVE),))
    assert members.own.incarnation == 10
    told_by_evil(members, digests=(Digest(A, 10, members.own.version, Liveness.SUSPECT),))
    assert members.own.incarnation == 11, "a suspicion is refuted"
    told_by_evil(members, signed(A, incarnation=500))
    assert members.own.incarnation == 501
    assert members.own.signed == sign(replace(members.own, signed=None))


@pytest.mark.req("SEC-06")
def test_what_seems_to_be_new_is_asked_for() -> None:
    members = a_that_knows_b()
    effects = told_by_evil(members, digests=(Digest(B, 11, 1, Liveness.ALIVE),))
    (asked,) = [each.message for each in effects if isinstance(each, Send)]
    assert isinstance(asked, Gossip) and Digest(B, 10, 1, Liveness.ALIVE) in asked.digests


@pytest.mark.req("SEC-06")
def test_a_node_that_does_not_sign_is_believed_as_before() -> None:
    """As one of an earlier version, until it is started with this one."""
    members = a_that_knows_b()
    old = NodeId("old")
    told_by_evil(members, state(old), state(old, version=2, neighbours=(B,)))
    assert members.states[old].neighbours == (B,)
    told_by_evil(members, signed(old, version=3))
    told_by_evil(members, state(old, version=4))
    assert members.states[old].version == 3


@pytest.mark.req("SEC-06")
def test_over_its_own_link_a_node_is_believed_that_does_not_sign_any_more() -> None:
    members = a_that_knows_b()
    members.step(LinkUp(B, gossips=True), now_s=1.0)
    members.step(MessageReceived(B, Gossip((), (state(incarnation=11),))), now_s=1.0)
    assert members.states[B].incarnation == 11


@pytest.mark.req("SEC-06")
def test_a_new_certificate_signs_the_same_again() -> None:
    members = a_that_knows_b()
    before = members.own
    (changed,) = members.step(SignAgain(), now_s=2.0)
    assert isinstance(changed, MemberChanged)
    assert members.own.version == before.version + 1 and members.own.signed != before.signed
    plain = Members(state(A), Settings(), Random(1))  # noqa: S311
    assert plain.step(SignAgain(), now_s=2.0) == []
