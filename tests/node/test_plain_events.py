"""Publishing and subscribing with ``mesh.proto`` alone: events as messages, without Arrow on the client's side."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.node.raw_client import WAIT_S, RawClient, RawPublisher, RawSubscriber, batch_of
from tests.node.running import running_node
from weft.limits import EVENT_KEY_BYTES_MAX
from weft.model import Batch
from weft.transport.clients.plain_events import DELIVERED_BYTES, DELIVERED_EVENTS_MAX, PUBLISH_EVENTS_MAX
from weft.wire.mesh import mesh_pb2 as pb

TOPIC = "plant.t"


async def publish(publisher: RawPublisher, request: int, *events: pb.PlainEvent, **fields: Any) -> Any:
    """Its receipt, or why it was refused."""
    message = pb.PublishEvents(request=request, **{"topic": TOPIC, "events": events, **fields})
    await publisher.say(pb.PublishRequest(events=message))
    return (await publisher.answers(1))[request]


async def delivered(subscriber: RawSubscriber, count: int) -> list[pb.StreamEvents]:
    pieces: list[pb.StreamEvents] = []
    async with asyncio.timeout(WAIT_S):
        while sum(len(piece.events) for piece in pieces) < count:
            pieces.append((await subscriber.read()).delivery.events)
    return pieces


@pytest.mark.req("MSH-01")
async def test_plain_events_come_back_as_they_were_published(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        full = pb.PlainEvent(payload=b"21.5", key=b"pump-1", headers={"unit": "C", "ort": "Köln"}, timestamp_us=7)
        receipt = await publish(publisher, 1, full, pb.PlainEvent(payload=b"", key=b""), pb.PlainEvent(payload=b"3"))
        assert (receipt.stream.topic, receipt.first_offset, receipt.count) == (TOPIC, 0, 3)
        plain = await client.subscriber(TOPIC, plain=True)
        (piece,) = await delivered(plain, 3)
        first, empty, last = piece.events
        assert (first.payload, first.key, dict(first.headers)) == (b"21.5", b"pump-1", {"unit": "C", "ort": "Köln"})
        assert (first.timestamp_us, first.offset) == (7, 0)
        assert (empty.payload, empty.HasField("key"), empty.key, empty.offset) == (b"", True, b"", 1)
        assert not last.HasField("key") and last.timestamp_us > 1_700_000_000_000_000, "the time of the node"
        batches = await client.subscriber(TOPIC)
        (stored,) = (await batches.read()).delivery.batches
        assert [event.payload for event in Batch.read_untrusted(stored.batch)] == [b"21.5", b"", b"3"]
        assert piece.credit_bytes == len(stored.batch)


async def test_what_is_sent_again_under_its_sequence_is_stored_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        event = pb.PlainEvent(payload=b"once", timestamp_us=5)
        first = await publish(publisher, 1, event, sequence=0)
        again = await publish(publisher, 2, event, sequence=0)
        assert (again.first_offset, again.repeated) == (first.first_offset, True)
        other = await publish(publisher, 3, pb.PlainEvent(payload=b"other", timestamp_us=5), sequence=0)
        assert other.code == pb.ERROR_SEQUENCE_REUSED
        untimed = await publish(publisher, 4, pb.PlainEvent(payload=b"x"), sequence=1)
        assert untimed.code == pb.ERROR_BAD_REQUEST and "timestamps" in untimed.message


async def test_what_is_wrong_is_refused_and_the_stream_goes_on(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        good = pb.PlainEvent(payload=b"x")
        cases: list[tuple[list[pb.PlainEvent], dict[str, Any], int | None]] = [
            ([], {}, pb.ERROR_BAD_REQUEST),
            ([good] * (PUBLISH_EVENTS_MAX + 1), {}, pb.ERROR_TOO_LARGE),
            ([good], {"topic": "plant.*"}, pb.ERROR_BAD_REQUEST),
            ([good], {"partition": 1 << 31}, pb.ERROR_BAD_REQUEST),
            ([pb.PlainEvent(payload=b"x", timestamp_us=1 << 62)], {}, pb.ERROR_BAD_REQUEST),
            ([pb.PlainEvent(payload=b"x", key=bytes(EVENT_KEY_BYTES_MAX + 1))], {}, None),
        ]
        for number, (events, fields, code) in enumerate(cases):
            answer = await publish(publisher, number, *events, **fields)
            assert answer.code == code or (code is None and answer.code), (number, answer)
        assert (await publish(publisher, 99, good)).first_offset == 0


async def test_large_batches_come_in_pieces_that_every_client_takes(tmp_path: Path) -> None:
    many, large = DELIVERED_EVENTS_MAX * 2 + 10, [bytes(DELIVERED_BYTES)] * 3

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        await publisher.send(1, TOPIC, batch_of(*(b"%d" % number for number in range(many))))
        await publisher.answers(1)
        await publisher.send(2, TOPIC, batch_of(*large))
        await publisher.answers(1)
        subscriber = await client.subscriber(TOPIC, plain=True, credit_bytes=1 << 24)
        pieces = await delivered(subscriber, many + len(large))
        events = [event for piece in pieces for event in piece.events]
        assert [event.offset for event in events] == list(range(many + len(large)))
        assert [event.payload for event in events] == [b"%d" % number for number in range(many)] + large
        assert [len(piece.events) for piece in pieces] == [DELIVERED_EVENTS_MAX] * 2 + [10, 1, 1, 1]
        assert [bool(piece.credit_bytes) for piece in pieces] == [False, False, True, False, False, True]


async def test_a_reader_that_starts_inside_a_batch_gets_the_rest_of_it(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        await publisher.send(1, TOPIC, batch_of(b"0", b"1", b"2", b"3"))
        receipt = (await publisher.answers(1))[1]
        place = pb.StreamPosition(stream=receipt.stream, next_offset=2)
        start = pb.Start(positions=pb.Positions(positions=[place]))
        (piece,) = await delivered(await client.subscriber(TOPIC, plain=True, start=start), 2)
        assert [(event.offset, event.payload) for event in piece.events] == [(2, b"2"), (3, b"3")]
