"""What goes into the IP header around a packet: DSCP by type and priority, ECN, TTL (2.4, 4.1, 4.2).

Values and pure functions only; sockets set and read them elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from weft.errors import UsageError
from weft.wire.emm_compact.body import Command, Heartbeat, Join, Notification, find, more_of
from weft.wire.emm_compact.codes import Ecn, FieldType, Priority
from weft.wire.emm_compact.packet import Packet

TTL_DEFAULT: Final = 64
DSCP_MAX: Final = 0x3F  # six bits

# Class selectors CS1 to CS7 (4.1.1)
NOTIFICATION_DSCP: Final[Mapping[Priority, int]] = {
    Priority.TRACE: 0x08,
    Priority.DEBUG: 0x10,
    Priority.INFO: 0x18,
    Priority.NOTICE: 0x20,
    Priority.WARNING: 0x28,
    Priority.ERROR: 0x30,
    Priority.CRITICAL: 0x38,
}
COMMAND_DSCP: Final = 0x20
COMMAND_URGENT_DSCP: Final = 0x38
HEARTBEAT_DSCP: Final = 0x10
JOIN_DSCP: Final = 0x20
CRITICAL: Final = bytes((Priority.CRITICAL,))  # as field 0xA7 has it


def dscp(packet: Packet) -> int:
    """The six bits that section 4.1 gives a packet. The urgent flag counts for commands only, as in its table."""
    match packet.body:
        case Notification():
            return NOTIFICATION_DSCP[packet.body.priority]
        case Command():
            return COMMAND_URGENT_DSCP if packet.header.urgent else COMMAND_DSCP
        case Heartbeat():
            return HEARTBEAT_DSCP
        case Join():
            return JOIN_DSCP
        case _:
            assert_never(packet.body)


def tos(dscp_bits: int, ecn: Ecn) -> int:
    """The TOS byte (IPv6: traffic class): DSCP in the upper six bits, ECN in the lower two."""
    if not 0 <= dscp_bits <= DSCP_MAX:
        raise UsageError("DSCP does not fit six bits", value=dscp_bits, limit=DSCP_MAX)
    return dscp_bits << 2 | ecn


def ecn_of(tos_byte: int) -> Ecn:
    """What the network says about congestion in a received packet's TOS byte."""
    return Ecn(tos_byte & 0b11)


def goes_first(packet: Packet) -> bool:
    """Whether it goes before others in queues: urgent packets do, and those whose priority field says critical."""
    return packet.header.urgent or find(more_of(packet.body), FieldType.EVENT_PRIORITY) == CRITICAL


def next_ttl(ttl: int) -> int | None:
    """The TTL to propagate a received packet with, or None when it has come far enough (2.4)."""
    return ttl - 1 if ttl > 1 else None
