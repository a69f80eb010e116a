"""What follows the signature: the four typed bodies (2.2.1 to 2.2.4, EMC-06 to EMC-09).

A notification is two bytes and a message. The others are fields in any order, some of them required; the rest, known
or not, is kept in ``more``. Fields that mean one thing must not occur twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self, assert_never

from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm_compact import fields
from weft.wire.emm_compact.codes import PRIORITY_BASE, EventType, FieldType, Format, Priority, SupportedTypes, label
from weft.wire.emm_compact.text import check_message_untrusted, encode_text
from weft.wire.emm_compact.values import EventDigest, PropagationMap, RateSignal
from weft.wire.reject import BadPacket, Reject

NOTIFICATION_HEAD_BYTES: Final = 2  # priority:u8 format:u8, then the message to the end


class Field(NamedTuple):
    """A field beyond those its body must have: its type, known or not, and its bytes."""

    type: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Notification:
    """Something happened: a message in some format (2.2.1, EMC-06)."""

    TYPE: ClassVar = EventType.NOTIFICATION

    priority: Priority
    format: Format
    message: bytes

    def encode(self) -> bytes:
        return bytes((PRIORITY_BASE + self.priority, self.format)) + self.message

    @classmethod
    def decode_untrusted(cls, datagram: bytes, at: int) -> Self:
        """The rest of the datagram from ``at``; raise only BadPacket."""
        have = len(datagram) - at
        if have < NOTIFICATION_HEAD_BYTES:
            raise BadPacket(
                Reject.MISSING_FIELD, "no priority and format", at=at, need=NOTIFICATION_HEAD_BYTES, have=have
            )
        priority, message_format = datagram[at] - PRIORITY_BASE, datagram[at + 1]
        if priority not in PRIORITIES:
            raise BadPacket(Reject.TLV_VALUE, "unknown or reserved priority", at=at, byte=hex(datagram[at]))
        if message_format not in FORMATS:
            raise BadPacket(Reject.TLV_VALUE, "unknown or reserved format", at=at + 1, byte=hex(message_format))
        message_at = at + NOTIFICATION_HEAD_BYTES
        body = cls(Priority(priority), Format(message_format), datagram[message_at:])
        check_message_untrusted(body.format, body.message, message_at)
        return body


@dataclass(frozen=True, slots=True)
class Command:
    """A request that the receiver may carry out (2.2.2, EMC-07). ``more`` names the sender, or nobody can verify it."""

    TYPE: ClassVar = EventType.COMMAND

    name: str
    parameters: bytes
    more: tuple[Field, ...] = ()

    def encode(self) -> bytes:
        return _join(
            Field(FieldType.COMMAND_NAME, encode_text("command name", self.name)),
            Field(FieldType.COMMAND_PARAMETERS, self.parameters),
            *self.more,
        )

    @classmethod
    def decode_untrusted(cls, datagram: bytes, at: int) -> Self:
        """The rest of the datagram from ``at``; raise only BadPacket."""
        found = _Found(datagram, at)
        return cls(
            name=found.take(FieldType.COMMAND_NAME).decode(),
            parameters=found.take(FieldType.COMMAND_PARAMETERS),
            more=found.rest(),
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A node is alive, and how it fares (2.2.3, EMC-08)."""

    TYPE: ClassVar = EventType.HEARTBEAT

    node_id: bytes
    uptime_s: int
    digest: EventDigest
    rate: RateSignal
    propagation: PropagationMap
    more: tuple[Field, ...] = ()

    def encode(self) -> bytes:
        return _join(
            Field(FieldType.NODE_ID, self.node_id),
            Field(FieldType.UPTIME, _number("uptime_s", self.uptime_s, 4)),
            Field(FieldType.EVENT_DIGEST, self.digest.bits),
            Field(FieldType.RATE_SIGNAL, self.rate.encode()),
            Field(FieldType.PROPAGATION_MAP, self.propagation.encode()),
            *self.more,
        )

    @classmethod
    def decode_untrusted(cls, datagram: bytes, at: int) -> Self:
        """The rest of the datagram from ``at``; raise only BadPacket."""
        found = _Found(datagram, at)
        return cls(
            node_id=found.take(FieldType.NODE_ID),
            uptime_s=int.from_bytes(found.take(FieldType.UPTIME)),
            digest=EventDigest(found.take(FieldType.EVENT_DIGEST)),
            rate=RateSignal.decode_untrusted(found.take(FieldType.RATE_SIGNAL), at),
            propagation=PropagationMap.decode_untrusted(found.take(FieldType.PROPAGATION_MAP), at),
            more=found.rest(),
        )


