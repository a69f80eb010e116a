"""Messages of ``mesh.proto`` to values of the core and back. Values from clients are checked here and nowhere else.

Functions that take messages of clients raise UsageError or PeerError only, with words for the client's user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from weft.core.groups.ledger import REASON_CHARS_MAX, WINDOW_MAX
from weft.core.messages import Acked, Delivered, Edge, FromPositions, FromTime, Nacked, Receipted, Settled, Start
from weft.core.policy import RETRY_S_MAX, GroupPolicy
from weft.errors import UsageError
from weft.limits import CLIENT_POSITIONS_MAX, KIB, OFFSET_MAX
from weft.model import Batch, Epoch, Pattern, Position, Stream, parse_pattern
from weft.model.batch_header import HEADER_BYTES, header_without_producer
from weft.model.event import check_times_us
from weft.port.errors import TooLarge
from weft.wire.mesh import BadMeshMessage, deliveries
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.fields import varint
from weft.wire.mesh.streams import read_position_untrusted, read_stream_untrusted, stream_position, stream_ref

M = TypeVar("M", bound=Message)

# Tags of fields in mesh.proto: number << 3 | kind, where 2 is bytes and 0 a varint.
DELIVERY_FIELD: Final = bytes([deliveries.DELIVERY_TAG])
BATCHES_FIELD: Final = bytes([deliveries.BATCHES_TAG])
STREAM_FIELD: Final = bytes([deliveries.STREAM_TAG])
BATCH_FIELD: Final = bytes([deliveries.BATCH_TAG])
TRIES_FIELD: Final = bytes([deliveries.TRIES_TAG])
FIRST_OFFSET_FIELD: Final = bytes([deliveries.FIRST_OFFSET_TAG])
FETCHED_FIELD: Final = bytes([deliveries.FETCHED_TAG])
FETCHED_BATCH_FIELD: Final = bytes([deliveries.FETCHED_BATCH_TAG])
FETCHED_RANGES_FIELD: Final = bytes([deliveries.FETCHED_RANGES_TAG])
FETCHED_DONE_FIELD: Final = bytes([deliveries.FETCHED_DONE_TAG])
REPLY_RECEIPTS_FIELD: Final = bytes([2 << 3 | 2])  # PublishReply.receipts
RECEIPTS_FIELD: Final = bytes([1 << 3 | 2])  # Receipts.receipts
RECEIPT_REQUEST: Final = bytes([1 << 3 | 0])
RECEIPT_FIRST_OFFSET: Final = bytes([3 << 3 | 0])
RECEIPT_COUNT: Final = bytes([4 << 3 | 0])
RECEIPT_COPIES: Final = bytes([5 << 3 | 0])
RECEIPT_REPEATED: Final = bytes([6 << 3 | 0, 1])
SETTLED_MAX: Final = 4 * WINDOW_MAX  # streams, ranges and refusals in one message: four windows of single events
SHARED_BYTES_MIN: Final = 64 * KIB  # larger batches are sent as they are, the same bytes for all subscribers
STREAM_REFS_KEPT: Final = 16_384  # about 2 MiB
EDGES: Final = {
    pb.Start.EDGE_UNSPECIFIED: Edge.OWN,
    pb.Start.EDGE_EARLIEST: Edge.EARLIEST,
    pb.Start.EDGE_LATEST: Edge.LATEST,
}


# --- from clients ----------------------------------------------------------------------------------------------------


def parse_untrusted(kind: type[M], data: bytes) -> M:
    """Read a message of this kind, or raise BadMeshMessage."""
    message: M = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise BadMeshMessage(f"not a {kind.DESCRIPTOR.name}: {error}") from None
    return message


def check_size(size: int, batch_bytes_max: int) -> None:
    """Refuse a batch that is too large."""
    if size > batch_bytes_max:
        raise TooLarge("the batch is too large: send several", bytes=size, limit=batch_bytes_max)


def read_batch_untrusted(data: bytes, known_as: Callable[[bytes], bytes]) -> Batch:
    """Read a batch that may be published, and give it the producer id ``known_as``, under which the log remembers it.
    The largest batch takes 30 ms."""
    batch = Batch.read_untrusted(data, known_as)
    check_times_us(batch.timestamp_us_min, batch.timestamp_us_max)
    return batch


def read_pattern_untrusted(text: str) -> Pattern:
    """Read a pattern; an empty one means every topic."""
    return parse_pattern(text or ">")


def read_positions_untrusted(positions: Collection[pb.StreamPosition]) -> tuple[Position, ...]:
    check_position_count(len(positions))
    return tuple(map(read_position_untrusted, positions))


def check_position_count(count: int) -> None:
    if count > CLIENT_POSITIONS_MAX:
        raise TooLarge("too many positions in one message", have=count, limit=CLIENT_POSITIONS_MAX)


def read_start_untrusted(start: pb.Start, positions: tuple[Position, ...] | None = None) -> Start:
    """Read where a subscription starts. ``positions``: those of the start, if they were read before."""
    match start.WhichOneof("from"):
        case "timestamp_us":
            return FromTime(start.timestamp_us)
        case "positions":
            otherwise_us = start.otherwise_timestamp_us if start.HasField("otherwise_timestamp_us") else None
            if positions is None:
                positions = read_positions_untrusted(start.positions.positions)
            return FromPositions(positions, otherwise_us)
        case _:
            edge = EDGES.get(start.edge)
            if edge is None:
                raise UsageError("no such place to start from", edge=start.edge, known="0, 1 and 2")
            return edge


def read_policy_untrusted(policy: pb.GroupPolicy) -> GroupPolicy:
    return GroupPolicy(
        policy.max_deliveries,
        policy.retry_s_min,
        policy.retry_s_max,
        in_order=not policy.set_aside,
        dead_letter=policy.dead_letter,
    )


def policy_message(policy: GroupPolicy) -> pb.GroupPolicy:
    return pb.GroupPolicy(
        max_deliveries=policy.max_deliveries,
        retry_s_min=policy.retry_s_min,
        retry_s_max=policy.retry_s_max,
        set_aside=not policy.in_order,
        dead_letter=policy.dead_letter,
    )


def read_settled_untrusted(subscription: int, settled: pb.Settled) -> Settled:
    """Read what a member settled. Streams, ranges and refusals are bounded together; each range of offsets counts as
    one."""
    size = len(settled.nacks) + sum(1 + len(each.offsets) // 2 for each in settled.acks)
    if size > SETTLED_MAX:
        raise TooLarge("too much is settled in one message", have=size, limit=SETTLED_MAX)
    acks: list[Acked] = []
    for each in settled.acks:
        stream, epoch = read_stream_untrusted(each.stream)
        offsets = list(each.offsets)
        if len(offsets) % 2:
            raise BadMeshMessage("acknowledged offsets come in pairs, first and end", have=len(offsets))
        for first, end in zip(offsets[::2], offsets[1::2], strict=True):
            if not first < end <= OFFSET_MAX:
                raise UsageError("not a range of offsets", first=first, end=end, limit=OFFSET_MAX)
            acks.append(Acked(stream, epoch, first, end))
    nacks = tuple(map(_read_nack_untrusted, settled.nacks))
    return Settled(subscription, tuple(acks), nacks, settled.generation)


def _read_nack_untrusted(nack: pb.Nack) -> Nacked:
    stream, epoch = read_stream_untrusted(nack.stream)
    delay_s = nack.delay_s if nack.HasField("delay_s") else None
    if delay_s is not None and not 0 <= delay_s <= RETRY_S_MAX:  # written so that NaN is refused, too
        raise UsageError("delay_s is out of range", value=delay_s, least=0, most=RETRY_S_MAX)
    if nack.offset > OFFSET_MAX:
        raise UsageError("offset out of range", offset=nack.offset, limit=OFFSET_MAX)
    return Nacked(stream, epoch, nack.offset, delay_s, nack.reason[:REASON_CHARS_MAX])


# --- to clients ------------------------------------------------------------------------------------------------------


def receipts_bytes(receipts: Sequence[tuple[int, Receipted]]) -> bytes:
    """Encode a PublishReply with these receipts by hand: if events come alone, there is one receipt per event."""
    parts: list[bytes] = []
    for request, (_, place, copies) in receipts:
        first = place.first_offset
        receipt = b"%b\x12%b%b%b" % (  # the tag of Receipt.stream
            RECEIPT_REQUEST + varint(request) if request else b"",
            _stream_ref(place.stream, place.epoch),
            RECEIPT_FIRST_OFFSET + varint(first) if first else b"",
            _receipt_rest(place.count, copies, place.repeated),
        )
        parts += (RECEIPTS_FIELD, varint(len(receipt)), receipt)
    body = b"".join(parts)
    return b"".join((REPLY_RECEIPTS_FIELD, varint(len(body)), body))


@lru_cache
def _receipt_rest(count: int, copies: int, repeated: bool) -> bytes:
    """Encode the end of a receipt. The same few numbers occur over and over."""
    end = RECEIPT_REPEATED if repeated else b""
    return RECEIPT_COUNT + varint(count) + RECEIPT_COPIES + varint(copies) + end


def shown_parts(data: bytes) -> tuple[bytes, memoryview]:
    """Show a stored batch as clients get it, without its producer (SEC-03): a new header, and the body, which is not
    copied."""
    return header_without_producer(data), memoryview(data)[HEADER_BYTES:]


def delivery_parts(batches: Sequence[Delivered]) -> tuple[bytes, bytes | memoryview]:
    """Encode a SubscribeReply with a Delivery of these batches by hand: a head, and a rest that all subscribers of the
    batch share. Small batches are encoded once for all of them; a large one is not even copied."""
    if len(batches) != 1:
        return b"", _delivery_bytes(batches)
    (one,) = batches
    if len(one.data) >= SHARED_BYTES_MIN:
        field, (head, body) = _delivered_head(one), shown_parts(one.data)
        return DELIVERY_FIELD + varint(len(field) + len(one.data)) + field + head, body
    if not one.message:
        one.message = _delivery_bytes(batches)
    return b"", one.message


def _delivery_bytes(batches: Sequence[Delivered]) -> bytes:
    parts: list[bytes] = []
    size = 0
    for each in batches:
        if not each.encoded:
            each.encoded = b"".join((_delivered_head(each), *shown_parts(each.data)))
        parts.append(each.encoded)
        size += len(each.encoded)
    return b"".join((DELIVERY_FIELD + varint(size), *parts))


def _delivered_head(each: Delivered) -> bytes:
    """Encode a StreamBatch up to its batch, which comes last."""
    stream = STREAM_FIELD + _stream_ref(each.stream, each.epoch)
    first = FIRST_OFFSET_FIELD + varint(each.first_offset)
    tries = TRIES_FIELD + varint(each.tries) if each.tries else b""
    data = BATCH_FIELD + varint(len(each.data))
    size = len(stream) + len(first) + len(tries) + len(data) + len(each.data)
    return b"".join((BATCHES_FIELD, varint(size), stream, first, tries, data))


def fetched_parts(
    batches: Sequence[bytes], ranges: Sequence[int] = (), ranges_done: int = 0
) -> tuple[bytes, bytes | memoryview]:
    """Encode a FetchReply with these stored batches in the same way; for several ranges, with the number of each
    batch's range."""
    first: list[bytes] = []  # protobuf takes fields in any order; a single batch comes last
    if ranges:
        numbers = b"".join(map(varint, ranges))
        first += (FETCHED_RANGES_FIELD, varint(len(numbers)), numbers)
    if ranges_done:
        first += (FETCHED_DONE_FIELD, varint(ranges_done))
    if len(batches) == 1:
        (one,) = batches
        field, (head, body) = b"".join((*first, FETCHED_BATCH_FIELD, varint(len(one)))), shown_parts(one)
        return FETCHED_FIELD + varint(len(field) + len(one)) + field + head, body
    parts: list[bytes | memoryview] = [*first]
    for data in batches:
        parts += (FETCHED_BATCH_FIELD + varint(len(data)), *shown_parts(data))
    return b"", b"".join((FETCHED_FIELD + varint(sum(map(len, parts))), *parts))


@lru_cache(STREAM_REFS_KEPT)
def _stream_ref(stream: Stream, epoch: Epoch) -> bytes:
    """Encode a StreamRef with its length before it. The same ones are sent over and over."""
    value = bytes(stream_ref(stream, epoch).SerializeToString())
    return varint(len(value)) + value


def position_messages(positions: Iterable[Position]) -> list[pb.StreamPosition]:
    return list(map(stream_position, positions))
