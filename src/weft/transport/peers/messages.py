"""What a link carries for the core: batches, acks, resumes and plain events, as ``peerlink.proto`` has them, and back.

Everything read here comes from a peer: names, sizes and ranges are checked, and every batch in full, so that nobody
behind this has to. The readers raise only BadMeshMessage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, assert_never

from weft.core.call_messages import SendCall
from weft.core.messages import (
    Copy,
    PlainEvent,
    ReceivedAcks,
    ReceivedCopies,
    ReceivedPlain,
    ReceivedPlainAck,
    ReceivedResume,
    SendAcks,
    SendCopies,
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
from weft.model import BadBatch, Batch, NodeId, Topic, parse_node_id, parse_topic
from weft.transport.peers.call_messages import call_message
from weft.wire.mesh.calls import check_headers
from weft.wire.mesh.errors import BadMeshMessage
from weft.wire.mesh.mesh_pb2 import StreamBatch
from weft.wire.mesh.peerlink_pb2 import (
    Ack,
    Event,
    PeerAcks,
    PeerBatch,
    PeerBatches,
    PeerMessage,
    PeerResume,
)
from weft.wire.mesh.streams import read_position_untrusted, read_stream_untrusted, stream_position, stream_ref

LINK_READ_BYTES: Final = 1 * MIB  # of frames handled before other tasks have their turn: 1 to 10 ms
LINK_READ_BATCHES: Final = 256  # likewise, of batches however small


# --- to a peer -------------------------------------------------------------------------------------------------------

Sendable: TypeAlias = SendCopies | SendAcks | SendResume | SendPlain | SendPlainAck | SendCall


def message_of(effect: Sendable) -> PeerMessage:
    """The message of an effect; a plain event is one of its own."""
    match effect:
        case SendCopies(_, copies):
            return PeerMessage(batches=PeerBatches(batches=map(_peer_batch, copies)))
        case SendAcks(_, positions, differing):
            acks = PeerAcks(synced=map(stream_position, positions), differing=map(stream_position, differing))
            return PeerMessage(acks=acks)
        case SendResume(_, origins, positions, leave, more):
            synced = map(stream_position, positions)
            return PeerMessage(resume=PeerResume(positions=synced, origins=origins, leave=leave, more=more))
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
    )


# --- from a peer -----------------------------------------------------------------------------------------------------


def read_copies_untrusted(peer: NodeId, message: PeerBatches) -> Iterator[ReceivedCopies]:
    """The batches of a frame, in portions: the caller lets others have their turn in between."""
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
    try:
        batch = Batch.read_untrusted(item.batch.batch)
    except BadBatch as error:
        raise BadMeshMessage(f"bad batch of {stream}: {error}") from None
    _check_offset("end of the batch before", item.follows, OFFSET_MAX)
    _check_offset("end of the stream", item.latest, OFFSET_MAX)
    return Copy(stream, epoch, batch, item.follows, item.expired, item.keep, item.latest)


def read_acks_untrusted(peer: NodeId, message: PeerAcks) -> ReceivedAcks:
    synced = tuple(map(read_position_untrusted, message.synced))
    return ReceivedAcks(peer, synced, tuple(map(read_position_untrusted, message.differing)))


def read_resume_untrusted(peer: NodeId, message: PeerResume) -> ReceivedResume:
    return ReceivedResume(
        peer,
        _read_node_ids_untrusted(message.origins),
        tuple(map(read_position_untrusted, message.positions)),
        _read_node_ids_untrusted(message.leave),
        message.more,
    )


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
        # What is said there is believed by every node; a plain peer has no part in it.
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
