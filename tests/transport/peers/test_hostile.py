"""Peers that are wrong, broken, slow or malicious: each loses its link with a reason, and the node goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.transport.peers.nodes import BATCH, PATIENCE_S, SETTINGS, TestNode, copy, running, settled
from tests.transport.peers.raw_peer import fate, hello, raw_peer
from weft.core.messages import FramesDropped, ReceivedCopies, SendCopies
from weft.limits import GOSSIP_DIGESTS_MAX, INTEREST_PATTERNS_MAX, PEER_FRAME_BYTES_MAX
from weft.membership import Ping
from weft.model import NodeId
from weft.transport.peers import DropPolicy, LinkSettings, greetings, links
from weft.transport.peers.messages import message_of
from weft.wire.mesh import peerlink_pb2 as pb
from weft.wire.mesh.mesh_pb2 import CODEC_ZSTD, StreamBatch, StreamPosition, StreamRef

REF = StreamRef(topic="plant.temp", origin="node-a", epoch=1)
HASTY = LinkSettings(backoff_s_min=0.01, backoff_s_max=0.1, handshake_timeout_s=0.2, dial_timeout_s=0.2)


@pytest.mark.req("PL-05")
@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"\xff\xff\xff", "not a PeerMessage"),
        (b"", "not a handshake"),
        (pb.PeerMessage(ack=pb.Ack(topic="x")).SerializeToString(), "not a handshake"),
        (hello(version=2).SerializeToString(), "incompatible protocol version"),
        (hello(node_id="node-a").SerializeToString(), "our own node id"),
        (hello(node_id="../etc").SerializeToString(), "bad node id"),
        (hello(mesh="other").SerializeToString(), "another mesh"),
        (hello(features=["x" * 250] * 65).SerializeToString(), "too many features"),
        (bytes(1 << 20), "too large"),
    ],
)
@pytest.mark.parametrize("method", ["EventStream", "ControlStream"])
async def test_a_handshake_that_is_refused_says_why_to_both_sides(first: bytes, reason: str, method: str) -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        call = peer.open(method)
        with suppress(grpc.aio.AioRpcError):  # what is too large may be refused before all of it is out
            await call.write(first)
        code, details = await fate(call)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert reason in details
        await node.record.until(lambda: node.record.refused)
        assert reason in node.record.refused[0]
        assert node.record.told == []


@pytest.mark.req("PL-05")
@pytest.mark.parametrize(
    ("who", "changes", "reason"),
    [
        ("node-b", {"mesh": "other"}, "another mesh"),
        ("node-a", {}, "our own node id"),
    ],
)
async def test_a_dialler_that_is_refused_knows_why_and_tries_again_later(
    who: str, changes: dict[str, Any], reason: str
) -> None:
    a, b = TestNode("node-a"), TestNode(who, **changes)
    async with running(a, b):
        b.links.dial(a.address)
        await b.record.until(lambda: len(b.record.failed) > 1)
        assert reason in b.record.failed[0]
        assert reason in a.record.refused[0]
        assert a.record.told == b.record.told == []


@pytest.mark.req("PL-05")
@pytest.mark.parametrize("silent_after", ["connecting", "the hello"])
async def test_who_says_nothing_is_not_waited_for(silent_after: str) -> None:
    # Enough time for a hello that is said, on a busy machine too.
    node = TestNode("node-a", HASTY if silent_after == "connecting" else replace(HASTY, handshake_timeout_s=2.0))
    async with running(node), raw_peer(node) as peer:
        call = peer.open("EventStream")
        if silent_after == "the hello":
            await call.write(hello().SerializeToString())
            await call.read()
        code, details = await fate(call)
        assert code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "took too long" in details
        assert node.record.told == []


@pytest.mark.req("SEC-04")
async def test_silent_streams_are_few_and_take_no_places_of_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greetings, "GREETINGS_PLAIN_MAX", 2)
    monkeypatch.setattr(links, "LINK_ACCEPTED_MAX", 1)

    node, other = TestNode("node-a", replace(HASTY, handshake_timeout_s=2.0)), TestNode("node-b")
    async with running(node, other), raw_peer(node) as peer:
        silent = [peer.open(method) for method in ("EventStream", "ControlStream")]
        third = peer.open("EventStream")
        fates = await asyncio.gather(*map(fate, [*silent, third]))
        assert sorted(code.name for code, _ in fates) == ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "UNAVAILABLE"]
        assert any("too many streams without a hello (limit 2)" in details for _, details in fates)
        silent = [peer.open("EventStream")]  # one link is allowed, and this is none
        other.links.dial(node.address)
        await node.record.until(lambda: node.record.told == ["up node-b"])


async def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    async def silence(_: object, context: Any) -> None:
        await asyncio.Event().wait()

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(silence)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("PeerLink", {"EventStream": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    node = TestNode("node-a", HASTY)
    async with running(node):
        node.links.dial(f"127.0.0.1:{port}")
        await node.record.until(lambda: len(node.record.failed) > 1)
        assert "took too long" in node.record.failed[0]
    await server.stop(None)


async def test_a_control_stream_needs_its_event_stream() -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        events = peer.open("EventStream", dial="1")
        await events.write(hello().SerializeToString())
        await events.read()
        control = peer.open("ControlStream", dial="2")
        await control.write(hello().SerializeToString())
        _, details = await fate(control)
        assert "without its event stream" in details
        assert node.record.told == []


def batches(*items: pb.PeerBatch) -> pb.PeerMessage:
    return pb.PeerMessage(batches=pb.PeerBatches(batches=items))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"\x0a\xff", "not a PeerMessage"),
        (hello().SerializeToString(), "not agreed on"),
        (pb.PeerMessage(event=pb.Event(topic="x")).SerializeToString(), "not agreed on"),
        (pb.PeerMessage(gossip=pb.PeerGossip()).SerializeToString(), "not agreed on"),
        (batches(pb.PeerBatch()).SerializeToString(), "epoch out of range"),
        (
            batches(pb.PeerBatch(batch=StreamBatch(stream=REF, batch=b"x"))).SerializeToString(),
            "bad batch of plant.temp",
        ),
        (
            batches(pb.PeerBatch(batch=StreamBatch(stream=REF, batch=BATCH.data[:-1] + b"!"))).SerializeToString(),
            "bad batch of plant.temp@node-a/0",
        ),
        (
            batches(pb.PeerBatch(batch=StreamBatch(stream=REF, batch=BATCH.data), latest=1 << 63)).SerializeToString(),
            "out of range",
        ),
        (
            pb.PeerMessage(
                acks=pb.PeerAcks(synced=[StreamPosition(stream=REF, next_offset=1 << 63)])
            ).SerializeToString(),
            "offset out of range",
        ),
        (pb.PeerMessage(resume=pb.PeerResume(origins=["a b"])).SerializeToString(), "node id"),
        (
            pb.PeerMessage(
                compressed=pb.PeerCompressed(codec=CODEC_ZSTD, plain_bytes=1 << 31, data=b"bomb")
            ).SerializeToString(),
            "too large",
        ),
    ],
)
async def test_frames_that_cannot_be_meant_close_the_link_and_say_why(frame: bytes, reason: str) -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        await peer.events.write(frame)
        code, details = await fate(peer.events)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert reason in details
        await node.record.until(lambda: node.record.told == ["up evil", "down evil"])
        assert reason in node.record.reasons[0]
        assert node.record.inputs == []


STATE = pb.NodeState(node_id="n", incarnation=1, version=1, epoch=1, liveness="LIVENESS_ALIVE")
DIGEST = pb.NodeDigest(node_id="n", incarnation=1, version=1, liveness="LIVENESS_ALIVE")


def changed(message: Any, **fields: Any) -> Any:
    copied = type(message)()
    copied.CopyFrom(message)
    copied.MergeFrom(type(message)(**fields))
    return copied


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (pb.PeerMessage(heartbeat=pb.Heartbeat()), "does not belong on the control stream"),
        (pb.PeerMessage(gossip=pb.PeerGossip(digests=[DIGEST] * (GOSSIP_DIGESTS_MAX + 1))), "too many digests"),
        (pb.PeerMessage(gossip=pb.PeerGossip(states=[STATE] * 33)), "too many states"),
        (pb.PeerMessage(gossip=pb.PeerGossip(digests=[pb.NodeDigest(node_id="n")])), "no such liveness"),
        (pb.PeerMessage(gossip=pb.PeerGossip(digests=[changed(DIGEST, incarnation=1 << 63)])), "incarnation"),
        (pb.PeerMessage(gossip=pb.PeerGossip(digests=[changed(DIGEST, node_id="*")])), "node id"),
        (pb.PeerMessage(gossip=pb.PeerGossip(states=[pb.NodeState(node_id="n")])), "no such liveness"),
        (pb.PeerMessage(gossip=pb.PeerGossip(states=[changed(STATE, interest=["a..b"])])), "bad state"),
        (
            pb.PeerMessage(gossip=pb.PeerGossip(states=[changed(STATE, interest=["a"] * (INTEREST_PATTERNS_MAX + 1))])),
            "too many patterns",
        ),
        (pb.PeerMessage(gossip=pb.PeerGossip(states=[changed(STATE, addresses=["x"] * 17)])), "too many addresses"),
        *(
            (pb.PeerMessage(gossip=pb.PeerGossip(states=[changed(STATE, interest_summary=summary)])), reason)
            for summary, reason in (
                (pb.InterestSummary(), "has 1 to 65536 bytes"),
                (pb.InterestSummary(bits=bytes(65_537), hashes=1), "has 1 to 65536 bytes"),
                (pb.InterestSummary(bits=b"x", hashes=1_000_000), "has 1 to 16 hashes"),
                (pb.InterestSummary(bits=b"x", hashes=1, shapes=["n"] * 33), "too many shapes"),
                (pb.InterestSummary(bits=b"x", hashes=1, shapes=["n" * 1000]), "not a shape of a pattern"),
            )
        ),
        (pb.PeerMessage(probe=pb.PeerProbe(pong=pb.ProbePong(node_id="n", incarnation=1 << 63))), "incarnation"),
        (pb.PeerMessage(probe=pb.PeerProbe(indirect=pb.ProbeIndirect(target=""))), "node id"),
    ],
)
async def test_gossip_that_cannot_be_meant_closes_the_link(message: pb.PeerMessage, reason: str) -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        await peer.control.write(message.SerializeToString())
        await fate(peer.events)
        await node.record.until(lambda: node.record.told == ["up evil", "down evil"])
        assert reason in node.record.reasons[0]
        assert node.record.members == []


@pytest.mark.req("PL-05")
async def test_kinds_of_messages_that_come_later_are_ignored() -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        unknown = b"\xfa\x7f\x02hi"  # field 2047
        await peer.events.write(unknown)
        await peer.control.write(unknown)
        await peer.control.write(pb.PeerMessage(probe=pb.PeerProbe(sequence=1)).SerializeToString())
        await peer.control.write(
            pb.PeerMessage(probe=pb.PeerProbe(sequence=2, ping=pb.ProbePing())).SerializeToString()
        )
        await peer.events.write(message_of(SendCopies(NodeId("x"), (copy(0),))).SerializeToString())
        await node.record.until(lambda: node.record.members and node.record.inputs)
        assert node.record.members == [("evil", Ping(2))]
        assert node.record.told == ["up evil"]


@pytest.mark.req("PL-07")
async def test_a_frame_that_is_too_large_is_refused_by_its_length() -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        with suppress(grpc.aio.AioRpcError):  # the refusal may come before all of it is out
            await peer.events.write(bytes(PEER_FRAME_BYTES_MAX + 1))
        await fate(peer.events)
        await node.record.until(lambda: node.record.told == ["up evil", "down evil"])
        assert node.record.inputs == []


@pytest.mark.req("PL-07")
async def test_the_largest_batch_there_can_be_goes_through() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        a.links.send(SendCopies(b.id, (copy(0, size=15 * (1 << 20)),)))
        await b.record.until(lambda: b.record.offsets() == [0])


async def test_a_frame_of_very_many_batches_is_handled_in_portions() -> None:
    node = TestNode("node-a")
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        many = SendCopies(NodeId("x"), tuple(copy(n) for n in range(1000)))
        await peer.events.write(message_of(many).SerializeToString())
        await node.record.until(lambda: len(node.record.offsets()) == 1000)
        assert node.record.offsets() == list(range(1000))
        sizes = [len(each.copies) for each in node.record.inputs if isinstance(each, ReceivedCopies)]
        assert sizes == [64] * 15 + [40]


async def test_a_dialled_peer_that_sends_garbage_is_told_why() -> None:
    heard: list[pb.PeerMessage] = []

    over = asyncio.Event()

    async def garble(_: object, context: Any) -> None:
        await context.read()
        await context.write(hello().SerializeToString())
        await context.write(b"\x0a\xff")
        while (frame := await context.read()) is not grpc.aio.EOF:
            heard.append(pb.PeerMessage.FromString(frame))
        over.set()

    async def control(_: object, context: Any) -> None:
        await context.read()
        await context.write(hello().SerializeToString())
        await over.wait()

    handlers = {
        "EventStream": grpc.stream_stream_rpc_method_handler(garble),
        "ControlStream": grpc.stream_stream_rpc_method_handler(control),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("PeerLink", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    node = TestNode("node-a")
    async with running(node):
        node.links.dial(f"127.0.0.1:{port}")
        await node.record.until(lambda: node.record.told[:2] == ["up evil", "down evil"])
        assert "not a PeerMessage" in node.record.reasons[0]
        async with asyncio.timeout(PATIENCE_S):
            await over.wait()
        assert "not a PeerMessage" in heard[0].closing.reason
    await server.stop(None)


SMALL_QUEUE = LinkSettings(queue_frames_max=4, send_timeout_s=0.05, backoff_s_min=0.01, backoff_s_max=0.1)


@pytest.mark.req("PL-02")
@pytest.mark.parametrize("policy", list(DropPolicy))
async def test_a_peer_that_never_reads_is_waited_for_and_then_the_core_hears_of_what_was_dropped(
    policy: DropPolicy,
) -> None:
    node = TestNode("node-a", replace(SMALL_QUEUE, drop_policy=policy))
    evil = NodeId("evil")
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        node.links.send(SendCopies(evil, (copy(0, size=15 << 20),)))
        await settled(lambda: node.view(evil).queue_frames == 0)  # gRPC has it, and waits for the peer
        node.links.send(SendCopies(evil, tuple(copy(number) for number in range(1, 6))))
        assert node.view(evil).queue_frames == 5
        assert node.view(evil).drops == 0
        await node.record.until(lambda: node.record.inputs)
        assert node.record.inputs == [FramesDropped(evil)]
        assert node.record.drops == node.view(evil).drops == 1, "the newest: there is no other stream"
        # Whoever reads again gets what is left, and what is sent from then on.
        reading = asyncio.create_task(_read_until(peer.events, copy(100).batch.data))
        await settled(lambda: node.view(evil).queue_frames == 0)
        node.links.send(SendCopies(evil, (copy(100),)))
        async with asyncio.timeout(PATIENCE_S):
            await reading
        assert node.record.told == ["up evil"]
        await settled(lambda: node.view(evil).send_latency_s_p95 > 0.05)


async def _read_until(call: Any, data: bytes) -> None:
    while pb.PeerMessage.FromString(await call.read()).batches.batches[-1].batch.batch != data:
        pass


@pytest.mark.req("PL-02")
@pytest.mark.parametrize("policy", list(DropPolicy))
async def test_who_sends_without_end_to_a_peer_that_never_reads_fills_no_memory(policy: DropPolicy) -> None:
    node = TestNode("node-a", replace(SMALL_QUEUE, drop_policy=policy, send_timeout_s=600.0))
    evil = NodeId("evil")
    async with running(node), raw_peer(node) as peer:
        await peer.link()
        node.links.send(SendCopies(evil, (copy(0, size=15 << 20),)))
        await settled(lambda: node.view(evil).queue_frames == 0)
        for number in range(1, 100):
            node.links.send(SendCopies(evil, (copy(number),)))
            assert node.view(evil).queue_frames <= 8
        await node.record.until(lambda: node.record.inputs)
        assert node.record.inputs == [FramesDropped(evil)], "told of once for many"
        assert node.record.drops > 90
        node.links.disconnect(evil, "enough")


async def test_a_defect_behind_the_link_is_told_and_costs_only_that_link() -> None:
    defects: list[str] = []

    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(str(context["exception"])))
    a, b = TestNode("node-a"), TestNode("node-b", SETTINGS)

    def fail(_: object) -> None:
        b.record.on_input = lambda _: None
        raise ZeroDivisionError("a defect of the core")

    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        b.record.on_input = fail
        a.links.send(SendCopies(b.id, (copy(0),)))
        await b.record.until(lambda: b.record.told == ["up node-a", "down node-a", "up node-a"])
    assert defects == ["a defect of the core"]
