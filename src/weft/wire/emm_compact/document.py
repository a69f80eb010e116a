"""Packets as plain documents (dictionaries that JSON can hold) and back, to the byte.

    {"protocol": "emm-c", "event_id": 7, "epoch": 1, "offset": 0, "urgent": false, "type": "heartbeat",
     "signature": "<hex>", "body": {"fields": [{"field": "uptime", "value": 3600}, ...]}}

The fields of a body are a list, because their order is free and a document must give back the same bytes. A field of
unknown type is named by its number and holds hexadecimal. Content that an application defines is ``{"text": ...}``
where it is UTF-8, else ``{"hex": ...}``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, IntFlag
from typing import Any, Final, TypeVar, assert_never
from uuid import UUID

from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm_compact import fields
from weft.wire.emm_compact import packet as packets
from weft.wire.emm_compact.body import Notification
from weft.wire.emm_compact.codes import Ecn, EventType, FieldType, Format, Priority, TopologyField, label
from weft.wire.emm_compact.fields import RULES, Kind, Rule
from weft.wire.emm_compact.header import Header
from weft.wire.emm_compact.packet import SIGNATURE_BYTES, Packet, body_at
from weft.wire.emm_compact.text import encode_text
from weft.wire.emm_compact.values import NODE_ID_BYTES, TOPOLOGY_FIELD_TYPES, PropagationMap, RateSignal
from weft.wire.reject import BadPacket

PROTOCOL: Final = "emm-c"
KEYS: Final = ("protocol", "event_id", "epoch", "offset", "urgent", "type", "signature", "body")

Document = dict[str, Any]  # what JSON can hold
Code = TypeVar("Code", bound=IntEnum)
Choice = TypeVar("Choice")
Plain = TypeVar("Plain", str, int, bool, dict[str, Any], list[Any])


def to_document_untrusted(datagram: bytes) -> Document:
    """The document of one datagram; raise only BadPacket, whatever the bytes."""
    packet = packets.decode_untrusted(datagram)
    header = packet.header
    return {
        "protocol": PROTOCOL,
        "event_id": header.event_id,
        "epoch": header.epoch,
        "offset": header.offset,
        "urgent": header.urgent,
        "type": label(header.type),
        "signature": packet.signature.hex(),
        "body": _body_document(packet),
    }


def from_document(document: Document) -> bytes:
    """The datagram of a document; UsageError names what is wrong with it."""
    _check_keys(_plain(dict, document, "document"), KEYS, "document")
    if document["protocol"] != PROTOCOL:
        raise UsageError(f"protocol must be {PROTOCOL!r}", have=document["protocol"])
    event_type = _code(EventType, document["type"], "type")
    header = Header(
        event_type,
        event_id=_plain(int, document["event_id"], "event_id"),
        epoch=_plain(int, document["epoch"], "epoch"),
        offset=_plain(int, document["offset"], "offset"),
        urgent=_plain(bool, document["urgent"], "urgent"),
    )
    signature = _hex(document["signature"], "signature")
    if len(signature) != SIGNATURE_BYTES[event_type]:
        raise UsageError("signature has the wrong size", need=SIGNATURE_BYTES[event_type], have=len(signature))
    body = _plain(dict, document["body"], "body")
    payload = tlv.encode(FieldType.SIGNATURE, signature) + _body_bytes(event_type, body)
    datagram = header.encode(len(payload)) + payload
    try:
        packets.decode_untrusted(datagram)
    except BadPacket as refusal:
        raise UsageError(f"body: {refusal.what}", **refusal.facts) from None
    return datagram


def field_document(field: tlv.Tlv) -> Any:
    """The value of one valid field as a document holds it."""
    rule = RULES.get(field.type)
    if rule is None:
        return field.value.hex()
    match rule.kind:
        case Kind.NUMBER:
            return _number_document(rule, int.from_bytes(field.value))
        case Kind.ID:
            return str(UUID(bytes=field.value))
        case Kind.BYTES:
            return field.value.hex()
        case Kind.CONTENT:
            return content_document(field.value)
        case Kind.LABEL:
            return field.value.decode()
        case Kind.RATE_SIGNAL:
            rate = RateSignal.decode_untrusted(field.value, field.at)
            return {"ecn": label(rate.ecn), "sent": rate.sent, "received": rate.received}
        case Kind.PROPAGATION_MAP:
            hops = PropagationMap.decode_untrusted(field.value, field.at)
            return {"hops": hops.hops, "ttl": hops.ttl, "origin": hops.origin.hex()}
        case Kind.TOPOLOGY_HINT:
            return [
                {"field": topology_name(sub.type), "value": topology_document(sub)}
                for sub in tlv.read_untrusted(field.value, 0, len(field.value), len(field.value))
            ]
        case _:
            assert_never(rule.kind)


def content_document(value: bytes) -> Document:
    """What an application put there: text where it is UTF-8."""
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def field_name(field_type: int) -> str:
    """What a document calls a field: its name, or its number if it has none."""
    return label(FieldType(field_type)) if field_type in RULES else f"0x{field_type:02x}"


def topology_name(field_type: int) -> str:
    """The same for a part of a topology hint."""
    return label(TopologyField(field_type)) if field_type in TOPOLOGY_FIELD_TYPES else f"0x{field_type:02x}"


def topology_document(sub: tlv.Tlv) -> Any:
    """The value of one valid part of a topology hint as a document holds it."""
    match sub.type:
        case TopologyField.KNOWN_PEERS:
            ids = range(0, len(sub.value), NODE_ID_BYTES)
            return [str(UUID(bytes=sub.value[at : at + NODE_ID_BYTES])) for at in ids]
        case TopologyField.HOP_DISTANCE:
            return sub.value[0]
        case TopologyField.REGION:
            return sub.value.decode()
        case _:
            return sub.value.hex()


FIELD_CODES: Final = {label(FieldType(code)): FieldType(code) for code in RULES}


def _body_document(packet: Packet) -> Document:
    if isinstance(packet.body, Notification):
        return {
            "priority": label(packet.body.priority),
            "format": label(packet.body.format),
            "message": content_document(packet.body.message),
        }
    found = fields.read_untrusted(packet.raw, body_at(packet.header.type))
    return {"fields": [{"field": field_name(field.type), "value": field_document(field)} for field in found]}


def _number_document(rule: Rule, number: int) -> Any:
    if rule.names is None:
        return number
    if issubclass(rule.names, IntFlag):
        return [label(bit) for bit in rule.names if bit & number]
    return label(rule.names(number))


def _body_bytes(event_type: EventType, body: Document) -> bytes:
    if event_type is EventType.NOTIFICATION:
        _check_keys(body, ("priority", "format", "message"), "body")
        return Notification(
            _code(Priority, body["priority"], "body.priority"),
            _code(Format, body["format"], "body.format"),
            _content_bytes(body["message"], "body.message"),
        ).encode()
    _check_keys(body, ("fields",), "body")
    parts = []
    for index, entry in enumerate(_plain(list, body["fields"], "body.fields")):
        path = f"body.fields[{index}]"
        name, value = _entry(entry, path)
        code = FIELD_CODES.get(name)
        if code is None:
            parts.append(_tlv(_number_of(name, path), _hex(value, path), path))
        else:
            parts.append(_tlv(code, _field_bytes(RULES[code], value, f"{path} ({name})"), path))
    return b"".join(parts)


def _field_bytes(rule: Rule, value: object, path: str) -> bytes:
    match rule.kind:
        case Kind.NUMBER:
            return _number_bytes(rule, value, path)
        case Kind.ID:
            return _uuid(value, path)
        case Kind.BYTES:
            return _hex(value, path)
        case Kind.CONTENT:
            return _content_bytes(value, path)
        case Kind.LABEL:
            return encode_text(path, _plain(str, value, path))
        case Kind.RATE_SIGNAL:
            return _rate_signal_bytes(_plain(dict, value, path), path)
        case Kind.PROPAGATION_MAP:
            return _propagation_map_bytes(_plain(dict, value, path), path)
        case Kind.TOPOLOGY_HINT:
            entries = enumerate(_plain(list, value, path))
            return b"".join(_topology_bytes(entry, f"{path}[{index}]") for index, entry in entries)
        case _:
            assert_never(rule.kind)


def _number_bytes(rule: Rule, value: object, path: str) -> bytes:
    if rule.names is None:
        number = _plain(int, value, path)
    elif issubclass(rule.names, IntFlag):
        bits = {label(bit): int(bit) for bit in rule.names}
        number = 0
        for name in _plain(list, value, path):
            number |= _choose(bits, name, path)
    else:
        number = _code(rule.names, value, path)
    if number not in rule.values:
        raise UsageError(f"{path} is out of range", value=number, first=rule.values[0], last=rule.values[-1])
    return number.to_bytes(rule.sizes[0])


def _rate_signal_bytes(value: Document, path: str) -> bytes:
    _check_keys(value, ("ecn", "sent", "received"), path)
    return RateSignal(
        ecn=_code(Ecn, value["ecn"], f"{path}.ecn"),
        sent=_plain(int, value["sent"], f"{path}.sent"),
        received=_plain(int, value["received"], f"{path}.received"),
    ).encode()


def _propagation_map_bytes(value: Document, path: str) -> bytes:
    _check_keys(value, ("hops", "ttl", "origin"), path)
    return PropagationMap(
        hops=_plain(int, value["hops"], f"{path}.hops"),
        ttl=_plain(int, value["ttl"], f"{path}.ttl"),
        origin=_hex(value["origin"], f"{path}.origin"),
    ).encode()


def _topology_bytes(entry: object, path: str) -> bytes:
    name, value = _entry(entry, path)
    match name:
        case "known-peers":
            peers = [_uuid(peer, path) for peer in _plain(list, value, path)]
            return _tlv(TopologyField.KNOWN_PEERS, b"".join(peers), path)
        case "hop-distance":
            distance = _plain(int, value, path)
            if distance not in range(256):
                raise UsageError(f"{path} is out of range", value=distance, first=0, last=255)
            return _tlv(TopologyField.HOP_DISTANCE, bytes((distance,)), path)
        case "region":
            return _tlv(TopologyField.REGION, encode_text(path, _plain(str, value, path)), path)
        case _:
            return _tlv(_number_of(name, path), _hex(value, path), path)


def _content_bytes(value: object, path: str) -> bytes:
    content = _plain(dict, value, path)
    if "hex" in content:
        _check_keys(content, ("hex",), path)
        return _hex(content["hex"], f"{path}.hex")
    _check_keys(content, ("text",), path)
    return encode_text(f"{path}.text", _plain(str, content["text"], f"{path}.text"))


def _entry(entry: object, path: str) -> tuple[str, Any]:
    found = _plain(dict, entry, path)
    _check_keys(found, ("field", "value"), path)
    return _plain(str, found["field"], f"{path}.field"), found["value"]


def _number_of(name: str, path: str) -> int:
    try:
        number = int(name, 16) if name.startswith("0x") else -1
    except ValueError:
        number = -1
    if number not in range(256):
        raise UsageError(f"{path}.field is neither a known name nor a number like 0x55", have=name)
    return number


def _tlv(field_type: int, value: bytes, path: str) -> bytes:
    if len(value) > tlv.CHUNK_BYTES_MAX:
        raise UsageError(f"{path} is too long", have=len(value), limit=tlv.CHUNK_BYTES_MAX)
    return tlv.encode(field_type, value)


def _check_keys(document: Document, keys: Iterable[str], path: str) -> None:
    missing = [key for key in keys if key not in document]
    if missing:
        raise UsageError(f"{path} lacks {missing[0]!r}")
    unknown = [key for key in document if key not in keys]
    if unknown:
        raise UsageError(f"{path} has an unknown key {unknown[0]!r}")


def _plain(kind: type[Plain], value: object, path: str) -> Plain:
    # type(), because a bool is an int to isinstance
    if type(value) is not kind:
        raise UsageError(f"{path} must be {kind.__name__}", have=type(value).__name__)
    return value


def _code(codes: type[Code], value: object, path: str) -> Code:
    return _choose({label(code): code for code in codes}, value, path)


def _choose(choices: dict[str, Choice], value: object, path: str) -> Choice:
    name = _plain(str, value, path)
    if name not in choices:
        raise UsageError(f"{path} must be one of {', '.join(choices)}", have=name)
    return choices[name]


def _hex(value: object, path: str) -> bytes:
    try:
        return bytes.fromhex(_plain(str, value, path))
    except ValueError:
        raise UsageError(f"{path} is not hexadecimal") from None


def _uuid(value: object, path: str) -> bytes:
    try:
        return UUID(_plain(str, value, path)).bytes
    except ValueError:
        raise UsageError(f"{path} is not a UUID", have=value) from None
