"""A whole packet: header, signature field, body (2.2, EMC-05). Authenticity is checked elsewhere, in ``auth``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm_compact import body as bodies
from weft.wire.emm_compact import header as headers
from weft.wire.emm_compact.body import Body
from weft.wire.emm_compact.codes import EventType, FieldType
from weft.wire.emm_compact.header import HEADER_BYTES, Header
from weft.wire.reject import BadPacket, Reject

# HMAC-SHA256 for notifications, its first 128 bits for heartbeats, Ed25519 for the rest (EMC-05)
SIGNATURE_BYTES: Final[Mapping[EventType, int]] = {
    EventType.NOTIFICATION: 32,
    EventType.COMMAND: 64,
    EventType.HEARTBEAT: 16,
    EventType.JOIN: 64,
}
SIGNATURE_AT: Final[int] = HEADER_BYTES + tlv.HEAD_BYTES


def body_at(event_type: EventType) -> int:
    """Where the body begins: behind the signature field, whose size the type decides."""
    return SIGNATURE_AT + SIGNATURE_BYTES[event_type]


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet, well-formed but not yet authenticated. ``raw`` is the datagram as received or to be sent."""

    header: Header
    signature: bytes
    body: Body
    raw: bytes = field(repr=False)

    @property
    def signed(self) -> bytes:
        """What the signature covers: the header and everything behind the signature field (EMC-05)."""
        return self.raw[:HEADER_BYTES] + self.raw[body_at(self.header.type) :]


def decode_untrusted(datagram: bytes) -> Packet:
    """Read one datagram; raise only BadPacket, whatever the bytes."""
    header = headers.decode_untrusted(datagram)
    signature = _signature_untrusted(header.type, datagram)
    return Packet(header, signature, bodies.decode_untrusted(header.type, datagram, body_at(header.type)), datagram)


def encode(header: Header, signature: bytes, body: Body) -> Packet:
    """The packet made of these parts; UsageError if its receiver would refuse it."""
    if header.type is not body.TYPE:
        raise UsageError("header and body are of different types", header=header.type.name, body=body.TYPE.name)
    if len(signature) != SIGNATURE_BYTES[header.type]:
        raise UsageError("signature has the wrong size", need=SIGNATURE_BYTES[header.type], have=len(signature))
    payload = tlv.encode(FieldType.SIGNATURE, signature) + body.encode()
    try:
        return decode_untrusted(header.encode(len(payload)) + payload)
    except BadPacket as refusal:
        raise UsageError(refusal.what, **refusal.facts) from None


def _signature_untrusted(event_type: EventType, datagram: bytes) -> bytes:
    if len(datagram) == HEADER_BYTES or datagram[HEADER_BYTES] != FieldType.SIGNATURE:
        raise BadPacket(Reject.UNSIGNED, "payload does not begin with a signature field", at=HEADER_BYTES)
    need, end = SIGNATURE_BYTES[event_type], body_at(event_type)
    if len(datagram) > HEADER_BYTES + 1 and datagram[HEADER_BYTES + 1] != need:
        raise BadPacket(
            Reject.TLV_SIZE,
            "signature does not have the size for its event type",
            at=HEADER_BYTES + 1,
            need=need,
            have=datagram[HEADER_BYTES + 1],
        )
    if len(datagram) < end:
        raise BadPacket(Reject.TLV_OVERRUN, "signature is cut off", at=HEADER_BYTES, need=end, have=len(datagram))
    return datagram[SIGNATURE_AT:end]
