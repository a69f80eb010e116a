"""What each side of a connection allows the other: ours is a choice, the peer's is read from its SETTINGS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from weft.limits import KIB, MIB
from weft.wire.http2.frames import (
    FRAME_BYTES_LEAST,
    FRAME_BYTES_MOST,
    NUMBER_MAX,
    SETTING,
    WINDOW_BEFORE_SETTINGS,
    BadHttp2,
    ErrorCode,
    Setting,
)

HEADER_LIST_BYTES_MAX: Final = 32 * KIB  # decoded, 32 bytes of overhead a field; gRPC's own default is 8 to 16 KiB
HEADER_FIELDS_MAX: Final = 128  # a table lets one byte stand for a field, and each costs us microseconds
HEADER_BLOCK_BYTES_MAX: Final = 32 * KIB  # encoded: a block that is longer than its list is no honest one
CONTINUATIONS_MAX: Final = 8  # of one block; at 16 KiB a frame, four times what a block may hold
# Streams that are over, remembered to tell late frames from wrong ones: as many as may be open and end together.
CLOSED_STREAMS_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class Http2Settings:
    """The defaults are for a server, which trusts nobody before it has looked at the request."""

    streams_max: int = 1024  # at a time; more are refused, and gRPC clients wait
    message_bytes_max: int = 32 * MIB
    frame_bytes_max: int = 1 * MIB  # of DATA: fewer frames for large messages; other frames are far smaller
    # Windows that a peer begins with, and those that it gets once its request is welcome (``Stream.widen``).
    first_window_bytes: int = WINDOW_BEFORE_SETTINGS
    stream_window_bytes: int = 4 * MIB
    connection_window_bytes: int = 16 * MIB
    # All incomplete messages of a connection together: two of the largest.
    assembly_bytes_max: int = 64 * MIB

    # Frames that carry no message, and resets, are paid for from a budget that grows with time and with data.
    idle_frames_per_s: float = 2000.0  # 2.5 µs each: half a percent of a core
    idle_frames_burst: float = 8000.0
    bytes_per_idle_frame: int = 256  # an honest receiver sends a WINDOW_UPDATE for some KiB, hardly for less,
    idle_frames_per_message: float = 3.0  # but an odd one sends two for each message, and a PING
    reset_cost: float = 4.0  # a stream that was opened in vain costs more than a frame

    def __post_init__(self) -> None:
        assert FRAME_BYTES_LEAST <= self.frame_bytes_max <= FRAME_BYTES_MOST, "RFC 9113, 6.5.2"
        # Smaller ones than a peer begins with would count only when it has acknowledged them (6.9.3).
        for window_bytes in (self.first_window_bytes, self.stream_window_bytes, self.connection_window_bytes):
            assert WINDOW_BEFORE_SETTINGS <= window_bytes <= NUMBER_MAX, "a window is out of range"


# A client asked for the answers, of as many calls at once as it likes: each may have a message that is not whole yet.
CLIENT_SETTINGS: Final = Http2Settings(first_window_bytes=4 * MIB, assembly_bytes_max=1024 * 32 * MIB)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """What the peer allows us, as far as it concerns us; the values before it has said anything (6.5.2).

    Its HEADER_TABLE_SIZE matters only as far as it has to be acknowledged in a header block (``shrinks_table``).
    MAX_HEADER_LIST_SIZE is advice, and our headers are short.
    """

    streams_max: int = NUMBER_MAX
    first_window_bytes: int = WINDOW_BEFORE_SETTINGS
    frame_bytes_max: int = FRAME_BYTES_LEAST
    shrinks_table: bool = False  # the SETTINGS that were read last speak of the table

    def updated_untrusted(self, payload: bytes, by_server: bool) -> PeerSettings:
        """After a SETTINGS frame; raise BadHttp2. The last value of each counts, whatever was before it."""
        found: dict[int, int] = {}
        for name, value in SETTING.iter_unpack(payload):
            _check(name, value, by_server)
            found[name] = value
        return replace(
            self,
            streams_max=found.get(Setting.MAX_CONCURRENT_STREAMS, self.streams_max),
            first_window_bytes=found.get(Setting.INITIAL_WINDOW_SIZE, self.first_window_bytes),
            frame_bytes_max=found.get(Setting.MAX_FRAME_SIZE, self.frame_bytes_max),
            shrinks_table=Setting.HEADER_TABLE_SIZE in found,
        )


def _check(name: int, value: int, by_server: bool) -> None:
    """Names that are unknown are ignored (6.5.2)."""
    if name == Setting.ENABLE_PUSH and value > (0 if by_server else 1):
        raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is out of range", value=value)
    if name == Setting.INITIAL_WINDOW_SIZE and value > NUMBER_MAX:
        raise BadHttp2(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is out of range", value=value)
    if name == Setting.MAX_FRAME_SIZE and not FRAME_BYTES_LEAST <= value <= FRAME_BYTES_MOST:
        raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range", value=value)
