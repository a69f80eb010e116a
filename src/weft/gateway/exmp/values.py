"""JSON of EXMP requests to values of the mesh and back. Values from clients are checked here and nowhere else.

Bytes are text where they are UTF-8 (``payload``, ``key``) and base64 where not (``payload_base64``, ``key_base64``).
Functions that take clients' data raise UsageError only, with words for the client's user.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from itertools import repeat
from typing import Final, Literal, TypeVar

import msgspec

from weft.core.messages import Edge, FromPositions, FromTime, Start
from weft.gateway.exmp.outcomes import BadFields
from weft.limits import CLIENT_POSITIONS_MAX, COPIES_MAX, OFFSET_MAX, PARTITIONS_MAX
from weft.model import Batch, Epoch, Receipt, Stream, parse_node_id, parse_position, parse_topic
from weft.model.later import AHEAD_S_MAX
from weft.wire.exmp import JsonObject

F = TypeVar("F")
EDGES: Final = {"latest": Edge.LATEST, "earliest": Edge.EARLIEST}


class Fields(msgspec.Struct, forbid_unknown_fields=True):
    """What an operation takes. An unknown name is refused, because it is probably mistyped."""


class PublishFields(Fields):
    topic: str
    payload: str | None = None
    payload_base64: str | None = None
    key: str | None = None
    key_base64: str | None = None
    headers: dict[str, str] | None = None
    partition: int = 0
    copies: int = 0  # as many as the topic's configuration says
    timestamp_us: int | None = None  # None: now
    deliver_at_us: int | None = None  # it waits until then
    delay_s: float | None = None  # it waits so long


class RequestFields(Fields):
    topic: str
    payload: str | None = None
    payload_base64: str | None = None
    headers: dict[str, str] | None = None
    timeout_s: float = 5.0


class AuthenticateFields(Fields):
    key: str


class FetchFields(Fields):
    """``origin``: by default this node; ``epoch``: the newest; ``offset``: the earliest there is."""

    topic: str
    origin: str | None = None
    partition: int = 0
    epoch: int | None = None
    offset: int | None = None
    events_max: int = 100  # in the answer to a fetch that sets no number


class SubscribeFields(Fields):
    """``start``: where to begin; for a group, only in streams without a position."""

    pattern: str
    group: str = ""
    member: str = ""
    start: Literal["latest", "earliest"] | None = None
    start_timestamp_us: int | None = None
    start_positions: list[str] | None = None
    settle: bool = False  # each event by itself: after a failure with ``retry`` it comes again
    window: int = 64  # events on their way to a client that sets no number: enough for a round trip on a LAN


class UnsubscribeFields(Fields):
    subscription: int


class TopicsFields(Fields):
    pattern: str = ">"
    after: str = ""
    limit: int | None = None


class NoFields(Fields):
    pass


# --- from clients ----------------------------------------------------------------------------------------------------


def fields_untrusted(kind: type[F], data: JsonObject | None) -> F:
    try:
        return msgspec.convert(data if data is not None else {}, kind)
    except msgspec.ValidationError as error:
        raise BadFields(str(error)) from None


def bytes_untrusted(name: str, text: str | None, base64: str | None) -> bytes | None:
    """A payload or a key, given in one of two ways or not at all."""
    if text is not None:
        if base64 is not None:
            raise BadFields(f"either {name} or {name}_base64, not both")
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise BadFields(f"{name} is not Unicode text", at=error.start) from None
    if base64 is None:
        return None
    try:
        return a2b_base64(base64, strict_mode=True)
    except (Base64Error, ValueError) as error:
        raise BadFields(f"{name}_base64 is not base64: {error}") from None


def key_untrusted(fields: PublishFields) -> bytes | None:
    return bytes_untrusted("key", fields.key, fields.key_base64)


def payload_untrusted(fields: PublishFields | RequestFields) -> bytes:
    payload = bytes_untrusted("payload", fields.payload, fields.payload_base64)
    if payload is None:
        raise BadFields("there is nothing to publish: give payload (text) or payload_base64")
    return payload


def check_place_untrusted(fields: PublishFields) -> None:
    """Check where, when and how safely."""
    within("partition", fields.partition, 0, PARTITIONS_MAX - 1)
    within("copies", fields.copies, 0, COPIES_MAX)
    if fields.timestamp_us is not None:
        within("timestamp_us", fields.timestamp_us, 0, OFFSET_MAX)
    if fields.deliver_at_us is None and fields.delay_s is None:
        return
    if fields.deliver_at_us is not None:
        within("deliver_at_us", fields.deliver_at_us, 0, OFFSET_MAX)
    if fields.delay_s is not None and not 0 <= fields.delay_s <= AHEAD_S_MAX:
        raise BadFields("delay_s is out of range", value=fields.delay_s, first=0, last=AHEAD_S_MAX)
    if fields.deliver_at_us is not None and fields.delay_s is not None:
        raise BadFields("either deliver_at_us or delay_s, not both")
    if fields.timestamp_us is not None or fields.copies > 1:
        raise BadFields(
            "an event for later takes no timestamp_us and no copies: it gets its timestamp when it is delivered, and "
            "waits at one node"
        )


def due_us_of(fields: PublishFields, now_us: int) -> int:
    """When an event for later is due. Its fields have been checked."""
    if fields.deliver_at_us is not None:
        return fields.deliver_at_us
    return now_us + round((fields.delay_s or 0.0) * 1e6)


def start_untrusted(fields: SubscribeFields) -> Start:
    given = (fields.start, fields.start_timestamp_us, fields.start_positions)
    if sum(each is not None for each in given) > 1:
        raise BadFields("one start is enough: start, start_timestamp_us or start_positions")
    if fields.start_timestamp_us is not None:
        return FromTime(within("start_timestamp_us", fields.start_timestamp_us, 0, OFFSET_MAX))
    if fields.start_positions is not None:
        count = len(fields.start_positions)
        if count > CLIENT_POSITIONS_MAX:
            raise BadFields("too many positions", have=count, limit=CLIENT_POSITIONS_MAX)
        return FromPositions(tuple(map(parse_position, fields.start_positions)))
    return Edge.OWN if fields.start is None else EDGES[fields.start]


def within(name: str, value: int, first: int, last: int) -> int:
    if not first <= value <= last:
        raise BadFields(f"{name} is out of range", value=value, first=first, last=last)
    return value


def stream_untrusted(fields: FetchFields, here: str) -> Stream:
    origin = parse_node_id(here if fields.origin is None else fields.origin)
    return Stream(parse_topic(fields.topic), origin, fields.partition)


# --- to clients ------------------------------------------------------------------------------------------------------


def receipt_json(receipt: Receipt, number: int) -> JsonObject:
    """For the event with this number among those of the receipt."""
    stream = receipt.stream
    return {
        "topic": stream.topic,
        "origin": stream.origin,
        "partition": stream.partition,
        "epoch": receipt.epoch,
        "offset": receipt.first_offset + number,
        "copies": receipt.copies,
    }


def events_json(stream: Stream, epoch: Epoch, batch: Batch, first: int, end: int) -> Iterator[JsonObject]:
    """The events of a stored batch with offsets from ``first`` up to but not including ``end``."""
    rows = batch.rows(first, end)
    timestamps, keys, headers, payloads = rows.columns
    count = rows.num_rows
    columns = zip(
        range(max(first, batch.base_offset), end),
        timestamps.to_pylist(),
        keys.to_pylist() if keys.null_count < count else repeat(None),
        headers.to_pylist() if headers.null_count < count else repeat(None),
        payloads.to_pylist(),
        strict=False,
    )
    for offset, timestamp_us, key, pairs, payload in columns:
        event: JsonObject = {
            "topic": stream.topic,
            "origin": stream.origin,
            "partition": stream.partition,
            "epoch": epoch,
            "offset": offset,
            "timestamp_us": timestamp_us,
        }
        if key is not None:
            put_bytes(event, "key", key)
        if pairs is not None:
            event["headers"] = dict(pairs)
        put_bytes(event, "payload", payload)
        yield event


def put_bytes(event: JsonObject, name: str, value: bytes) -> None:
    try:
        event[name] = value.decode()
    except UnicodeDecodeError:
        event[f"{name}_base64"] = b2a_base64(value, newline=False).decode()
