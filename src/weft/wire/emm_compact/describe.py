"""A packet taken apart for people: every byte is in one named leaf, with its meaning."""

from __future__ import annotations

from weft.wire import tlv
from weft.wire.describe import Part
from weft.wire.emm_compact import document, fields
from weft.wire.emm_compact import packet as packets
from weft.wire.emm_compact.body import NOTIFICATION_HEAD_BYTES, Notification
from weft.wire.emm_compact.codes import FieldType, label
from weft.wire.emm_compact.header import HEADER_BYTES, VERSION, Header
from weft.wire.emm_compact.packet import Packet, body_at


def describe_untrusted(datagram: bytes) -> Part:
    """The tree of one datagram; raise only BadPacket, whatever the bytes."""
    packet = packets.decode_untrusted(datagram)
    size, at = len(datagram), body_at(packet.header.type)
    signature = tlv.Tlv(FieldType.SIGNATURE, packet.signature, HEADER_BYTES)
    body = _notification(packet.body, at) if isinstance(packet.body, Notification) else _fields(packet, at)
    parts = (
        _header(packet.header, size - HEADER_BYTES),
        _field(signature, "signature", packet.signature.hex()),
        Part(label(packet.header.type), at, size - at, parts=body),
    )
    return Part("EMM-C packet", 0, size, f"{label(packet.header.type)}, {size} bytes", parts)


def _header(header: Header, payload_bytes: int) -> Part:
    flags = "urgent" if header.urgent else "not urgent"
    return Part(
        "header",
        0,
        HEADER_BYTES,
        parts=(
            Part("version, flags, type", 0, 1, f"version {VERSION}, {flags}, {label(header.type)}"),
            Part("event id", 1, 2, str(header.event_id)),
            Part("epoch", 3, 2, str(header.epoch)),
            Part("offset", 5, 2, str(header.offset)),
            Part("payload length", 7, 1, f"{payload_bytes} bytes"),
        ),
    )


def _notification(body: Notification, at: int) -> tuple[Part, ...]:
    message_at = at + NOTIFICATION_HEAD_BYTES
    return (
        Part("priority", at, 1, label(body.priority)),
        Part("format", at + 1, 1, label(body.format)),
        Part("message", message_at, len(body.message), _readable(document.content_document(body.message))),
    )


def _fields(packet: Packet, at: int) -> tuple[Part, ...]:
    described = []
    for field in fields.read_untrusted(packet.raw, at):
        inside = _topology(field) if field.type == FieldType.TOPOLOGY_HINT else ()
        value = "" if inside else _readable(document.field_document(field))
        described.append(_field(field, document.field_name(field.type), value, inside))
    return tuple(described)


def _field(field: tlv.Tlv, name: str, value: str, inside: tuple[Part, ...] = ()) -> Part:
    size, value_at = len(field.value), field.at + tlv.HEAD_BYTES
    return Part(
        name,
        field.at,
        tlv.HEAD_BYTES + size,
        parts=(
            Part("type", field.at, 1, f"0x{field.type:02x}"),
            Part("length", field.at + 1, 1, str(size)),
            Part("value", value_at, size, value, inside),
        ),
    )


def _topology(field: tlv.Tlv) -> tuple[Part, ...]:
    value_at = field.at + tlv.HEAD_BYTES
    return tuple(
        _field(
            sub._replace(at=value_at + sub.at),
            document.topology_name(sub.type),
            _readable(document.topology_document(sub)),
        )
        for sub in tlv.read_untrusted(field.value, 0, len(field.value), len(field.value))
    )


def _readable(value: object) -> str:
    match value:
        case {"text": str(text)}:
            return repr(text)  # repr, because terminals obey control characters
        case {"hex": str(digits)}:
            return digits
        case dict():
            return ", ".join(f"{name} {_readable(inner)}" for name, inner in value.items())
        case list():
            return ", ".join(_readable(inner) for inner in value)
        case _:
            return str(value)