@dataclass(frozen=True, slots=True)
class Join:
    """A node wants in, and says what it can do (2.2.4, EMC-09)."""

    TYPE: ClassVar = EventType.JOIN

    node_id: bytes
    supported: SupportedTypes
    relationships_max: int
    heartbeat_interval_s: int
    status: bytes
    more: tuple[Field, ...] = ()

    def encode(self) -> bytes:
        return _join(
            Field(FieldType.NODE_ID, self.node_id),
            Field(FieldType.SUPPORTED_TYPES, _number("supported", self.supported, 1)),
            Field(FieldType.RELATIONSHIPS_MAX, _number("relationships_max", self.relationships_max, 1)),
            Field(FieldType.HEARTBEAT_INTERVAL, _number("heartbeat_interval_s", self.heartbeat_interval_s, 1)),
            Field(FieldType.STATUS, self.status),
            *self.more,
        )

    @classmethod
    def decode_untrusted(cls, datagram: bytes, at: int) -> Self:
        """The rest of the datagram from ``at``; raise only BadPacket."""
        found = _Found(datagram, at)
        return cls(
            node_id=found.take(FieldType.NODE_ID),
            supported=SupportedTypes(found.take(FieldType.SUPPORTED_TYPES)[0]),
            relationships_max=found.take(FieldType.RELATIONSHIPS_MAX)[0],
            heartbeat_interval_s=found.take(FieldType.HEARTBEAT_INTERVAL)[0],
            status=found.take(FieldType.STATUS),
            more=found.rest(),
        )


Body = Notification | Command | Heartbeat | Join

PRIORITIES: Final = frozenset(Priority)
FORMATS: Final = frozenset(Format)


def decode_untrusted(event_type: EventType, datagram: bytes, at: int) -> Body:
    """The body of a datagram of that type, from ``at`` to the end; raise only BadPacket."""
    match event_type:
        case EventType.NOTIFICATION:
            return Notification.decode_untrusted(datagram, at)
        case EventType.COMMAND:
            return Command.decode_untrusted(datagram, at)
        case EventType.HEARTBEAT:
            return Heartbeat.decode_untrusted(datagram, at)
        case EventType.JOIN:
            return Join.decode_untrusted(datagram, at)
        case _:
            assert_never(event_type)


def node_id_of(body: Body) -> bytes | None:
    """The node a body says it comes from, if it says so (field 0xA9)."""
    match body:
        case Heartbeat() | Join():
            return body.node_id
        case Command():
            return find(body.more, FieldType.NODE_ID)
        case Notification():
            return None
        case _:
            assert_never(body)


def find(more: Iterable[Field], field_type: FieldType) -> bytes | None:
    """The value of a field that a body need not have."""
    return next((field.value for field in more if field.type == field_type), None)


def more_of(body: Body) -> tuple[Field, ...]:
    """The fields that a body has beyond those it must have."""
    return () if isinstance(body, Notification) else body.more


def expiry_s_of(body: Body) -> int | None:
    """For how many seconds after its epoch a packet counts, if it says so (0xAC)."""
    value = find(more_of(body), FieldType.EXPIRY_HINT)
    return None if value is None else value[0]


class _Found:
    """The fields of one body: what is required is taken out by type, the rest keeps its order."""

    def __init__(self, datagram: bytes, at: int) -> None:
        self._end = len(datagram)
        self._left = fields.read_untrusted(datagram, at)

    def take(self, field_type: FieldType) -> bytes:
        for index, field in enumerate(self._left):
            if field.type == field_type:
                return self._left.pop(index).value
        raise BadPacket(Reject.MISSING_FIELD, "required field is missing", at=self._end, field=label(field_type))

    def rest(self) -> tuple[Field, ...]:
        return tuple(Field(field.type, field.value) for field in self._left)


def _join(*parts: Field) -> bytes:
    for part in parts:
        if not 0 <= part.type <= 0xFF:
            raise UsageError("a field's type is one byte", type=part.type)
        if len(part.value) > tlv.CHUNK_BYTES_MAX:
            raise UsageError("field is too long", type=hex(part.type), have=len(part.value), limit=tlv.CHUNK_BYTES_MAX)
    return b"".join(tlv.encode(part.type, part.value) for part in parts)


def _number(name: str, value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size)
    except OverflowError:
        raise UsageError(f"{name} is out of range", value=value, limit=(1 << 8 * size) - 1) from None
