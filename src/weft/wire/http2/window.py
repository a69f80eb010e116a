"""What a peer may still send on a connection, over all its streams (RFC 9113, 6.9)."""

from __future__ import annotations

from typing import Protocol

from weft.wire.http2.frames import WINDOW_BEFORE_SETTINGS, BadHttp2, ErrorCode


class Held(Protocol):
    """A stream whose owner takes no more for now."""

    @property
    def held_bytes(self) -> int:
        """How many bytes came since it was held."""


class ReceiveWindow:
    """Counts the bytes that come in (``count``). When half of the window is used, the peer may send as many again
    (``take_due``).

    Before a peer is welcome (``widen``), it gets window back only for bytes that were dropped (``drop``). It gets none
    back for the bytes of held streams until they are released: that bounds how much memory a connection can take.
    """

    __slots__ = ("_dropped_bytes", "_due_bytes", "_held", "_is_wide", "_unacked_bytes", "_window_bytes")

    def __init__(self) -> None:
        self._held: set[Held] = set()
        self._window_bytes = WINDOW_BEFORE_SETTINGS
        self._unacked_bytes = 0  # received, and not yet given back to the window
        self._dropped_bytes = 0  # those among them that were dropped before the peer was welcome
        self._is_wide = False
        # With fewer unacknowledged bytes than this, there is nothing to give back. With more, ``take_due`` looks, and
        # may still find nothing: only there are the held bytes summed up, because doing so for each frame is slow.
        self._due_bytes = WINDOW_BEFORE_SETTINGS + 1  # out of reach: until ``widen``, there is nothing to give back

    @property
    def room_bytes(self) -> int:
        """How many bytes the peer may send now."""
        return self._window_bytes - self._unacked_bytes

    def count(self, size: int) -> bool:
        """Count bytes of DATA that came; raise BadHttp2 if they are too many. Return whether ``take_due`` may find
        something."""
        self._unacked_bytes += size
        if self._unacked_bytes > self._window_bytes:
            raise BadHttp2(
                ErrorCode.FLOW_CONTROL_ERROR,
                "the peer sent more than the connection's window",
                limit=self._window_bytes,
            )
        return self._unacked_bytes >= self._due_bytes

    def widen(self, window_bytes: int) -> int:
        """Make the window this large, and give used bytes back from now on. Return by how much it grew."""
        if self._is_wide:
            return 0
        self._is_wide = True
        more = window_bytes - self._window_bytes
        self._window_bytes = window_bytes
        self._due_bytes = window_bytes // 2
        return more

    def drop(self, size: int) -> int:
        """Some bytes that came were dropped. Return how much window to give back for them.

        A peer that is not welcome yet gets this back, because dropped bytes take no memory, and its next request may be
        welcome. For a peer that is welcome, ``take_due`` does it.
        """
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
        """Return how many bytes of window to give back to the peer, and count them as given; 0 if it is too early."""
        if self._unacked_bytes < self._due_bytes:
            return 0
        held_bytes = sum([stream.held_bytes for stream in self._held])
        self._due_bytes = held_bytes + self._window_bytes // 2
        if self._unacked_bytes < self._due_bytes:
            return 0
        ready = self._unacked_bytes - held_bytes
        self._unacked_bytes = held_bytes
        return ready
