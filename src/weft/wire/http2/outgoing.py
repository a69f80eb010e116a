"""Frames that wait to be sent, in order, and streams that wait for their turn to add frames."""

from __future__ import annotations

from typing import Final, Protocol

from weft.wire.http2.budget import Budget
from weft.wire.http2.frames import FRAME_BYTES_LEAST, WINDOW_BEFORE_SETTINGS

OUT_BYTES_MAX: Final = 1 << 20  # given to the transport at a time; the rest waits, so that streams can take turns
FRAME_BYTES_MAX: Final = 1 << 20  # even if the peer takes larger frames: other streams have to wait while one is sent
TURN_BYTES: Final = 256 << 10  # what a stream may send before others have their turn


class Sender(Protocol):
    """What ``Outgoing`` needs of a stream."""

    id: int
    send_window: int

    def write_some(self, bytes_max: int) -> bool:
        """Write at most this much; return whether more could be sent at once."""


class Outgoing:
    """``pieces`` are the frames written so far, with ``out_bytes`` in all. There is room for more as long as that is
    less than ``room_bytes``. ``turns`` has the streams that wait to write. While ``pieces`` and ``turns`` are empty,
    there is nothing to ``take``."""

    __slots__ = (
        "budget",
        "frame_bytes_max",
        "out_bytes",
        "pieces",
        "room_bytes",
        "turns",
        "waiting_bytes",
        "window",
    )

    def __init__(self, budget: Budget) -> None:
        self.window = WINDOW_BEFORE_SETTINGS  # what the peer still lets us send on the connection
        self.frame_bytes_max = FRAME_BYTES_LEAST
        self.out_bytes = 0
        self.room_bytes = OUT_BYTES_MAX  # 0 while the transport is full
        self.waiting_bytes = 0  # in all streams together
        self.budget = budget  # streams count the messages that they write there
        self.pieces: list[bytes | memoryview] = []
        self.turns: dict[int, Sender] = {}  # in the order of their turns

    def write(self, data: bytes | memoryview) -> None:
        """Write a frame or a part of one. After a part, the caller must write the rest before anything else is
        written."""
        self.pieces.append(data)
        self.out_bytes += len(data)

    def queue(self, sender: Sender) -> None:
        """Let this stream have a turn. If its own window is empty, nothing happens; it calls this again when the peer
        lets it send more."""
        if sender.send_window > 0:
            self.turns.setdefault(sender.id, sender)

    def forget(self, sender: Sender) -> None:
        self.turns.pop(sender.id, None)

    def transport_full(self, full: bool) -> None:
        self.room_bytes = 0 if full else OUT_BYTES_MAX

    def end(self) -> None:
        """Send what was written, and no more DATA."""
        self.window = 0

    def take(self) -> list[bytes | memoryview]:
        """The next pieces for the transport; call again until there are none."""
        if self.turns and self.room_bytes:
            self._take_turns()
        return self.take_written()

    def take_written(self) -> list[bytes | memoryview]:
        """The pieces that are written, without giving a turn to the streams that wait."""
        pieces, self.pieces = self.pieces, []
        self.budget.data_bytes += self.out_bytes
        self.out_bytes = 0
        return pieces

    def _take_turns(self) -> None:
        waiting = self.turns
        while waiting and self.window > 0 and self.out_bytes < OUT_BYTES_MAX:
            sender = waiting.pop(next(iter(waiting)))
            if sender.write_some(TURN_BYTES):
                waiting.setdefault(sender.id, sender)
