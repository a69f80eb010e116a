"""The end of a node's links: what waits goes out first, within a time, and nobody is left hanging."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.transport.peers.nodes import PATIENCE_S, SETTINGS, TestNode, copy, running
from tests.transport.peers.raw_peer import raw_peer
from weft.core.messages import SendCopies
from weft.membership import Digest, Gossip, Heartbeat, Liveness
from weft.model import NodeId
from weft.transport.peers import LinkSettings
from weft.wire.mesh import peerlink_pb2 as pb


@pytest.mark.req("PL-01")
@pytest.mark.parametrize("who_dialled", ["node-a", "node-b"])
async def test_stop_lets_everything_out_that_waits_and_says_goodbye(who_dialled: str) -> None:
    a, b = TestNode("node-a", replace(SETTINGS, drain_timeout_s=PATIENCE_S)), TestNode("node-b")
    async with running(a, b):
        dialler, other = (a, b) if who_dialled == "node-a" else (b, a)
        dialler.links.dial(other.address)
        await a.linked(b)
        await b.linked(a)
        for number in range(20):
            a.links.send(SendCopies(b.id, (copy(number, size=1 << 20),)))
        await a.links.stop("going home", leaving=True)
        a.links.send(SendCopies(b.id, (copy(99),)))  # too late, and no harm
        a.links.send_member(b.id, Heartbeat(1))
        await b.record.until(lambda: "down node-a" in b.record.told)
        assert b.record.offsets() == list(range(20))
        assert b.record.reasons[0] == "the peer is closing: going home"
        assert a.record.told == ["up node-b", "down node-b"]
        assert [view for view in a.links.links() if view.connected] == []


@pytest.mark.req("PL-03", "PL-07")
@pytest.mark.parametrize("leaving", [True, False])
async def test_a_goodbye_is_told_before_the_link_is_down(leaving: bool) -> None:
    """And what membership said before it, on the other stream, has been written by then."""
    gossip = Gossip(digests=tuple(Digest(NodeId(f"n{number}"), 1, 1, Liveness.ALIVE) for number in range(100)))

    a, b = TestNode("node-a", replace(SETTINGS, drain_timeout_s=PATIENCE_S)), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        await b.linked(a)
        for _ in range(20):
            a.links.send_member(b.id, gossip)
        await a.links.stop("going home", leaving=leaving)
        await b.record.until(lambda: "down node-a" in b.record.told)
        told = ["up node-a", "node-a 1 leaves", "down node-a"]
        assert b.record.told == (told if leaving else ["up node-a", "down node-a"])
        assert b.record.reasons == ["the peer is closing: going home"]
        if leaving:
            assert a.record.frames_sent >= 20


@pytest.mark.req("PL-01")
async def test_stop_does_not_wait_for_ever_for_a_peer_that_does_not_read() -> None:
    node = TestNode("node-a", LinkSettings(drain_timeout_s=0.1, backoff_s_min=0.01, backoff_s_max=0.1))
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        for number in range(16):
            node.links.send(SendCopies(NodeId("evil"), (copy(number, size=1 << 20),)))
        async with asyncio.timeout(PATIENCE_S):
            await node.links.stop("no patience")
        assert node.record.told == ["up evil", "down evil"]
        assert "frames left to send" in node.record.reasons[0]


@pytest.mark.req("PL-01")
async def test_a_closing_node_takes_no_new_links_and_dials_nobody() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        await a.links.stop("closed")
        a.links.dial(b.address)
        b.links.dial(a.address)
        await b.record.until(lambda: len(b.record.failed) > 1)
        assert "closing" in b.record.failed[0]
        assert a.record.told == b.record.told == []


@pytest.mark.req("PL-01")
async def test_stop_ends_dials_and_handshakes_that_are_under_way() -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        node.links.dial("127.0.0.1:1")
        await node.record.until(lambda: node.record.failed)
        call = peer.open("EventStream")
        hello = pb.Handshake(node_id="slow", protocol_version=1, features=["batches", "positions", "gossip"])
        await call.write(pb.PeerMessage(handshake=hello).SerializeToString())
        await call.read()
        async with asyncio.timeout(PATIENCE_S):
            await node.links.stop("closed")
            assert "closing" in await call.details()
        assert node.record.told == []
