"""What a publisher gets back."""

from __future__ import annotations

from msgspec import Struct

from weft.errors import UsageError
from weft.model.stream import Epoch, EventId, Position, Stream, check_place


class Receipt(Struct, frozen=True, gc=False):
    """``count`` events of a stream, from ``first_offset`` on, are on stable storage on ``copies`` nodes.

    There is no receipt for less: ``copies=1`` means that the origin has synced them to its disk.
    """

    stream: Stream
    epoch: Epoch
    first_offset: int
    count: int
    copies: int

    def __post_init__(self) -> None:
        if self.count < 1 or self.copies < 1:
            raise UsageError("a receipt is for at least one event on one node", count=self.count, copies=self.copies)
        check_place(self.epoch, self.first_offset)
        check_place(self.epoch, self.first_offset + self.count)

    @property
    def first(self) -> EventId:
        return EventId(self.stream, self.epoch, self.first_offset)

    @property
    def last(self) -> EventId:
        return EventId(self.stream, self.epoch, self.first_offset + self.count - 1)

    @property
    def next_position(self) -> Position:
        """Where to read what was published after these events."""
        return Position(self.stream, self.epoch, self.first_offset + self.count)

    @property
    def safety(self) -> str:
        return "synced" if self.copies == 1 else f"copies={self.copies}"

    def __str__(self) -> str:
        return f"{self.first}+{self.count} {self.safety}"
