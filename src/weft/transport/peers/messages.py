"""What a link carries for the core: batches, acks, resumes and plain events, to and from messages of
``peerlink.proto``.

Everything read here comes from a peer: names, sizes and ranges are checked, and every batch completely, so that no
later code has to. The readers raise only BadMeshMessage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeVar, assert_never

from weft.core.call_messages import SendCall
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
from weft.errors import UsageError
from weft.limits import (
    EVENT_PAYLOAD_BYTES_MAX,
    MIB,
    OFFSET_MAX,
)
from weft.model import BadBatch, Batch, NodeId, Position, Stream, Topic, parse_node_id, parse_topic
from weft.transport.peers.call_messages import call_message
from weft.wire.mesh.checks import BadMeshMessage, check_headers
from weft.wire.mesh.mesh_pb2 import StreamBatch, StreamPosition
from weft.wire.mesh.peerlink_pb2 import (
    Ack,
    Event,
    PeerAcks,
    PeerBatch,
    PeerBatches,
    PeerBegin,
    PeerBegins,
    PeerMessage,
    PeerPast,
    PeerPastRequest,
    PeerResume,
)
from weft.wire.mesh.streams import read_position_untrusted, read_stream_untrusted, stream_position, stream_ref

T = TypeVar("T")

# How much of what came is handled before other tasks have their turn:
LINK_READ_BYTES: Final = 1 * MIB  # of frames: 1 to 10 ms
LINK_READ_BATCHES: Final = 64  # however small they are: the first batch of a stream takes 0.1 ms to store
LINK_READ_POSITIONS: Final = 1024  # 2 ms to read, and as much again to process


# --- to a peer -------------------------------------------------------------------------------------------------------


def message_of(effect: PeerEffect) -> PeerMessage:
    """The message for an effect; each plain event has its own."""
    match effect:
        case SendCopies(_, copies):
            return PeerMessage(batches=PeerBatches(batches=map(_peer_batch, copies)))
        case SendAcks(_, positions, differing):
            acks = PeerAcks(synced=map(stream_position, positions), differing=map(stream_position, differing))
            return PeerMessage(acks=acks)
        case SendResume(_, origins, positions, leave, more, begins):
            synced, late = map(stream_position, positions), map(stream_position, begins)
            return PeerMessage(
                resume=PeerResume(positions=synced, origins=origins, leave=leave, more=more, begins=late)
            )
        case SendBegins(_, begun):
            return PeerMessage(begins=PeerBegins(begins=map(_peer_begin, begun)))
        case SendPastRequest(_, request):
            return PeerMessage(
                past_request=PeerPastRequest(
                    stream=stream_ref(request.stream, request.epoch),
                    until=request.until,
                    first=request.first,
                    offset=request.offset,
                    since_us=request.since_us,
                )
            )
        case SendPast(_, past):
            return PeerMessage(
                past=PeerPast(
                    stream=stream_ref(past.stream, past.epoch),
                    first=past.first,
                    end=past.end,
                    batches=[batch.data for batch in past.batches],
                    late_us=past.late_us,
                    lost=past.lost,
                )
            )
        case SendPlain(_, (event,)):
            return PeerMessage(
                event=Event(topic=event.topic, offset=event.offset, payload=event.payload, headers=dict(event.headers))
            )
        case SendPlain():
            raise AssertionError("the outbox takes plain events apart")
        case SendPlainAck(_, topic, offset):
            return PeerMessage(ack=Ack(topic=topic, offset=offset))
        case SendCall(_, frame):
            return PeerMessage(call=call_message(frame))
        case _:
            assert_never(effect)


def _peer_batch(copy: Copy) -> PeerBatch:
    return PeerBatch(
        batch=StreamBatch(stream=stream_ref(copy.stream, copy.epoch), batch=copy.batch.data),
        keep=copy.keep,
        follows=copy.follows,
        expired=copy.expired,
        latest=copy.latest,
        late_us=copy.late_us,
        lost=copy.lost,
    )


def _peer_begin(begin: Begin) -> PeerBegin:
    return PeerBegin(position=stream_position(begin.position), late_us=begin.late_us, latest=begin.latest)


# --- from a peer -----------------------------------------------------------------------------------------------------


# The readers return the content of a frame in portions, so that the caller can give other tasks a turn in between.


def read_copies_untrusted(peer: NodeId, message: PeerBatches) -> Iterator[ReceivedCopies]:
    portion: list[Copy] = []
    portion_bytes = 0
    for item in message.batches:
        portion.append(_read_copy_untrusted(item))
        portion_bytes += len(portion[-1].batch.data)
        if portion_bytes >= LINK_READ_BYTES or len(portion) == LINK_READ_BATCHES:
            yield ReceivedCopies(peer, tuple(portion))
            portion, portion_bytes = [], 0
    if portion:
        yield ReceivedCopies(peer, tuple(portion))


def _read_copy_untrusted(item: PeerBatch) -> Copy:
    stream, epoch = read_stream_untrusted(item.batch.stream)
    batch = _read_batch_untrusted(stream, item.batch.batch)
    _check_offset("end of the batch before", item.follows, OFFSET_MAX)
    _check_offset("end of the stream", item.latest, OFFSET_MAX)
    late_us = item.late_us if item.HasField("late_us") else None
    return Copy(stream, epoch, batch, item.follows, item.expired, item.keep, item.latest, late_us, item.lost)


def _read_batch_untrusted(stream: Stream, data: bytes) -> Batch:
    try:
        return Batch.read_untrusted(data)
    except BadBatch as error:
        raise BadMeshMessage(f"bad batch of {stream}: {error}") from None


def read_acks_untrusted(peer: NodeId, message: PeerAcks) -> Iterator[ReceivedAcks]:
    for synced, differing in zip_longest(_portions(message.synced), _portions(message.differing), fillvalue=()):
        yield ReceivedAcks(peer, _read_positions_untrusted(synced), _read_positions_untrusted(differing))


def read_resume_untrusted(peer: NodeId, message: PeerResume) -> Iterator[ReceivedResume]:
    """Read a part of a resume; a long one comes as several parts."""
    origins, leave = _read_node_ids_untrusted(message.origins), _read_node_ids_untrusted(message.leave)
    left = max(len(message.positions), len(message.begins), 1)
    for positions, begins in zip_longest(_portions(message.positions), _portions(message.begins), fillvalue=()):
        left -= LINK_READ_POSITIONS
        yield ReceivedResume(
            peer,
            origins,
            _read_positions_untrusted(positions),
            leave,
            message.more or left > 0,
            _read_positions_untrusted(begins),
        )
        leave = ()


def read_begins_untrusted(peer: NodeId, message: PeerBegins) -> Iterator[ReceivedBegins]:
    for portion in _portions(message.begins):
        yield ReceivedBegins(peer, tuple(map(_read_begin_untrusted, portion)))


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut items into portions; there is always at least one, which may be empty."""
    yield items[:LINK_READ_POSITIONS]
    for first in range(LINK_READ_POSITIONS, len(items), LINK_READ_POSITIONS):
        yield items[first : first + LINK_READ_POSITIONS]


