"""Signed states on their way: byte for byte, checked with real certificates, and dropped if they are not genuine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.security.pki import MESH, NOW_S, authority, issued
from tests.transport.peers.nodes import Observer, Record
from weft.membership import Gossip, Liveness, NodeState
from weft.model import Epoch, NodeId, parse_pattern
from weft.security import Authority, Names, node
from weft.security.notary import CertificateNotary, NoNotary
from weft.transport.peers.member_messages import member_message, state_message
from weft.transport.peers.receiving import STATES_AT_ONCE, Receiver
from weft.transport.peers.signed_states import StateNotary
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.features import Feature
from weft.wire.mesh.peerlink_pb2 import PeerGossip, PeerMessage, SignedState

PEER = NodeId("peer")
STATE = NodeState(NodeId("node-b"), 7, 3, Epoch(2), addresses=("10.0.0.2:7400",), interest=(parse_pattern("plant.>"),))


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path)


def notary(ca: Authority, name: str) -> StateNotary:
    mine = issued(ca, Names(node(MESH, name)))
    return StateNotary(CertificateNotary(MESH, lambda: mine, lambda: NOW_S))


def take(message: PeerMessage, with_notary: StateNotary) -> Record:
    record = Record()

    async def story() -> None:
        receiver = Receiver(PEER, 1, False, False, False, 1 << 20, record, lambda: False, Observer(record), with_notary)
        await receiver.take_control_frame(message.SerializeToString())

    asyncio.run(story())
    return record


def signed_state(ca: Authority, by: str = "node-b", state: NodeState = STATE) -> NodeState:
    return replace(state, signed=notary(ca, by).sign(state))


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize("found", [Liveness.ALIVE, Liveness.SUSPECT])
def test_they_pass_through_others_as_they_were_signed(ca: Authority, found: Liveness) -> None:
    sent = signed_state(ca).found(found)
    for name in ("node-a", "node-c"):
        message = member_message(Gossip((), (sent,)), frozenset({Feature.SIGNED}))
        assert not message.gossip.states
        ((_, received),) = take(message, notary(ca, name)).members
        assert isinstance(received, Gossip)
        (state,) = received.states
        assert state == sent and state.signed == sent.signed
        sent = state


@pytest.mark.req("SEC-06")
def test_what_the_node_has_not_signed_is_dropped_and_told_and_the_rest_is_taken(ca: Authority) -> None:
    genuine, forged = signed_state(ca), signed_state(ca, by="node-c")
    assert genuine.signed is not None
    altered = replace(genuine, signed=genuine.signed._replace(content=genuine.signed.content + b"\x18\x09"))
    message = member_message(Gossip((), (forged, altered, genuine)), frozenset({Feature.SIGNED}))
    record = take(message, notary(ca, "node-a"))
    ((_, received),) = record.members
    assert isinstance(received, Gossip) and received.states == (genuine,)
    assert [peer for peer, _ in record.gossip_refused] == [PEER] * 2
    assert "node-b has not signed" in record.gossip_refused[0][1]


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize("features", [frozenset(), frozenset({Feature.SIGNED})])
def test_many_states_are_taken_some_at_a_time(ca: Authority, features: frozenset[Feature]) -> None:
    """Each may change where many streams go; together, they held up the loop."""
    states = tuple(
        signed_state(ca, state=replace(STATE, version=number)) for number in range(1, 2 * STATES_AT_ONCE + 2)
    )
    sent = Gossip((STATE.digest,), states, reply=False)
    taken = [each for _, each in take(member_message(sent, features), notary(ca, "node-a")).members]
    assert [len(each.states) for each in taken if isinstance(each, Gossip)] == [STATES_AT_ONCE, STATES_AT_ONCE, 1]
    assert [state for each in taken if isinstance(each, Gossip) for state in each.states] == list(states)
    assert taken[-1] == replace(sent, states=states[-1:]), "this is what is answered"


@pytest.mark.req("SEC-06")
def test_a_peer_of_an_earlier_version_gets_it_without(ca: Authority) -> None:
    message = member_message(Gossip((), (signed_state(ca),)))
    assert len(message.gossip.states) == 1 and not message.gossip.signed


@pytest.mark.req("SEC-06")
def test_a_mesh_without_keys_signs_nothing() -> None:
    plain = StateNotary(NoNotary())
    assert plain.sign(STATE) is None and not plain.signs


@pytest.mark.req("SEC-06")
def test_that_a_node_has_left_is_its_own_to_sign(ca: Authority) -> None:
    sent = member_message(Gossip((), (signed_state(ca),)), frozenset({Feature.SIGNED}))
    sent.gossip.signed[0].found = 4
    ((_, received),) = take(sent, notary(ca, "node-a")).members
    assert isinstance(received, Gossip) and received.states[0].liveness is Liveness.ALIVE
    gone = replace(STATE, liveness=Liveness.LEFT)
    message = member_message(Gossip((), (signed_state(ca, state=gone),)), frozenset({Feature.SIGNED}))
    ((_, received),) = take(message, notary(ca, "node-a")).members
    assert isinstance(received, Gossip) and received.states[0].liveness is Liveness.LEFT


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (SignedState(state=b"\xff", found="LIVENESS_ALIVE"), "cannot be read"),
        (SignedState(state=b"", found="LIVENESS_ALIVE"), "bad state of a node"),
        (
            SignedState(state=state_message(STATE).SerializeToString()),
            "no such liveness",
        ),
    ],
)
def test_what_cannot_be_meant_ends_the_link(ca: Authority, bad: SignedState, message: str) -> None:
    with pytest.raises(BadMeshMessage, match=message):
        take(PeerMessage(gossip=PeerGossip(signed=[bad])), notary(ca, "node-a"))


def test_there_are_no_more_of_them_than_of_other_states(ca: Authority) -> None:
    with pytest.raises(BadMeshMessage, match="too many states"):
        take(PeerMessage(gossip=PeerGossip(signed=[SignedState()] * 33)), notary(ca, "node-a"))
