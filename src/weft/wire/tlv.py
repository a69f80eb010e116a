"""Type-length-value fields with one byte of type and one of length, as EMM and EMM-C write them."""

from __future__ import annotations

from typing import NamedTuple

from weft.wire.reject import BadPacket, Reject

HEAD_BYTES = 2  # a field begins with type:u8 length:u8
CHUNK_BYTES_MAX = 255  # what the length byte can say


class Tlv(NamedTuple):
    """One field as it stands on the wire; ``at`` is where its type byte is. A tuple, because parsing makes many."""

    type: int
    value: bytes
    at: int


def encode(field_type: int, value: bytes) -> bytes:
    """One field. The value must fit: callers split longer ones themselves, because the rule differs by protocol."""
    assert len(value) <= CHUNK_BYTES_MAX, "a longer value must be split by the caller"
    return bytes((field_type, len(value))) + value


def read_untrusted(data: bytes, at: int, end: int, count_max: int) -> list[Tlv]:
    """The fields in ``data[at:end]``, which they must fill exactly; raise only BadPacket."""
    fields: list[Tlv] = []
    while at < end:
        value_at = at + HEAD_BYTES
        if value_at > end:
            raise BadPacket(Reject.TLV_OVERRUN, "field header is cut off", at=at, need=HEAD_BYTES, have=end - at)
        length = data[at + 1]
        next_at = value_at + length
        if next_at > end:
            raise BadPacket(
                Reject.TLV_OVERRUN,
                "value overruns its parent",
                at=at,
                type=hex(data[at]),
                need=length,
                have=end - value_at,
            )
        if len(fields) == count_max:
            raise BadPacket(Reject.TLV_COUNT, "too many fields", at=at, limit=count_max)
        fields.append(Tlv(data[at], data[value_at:next_at], at))
        at = next_at
    return fields