def _read_begin_untrusted(begin: PeerBegin) -> Begin:
    _check_offset("end of the stream", begin.latest, OFFSET_MAX)
    return Begin(read_position_untrusted(begin.position), begin.late_us, begin.latest)


def _read_positions_untrusted(positions: Iterable[StreamPosition]) -> tuple[Position, ...]:
    return tuple(map(read_position_untrusted, positions))


def read_past_request_untrusted(peer: NodeId, message: PeerPastRequest) -> ReceivedPastRequest:
    stream, epoch = read_stream_untrusted(message.stream)
    _check_offset("beginning of a copy", message.until, OFFSET_MAX)
    first = message.first if message.HasField("first") else None
    offset = message.offset if message.HasField("offset") else None
    for each in (first, offset):
        _check_offset("beginning of a past", each or 0, OFFSET_MAX)
    since_us = max(message.since_us, 0) if message.HasField("since_us") else None
    return ReceivedPastRequest(peer, PastRequest(stream, epoch, message.until, first, offset, since_us))


def read_past_untrusted(peer: NodeId, message: PeerPast) -> ReceivedPast:
    stream, epoch = read_stream_untrusted(message.stream)
    _check_offset("beginning of a past", message.first, OFFSET_MAX)
    _check_offset("end of a past", message.end, OFFSET_MAX)
    batches = tuple(_read_batch_untrusted(stream, data) for data in message.batches)
    late_us = max(message.late_us, 0) if message.HasField("late_us") else None
    return ReceivedPast(peer, Past(stream, epoch, message.first, message.end, batches, late_us, message.lost))


def read_plain_untrusted(peer: NodeId, message: Event) -> ReceivedPlain:
    topic = _read_plain_topic_untrusted(message.topic)
    _check_offset("offset of an event", message.offset, OFFSET_MAX - 1)
    if len(message.payload) > EVENT_PAYLOAD_BYTES_MAX:
        raise BadMeshMessage("payload is too large", size=len(message.payload), limit=EVENT_PAYLOAD_BYTES_MAX)
    headers = dict(message.headers)
    check_headers(headers)
    return ReceivedPlain(peer, PlainEvent(topic, message.offset, message.payload, headers))


def read_plain_ack_untrusted(peer: NodeId, message: Ack) -> ReceivedPlainAck:
    topic = _read_plain_topic_untrusted(message.topic)
    _check_offset("offset of an ack", message.offset, OFFSET_MAX - 1)
    return ReceivedPlainAck(peer, topic, message.offset)


def _read_plain_topic_untrusted(text: str) -> Topic:
    try:
        topic = parse_topic(text)
    except UsageError as error:
        raise BadMeshMessage(str(error)) from None
    if topic == "weft" or topic.startswith("weft."):
        # Every node trusts the events there, so peers that know only plain events may not write them.
        raise BadMeshMessage("topics below weft. belong to the mesh itself", topic=topic)
    return topic


def _read_node_ids_untrusted(texts: Sequence[str]) -> tuple[NodeId, ...]:
    try:
        return tuple(map(parse_node_id, texts))
    except UsageError as error:
        raise BadMeshMessage(str(error)) from None


def _check_offset(what: str, offset: int, limit: int) -> None:
    if not 0 <= offset <= limit:
        raise BadMeshMessage(f"{what} is out of range", offset=offset, limit=limit)
