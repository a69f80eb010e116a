"""The Publish stream of a running node: receipts after the sync, refusals in words, bounds."""

from __future__ import annotations

import asyncio
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.node.raw_client import PRODUCER, WAIT_S, RawClient, RawPublisher, batch_of
from tests.node.running import running_node
from tests.up import RunningNode, up
from weft.limits import BATCH_BYTES_MAX
from weft.model import Batch, NodeId, Pattern, Stream, Topic
from weft.node.schema_gate import SchemaGate
from weft.port.access import EVERYBODY, Caller, OpenAccess, Shown, bound_producer
from weft.schema import Kind, parse_schema
from weft.schema.registry import Change, Mode, changed
from weft.transport.clients.publish import CHECKED_AT_ONCE_BYTES_MAX, PUBLISH_BATCHES_MAX, PublishStream
from weft.transport.clients.values import read_batch_untrusted
from weft.wire.mesh import mesh_pb2 as pb

BOUND = bound_producer(PRODUCER, EVERYBODY.owner)


@pytest.mark.req("MSH-01")
async def test_receipts_name_the_place_in_the_log(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        assert publisher.opened.node_id == "a"
        assert publisher.opened.epoch == node.log.epoch
        assert publisher.opened.addresses == [node.grpc_address]
        for request in range(3):
            await publisher.send(request, "plant.t", batch_of(b"one", b"two"))
        answers = await publisher.answers(3)
        assert [answers[request].first_offset for request in range(3)] == [0, 2, 4]
        assert {(each.count, each.copies, each.repeated) for each in answers.values()} == {(2, 1, False)}
        stored = node.log.read(Stream(Topic("plant.t"), NodeId("a"), 0), node.log.epoch, 0)
        assert [event.payload for data in stored for event in Batch.read_stored(data)] == [b"one", b"two"] * 3
        assert await publisher.end() == []


async def test_a_batch_that_comes_again_gets_its_first_receipt(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        batch = batch_of(b"once", sequence=7)
        await publisher.send(1, "plant.t", batch)
        first = (await publisher.answers(1))[1]
        await publisher.send(2, "plant.t", batch)  # nothing else is written: no sync follows
        again = (await publisher.answers(1))[2]
        assert (again.first_offset, again.repeated) == (first.first_offset, True)
        await publisher.send(3, "plant.t", batch_of(b"late", sequence=3))
        assert (await publisher.answers(1))[3].code == pb.ERROR_OUT_OF_SEQUENCE


@pytest.mark.req("SDK-01")
async def test_other_bytes_under_a_used_number_are_refused_and_the_same_get_their_receipt(tmp_path: Path) -> None:
    """Two clients with one producer id, say: neither gets a receipt for the other's events. Also not after a crash."""
    first, other = batch_of(b"mine", sequence=7), batch_of(b"ours", sequence=7)
    assert len(first.data) == len(other.data)

    async def story(node: RunningNode, *, is_new: bool) -> None:
        async with RawClient(node.grpc) as client:
            publisher = await client.publisher()
            for request, batch in enumerate((first, other, first, other)):
                await publisher.send(request, "plant.t", batch)
            answers = await publisher.answers(4)
            receipts = [answers[0], answers[2]]
            assert [(each.first_offset, each.count, each.repeated) for each in receipts] == [
                (0, 1, not is_new),
                (0, 1, True),
            ]
            refused = answers[1]
            assert refused == answers[3]
            assert refused.code == pb.ERROR_SEQUENCE_REUSED
            assert refused.message == "a producer used one sequence for two batches"
            facts = dict(refused.facts)
            assert (facts["producer"], facts["sequence"], facts["differs"]) == (BOUND.hex(), "7", "content")
            assert facts["kept_at"] == f"plant.t@a/0:e{publisher.opened.epoch}:0"
            subscriber = await client.subscriber("plant.t")
            await publisher.publish("plant.t", b"the next")
            assert (await subscriber.payloads(2))[:2] == [b"mine", b"the next"]

    for is_new, end in ((True, signal.SIGKILL), (False, signal.SIGTERM), (False, signal.SIGTERM)):
        with up(tmp_path / "a", "--insecure", "--node-id", "a") as node:
            await story(node, is_new=is_new)
            (line,) = [each for each in node.logged() if each["event"] == "sequence_reused"]  # one a minute is enough
            assert (line["level"], line["producer"], line["sequence"]) == ("warning", BOUND.hex(), 7)
            assert 'weft_refused_total{code="ERROR_SEQUENCE_REUSED"} 2.0' in node.metrics()
            node.end(end)


async def send_all(publisher: RawPublisher, topic: str, batch: Batch, count: int, copies: int = 0) -> None:
    for request in range(count):
        await publisher.send(request, topic, batch, copies=copies)


def damaged() -> bytes:
    data = bytearray(batch_of(b"payload").data)
    data[-1] ^= 1
    return bytes(data)


REFUSALS: dict[str, tuple[dict[str, Any], int]] = {
    "not a topic": ({"topic": "plant..t"}, pb.ERROR_BAD_REQUEST),
    "a pattern": ({"topic": "plant.*"}, pb.ERROR_BAD_REQUEST),
    "the mesh's own topic": ({"topic": "weft.groups.billing"}, pb.ERROR_NOT_ALLOWED),
    "quarantine is for gateways": ({"topic": "weft.quarantine.emm"}, pb.ERROR_NOT_ALLOWED),
    "no such partition": ({"partition": 1 << 16}, pb.ERROR_BAD_REQUEST),
    "no bytes": ({"batch": b""}, pb.ERROR_BAD_BATCH),
    "checksum": ({"batch": damaged()}, pb.ERROR_BAD_BATCH),
    "too large": ({"batch": bytes(BATCH_BYTES_MAX + 1)}, pb.ERROR_TOO_LARGE),
}


async def test_refusals_leave_the_stream_open(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        for request, (fields, code) in enumerate(REFUSALS.values()):
            wanted: dict[str, Any] = {"topic": "plant.t", "batch": batch_of(b"x").data, **fields}
            await publisher.say(pb.PublishRequest(batch=pb.PublishBatch(request=request, **wanted)))
            answer = (await publisher.answers(1))[request]
            assert (answer.code, bool(answer.message)) == (code, True), list(REFUSALS)[request]
        assert (await publisher.publish(f"weft.inbox.{'0' * 16}.{'1' * 32}", b"a reply")).count == 1
        assert (await publisher.publish("plant.t", b"x")).first_offset == 0


@pytest.mark.req("SEC-02", "LAK-02")
async def test_what_was_found_good_is_asked_again_when_rights_or_schemas_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream remembers where its caller may publish; it is open for days."""
    callers: list[Caller] = []
    admit = OpenAccess.admit_untrusted

    async def admit_and_note(access: OpenAccess, shown: Shown) -> Caller:
        callers.append(await admit(access, shown))
        return callers[-1]

    monkeypatch.setattr(OpenAccess, "admit_untrusted", admit_and_note)
    schema = changed(Pattern("plant.>"), None, Change(parse_schema(Kind.DDL, "id BIGINT"), Mode.REJECT), 0, "k")

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        checks = node._machinery.clients.checks
        assert isinstance(checks, SchemaGate)

        async def code_for(topic: str) -> int:
            await publisher.send(0, topic, batch_of(b"no json"))
            answer = (await publisher.answers(1))[0]
            return answer.code if isinstance(answer, pb.Error) else 0

        assert [await code_for(topic) for topic in ("plant.t", "mill.t", "plant.t")] == [0, 0, 0]
        checks.set_records([schema])
        assert [await code_for(topic) for topic in ("plant.t", "mill.t")] == [pb.ERROR_SCHEMA_BROKEN, 0]
        checks.set_records([])
        assert await code_for("plant.t") == 0
        callers[-1].update(replace(EVERYBODY, admin=False, publish=(Pattern("plant.>"),)))
        assert [await code_for(topic) for topic in ("plant.t", "mill.t")] == [0, pb.ERROR_NOT_ALLOWED]
        callers[-1].update(EVERYBODY)
        assert await code_for("mill.t") == 0


def several(count: int) -> pb.PublishRequest:
    """A message with so many batches, each of another topic."""
    data = batch_of(b"x").data
    batches = [pb.PublishBatch(request=number, topic=f"plant.t{number}", batch=data) for number in range(count)]
    return pb.PublishRequest(batches=pb.PublishBatches(batches=batches))


def twice(number: int) -> pb.PublishRequest:
    """A message with two batches that want the same answer."""
    message = several(2)
    for batch in message.batches.batches:
        batch.request = number
    return message


async def test_batches_that_come_together_are_answered_one_by_one(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        message = several(3)
        message.batches.batches[1].topic = "plant..t"
        await publisher.say(message)
        answers = await publisher.answers(3)
        assert isinstance(answers[1], pb.Error)
        assert [answers[number].stream.topic for number in (0, 2)] == ["plant.t0", "plant.t2"]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([pb.PublishRequest(batch=pb.PublishBatch(topic="t"))], "begins with open"),
        ([pb.PublishRequest(open=pb.PublishOpen(producer_id=b"short"))], "producer id"),
        ([pb.PublishRequest(open=pb.PublishOpen())] * 2, "carries batches"),
        ([pb.PublishRequest(open=pb.PublishOpen()), pb.PublishRequest()], "carries batches"),
        ([pb.PublishRequest(open=pb.PublishOpen()), several(PUBLISH_BATCHES_MAX + 1)], "too many batches"),
        ([pb.PublishRequest(open=pb.PublishOpen()), twice(7)], "one request number"),
    ],
)
async def test_a_client_that_breaks_the_protocol_is_shown_the_door(
    tmp_path: Path, messages: list[pb.PublishRequest], words: str
) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        call = client.stream("Publish", pb.PublishReply)
        for message in messages:
            await call.write(message.SerializeToString())
        with pytest.raises(grpc.aio.AioRpcError, match=words) as caught:
            while await call.read() is not grpc.aio.EOF:
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        error = pb.Error.FromString(dict(caught.value.trailing_metadata())["weft-error-bin"])
        assert error.code == pb.ERROR_BAD_REQUEST


async def test_bytes_that_are_no_message_end_the_stream_in_words(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        for method, reply in (("Publish", pb.PublishReply), ("Subscribe", pb.SubscribeReply)):
            call = client.stream(method, reply)
            await call.write(b"\xff\xff\xff")
            if method == "Publish":
                with pytest.raises(grpc.aio.AioRpcError, match="not a PublishRequest"):
                    await call.read()
            else:
                assert "not a SubscribeRequest" in (await call.read()).error.message


async def test_a_client_that_does_not_read_its_answers_is_not_read_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets every answer once it reads; meanwhile the node holds a bounded number of them."""
    monkeypatch.setattr("weft.transport.grpc.calls.UNSENT_BYTES_MAX", 256)

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        sending = asyncio.create_task(send_all(publisher, "bad..topic", batch_of(bytes(9000)), count=200))
        answers = await publisher.answers(200)
        await sending
        assert {each.code for each in answers.values()} == {pb.ERROR_BAD_REQUEST}


async def test_what_is_taken_and_not_answered_is_bounded(tmp_path: Path) -> None:
    """With copies that never come, receipts are owed for long: the node stops reading at half of the caller's share."""

    async with (
        running_node(tmp_path, limits__caller_bytes_max=64 << 20) as node,
        RawClient(node.grpc_address) as client,
    ):
        publisher = await client.publisher()
        large = batch_of(bytes(1 << 20))
        sending = asyncio.create_task(send_all(publisher, "plant.copied", large, count=100, copies=2))
        other = await client.publisher()
        while node.clients.held.bytes < 8 << 20:
            await other.publish("plant.t", b"others go on")
        assert node.clients.held.bytes < 12 << 20
        publisher.raw.cancel()
        await asyncio.wait([sending])
        while node.clients.held.bytes > len(large.data):
            await other.publish("plant.t", b"until it is given back")


async def test_nothing_overtakes_a_batch_that_is_checked_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large one would then come out of sequence, and its publisher would be refused events that are in order."""
    is_checked, all_came = threading.Event(), threading.Event()
    take = PublishStream._take_untrusted
    came: list[int] = []

    def slowly(data: bytes, known_as: Any) -> Batch:
        if len(data) > CHECKED_AT_ONCE_BYTES_MAX:
            is_checked.set()
            assert all_came.wait(WAIT_S)
        return read_batch_untrusted(data, known_as)

    def taken(self: PublishStream, data: bytes) -> None:
        take(self, data)
        came.append(len(data))
        if len(came) == 3:
            all_came.set()

    monkeypatch.setattr("weft.transport.clients.publish.read_batch_untrusted", slowly)
    monkeypatch.setattr(PublishStream, "_take_untrusted", taken)

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        await publisher.send(1, "plant.t", batch_of(bytes(2 << 20), sequence=1))
        assert await asyncio.to_thread(is_checked.wait, WAIT_S)
        await publisher.send(2, "plant.t", batch_of(b"small", sequence=2))
        plain = pb.PlainEvent(payload=b"plain", timestamp_us=1)
        events = pb.PublishEvents(request=3, topic="plant.t", events=[plain], sequence=3)
        await publisher.raw.write(pb.PublishRequest(events=events).SerializeToString())
        answers = await publisher.answers(3)
        assert [answers[number].first_offset for number in (1, 2, 3)] == [0, 1, 2]
        assert came[0] > came[1], "they came in this order"


async def test_too_many_clients_are_told_to_wait(tmp_path: Path) -> None:
    async with running_node(tmp_path, limits__clients_max=1) as node, RawClient(node.grpc_address) as client:
        await client.publisher()
        with pytest.raises(grpc.aio.AioRpcError, match="as many clients") as caught:
            await client.publisher()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        subscriber = await client.subscriber("plant.>")
        assert subscriber.first.error.code == pb.ERROR_BUSY
