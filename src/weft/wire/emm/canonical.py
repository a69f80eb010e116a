"""The bytes that HMAC and signature speak about (EMM-12)."""

from __future__ import annotations

from weft.wire import tlv
from weft.wire.emm.fields import HEADER_BYTES, Field
from weft.wire.emm.packet import Packet
from weft.wire.tlv import HEAD_BYTES, Tlv

# Plain numbers: an enum's member costs three times as much, and this is done for every packet.
HMAC, SIGNATURE = int(Field.HMAC), int(Field.SIGNATURE)
PUBLIC_KEY, ENCRYPTION = int(Field.PUBLIC_KEY), int(Field.ENCRYPTION)


def canonical_bytes(packet: Packet) -> bytes:
    """Header as sent, then the fields without HMAC and signature, ascending by type."""
    size = canonical_prefix_bytes(packet)
    if size is None:
        return packet.raw[:HEADER_BYTES] + canonical_payload(packet.tlvs())
    return packet.raw[:size]


def canonical_prefix_bytes(packet: Packet) -> int | None:
    """How many leading bytes of the packet are its canonical bytes, or None if the orders differ.

    They may differ in three cases only: a public key (0x13, which travels behind 0x14 to 0x17), an unknown type over
    0x18 (which travels before 0x18), and sub-fields of 0x11. In all others the canonical bytes end where the HMAC or
    the signature begins.
    """
    fields = packet.fields
    if packet.sorts or PUBLIC_KEY in fields or ENCRYPTION in fields:
        return None
    authenticators = (HMAC in fields) + (SIGNATURE in fields)
    return packet.offsets[-authenticators] if authenticators else len(packet.raw)


def canonical_payload(fields: list[Tlv]) -> bytes:
    """The definition: drop the authenticators, sort stably by type, sub-fields of 0x11 by the same rule."""
    kept = sorted((field for field in fields if field.type not in (HMAC, SIGNATURE)), key=_by_type)
    return b"".join(
        tlv.encode(field.type, _sorted_subs(field.value) if field.type == ENCRYPTION else field.value) for field in kept
    )


def _sorted_subs(value: bytes) -> bytes:
    """Sub-fields of a well-formed 0x11, ascending by type."""
    subs = tlv.read_untrusted(value, 0, len(value), len(value) // HEAD_BYTES)
    return b"".join(tlv.encode(sub.type, sub.value) for sub in sorted(subs, key=_by_type))


def _by_type(field: Tlv) -> int:
    return field.type
