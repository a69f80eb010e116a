"""The eight header bytes, and the triple in them that names an event (2.1, EMC-01 to EMC-03)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.limits import EMC_PACKET_BYTES_MAX
from weft.wire.emm_compact.codes import EventType
from weft.wire.reject import BadPacket, Reject

EMC_PAYLOAD_BYTES_MAX: Final = 255  # one length byte


# version:3 flags:2 type:3, event_id:u16, epoch:u16, offset:u16, payload_length:u8   (2.1)
LAYOUT: Final = struct.Struct("!BHHHB")
HEADER_BYTES: Final = LAYOUT.size

VERSION: Final = 1
VERSION_SHIFT: Final = 5
URGENT_BIT: Final = 0b01 << 3  # EMC-02: the document's 0b00 cannot be "set"
RESERVED_BIT: Final = 0b10 << 3
TYPE_MASK: Final = 0b111

U16_MAX: Final = 0xFFFF


class Triple(NamedTuple):
    """Names an event among those of its node. It is a tuple because caches and filters use it as a key."""

    event_id: int
    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class Header:
    """A header without its payload length, which follows from the payload."""

    type: EventType
    event_id: int
    epoch: int
    offset: int
    urgent: bool = False

    def __post_init__(self) -> None:
        for name in ("event_id", "epoch", "offset"):
            value = getattr(self, name)
            if not 0 <= value <= U16_MAX:
                raise UsageError(f"{name} does not fit 16 bits", value=value, limit=U16_MAX)

    @property
    def triple(self) -> Triple:
        return Triple(self.event_id, self.epoch, self.offset)

    def encode(self, payload_bytes: int) -> bytes:
        """The eight bytes in front of a payload of that size."""
        if payload_bytes > EMC_PAYLOAD_BYTES_MAX:
            raise UsageError("payload is too long", need=payload_bytes, limit=EMC_PAYLOAD_BYTES_MAX)
        first = VERSION << VERSION_SHIFT | (URGENT_BIT if self.urgent else 0) | self.type
        return LAYOUT.pack(first, self.event_id, self.epoch, self.offset, payload_bytes)


def decode_untrusted(datagram: bytes) -> Header:
    """The header of a whole datagram, whose size must be the announced one; raise only BadPacket.

    The checks run in a fixed order, cheapest first; the columnar decoder keeps the same order.
    """
    size = len(datagram)
    if size < HEADER_BYTES:
        raise BadPacket(Reject.TRUNCATED, "shorter than a header", at=size, need=HEADER_BYTES, have=size)
    if size > EMC_PACKET_BYTES_MAX:
        raise BadPacket(
            Reject.OVERSIZE, "packet is too long", at=EMC_PACKET_BYTES_MAX, have=size, limit=EMC_PACKET_BYTES_MAX
        )
    first, event_id, epoch, offset, payload_bytes = LAYOUT.unpack_from(datagram)
    version = first >> VERSION_SHIFT
    if version != VERSION:
        raise BadPacket(Reject.VERSION, "unknown version", at=0, version=version, expected=VERSION)
    if first & RESERVED_BIT:
        raise BadPacket(Reject.RESERVED_FLAGS, "reserved flag is set", at=0, byte=hex(first))
    code = first & TYPE_MASK
    if code > EventType.JOIN:
        raise BadPacket(Reject.EVENT_TYPE, "reserved event type", at=0, type=code)
    if size - HEADER_BYTES != payload_bytes:
        raise BadPacket(
            Reject.LENGTH_MISMATCH,
            "payload is not as long as the header says",
            at=HEADER_BYTES - 1,
            need=payload_bytes,
            have=size - HEADER_BYTES,
        )
    return Header(EventType(code), event_id, epoch, offset, bool(first & URGENT_BIT))
