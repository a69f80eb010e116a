"""What each side of a connection allows the other. We choose our settings, and read the peer's from its SETTINGS."""

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

HEADER_LIST_BYTES_MAX: Final = 32 * KIB  # decoded, counting 32 bytes more per field; gRPC's own default is 8 to 16 KiB
HEADER_FIELDS_MAX: Final = 128  # with a table, one byte may stand for a field, and each field costs us microseconds
HEADER_BLOCK_BYTES_MAX: Final = 32 * KIB  # encoded: an honest block is not longer than its decoded list
CONTINUATIONS_MAX: Final = 8  # of one block; at 16 KiB a frame, four times what a block may hold
# How many ended streams are remembered, to tell late frames from wrong ones: as many as may be open and end together.
CLOSED_STREAMS_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class Http2Settings:
    """What we allow a peer. The defaults are for a server, which does not trust a client before it has looked at the
    request."""

    streams_max: int = 1024  # at a time; more are refused, and gRPC clients wait
    message_bytes_max: int = 32 * MIB
    frame_bytes_max: int = 1 * MIB  # of DATA: fewer frames for large messages; other frames are far smaller
    # Windows that a peer begins with, and those that it gets once its request is welcome (``Stream.widen``).
    first_window_bytes: int = WINDOW_BEFORE_SETTINGS
    stream_window_bytes: int = 4 * MIB
    connection_window_bytes: int = 16 * MIB
    # For all incomplete messages of a connection together: two of the largest size.
    assembly_bytes_max: int = 64 * MIB

    # The peer pays for frames without a message, and for resets, from a budget that grows with time and data (Budget).
    idle_frames_per_s: float = 2000.0  # 2.5 µs each: half a percent of a core
    idle_frames_burst: float = 8000.0
    bytes_per_idle_frame: int = 256  # an honest receiver hardly sends a WINDOW_UPDATE for less than some KiB,
    idle_frames_per_message: float = 3.0  # but some send two of them and a PING for each message
    reset_cost: float = 4.0  # opening a stream in vain costs us more than a frame does

    def __post_init__(self) -> None:
        assert FRAME_BYTES_LEAST <= self.frame_bytes_max <= FRAME_BYTES_MOST, "RFC 9113, 6.5.2"
        # A window smaller than the protocol's default would hold only after the peer has acknowledged it (6.9.3).
        for window_bytes in (self.first_window_bytes, self.stream_window_bytes, self.connection_window_bytes):
            assert WINDOW_BEFORE_SETTINGS <= window_bytes <= NUMBER_MAX, "a window is out of range"


# A client asked for all its answers, and may make many calls at once: each of them may have an incomplete message.
CLIENT_SETTINGS: Final = Http2Settings(first_window_bytes=4 * MIB, assembly_bytes_max=1024 * 32 * MIB)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """The settings of the peer that matter to us. The defaults hold until it sends SETTINGS (6.5.2).

    HEADER_TABLE_SIZE matters only because our next header block has to acknowledge it (``shrinks_table``).
    MAX_HEADER_LIST_SIZE is left out: it is only advice, and our headers are short.
    """

    streams_max: int = NUMBER_MAX
    first_window_bytes: int = WINDOW_BEFORE_SETTINGS
    frame_bytes_max: int = FRAME_BYTES_LEAST
    shrinks_table: bool = False  # the last SETTINGS frame had a HEADER_TABLE_SIZE

    def updated_untrusted(self, payload: bytes, by_server: bool) -> PeerSettings:
        """The settings after this SETTINGS frame; raise BadHttp2. If it has a setting several times, every value is
        checked, and the last one counts."""
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
    """Check the value of one setting; raise BadHttp2. Unknown settings are ignored (6.5.2)."""
    if name == Setting.ENABLE_PUSH and value > (0 if by_server else 1):
        raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is out of range", value=value)
    if name == Setting.INITIAL_WINDOW_SIZE and value > NUMBER_MAX:
        raise BadHttp2(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is out of range", value=value)
    if name == Setting.MAX_FRAME_SIZE and not FRAME_BYTES_LEAST <= value <= FRAME_BYTES_MOST:
        raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range", value=value)
