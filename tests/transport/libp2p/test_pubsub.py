"""Floodsub between hosts: relayed, once each, through lost connections, and with peers that mean no good."""

from __future__ import annotations

import asyncio

import pytest

from tests.transport.libp2p.hosts import Peer, eventually, new_identity, peer
from weft.limits import FLOODSUB_RPC_BYTES_MAX
from weft.transport.libp2p import Stream
from weft.transport.libp2p.connection import LIBP2P_UNSENT_BYTES_MAX
from weft.wire.libp2p import floodsub, varint
from weft.wire.libp2p.floodsub import Distrust

TOPIC = "coaty/1/plant/ADV"


class Mute:
    def on_message(self, data: bytes) -> None:
        pass

    def on_end(self) -> None:
        pass

    def on_lost(self) -> None:
        pass


async def connected(one: Peer, other: Peer) -> None:
    await one.host.dial(other.address)
    await eventually(
        lambda: other.host.peer in one.pubsub.peers_of(TOPIC) and one.host.peer in other.pubsub.peers_of(TOPIC)
    )


@pytest.mark.req("COA-01")
async def test_a_message_goes_down_a_chain_once_and_in_order() -> None:
    async with peer(None, TOPIC) as one, peer(None, TOPIC) as middle, peer(None, TOPIC) as last:
        await connected(one, middle)
        await connected(middle, last)
        await connected(last, one)  # and a second way round
        sent = [b"%d" % number for number in range(200)]
        for payload in sent:
            one.pubsub.publish(TOPIC, payload)
        await eventually(lambda: len(last.messages) == len(sent) == len(middle.messages))
        assert last.payloads == middle.payloads == one.payloads == sent  # publish-to-self included
        one.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: one.host.peer not in middle.pubsub.peers_of(TOPIC))


async def test_a_connection_that_was_lost_can_be_had_again() -> None:
    async with peer(None, TOPIC) as one, peer(None, TOPIC) as other:
        await connected(one, other)
        other.host.connections(one.host.peer)[0].close()
        await eventually(lambda: not one.host.neighbours and not one.pubsub.peers_of(TOPIC))
        one.pubsub.publish(TOPIC, b"to nobody")
        await connected(one, other)
        one.pubsub.publish(TOPIC, b"again")
        await eventually(lambda: other.payloads == [b"again"])


async def test_of_two_connections_either_will_do() -> None:
    async with peer(None, TOPIC) as one, peer(None, TOPIC) as other:
        await asyncio.gather(one.host.dial(other.address), other.host.dial(one.address))
        await eventually(lambda: len(one.host.connections(other.host.peer)) == 2)
        await eventually(
            lambda: other.host.peer in one.pubsub.peers_of(TOPIC) and one.host.peer in other.pubsub.peers_of(TOPIC)
        )
        one.host.connections(other.host.peer)[0].close()
        await eventually(lambda: len(one.host.connections(other.host.peer)) == 1 and one.lost and other.lost)
        one.pubsub.subscribe("more")
        await eventually(lambda: one.host.peer in other.pubsub.peers_of("more"))
        one.pubsub.publish(TOPIC, b"still there")
        await eventually(lambda: other.payloads == [b"still there"])


async def test_a_forged_message_is_dropped_and_named() -> None:
    async with peer(None, TOPIC) as one, peer(None, TOPIC) as other:
        await connected(one, other)
        good = floodsub.sign(new_identity(), TOPIC, b"data", b"12345678")
        forged = floodsub.Message(good.origin, b"other", good.seqno, good.topics, good.signature, good.key)
        stream = await one.host.connections(other.host.peer)[0].open(floodsub.PROTOCOL, lambda stream: Mute())
        stream.send(varint.prefixed(floodsub.Rpc(messages=(forged, good)).encode()))
        await eventually(lambda: other.messages)
        assert other.payloads == [b"data"]  # the forgery did not keep the real one out
        assert [dropped.reason for dropped in other.dropped] == [Distrust.BAD_SIGNATURE]


@pytest.mark.parametrize(
    "data",
    [
        varint.encode(FLOODSUB_RPC_BYTES_MAX + 1),
        varint.encode(1 << 40),
        varint.prefixed(b"\xff" * 20),
        b"\xff" * 11,
    ],
    ids=["too long", "far too long", "no protobuf", "no length"],
)
async def test_an_rpc_that_is_none_ends_the_connection(data: bytes) -> None:
    async with peer(None, TOPIC) as one, peer(None, TOPIC) as other:
        await connected(one, other)
        stream: Stream = await one.host.connections(other.host.peer)[0].open(floodsub.PROTOCOL, lambda stream: Mute())
        stream.send(data)
        await eventually(lambda: other.lost)
        assert other.lost[0].reason is not None
        assert not other.host.neighbours


async def test_a_peer_that_never_reads_is_hung_up_on() -> None:
    async with peer(None, TOPIC) as one, peer(None, TOPIC) as other:
        await connected(one, other)
        other.host.connections(one.host.peer)[0].pause_reading()
        payload, sent = bytes(1_000_000), 0
        while not one.lost and sent < 4 * LIBP2P_UNSENT_BYTES_MAX:
            one.pubsub.publish(TOPIC, payload)
            sent += len(payload)
            await asyncio.sleep(0)
        await eventually(lambda: one.lost)
        assert "does not read" in str(one.lost[0].reason)
        assert len(one.messages) * len(payload) == sent  # we still talk to ourselves


async def test_an_application_that_cannot_follow_slows_its_neighbours_down() -> None:
    async with peer(None, TOPIC) as one, peer(None, TOPIC) as other:
        await connected(one, other)
        other.pubsub.pause()
        payload, count = bytes(100_000), 200  # more than sockets hold, less than what a peer is hung up for
        for _ in range(count // 2):
            one.pubsub.publish(TOPIC, payload)
        waiting = asyncio.create_task(one.pubsub.drained())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        other.pubsub.resume()
        await waiting
        for _ in range(count // 2):
            one.pubsub.publish(TOPIC, payload)
            await one.pubsub.drained()
        await eventually(lambda: len(other.messages) == count)
        assert not one.lost
