"""A peer that knows only the document's four messages, in a mesh of whole nodes (PL-05)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.mesh.watching import until
from tests.node.raw_client import EARLIEST, RawClient
from tests.node.running import running_node
from tests.transport.grpc.plain_peer import PlainPeer
from weft.model import parse_pattern


@pytest.mark.req("PL-05", "PL-04", "PL-03")
@pytest.mark.parametrize("who_dials", ["the node", "the peer"])
def test_it_exchanges_events_with_nodes_that_it_has_no_link_to(tmp_path: Path, who_dials: str) -> None:
    async def story() -> None:
        peer = PlainPeer("old-timer")
        async with (
            running_node(tmp_path / "a", "a", legacy_peers=["plant.>"], membership__heartbeat_interval_s=2.0) as a,
            running_node(tmp_path / "b", "b", peers=[a.grpc_address]) as b,
            RawClient(a.grpc_address) as at_a,
            RawClient(b.grpc_address) as at_b,
        ):
            try:
                if who_dials == "the peer":
                    await peer.dial(a.grpc_address)
                else:
                    a.links.dial(await peer.serve())
                await peer.until(lambda: peer.of_kind("handshake"))
                # From the peer to a subscriber two hops away, and acknowledged once it is safe.
                subscriber = await at_b.subscriber("plant.>", start=EARLIEST)
                peer.say(event={"topic": "plant.old", "offset": 0, "payload": b"hello", "headers": {"k": "v"}})
                (batch,) = await subscriber.batches(1)
                assert (batch.stream.topic, batch.stream.origin, batch.stream.epoch) == ("plant.old", "old-timer", 1)
                await peer.until(lambda: peer.of_kind("ack"))
                assert [(ack.topic, ack.offset) for ack in peer.of_kind("ack")] == [("plant.old", 0)]
                # To the peer: the streams of a topic as one sequence, and nothing that it is not meant to get.
                at_origin, elsewhere = await at_a.publisher(), await at_b.publisher()
                await at_origin.publish("secret.t", b"not for old-timers")
                await at_origin.publish("plant.t", b"0", b"1")
                await elsewhere.publish("plant.t", b"2")
                await peer.until(lambda: len(peer.of_kind("event")) >= 3)
                heard = peer.of_kind("event")
                assert [(each.topic, each.offset) for each in heard] == [("plant.t", offset) for offset in range(3)]
                assert {each.payload for each in heard} == {b"0", b"1", b"2"}
                await peer.until(lambda: peer.of_kind("heartbeat"))
            finally:
                await peer.close()
            # It acknowledged nothing: when it is back, it gets all of it again, under the same numbers.
            await until(lambda: not any(link.peer == "old-timer" and link.connected for link in a.links.links()))
            again = PlainPeer("old-timer")
            try:
                await again.dial(a.grpc_address)
                await again.until(lambda: len(again.of_kind("event")) >= 3)
                assert again.of_kind("event") == heard
                again.say(ack={"topic": "plant.t", "offset": 1})
                await until(lambda: [each.offset for each in a.log.cursors("old-timer") if each.offset] != [])
            finally:
                await again.close()

    asyncio.run(story())


def test_a_topic_of_the_mesh_itself_costs_it_its_link(tmp_path: Path) -> None:
    async def story() -> None:
        peer = PlainPeer("old-timer")
        async with running_node(tmp_path / "a", "a") as a:
            try:
                await peer.dial(a.grpc_address)
                await peer.until(lambda: peer.of_kind("handshake"))
                peer.say(event={"topic": "weft.groups.g", "offset": 0, "payload": b"{}"})
                await until(lambda: not any(link.connected for link in a.links.links()))
                assert not a.log.streams(parse_pattern("weft.groups.>"))
            finally:
                await peer.close()

    asyncio.run(story())
