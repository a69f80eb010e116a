"""What a peer may still send on a connection, over all its streams (RFC 9113, 6.9)."""

from __future__ import annotations

from typing import Protocol

from weft.wire.http2.frames import WINDOW_BEFORE_SETTINGS, BadHttp2, ErrorCode


class Held(Protocol):
    """A stream whose owner takes nothing for now."""

    @property
    def held_bytes(self) -> int:
        """What came since it is held."""


class ReceiveWindow:
    """Bytes come in (``count``), and are given back to the peer (``take_due``) when half of the window is used.

    Before a peer is welcome (``widen``), it gets back only what was dropped (``drop``). What streams hold back stays
    with us until they release it: that bounds what a connection can make us keep.
    """

    __slots__ = ("_dropped_bytes", "_due_bytes", "_held", "_is_wide", "_unacked_bytes", "_window_bytes")

    def __init__(self) -> None:
        self._held: set[Held] = set()
        self._window_bytes = WINDOW_BEFORE_SETTINGS
        self._unacked_bytes = 0  # received, and not given back
        self._dropped_bytes = 0  # among them, before the peer is welcome
        self._is_wide = False
        # Below this there is nothing to give back. Never too high, and often lower than what ``take_due`` then finds:
        # held bytes are summed up there, and not with each frame.
        self._due_bytes = WINDOW_BEFORE_SETTINGS + 1  # a stranger cannot use so much

    @property
    def room_bytes(self) -> int:
        """What the peer may send."""
        return self._window_bytes - self._unacked_bytes

    def count(self, size: int) -> bool:
        """So many bytes of DATA came; raise BadHttp2 if they are too many. Whether ``take_due`` may find something."""
        self._unacked_bytes += size
        if self._unacked_bytes > self._window_bytes:
            raise BadHttp2(
                ErrorCode.FLOW_CONTROL_ERROR,
                "the peer sent more than the connection's window",
                limit=self._window_bytes,
            )
        return self._unacked_bytes >= self._due_bytes

    def widen(self, window_bytes: int) -> int:
        """From now on it is as large as this, and used bytes are given back. How much larger it became."""
        if self._is_wide:
            return 0
        self._is_wide = True
        more = window_bytes - self._window_bytes
        self._window_bytes = window_bytes
        self._due_bytes = window_bytes // 2
        return more

    def drop(self, size: int) -> int:
        """So many bytes that came are of no more interest. What a peer that is not welcome yet gets back: they are no
        burden to us, and its next request may be a better one."""
        if self._is_wide:
            return 0
        self._dropped_bytes += size
        if 2 * self._dropped_bytes < self._window_bytes:
            return 0
        ready, self._dropped_bytes = self._dropped_bytes, 0
        self._unacked_bytes -= ready
        return ready

    def hold(self, stream: Held) -> None:
        self._held.add(stream)

    def release(self, stream: Held) -> None:
        if stream in self._held:
            self._held.discard(stream)
            self._due_bytes -= stream.held_bytes

    def take_due(self) -> int:
        """What to give back to the peer, from now on given; 0 if it is too early."""
        if self._unacked_bytes < self._due_bytes:
            return 0
        held_bytes = sum([stream.held_bytes for stream in self._held])
        self._due_bytes = held_bytes + self._window_bytes // 2
        if self._unacked_bytes < self._due_bytes:
            return 0
        ready = self._unacked_bytes - held_bytes
        self._unacked_bytes = held_bytes
        return ready
