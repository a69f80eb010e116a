"""The numbers EMM-C gives to things: event types, fields, priorities, formats and the rest.

Member names, in lower case with dashes, are also the names used in documents and column values (see ``label``).
"""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag
from typing import Final


class EventType(IntEnum):
    """The three type bits of the header; 4 to 7 are reserved (2.1.1, EMC-03)."""

    NOTIFICATION = 0
    COMMAND = 1
    HEARTBEAT = 2
    JOIN = 3


class Priority(IntEnum):
    """How much a notification matters. Field 0xA7 carries the number, a notification's first byte ``0x10 +`` it."""

    TRACE = 1
    DEBUG = 2
    INFO = 3
    NOTICE = 4
    WARNING = 5
    ERROR = 6
    CRITICAL = 7


PRIORITY_BASE: Final = 0x10  # the notification's byte is 0x11 to 0x17 (2.2.1)


class Format(IntEnum):
    """What a notification's message is written in; 0x2B to 0x2F are reserved (2.2.1)."""

    PLAIN_TEXT = 0x21
    JSON = 0x22
    XML = 0x23
    BINARY = 0x24
    YAML = 0x25
    PROTOBUF = 0x26
    MSGPACK = 0x27
    CBOR = 0x28
    AVRO = 0x29
    THRIFT = 0x2A


class FieldType(IntEnum):
    """The TLV types of section 6.1, the signature's, and the one the ledger adds for a join's status (EMC-09)."""

    PAYLOAD_ENCODING = 0xA1
    SIGNATURE_WEAK = 0xA2
    SIGNATURE_MODERATE = 0xA3
    SIGNATURE_STRONG = 0xA4
    COMPRESSION = 0xA5
    COMPRESSION_LEVEL = 0xA6
    EVENT_PRIORITY = 0xA7
    NODE_FINGERPRINT = 0xA8
    NODE_ID = 0xA9
    REPLAY_NONCE_SHORT = 0xAA
    REPLAY_NONCE_LONG = 0xAB
    EXPIRY_HINT = 0xAC
    TOPOLOGY_HINT = 0xAD
    TRACE_ID = 0xAE
    VENDOR_ID = 0xAF
    SUPPORTED_TYPES = 0xB0
    RELATIONSHIPS_MAX = 0xB1
    HEARTBEAT_INTERVAL = 0xB2
    UPTIME = 0xB3
    EVENT_DIGEST = 0xB4
    RATE_SIGNAL = 0xB5
    PROPAGATION_MAP = 0xB6
    COMMAND_NAME = 0xB7
    COMMAND_PARAMETERS = 0xB8
    STATUS = 0xB9
    SIGNATURE = 0xFE


class TopologyField(IntEnum):
    """The sub-TLV types inside a topology hint, 0xAD."""

    KNOWN_PEERS = 0x01
    HOP_DISTANCE = 0x02
    REGION = 0x03


class PayloadEncoding(IntEnum):
    """Values of 0xA1; 7 to 15 are reserved."""

    RAW = 1
    ASCII = 2
    UTF_8 = 3
    UTF_16 = 4
    ISO_8859_1 = 5
    CP1252 = 6


class Compression(IntEnum):
    """Values of 0xA5; 6 to 15 are reserved."""

    NONE = 1
    ZSTD = 2
    DEFLATE = 3
    LZ4 = 4
    GZIP = 5


class Ecn(IntEnum):
    """Congestion as IP marks it and as a rate signal repeats it (4.2)."""

    NOT_ECT = 0b00
    ECT_1 = 0b01
    ECT_0 = 0b10
    CE = 0b11


class SupportedTypes(IntFlag):
    """The bits of 0xB0: bit n stands for event type n; bits 4 to 7 are reserved."""

    NOTIFICATION = 1 << EventType.NOTIFICATION
    COMMAND = 1 << EventType.COMMAND
    HEARTBEAT = 1 << EventType.HEARTBEAT
    JOIN = 1 << EventType.JOIN


def label(code: Enum) -> str:
    """The name of a code for people and documents: ``PLAIN_TEXT`` is ``plain-text``."""
    return code.name.lower().replace("_", "-")
