"""Reading one EMM packet. The order of checks is fixed, so that the columnar decoder can give the same reasons:
header, then each field in wire order, then the values, then rules about the packet as a whole."""

from __future__ import annotations

from typing import NoReturn

from weft.wire.emm.encryption import read_encryption_untrusted
from weft.wire.emm.fields import (
    ANY_SIZE,
    DATA_LAST,
    DEFAULT_RULES,
    EVENT_TYPES,
    FLAGS_KNOWN,
    FLAGS_SEALED,
    HEADER,
    HEADER_BYTES,
    NEXT_RANK_BY_TYPE,
    RANK_BY_TYPE,
    SINGLETON_FIRST,
    SINGLETON_LAST,
    SIZE_BY_TYPE,
    VERSION,
    EventType,
    Field,
    Flags,
    Rules,
    type_name,
)
from weft.wire.emm.packet import Packet
from weft.wire.emm.values import decode_values_untrusted, join_chunks
from weft.wire.reject import BadPacket, Reject
from weft.wire.tlv import CHUNK_BYTES_MAX, HEAD_BYTES, Tlv

# Plain numbers and the bare constructor: this is the hot path, and an enum's member costs three times as much.
EVENT, STRING = int(EventType.EVENT), int(Field.STRING)
NODE_ID, HMAC, SIGNATURE = int(Field.NODE_ID), int(Field.HMAC), int(Field.SIGNATURE)
ENCRYPTION = int(Field.ENCRYPTION)
new_tlv = tuple.__new__


def parse_untrusted(data: bytes, rules: Rules = DEFAULT_RULES) -> Packet:
    """Read one packet; raise only BadPacket, whatever the bytes. Neither authenticity nor freshness is judged here."""
    size = len(data)
    if size < HEADER_BYTES:
        raise BadPacket(Reject.TRUNCATED, "shorter than a header", need=HEADER_BYTES, have=size)
    version, message_id, flags, event_type, timestamp_s, payload_length = HEADER.unpack_from(data)
    if (
        version != VERSION
        or size > rules.packet_bytes_max
        or flags > FLAGS_KNOWN
        or HEADER_BYTES + payload_length != size
        or event_type not in EVENT_TYPES
    ):
        _refuse_header(size, version, flags, event_type, payload_length, rules)

    offsets: list[int] = []
    chunks: list[Tlv] = []
    fields: dict[int, bytes] = {}
    split = sorts = False
    tlvs_max = rules.tlvs_max
    rank_min = 0
    at = HEADER_BYTES
    while at < size:
        value_at = at + HEAD_BYTES
        if value_at > size:
            raise BadPacket(Reject.TLV_OVERRUN, "field header is cut off", at=at, need=HEAD_BYTES, have=size - at)
        field_type = data[at]
        length = data[at + 1]
        end = value_at + length
        if end > size:
            what = f"field {type_name(field_type)} overruns the payload"
            raise BadPacket(Reject.TLV_OVERRUN, what, at=at, need=length, have=size - value_at)
        if len(offsets) == tlvs_max:
            raise BadPacket(Reject.TLV_COUNT, "too many fields", at=at, limit=tlvs_max)
        if RANK_BY_TYPE[field_type] < rank_min:
            _refuse_order(data, offsets, at)
        rank_min = NEXT_RANK_BY_TYPE[field_type]
        needed = SIZE_BY_TYPE[field_type]
        if needed not in (length, ANY_SIZE):
            what = f"field {type_name(field_type)} has the wrong size"
            raise BadPacket(Reject.TLV_SIZE, what, at=at, need=needed, have=length)
        offsets.append(at)
        if field_type <= DATA_LAST:
            if field_type:
                chunks.append(new_tlv(Tlv, (field_type, data[value_at:end], at)))
                if length == CHUNK_BYTES_MAX:
                    split = True
        elif field_type > SINGLETON_LAST:
            sorts = True
        elif field_type >= SINGLETON_FIRST:
            fields[field_type] = data[value_at:end]
        at = end

    values = decode_values_untrusted(join_chunks(chunks) if split else chunks)
    packet = Packet(data, message_id, flags, event_type, timestamp_s, values, fields, offsets, sorts)
    _check_rules(packet, rules)
    return packet


