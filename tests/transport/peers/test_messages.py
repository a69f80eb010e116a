"""Messages of core and membership through protobuf and back; and any bytes at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.peers.nodes import STREAM, Observer, Record, copy
from weft.core.messages import (
    Begin,
    Copy,
    Past,
    PastRequest,
    PeerEffect,
    PlainEvent,
    ReceivedAcks,
    ReceivedBegins,
    ReceivedCopies,
    ReceivedPast,
    ReceivedPastRequest,
    ReceivedPlain,
    ReceivedPlainAck,
    ReceivedResume,
    SendAcks,
    SendBegins,
    SendCopies,
    SendPast,
    SendPastRequest,
    SendPlain,
    SendPlainAck,
    SendResume,
)
from weft.errors import PeerError
from weft.limits import OFFSET_MAX, PEER_FRAME_BYTES_MAX
from weft.membership import Digest, Gossip, Heartbeat, Liveness, Message, NodeState, Ping, PingFor, Pong
from weft.model import Epoch, NodeId, Position, parse_pattern
from weft.routing import finished, summarize
from weft.security.notary import NoNotary
from weft.transport.peers import messages
from weft.transport.peers.member_messages import member_message
from weft.transport.peers.messages import message_of
from weft.transport.peers.receiving import Receiver
from weft.transport.peers.signed_states import StateNotary
from weft.wire.mesh.checks import BadMeshMessage

PEER = NodeId("node-p")
node_ids = st.sampled_from([NodeId("node-a"), NodeId("b.c"), NodeId("7")])
offsets = st.integers(0, OFFSET_MAX - 1)
positions = st.builds(Position, st.just(STREAM), st.integers(1, OFFSET_MAX).map(Epoch), offsets)
copies = st.builds(
    lambda offset, follows, expired, keep, latest, late_us, lost: Copy(
        STREAM, Epoch(3), copy(offset).batch, follows, expired, keep, latest, late_us, lost
    ),
    offsets,
    offsets,
    st.booleans(),
    st.booleans(),
    offsets,
    st.none() | st.integers(0, OFFSET_MAX),
    st.booleans(),
)
states = st.builds(
    NodeState,
    node_ids,
    st.integers(1, 1 << 40),
    st.integers(1, 1 << 40),
    st.integers(1, OFFSET_MAX).map(Epoch),
    st.sampled_from(Liveness),
    st.sampled_from([(), ("host:1", "[::1]:2")]),
    st.lists(node_ids, max_size=3).map(tuple),
    st.sampled_from([(), (parse_pattern("a.*"), parse_pattern(">"))]),
    st.booleans(),
    st.sampled_from([None, finished(summarize([parse_pattern("a.b"), parse_pattern("c.>")], 100))]),
).flatmap(
    lambda state: st.sampled_from([(), (0, OFFSET_MAX)[: len(state.interest)]]).map(
        lambda since_us: replace(state, interest_since_us=since_us)
    )
)
digests = st.builds(Digest, node_ids, st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.sampled_from(Liveness))
numbers = st.integers(0, (1 << 64) - 1)
control: st.SearchStrategy[Message] = st.one_of(
    st.builds(Gossip, st.lists(digests, max_size=4).map(tuple), st.lists(states, max_size=3).map(tuple), st.booleans()),
    st.builds(Ping, numbers),
    st.builds(Pong, numbers, node_ids, st.integers(0, 1 << 40)),
    st.builds(PingFor, numbers, node_ids),
)


def take(
    frame: bytes, *, plain: bool = False, on_control: bool = False, keys: bool = False, past: bool = True
) -> Record:
    record = Record()
    notary = StateNotary(NoNotary())
    observer = Observer(record)
    receiver = Receiver(PEER, 1, plain, keys, past, PEER_FRAME_BYTES_MAX, record, lambda: False, observer, notary)
    taking = (receiver.take_control_frame if on_control else receiver.take_event_frame)(frame)
    with suppress(StopIteration):  # it only ever lets others have their turn: no loop is needed
        while True:
            taking.send(None)
    return record


def sent(effect: PeerEffect, *, plain: bool = False) -> object:
    (received,) = take(message_of(effect).SerializeToString(), plain=plain).inputs
    return received


@given(st.lists(copies, min_size=1, max_size=4).map(tuple))
def test_copies_arrive_as_they_were_sent(sent_copies: tuple[Copy, ...]) -> None:
    received = sent(SendCopies(PEER, sent_copies))
    assert isinstance(received, ReceivedCopies)

    def facts(each: Copy) -> tuple[object, ...]:
        return (
            each.stream,
            each.epoch,
            each.batch.data,
            each.follows,
            each.expired,
            each.keep,
            each.latest,
            each.late_us,
        )

    assert list(map(facts, received.copies)) == list(map(facts, sent_copies))


@given(st.lists(positions, max_size=4).map(tuple), st.lists(node_ids, max_size=3).map(tuple), st.booleans())
def test_acks_and_resumes_arrive_as_they_were_sent(
    places: tuple[Position, ...], origins: tuple[NodeId, ...], more: bool
) -> None:
    assert sent(SendAcks(PEER, places)) == ReceivedAcks(PEER, places)
    assert sent(SendAcks(PEER, (), places)) == ReceivedAcks(PEER, (), places)
    assert sent(SendResume(PEER, origins, places, origins[:1], more, places[:1])) == ReceivedResume(
        PEER, origins, places, origins[:1], more, places[:1]
    )


maybe = st.none() | offsets


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize("more", [False, True])
def test_long_frames_are_taken_some_positions_at_a_time(monkeypatch: pytest.MonkeyPatch, more: bool) -> None:
    """A peer can put two hundred thousand positions into one frame."""
    monkeypatch.setattr(messages, "LINK_READ_POSITIONS", 3)
    a, b = NodeId("node-a"), NodeId("node-b")
    places = tuple(Position(STREAM, Epoch(1), offset) for offset in range(7))
    frame = message_of(SendResume(PEER, (a,), places, (b,), more, places[:4])).SerializeToString()
    assert take(frame).inputs == [
        ReceivedResume(PEER, (a,), places[:3], (b,), True, places[:3]),
        ReceivedResume(PEER, (a,), places[3:6], (), True, places[3:4]),
        ReceivedResume(PEER, (a,), places[6:], (), more, ()),
    ]
    frame = message_of(SendAcks(PEER, places[:2], places[2:6])).SerializeToString()
    assert take(frame).inputs == [ReceivedAcks(PEER, places[:2], places[2:5]), ReceivedAcks(PEER, (), places[5:6])]
    begins = tuple(Begin(place, 1, 2) for place in places[:4])
    frame = message_of(SendBegins(PEER, begins)).SerializeToString()
    assert take(frame).inputs == [ReceivedBegins(PEER, begins[:3]), ReceivedBegins(PEER, begins[3:])]


@given(positions, offsets, offsets, maybe, maybe, maybe)
@pytest.mark.req("MSH-03", "PL-05")
def test_what_concerns_the_past_arrives_as_it_was_sent(
    place: Position, one: int, other: int, first: int | None, offset: int | None, since_us: int | None
) -> None:
    begins = (Begin(place, one, other),)
    assert sent(SendBegins(PEER, begins)) == ReceivedBegins(PEER, begins)
    request = PastRequest(place.stream, place.epoch, one, first, offset, since_us)
    assert sent(SendPastRequest(PEER, request)) == ReceivedPastRequest(PEER, request)
    past = Past(place.stream, place.epoch, one, other, (copy(3).batch, copy(9).batch), since_us, lost=True)
    received = sent(SendPast(PEER, past))
    assert isinstance(received, ReceivedPast)
    assert [batch.data for batch in received.past.batches] == [batch.data for batch in past.batches]
    assert replace(received.past, batches=()) == replace(past, batches=())
    for effect in (SendBegins(PEER, begins), SendPastRequest(PEER, request), SendPast(PEER, past)):
        with pytest.raises(BadMeshMessage, match="not agreed on"):
            take(message_of(effect).SerializeToString(), past=False)


@given(offsets, st.binary(max_size=20), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_plain_events_and_acks_arrive_as_they_were_sent(offset: int, payload: bytes, headers: dict[str, str]) -> None:
    event = PlainEvent(STREAM.topic, offset, payload, headers)
    assert sent(SendPlain(PEER, (event,)), plain=True) == ReceivedPlain(PEER, event)
    assert sent(SendPlainAck(PEER, STREAM.topic, offset), plain=True) == ReceivedPlainAck(PEER, STREAM.topic, offset)


@given(control)
def test_gossip_and_probes_arrive_as_they_were_sent(message: Message) -> None:
    assert take(member_message(message).SerializeToString(), on_control=True).members == [(PEER, message)]


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1), st.booleans())
def test_heartbeats_arrive_as_they_were_sent(timestamp: int, echo: int, plain: bool) -> None:
    beat = Heartbeat(timestamp, echo)
    assert take(member_message(beat).SerializeToString(), plain=plain).members == [(PEER, beat)]


frames = st.one_of(
    st.binary(max_size=200),
    control.map(lambda message: bytes(member_message(message).SerializeToString())),
    st.lists(copies, max_size=2).map(lambda some: bytes(message_of(SendCopies(PEER, tuple(some))).SerializeToString())),
)


@given(frames, st.data(), st.booleans(), st.booleans())
def test_any_bytes_are_taken_or_refused_with_the_one_error(
    frame: bytes, data: st.DataObject, plain: bool, on_control: bool
) -> None:
    changed = bytearray(frame)
    for at in data.draw(st.lists(st.integers(0, max(0, len(frame) - 1)), max_size=3)):
        if changed:
            changed[at] = data.draw(st.integers(0, 255))
    try:
        take(bytes(changed), plain=plain, on_control=on_control)
    except PeerError as error:
        assert len(str(error)) < 2000
