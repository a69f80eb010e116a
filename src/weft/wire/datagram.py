"""EMM and EMM-C share one UDP port: the first byte tells which of the two a datagram is."""

from __future__ import annotations

from enum import StrEnum

from weft.wire.reject import BadPacket, Reject

_EMM_VERSION = 0x01
_EMC_VERSION_BITS = 0b001  # the top three bits of the first byte
_EMM_FLAGS_AT = 5
_EMM_URGENT = 0x01
_EMC_URGENT_BIT = 0b000_01_000


class DatagramProtocol(StrEnum):
    EMM = "emm"
    EMM_COMPACT = "emm-c"


def protocol_of_untrusted(data: bytes) -> DatagramProtocol:
    """Which codec a datagram is for; raise only BadPacket."""
    if not data:
        raise BadPacket(Reject.TRUNCATED, "empty datagram")
    if data[0] == _EMM_VERSION:
        return DatagramProtocol.EMM
    if data[0] >> 5 == _EMC_VERSION_BITS:
        return DatagramProtocol.EMM_COMPACT
    raise BadPacket(Reject.PROTOCOL, "neither EMM (0x01) nor EMM-C (0x20 to 0x3f)", at=0, byte=f"0x{data[0]:02x}")


def is_urgent_untrusted(data: bytes) -> bool:
    """What its flags claim (EMM-03, EMC-02). They are not authenticated yet, so they may change only the order."""
    if not data:
        return False
    if data[0] == _EMM_VERSION:
        return len(data) > _EMM_FLAGS_AT and data[_EMM_FLAGS_AT] & _EMM_URGENT != 0
    return data[0] >> 5 == _EMC_VERSION_BITS and data[0] & _EMC_URGENT_BIT != 0