def _check_rules(packet: Packet, rules: Rules) -> None:
    """What must hold for the packet as a whole."""
    fields = packet.fields
    if NODE_ID not in fields and (HMAC in fields or SIGNATURE in fields):
        raise BadPacket(Reject.ANONYMOUS, "an HMAC or signature requires a node id")  # EMM-16
    if ENCRYPTION in fields:
        if not packet.flags & Flags.ENCRYPTED:  # a receiver must decrypt before it processes (3.2), and cannot (EMM-22)
            raise BadPacket(
                Reject.ENCRYPTION, "encryption metadata (0x11) in a packet that is not flagged as encrypted"
            )
        read_encryption_untrusted(packet, subs_max=rules.tlvs_max - len(packet.offsets))
    if packet.flags & FLAGS_SEALED:
        _check_sealed(packet)
    else:
        check_core_values(packet)
    if packet.event_type != EVENT:  # EMM-25
        _require(fields, Field.NODE_ID, "Hello and Heartbeat name their node")
        if packet.event_type == EventType.HEARTBEAT:
            _require(fields, Field.TIMESTAMP, "a Heartbeat needs the time when it was sent")
    if rules.profile is not None:
        _check_interop(fields)


def check_core_values(packet: Packet) -> None:
    """The data fields that an event type cannot do without (EMM-25). A sealed packet is asked again once it is open."""
    if packet.event_type == EVENT:
        needed, name = STRING, "an Event needs a name"
    elif packet.event_type == EventType.HELLO:
        needed, name = Field.BINARY, "a Hello needs its capabilities"
    else:
        return
    for kind, _ in packet.values:
        if kind == needed:
            return
    raise BadPacket(Reject.MISSING_FIELD, f"{name}: field {type_name(needed)} is missing")


def _check_sealed(packet: Packet) -> None:
    """The flags promise that all data is inside binary fields (EMM-22 to EMM-24)."""
    if packet.flags & Flags.ENCRYPTED:
        if Field.ENCRYPTION not in packet.fields:
            raise BadPacket(Reject.ENCRYPTION, "encrypted without encryption metadata (0x11)")
        reason = Reject.ENCRYPTION
    else:
        reason = Reject.COMPRESSION
    kinds = [kind for kind, _ in packet.values]
    if kinds != [Field.BINARY]:
        raise BadPacket(reason, "a sealed packet carries its data in one binary field (0x04)", have=len(kinds))


def _check_interop(fields: dict[int, bytes]) -> None:
    """EMM-26, for every event type. The event name is required of any Event: that is checked with the core values."""
    for needed in (Field.NODE_ID, Field.AUTH_KEY_ID):
        if needed not in fields:
            raise BadPacket(Reject.PROFILE, f"interop-v1 requires field {type_name(needed)}")
    if Field.HMAC not in fields and Field.SIGNATURE not in fields:
        raise BadPacket(Reject.PROFILE, "interop-v1 requires an HMAC or a signature")


def _require(fields: dict[int, bytes], needed: Field, why: str) -> None:
    if needed not in fields:
        raise BadPacket(Reject.MISSING_FIELD, f"{why}: field {type_name(needed)} is missing")


def _refuse_header(size: int, version: int, flags: int, event_type: int, length: int, rules: Rules) -> NoReturn:
    """Name what is wrong with a header, in the order in which the columnar decoder asks, too."""
    if version != VERSION:
        raise BadPacket(Reject.VERSION, "not EMM version 1", at=0, version=version)
    if size > rules.packet_bytes_max:
        raise BadPacket(Reject.OVERSIZE, "packet is too large", size=size, limit=rules.packet_bytes_max)
    if length > rules.payload_bytes_max:
        raise BadPacket(Reject.OVERSIZE, "payload is too large", at=15, size=length, limit=rules.payload_bytes_max)
    if flags > FLAGS_KNOWN:
        raise BadPacket(Reject.RESERVED_FLAGS, "reserved flag bits are set", at=5, flags=f"0x{flags:02x}")
    if HEADER_BYTES + length != size:
        raise BadPacket(
            Reject.LENGTH_MISMATCH, "payload length does not match the header", need=length, have=size - HEADER_BYTES
        )
    raise BadPacket(Reject.EVENT_TYPE, "unknown event type", at=6, type=f"0x{event_type:02x}")


def _refuse_order(data: bytes, offsets: list[int], at: int) -> NoReturn:
    """A field that may not stand here: a second one of its kind, or one out of order (EMM-09, EMM-13)."""
    field_type = data[at]
    if SINGLETON_FIRST <= field_type <= SINGLETON_LAST and any(data[before] == field_type for before in offsets):
        raise BadPacket(Reject.TLV_DUPLICATE, f"field {type_name(field_type)} occurs twice", at=at)
    raise BadPacket(
        Reject.TLV_ORDER, f"field {type_name(field_type)} may not follow {type_name(data[offsets[-1]])}", at=at
    )
