"""An EMM packet for people: a tree in which every byte has its place, and a JSON document that can be turned back."""

from __future__ import annotations

import math
import struct
from typing import Any
from uuid import UUID

from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.describe import Part
from weft.wire.emm.fields import (
    DEFAULT_RULES,
    HEADER,
    HEADER_BYTES,
    VERSION,
    Algorithm,
    EventType,
    Field,
    Flags,
    Rules,
    Sub,
    type_name,
)
from weft.wire.emm.packet import TIMESTAMP, Packet
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.values import FLOAT, INTEGER
from weft.wire.reject import BadPacket
from weft.wire.tlv import HEAD_BYTES, Tlv

PROTOCOL = "emm"
_FLAG_NAMES = {flag: str(flag.name).lower() for flag in Flags if flag}


def describe_untrusted(data: bytes, rules: Rules = DEFAULT_RULES) -> Part:
    """The packet as a tree of named byte ranges; raise only BadPacket."""
    packet = parse_untrusted(data, rules)
    header = (
        Part("version", 0, 1, str(VERSION)),
        Part("message id", 1, 4, f"{packet.message_id} (0x{packet.message_id:08x})"),
        Part("flags", 5, 1, ", ".join(_flag_names(packet)) or "none"),
        Part("event type", 6, 1, packet.kind.name.lower()),
        Part("timestamp", 7, 8, f"{packet.timestamp_s} s"),
        Part("payload length", 15, 2, f"{len(data) - HEADER_BYTES} bytes"),
    )
    fields = tuple(_describe_field(field, data) for field in packet.tlvs())
    parts = [Part("header", 0, HEADER_BYTES, parts=header)]
    if fields:
        parts.append(Part("payload", HEADER_BYTES, len(data) - HEADER_BYTES, parts=fields))
    return Part("EMM packet", 0, len(data), f"{len(data)} bytes", tuple(parts))


def _describe_field(field: Tlv, data: bytes) -> Part:
    value_at = field.at + HEAD_BYTES
    size = len(field.value)
    head = (
        Part("type", field.at, 1, f"0x{field.type:02x}"),
        Part("length", field.at + 1, 1, str(size)),
    )
    if field.type == Field.ENCRYPTION:
        subs = tlv.read_untrusted(data, value_at, value_at + size, size)
        return Part(type_name(field.type), field.at, HEAD_BYTES + size, parts=head + tuple(map(_describe_sub, subs)))
    shown = _show(field)
    value = (Part("value", value_at, size, shown),) if size else ()
    return Part(type_name(field.type), field.at, HEAD_BYTES + size, shown, head + value)


def _describe_sub(sub: Tlv) -> Part:
    name, shown = f"unknown (0x{sub.type:02x})", sub.value.hex()
    if sub.type in set(Sub):
        name = Sub(sub.type).name.lower().replace("_", " ")
    if sub.type == Sub.ALGORITHM:
        shown = Algorithm(sub.value[0]).name.lower().replace("_", "-")
    head = (Part("type", sub.at, 1, f"0x{sub.type:02x}"), Part("length", sub.at + 1, 1, str(len(sub.value))))
    value = (Part("value", sub.at + HEAD_BYTES, len(sub.value), shown),) if sub.value else ()
    return Part(name, sub.at, HEAD_BYTES + len(sub.value), shown, head + value)


def to_document_untrusted(data: bytes, rules: Rules = DEFAULT_RULES) -> dict[str, Any]:
    """The packet as JSON-ready values, field by field as on the wire; raise only BadPacket."""
    packet = parse_untrusted(data, rules)
    return {
        "protocol": PROTOCOL,
        "message_id": packet.message_id,
        "flags": _flag_names(packet),
        "event_type": packet.kind.name.lower(),
        "timestamp_s": packet.timestamp_s,
        "fields": [
            {"type": f"0x{field.type:02x}", "name": type_name(field.type).partition(" (")[0], **_to_json(field)}
            for field in packet.tlvs()
        ],
    }


def from_document(document: dict[str, Any], rules: Rules = DEFAULT_RULES) -> bytes:
    """The inverse of ``to_document_untrusted``; raise UsageError naming what is wrong with the document."""
    flags = Flags.NONE
    for name in _get(document, "flags", list, "document"):
        if name not in _FLAG_NAMES.values():
            raise UsageError("unknown flag in the document", flag=name, known=", ".join(_FLAG_NAMES.values()))
        flags |= Flags[name.upper()]
    kind = _get(document, "event_type", str, "document")
    if kind.upper() not in EventType.__members__:
        raise UsageError("unknown event type in the document", event_type=kind)
    fields = _get(document, "fields", list, "document")
    payload = b"".join(_from_json(field, f"fields[{index}]") for index, field in enumerate(fields))
    try:
        header = HEADER.pack(
            VERSION,
            _get(document, "message_id", int, "document"),
            flags,
            EventType[kind.upper()],
            _get(document, "timestamp_s", int, "document"),
            len(payload),
        )
        parse_untrusted(header + payload, rules)
    except struct.error as error:
        raise UsageError(f"a number of the document does not fit its field: {error}") from None
    except BadPacket as error:
        raise UsageError(f"no receiver would take this packet: {error}", reason=error.reason) from error
    return header + payload


def _flag_names(packet: Packet) -> list[str]:
    return [name for flag, name in _FLAG_NAMES.items() if packet.flags & flag]


def _show(field: Tlv) -> str:
    value = _to_json(field)
    return str(value.get("value", value.get("hex")))


def _to_json(field: Tlv) -> dict[str, Any]:
    """``value`` where JSON can say it exactly, ``hex`` otherwise."""
    match field.type:
        case Field.STRING | Field.JSON:
            try:
                return {"value": field.value.decode()}
            except UnicodeDecodeError:  # a character that is split over two chunks
                pass
        case Field.INTEGER:
            return {"value": INTEGER.unpack(field.value)[0]}
        case Field.FLOAT:
            number = FLOAT.unpack(field.value)[0]
            if math.isfinite(number):
                return {"value": number}
        case Field.NODE_ID:
            return {"value": str(UUID(bytes=field.value))}
        case Field.TIMESTAMP:
            return {"value": TIMESTAMP.unpack(field.value)[0]}
        case _:
            pass
    return {"hex": field.value.hex()}


def _from_json(field: Any, where: str) -> bytes:
    if not isinstance(field, dict):
        raise UsageError(f"{where} is not an object")
    text = _get(field, "type", str, where)
    try:
        kind = int(text, 16)
        value = bytes.fromhex(field["hex"]) if "hex" in field else _pack(kind, field.get("value"))
    except (ValueError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise UsageError(f"{where} cannot be written: {error}", type=text) from None
    if not 0 <= kind <= 255 or len(value) > tlv.CHUNK_BYTES_MAX:
        raise UsageError(f"{where} does not fit a TLV", type=text, size=len(value), limit=tlv.CHUNK_BYTES_MAX)
    return tlv.encode(kind, value)


def _pack(kind: int, value: Any) -> bytes:
    match kind:
        case Field.STRING | Field.JSON:
            return bytes(value.encode())
        case Field.INTEGER:
            return INTEGER.pack(value)
        case Field.FLOAT:
            return FLOAT.pack(value)
        case Field.NODE_ID:
            return UUID(value).bytes
        case Field.TIMESTAMP:
            return TIMESTAMP.pack(value)
        case _:
            raise ValueError("this type takes its value as hex")


def _get(source: dict[str, Any], name: str, kind: type, where: str) -> Any:
    value = source.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{where} needs {name!r} as {kind.__name__}", got=type(value).__name__)
    return value
