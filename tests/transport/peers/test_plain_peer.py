"""A peer of the design document's four messages, in both directions: events, acks and heartbeats, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from tests.transport.peers.nodes import TestNode, copy, running
from tests.transport.peers.plain_peer import PlainPeer
from weft.core.messages import (
    PlainEvent,
    ReceivedPlain,
    ReceivedPlainAck,
    SendAcks,
    SendCopies,
    SendPlain,
    SendPlainAck,
)
from weft.membership import Gossip, Heartbeat, Ping
from weft.model import NodeId, parse_topic

TEMP = parse_topic("plant.temp")
GO = NodeId("go-node")


async def linked(node: TestNode, peer: PlainPeer, who_dials: str) -> None:
    if who_dials == "the peer":
        await peer.dial(node.address)
    else:
        node.links.dial(await peer.serve())
    await node.record.until(lambda: node.record.told == ["up go-node"])
    await peer.until(lambda: peer.heard)


@pytest.mark.req("PL-05")
@pytest.mark.parametrize("who_dials", ["the peer", "the node"])
async def test_events_acks_and_heartbeats_go_both_ways(who_dials: str) -> None:
    node, peer = TestNode("node-a"), PlainPeer("go-node")
    async with running(node):
        await linked(node, peer, who_dials)
        assert node.record.plain == {GO}
        (hello,) = peer.of_kind("handshake")
        assert (hello.node_id, hello.protocol_version) == ("node-a", 1)

        events = tuple(PlainEvent(TEMP, n, b"warm", {"unit": "C"}) for n in range(3))
        node.links.send(SendPlain(GO, events))
        node.links.send(SendPlainAck(GO, TEMP, 4))
        node.links.send_member(GO, Heartbeat(11, 12))
        await peer.until(lambda: len(peer.heard) == 6)
        heard = [(e.topic, e.offset, e.payload, dict(e.headers)) for e in peer.of_kind("event")]
        assert heard == [(TEMP, n, b"warm", {"unit": "C"}) for n in range(3)]
        assert [(ack.topic, ack.offset) for ack in peer.of_kind("ack")] == [(TEMP, 4)]
        assert [beat.timestamp for beat in peer.of_kind("heartbeat")] == [11]

        peer.say(event={"topic": TEMP, "offset": 5, "payload": b"cold", "headers": {"k": "v"}})
        peer.say(ack={"topic": TEMP, "offset": 2})
        peer.say(heartbeat={"timestamp": 99})
        await node.record.until(lambda: node.record.members)
        assert node.record.inputs == [
            ReceivedPlain(GO, PlainEvent(TEMP, 5, b"cold", {"k": "v"})),
            ReceivedPlainAck(GO, TEMP, 2),
        ]
        assert node.record.members == [(GO, Heartbeat(99))]
        await peer.close()


@pytest.mark.req("PL-05")
@pytest.mark.parametrize("who_dials", ["the peer", "the node"])
async def test_only_the_four_messages_ever_go_to_it(who_dials: str) -> None:
    node, peer = TestNode("node-a"), PlainPeer("go-node")
    async with running(node):
        await linked(node, peer, who_dials)
        node.links.send_member(GO, Ping(1))
        node.links.send_member(GO, Gossip())
        node.links.send_member(GO, Heartbeat(1))
        await peer.until(lambda: len(peer.heard) == 2)
        await node.links.stop("a goodbye that it does not know")
        assert [message.WhichOneof("msg") for message in peer.heard] == ["handshake", "heartbeat"]
        await peer.close()


@pytest.mark.req("PL-05")
async def test_a_plain_peer_that_is_sent_batches_by_mistake_costs_no_more_than_its_link() -> None:
    """The core never does that; should it, the defect is told and the node goes on."""
    defects: list[str] = []

    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(str(context["exception"])))
    node, peer = TestNode("node-a"), PlainPeer("go-node")
    async with running(node):
        await linked(node, peer, "the peer")
        node.links.send(SendCopies(GO, (copy(0),)))
        node.links.send(SendAcks(GO, ()))
        await node.record.until(lambda: node.record.told == ["up go-node", "down go-node"])
        assert [message.WhichOneof("msg") for message in peer.heard] == ["handshake"]
        await peer.close()
    assert "plain" in defects[0]


@pytest.mark.req("PL-05")
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"event": {"topic": "plant.*", "offset": 1}}, "only allowed in patterns"),
        ({"event": {"topic": "", "offset": 1}}, "is empty"),
        ({"event": {"topic": "weft.groups.g", "offset": 1}}, "belong to the mesh itself"),
        ({"event": {"topic": TEMP, "offset": -1}}, "out of range"),
        ({"event": {"topic": TEMP, "offset": (1 << 63) - 1}}, "out of range"),
        ({"event": {"topic": TEMP, "headers": {str(n): "" for n in range(65)}}}, "too many headers"),
        ({"event": {"topic": TEMP, "headers": {"n" * 256: ""}}}, "header name is too long"),
        ({"event": {"topic": TEMP, "headers": {"n": "é" * 2049}}}, "header value is too long"),
        ({"event": {"topic": TEMP, "payload": bytes(15 * (1 << 20) + 1)}}, "payload is too large"),
        ({"ack": {"topic": "a..b", "offset": 1}}, "token 2 is empty"),
        ({"ack": {"topic": TEMP, "offset": -1}}, "out of range"),
        ({"handshake": {"node_id": "go-node", "protocol_version": 1}}, "not agreed on"),
    ],
)
async def test_what_cannot_be_meant_closes_the_link_and_says_why(message: dict[str, object], reason: str) -> None:
    node, peer = TestNode("node-a"), PlainPeer("go-node")
    async with running(node):
        await linked(node, peer, "the peer")
        peer.say(**message)
        await peer.until(lambda: peer.details)
        assert reason in peer.details
        await node.record.until(lambda: node.record.told == ["up go-node", "down go-node"])
        assert reason in node.record.reasons[0]
        assert node.record.inputs == []
        await peer.close()


@pytest.mark.req("PL-01")
async def test_it_may_come_back_as_often_as_it_likes_and_the_newest_connection_counts() -> None:
    node = TestNode("node-a")
    old, new = PlainPeer("go-node"), PlainPeer("go-node")
    async with running(node):
        await linked(node, old, "the peer")
        await new.dial(node.address)
        await old.until(lambda: old.details)
        assert "replaced" in old.details
        await node.record.until(lambda: node.record.told == ["up go-node", "down go-node", "up go-node"])
        node.links.send_member(GO, Heartbeat(1))
        await new.until(lambda: new.of_kind("heartbeat"))
        await old.close()
        await new.close()
