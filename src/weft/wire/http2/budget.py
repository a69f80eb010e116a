"""How many frames a peer may send that carry no message.

Floods of PING, SETTINGS, RST_STREAM, WINDOW_UPDATE, tiny DATA and the like cost us more than they cost their sender.
Honest peers send such frames too: some at regular times, some after so many bytes, some with each message that they
get. So a peer earns tokens by time, by bytes and by messages, and pays for each frame.
"""

from __future__ import annotations

from weft.wire.http2.frames import BadHttp2, ErrorCode
from weft.wire.http2.settings import Http2Settings


class Budget:
    """A bucket of tokens. For speed, earnings are only counted, and become tokens when the bucket is empty."""

    __slots__ = ("_left", "_settings", "_settled_s", "data_bytes", "messages")

    def __init__(self, settings: Http2Settings, now_s: float) -> None:
        self._settings = settings
        self._settled_s = now_s
        self._left = settings.idle_frames_burst
        self.data_bytes = 0  # in both directions, since the last settlement
        self.messages = 0.0  # messages that we sent since the last settlement

    def pay(self, frames: float, now_s: float) -> None:
        """Charge the peer for this many frames; raise BadHttp2 if it has spent more than it has earned."""
        self._left -= frames
        if self._left < 0:
            self._settle(now_s)

    def _settle(self, now_s: float) -> None:
        settings = self._settings
        earned = self.data_bytes / settings.bytes_per_idle_frame
        earned += self.messages * settings.idle_frames_per_message
        earned += (now_s - self._settled_s) * settings.idle_frames_per_s
        self.data_bytes = 0
        self.messages = 0.0
        self._settled_s = now_s
        self._left = min(settings.idle_frames_burst, self._left + earned)
        if self._left < 0:
            raise BadHttp2(
                ErrorCode.ENHANCE_YOUR_CALM,
                "the peer sends too many frames without messages",
                limit_per_s=settings.idle_frames_per_s,
                limit_at_once=settings.idle_frames_burst,
            )
