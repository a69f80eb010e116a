"""Why a datagram was refused: the one error of the EMM and EMM-C codecs, and the reasons it can have."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from weft.errors import PeerError


class Reject(StrEnum):
    """A reason for refusing a datagram. The values are metric labels and quarantine columns: append, never rename."""

    # Shape
    TRUNCATED = "truncated"  # shorter than a header
    PROTOCOL = "protocol"  # the first byte belongs to neither header format
    VERSION = "version"
    RESERVED_FLAGS = "reserved-flags"
    OVERSIZE = "oversize"  # over the packet or payload limit
    LENGTH_MISMATCH = "length-mismatch"  # the header's payload length is not what came
    EVENT_TYPE = "event-type"  # unknown or reserved
    # TLVs
    TLV_OVERRUN = "tlv-overrun"  # a length that points past the end of its parent
    TLV_COUNT = "tlv-count"
    TLV_SIZE = "tlv-size"  # not the size this type must have
    TLV_VALUE = "tlv-value"  # right size, impossible content
    TLV_DUPLICATE = "tlv-duplicate"
    TLV_ORDER = "tlv-order"
    MISSING_FIELD = "missing-field"
    # Sealing
    ENCRYPTION = "encryption"  # metadata missing, contradictory or unknown
    UNDECRYPTABLE = "undecryptable"  # no such key, or the tag does not fit
    COMPRESSION = "compression"  # not a zlib stream
    BOMB = "bomb"  # inflates past the limit
    # Authentication
    UNSIGNED = "unsigned"  # neither HMAC nor signature where one is required
    ANONYMOUS = "anonymous"  # authenticated, but by nobody: no node id
    UNKNOWN_KEY = "unknown-key"
    UNTRUSTED_KEY = "untrusted-key"  # a key in the packet that the policy does not accept
    BAD_HMAC = "bad-hmac"
    BAD_SIGNATURE = "bad-signature"
    # Time
    STALE = "stale"
    FUTURE = "future"
    REPLAY = "replay"
    # Rules on top
    PROFILE = "profile"  # lacks what the interop profile requires
    UNSEALED = "unsealed"  # an event in the clear whose name says that it must be encrypted
    EXPIRED = "expired"  # older than its own expiry hint allows
    NAME = "name"  # an event whose name the device may not use


# Reasons as numbers, for judges of columns: places in ``REASONS``, or ``OK``.
OK: Final = -1
REASONS: Final = tuple(Reject)
CODES: Final = {reason: code for code, reason in enumerate(REASONS)}


class BadPacket(PeerError):
    """A datagram that is not taken: ``reason`` for machines, ``what`` and ``facts`` for people.

    ``at`` (where given) is the offset of the offending byte in the datagram.
    """

    def __init__(self, reason: Reject, what: str, **facts: object) -> None:
        super().__init__(what, **facts)
        self.reason = reason
