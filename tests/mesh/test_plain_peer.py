"""A peer that knows only the document's four messages, and nodes as users start them (PL-05)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.mesh.watching import until
from tests.node.raw_client import EARLIEST, RawClient, events_of
from tests.node.running import running_node
from tests.transport.peers.plain_peer import PlainPeer
from tests.up import RunningNode, up
from weft.model import parse_pattern

CONFIG = """
legacy_peers = ["plant.>"]
[membership]
heartbeat_interval_s = 2.0
"""
OLD = "old-timer"
TOPIC = "plant.old"


def config_in(place: Path) -> Path:
    file = place / "weft.toml"
    file.write_text(CONFIG)
    return file


@asynccontextmanager
async def dialling(node: RunningNode) -> AsyncIterator[PlainPeer]:
    """The peer, on a new link that it dialled."""
    peer = PlainPeer(OLD)
    try:
        await peer.dial(node.grpc)
        await peer.until(lambda: peer.of_kind("handshake"))
        yield peer
    finally:
        await peer.close()


def send(peer: PlainPeer, offsets: Iterable[int], topic: str = TOPIC) -> None:
    for offset in offsets:
        peer.say(event={"topic": topic, "offset": offset, "payload": b"%d" % offset, "headers": {"k": "v"}})


def acked(peer: PlainPeer, topic: str = TOPIC) -> list[int]:
    return [ack.offset for ack in peer.of_kind("ack") if ack.topic == topic]


async def until_acked(peer: PlainPeer, offset: int) -> None:
    await peer.until(lambda: acked(peer)[-1:] == [offset])


@pytest.mark.req("PL-05", "PL-04", "PL-03")
@pytest.mark.parametrize("who_dials", ["the node", "the peer"])
async def test_it_exchanges_events_with_nodes_that_it_has_no_link_to(tmp_path: Path, who_dials: str) -> None:
    peer = PlainPeer(OLD)
    flags = ["--insecure", "--config", str(config_in(tmp_path))]
    dialled = ["--peer", await peer.serve()] if who_dials == "the node" else []
    with (
        up(tmp_path / "a", *flags, "--node-id", "a", *dialled) as a,
        up(tmp_path / "b", "--insecure", "--node-id", "b", "--peer", a.grpc) as b,
    ):
        async with RawClient(a.grpc) as at_a, RawClient(b.grpc) as at_b:
            try:
                if who_dials == "the peer":
                    await peer.dial(a.grpc)
                await peer.until(lambda: peer.of_kind("handshake"))
                # From the peer to a subscriber two hops away, and acknowledged once it is safe.
                subscriber = await at_b.subscriber("plant.>", start=EARLIEST)
                send(peer, [0])
                (batch,) = await subscriber.batches(1)
                assert (batch.stream.topic, batch.stream.origin, batch.stream.epoch) == (TOPIC, OLD, 1)
                await until_acked(peer, 0)
                # To the peer: the streams of a topic as one sequence, and nothing that it is not meant to get.
                at_origin, elsewhere = await at_a.publisher(), await at_b.publisher()
                await at_origin.publish("secret.t", b"not for old-timers")
                await at_origin.publish("plant.t", b"0", b"1")
                await elsewhere.publish("plant.t", b"2")
                await peer.until(lambda: len(peer.of_kind("event")) >= 3)
                heard = peer.of_kind("event")
                assert [(each.topic, each.offset) for each in heard] == [("plant.t", n) for n in range(3)]
                assert {each.payload for each in heard} == {b"0", b"1", b"2"}
                await peer.until(lambda: peer.of_kind("heartbeat"))
            finally:
                await peer.close()
        await until(lambda: any(each["event"] == "peer_disconnected" for each in a.logged()))
        # It acknowledged nothing: when it is back, it gets all of it again, under the same numbers.
        async with dialling(a) as again:
            await again.until(lambda: len(again.of_kind("event")) >= 3)
            assert again.of_kind("event") == heard
            again.say(ack={"topic": "plant.t", "offset": 1})
            send(again, [1])
            await until_acked(again, 1)  # what came before it was heard, too
        async with dialling(a) as again:
            await again.until(lambda: again.of_kind("event"))
            assert again.of_kind("event") == heard[2:]


@pytest.mark.req("PL-04", "PL-05")
async def test_what_is_missing_is_not_acknowledged_and_comes_again(tmp_path: Path) -> None:
    """Offsets 101 to 104 are lost on their way: the ack stays at 100 until the peer has gone back."""

    with up(tmp_path / "a", "--insecure", "--config", str(config_in(tmp_path))) as node:
        async with dialling(node) as peer:
            send(peer, range(101))
            await until_acked(peer, 100)
            so_far = len(acked(peer))
            send(peer, [105])
            await peer.until(lambda: len(acked(peer)) > so_far)
            assert acked(peer)[-1] == 100
            send(peer, range(101, 107))  # it goes back by what the ack says
            await until_acked(peer, 106)
        async with RawClient(node.grpc) as client:
            subscriber = await client.subscriber("plant.>", start=EARLIEST)
            found = events_of(await subscriber.batches(107))
        assert found == [(offset, b"%d" % offset) for offset in range(107)]
        assert not [each for each in node.logged() if each["event"] == "events_gone"]


@pytest.mark.req("PL-04", "PL-05")
async def test_who_does_not_go_back_has_to_link_again_and_what_it_no_longer_has_is_said_to_be_gone(
    tmp_path: Path,
) -> None:
    """By the document a sender goes back only when its link is new. A gap that is there on two links is no accident."""

    with up(tmp_path / "a", "--insecure", "--config", str(config_in(tmp_path))) as node:
        async with dialling(node) as peer:
            send(peer, [7, 8, 12])  # a stream may begin anywhere
            await peer.until(lambda: peer.details)  # the node ends the link
            assert "plant.old from 9 to 11" in peer.details
            assert acked(peer)[-1] == 8
        async with dialling(node) as peer:
            send(peer, [12, 13])  # it resumes as far back as it can
            await until_acked(peer, 13)
        (gone,) = [each for each in node.logged() if each["event"] == "events_gone"]
        assert (gone["level"], gone["peer"], gone["topic"]) == ("warning", OLD, TOPIC)
        assert (gone["first"], gone["end"]) == (9, 12)
        async with RawClient(node.grpc) as client:
            subscriber = await client.subscriber("plant.>", start=EARLIEST)
            found = events_of(await subscriber.batches(4))
        assert [offset for offset, _ in found] == [7, 8, 12, 13]


async def test_a_topic_of_the_mesh_itself_costs_it_its_link(tmp_path: Path) -> None:
    peer = PlainPeer(OLD)
    async with running_node(tmp_path / "a", "a") as a:
        try:
            await peer.dial(a.grpc_address)
            await peer.until(lambda: peer.of_kind("handshake"))
            peer.say(event={"topic": "weft.groups.g", "offset": 0, "payload": b"{}"})
            await until(lambda: not any(link.connected for link in a.links.links()))
            assert not a.log.streams(parse_pattern("weft.groups.>"))
        finally:
            await peer.close()
