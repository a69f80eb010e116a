"""Frames as bytes: layout, kinds, flags, settings and error codes (RFC 9113, sections 4, 6 and 7)."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from weft.errors import PeerError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # a client sends this first (3.4)

# length:u24 type:u8, flags:u8, reserved:1 stream:u31 (4.1). Length and type are read as one number.
FRAME_HEADER: Final = struct.Struct(">IBI")
# A frame header, then the prefix of a gRPC message: compressed:u8 length:u32.
FRAME_AND_PREFIX: Final = struct.Struct(">IBIBI")
MESSAGE_PREFIX: Final = struct.Struct(">BI")
U32: Final = struct.Struct(">I")
SETTING: Final = struct.Struct(">HI")
GOAWAY_HEAD: Final = struct.Struct(">II")  # last stream, error code

# Plain numbers, not an enum: they are compared for every frame.
DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x01
ACK: Final = 0x01
END_HEADERS: Final = 0x04
PADDED: Final = 0x08
WITH_PRIORITY: Final = 0x20

PRIORITY_BYTES: Final = 5  # in a PRIORITY frame or within HEADERS: exclusive:1 stream:u31 weight:u8 (6.3)
NUMBER_MAX: Final = 0x7FFF_FFFF  # the greatest stream id and the largest window: 31 bits
FRAME_BYTES_LEAST: Final = 1 << 14  # every peer takes frames of this size (4.2)
FRAME_BYTES_MOST: Final = (1 << 24) - 1
WINDOW_BEFORE_SETTINGS: Final = 65_535  # the first window of a connection, and of each stream (6.9.2)


class Setting(IntEnum):
    """The settings of section 6.5.2."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """The error codes of section 7. A peer may send other numbers."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class BadHttp2(PeerError):
    """The peer broke the protocol, or asked for more than it may: the connection ends with ``code``."""

    def __init__(self, code: ErrorCode, what: str, **facts: object) -> None:
        super().__init__(what, **facts)
        self.code = code


class BadStream(PeerError):
    """The peer broke the protocol on one stream: that stream ends, and the connection goes on."""

    def __init__(self, code: ErrorCode, what: str, **facts: object) -> None:
        super().__init__(what, **facts)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return FRAME_HEADER.pack(len(payload) << 8 | kind, flags, stream) + payload


def dependency(payload: bytes, at: int) -> int:
    """The stream on which a priority depends."""
    number: int = U32.unpack_from(payload, at)[0] & NUMBER_MAX
    return number


def code_name(code: int) -> str:
    """The name of an error code for messages."""
    return ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
