"""What an EMM packet is made of: the header, the flags, the event types, and a table of every field type."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum
from typing import Any, Final

from weft.errors import UsageError
from weft.limits import EMM_PACKET_BYTES_MAX, KIB

VERSION: Final = 1

# version:u8 message_id:u32 flags:u8 event_type:u8 timestamp:u64 payload_length:u16   (EMM-01)
HEADER: Final = struct.Struct("!BIBBQH")
HEADER_BYTES: Final = HEADER.size
assert HEADER_BYTES == 17
MESSAGE_ID_BITS: Final = 32  # from a cryptographic source (EMM-02)
UDP_PAYLOAD_BYTES_MAX: Final = 65_507  # 65,535 - 20 (IP) - 8 (UDP)


class Flags(IntFlag):
    """EMM-03. Bits 3 to 7 are reserved: a packet that sets one is refused."""

    NONE = 0
    URGENT = 0x01
    ENCRYPTED = 0x02
    COMPRESSED = 0x04


FLAGS_KNOWN: Final = 0x07
FLAGS_SEALED: Final = int(Flags.ENCRYPTED | Flags.COMPRESSED)  # the data fields are inside a binary field


class EventType(IntEnum):
    HELLO = 0x01
    HEARTBEAT = 0x02
    EVENT = 0x03


EVENT_TYPES: Final = frozenset(int(kind) for kind in EventType)


class Field(IntEnum):
    """Field types (EMM-07, EMM-11). 0x01 to 0x05 are data and may repeat; 0x10 to 0x18 occur at most once."""

    STRING = 0x01
    INTEGER = 0x02
    FLOAT = 0x03
    BINARY = 0x04
    JSON = 0x05
    HMAC = 0x10
    ENCRYPTION = 0x11
    SIGNATURE = 0x12
    PUBLIC_KEY = 0x13
    NODE_ID = 0x14
    TIMESTAMP = 0x15
    NONCE = 0x16
    KEY_ID = 0x17
    AUTH_KEY_ID = 0x18


DATA_LAST: Final = int(Field.JSON)  # types 1 to 5 are data
SINGLETON_FIRST: Final = int(Field.HMAC)
SINGLETON_LAST: Final = int(Field.AUTH_KEY_ID)

SIZES: Final = {
    Field.INTEGER: 4,
    Field.FLOAT: 4,
    Field.HMAC: 32,
    Field.SIGNATURE: 64,
    Field.PUBLIC_KEY: 32,
    Field.NODE_ID: 16,
    Field.TIMESTAMP: 8,
    Field.NONCE: 12,
    Field.KEY_ID: 16,
    Field.AUTH_KEY_ID: 4,
}
ANY_SIZE: Final = -1
SIZE_BY_TYPE: Final = tuple(SIZES.get(t, ANY_SIZE) for t in range(256))  # type: ignore[call-overload]

# Wire order (EMM-13): everything else ascending by type, then these four, the signature last.
_TAIL: Final = (Field.PUBLIC_KEY, Field.AUTH_KEY_ID, Field.HMAC, Field.SIGNATURE)
RANK_BY_TYPE: Final = tuple(256 + _TAIL.index(t) if t in _TAIL else t for t in range(256))
# The lowest rank that may follow a field: its own if the type may repeat, the next one if not (EMM-09).
NEXT_RANK_BY_TYPE: Final = tuple(
    rank + 1 if SINGLETON_FIRST <= t <= SINGLETON_LAST else rank for t, rank in enumerate(RANK_BY_TYPE)
)


class Sub(IntEnum):
    """Sub-fields of the encryption metadata 0x11 (EMM-22)."""

    ALGORITHM = 0x01
    IV_LENGTH = 0x02
    IV = 0x03
    NONCE = 0x04
    KEY_ID = 0x05


class Algorithm(IntEnum):
    AES_256_GCM = 0x01
    CHACHA20_POLY1305 = 0x02


class Profile(StrEnum):
    """Sets of fields that a receiver may insist on."""

    INTEROP_V1 = "interop-v1"  # EMM-26


# What a data field holds, by type: 0x01 str, 0x02 int, 0x03 float, 0x04 bytes, 0x05 dict.
Value = str | int | float | bytes | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings a builder and a parser must agree on (EMM-04, EMM-10, EMM-24, EMM-26)."""

    packet_bytes_max: int = EMM_PACKET_BYTES_MAX
    tlvs_max: int = 64  # the document's bound on parsing work per packet, sub-TLVs included
    inflated_bytes_max: int = 64 * KIB  # 120 times a packet: no sensor needs more, no bomb gets more
    profile: Profile | None = None

    def __post_init__(self) -> None:
        for name, least, most in (
            ("packet_bytes_max", HEADER_BYTES, UDP_PAYLOAD_BYTES_MAX),
            ("tlvs_max", 1, None),
            ("inflated_bytes_max", 1, None),
        ):
            value: int = getattr(self, name)
            if value < least or (most is not None and value > most):
                raise UsageError(f"{name} is out of range", value=value, least=least, limit=most)
        if self.profile is not None and self.profile not in set(Profile):
            raise UsageError("unknown EMM profile", profile=self.profile, known=", ".join(Profile))

    @property
    def payload_bytes_max(self) -> int:
        return self.packet_bytes_max - HEADER_BYTES


DEFAULT_RULES: Final = Rules()


def type_name(field_type: int) -> str:
    """How people call a field type: ``node id (0x14)``."""
    try:
        return f"{Field(field_type).name.lower().replace('_', ' ')} (0x{field_type:02x})"
    except ValueError:
        return f"unknown (0x{field_type:02x})"
