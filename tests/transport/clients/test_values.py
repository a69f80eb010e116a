"""What clients may say, and what nobody can mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import TopicReserved
from weft.core.messages import Delivered, Edge, FromPositions, FromTime, Start
from weft.errors import PeerError, UsageError
from weft.limits import OFFSET_MAX
from weft.model import Batch, Epoch, NodeId, Position, Stream, Topic
from weft.model.batch_header import SEQUENCE_MAX
from weft.port.errors import TooLarge
from weft.port.topics import read_topic_untrusted
from weft.transport.clients import values as room
from weft.transport.clients.values import (
    SHARED_BYTES_MIN,
    check_size,
    delivery_parts,
    fetched_parts,
    parse_untrusted,
    read_batch_untrusted,
    read_positions_untrusted,
    read_settled_untrusted,
    read_start_untrusted,
)
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.deliveries import read_delivery_untrusted, read_fetched_untrusted
from weft.wire.mesh.streams import stream_ref

PLACE = pb.StreamPosition(stream=pb.StreamRef(topic="t", origin="a", epoch=3), next_offset=4)


@pytest.mark.parametrize(
    ("message", "start"),
    [
        (pb.Start(), Edge.OWN),
        (pb.Start(edge=pb.Start.EDGE_UNSPECIFIED), Edge.OWN),
        (pb.Start(edge=pb.Start.EDGE_EARLIEST), Edge.EARLIEST),
        (pb.Start(edge=pb.Start.EDGE_LATEST), Edge.LATEST),
        (pb.Start(timestamp_us=-5), FromTime(-5)),
        (pb.Start(timestamp_us=0), FromTime(0)),
        (pb.Start(positions=pb.Positions()), FromPositions(())),
        (
            pb.Start(positions=pb.Positions(positions=[PLACE])),
            FromPositions((Position(Stream(Topic("t"), NodeId("a"), 0), Epoch(3), 4),)),
        ),
    ],
)
def test_starts(message: pb.Start, start: Start) -> None:
    assert read_start_untrusted(message) == start


def test_topics_of_the_mesh_are_its_own() -> None:
    assert read_topic_untrusted("weftier.t") == "weftier.t"
    for topic in (f"weft.{kind}.{'0' * 16}.{'1' * 32}" for kind in ("inbox", "staging", "decisions")):
        assert read_topic_untrusted(topic) == topic
    for topic in (
        "weft",
        "weft.inbox",
        "weft.inbox.c1",
        "weft.staging",
        "weft.groups.g",
        "weft.plain.x",
        "weft.quarantine.emm",
    ):
        with pytest.raises(TopicReserved):
            read_topic_untrusted(topic)


def test_positions_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CLIENT_POSITIONS_MAX", 2)
    assert len(read_positions_untrusted([PLACE] * 2)) == 2
    with pytest.raises(TooLarge):
        read_positions_untrusted([PLACE] * 3)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for kind in (pb.PublishRequest, pb.SubscribeRequest):
        try:
            message: Any = parse_untrusted(kind, data)
        except PeerError:
            continue
        assert parse_untrusted(kind, message.SerializeToString()) == message


def known_as(producer: bytes) -> bytes:
    return producer[::-1]


@given(st.binary(max_size=100))
def test_any_batch_is_taken_or_refused(data: bytes) -> None:
    with pytest.raises((UsageError, PeerError)):
        read_batch_untrusted(data, known_as)


def test_a_batch_as_it_should_be() -> None:
    batch = Batch.from_columns([b"x"], 0, producer=b"0123456789abcdef", sequence=3)
    read = read_batch_untrusted(batch.data, known_as)
    assert (list(read), read.producer, read.sequence) == (list(batch), b"fedcba9876543210", 3)
    check_size(batch.size, len(batch.data))
    with pytest.raises(TooLarge):
        check_size(batch.size, len(batch.data) - 1)


STORED = [
    Batch.from_columns([payload], 7, producer=producer, sequence=sequence).with_base_offset(offset).data
    for payload in (b"", b"x" * 300, bytes(SHARED_BYTES_MIN))
    for producer, sequence in ((None, 0), (b"p" * 16, 0), (b"\xff" * 16, SEQUENCE_MAX))
    for offset in (0, 1 << 40)
]


def shown(data: bytes) -> bytes:
    """A stored batch as clients get it: as if it never had a producer (SEC-03)."""
    batch = Batch.read_untrusted(data)
    return Batch.from_columns([event.payload for event in batch], 7).with_base_offset(batch.base_offset).data


DELIVERIES = st.builds(
    Delivered,
    st.builds(Stream, st.sampled_from([Topic("t"), Topic("x" * 200)]), st.just(NodeId("a")), st.integers(0, 65_535)),
    st.integers(1, OFFSET_MAX),
    st.sampled_from(STORED),
    st.integers(0, OFFSET_MAX),
)


@pytest.mark.req("SEC-03")
@given(st.lists(DELIVERIES, max_size=5))
def test_deliveries_are_what_protobuf_would_write(batches: list[Delivered]) -> None:
    wanted = pb.Delivery(
        batches=[
            pb.StreamBatch(
                stream=stream_ref(each.stream, each.epoch), batch=shown(each.data), first_offset=each.first_offset
            )
            for each in batches
        ]
    )
    head, rest = delivery_parts(batches)
    assert pb.SubscribeReply.FromString(head + rest) == pb.SubscribeReply(delivery=wanted)
    read = read_delivery_untrusted(head + rest)
    assert read is not None, "what a node writes is read by hand"
    assert [each.batch for each in read] == [each.batch for each in wanted.batches]
    assert [each[:2] + each[3:] for each in read] == [
        (each.stream, each.epoch, each.first_offset, each.tries) for each in batches
    ]
    if len(batches) == 1 and len(batches[0].data) >= SHARED_BYTES_MIN:
        assert isinstance(rest, memoryview) and rest.obj is batches[0].data, "it is not copied"


@pytest.mark.req("SEC-03")
@given(st.lists(st.sampled_from(STORED), max_size=5))
def test_fetched_batches_are_what_protobuf_would_write(batches: list[bytes]) -> None:
    wanted = pb.FetchReply(fetched=pb.FetchedBatches(batches=list(map(shown, batches))))
    head, rest = fetched_parts(batches)
    assert head + rest == wanted.SerializeToString()
    assert read_fetched_untrusted(head + rest) == (list(wanted.fetched.batches), [], 0, ())
    numbers = [index * 100 for index in range(len(batches))]
    head, rest = fetched_parts(batches, numbers, 300)
    wanted.fetched.ranges.extend(numbers)
    wanted.fetched.ranges_done = 300
    assert pb.FetchReply.FromString(head + rest) == wanted
    assert read_fetched_untrusted(head + rest) == (list(wanted.fetched.batches), numbers, 300, ())


REF = pb.StreamRef(topic="t", origin="a", epoch=1)


@pytest.mark.req("CON-01")
@pytest.mark.parametrize(
    ("settled", "word"),
    [
        (pb.Settled(acks=[pb.AckedRange(stream=REF, offsets=[1])]), "pairs"),
        (pb.Settled(acks=[pb.AckedRange(stream=REF, offsets=[5, 5])]), "not a range"),
        (pb.Settled(acks=[pb.AckedRange(stream=REF, offsets=[5, 1 << 63])]), "not a range"),
        (pb.Settled(acks=[pb.AckedRange(stream=REF, offsets=[1, 2] * 20_000)]), "too much"),
        (pb.Settled(acks=[pb.AckedRange(stream=pb.StreamRef(topic="t"), offsets=[1, 2])]), "node id|epoch|origin"),
        (pb.Settled(nacks=[pb.Nack(stream=REF, offset=1 << 63)]), "out of range"),
        (pb.Settled(nacks=[pb.Nack(stream=REF, delay_s=float("nan"))]), "delay_s"),
        (pb.Settled(nacks=[pb.Nack(stream=REF, delay_s=-1.0)]), "delay_s"),
    ],
)
def test_hostile_settlements_are_refused(settled: pb.Settled, word: str) -> None:
    with pytest.raises((UsageError, PeerError), match=word):
        read_settled_untrusted(1, settled)
