"""One event, as a person publishes it or gets it, and the receipt for it. Inside the mesh there are only batches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from weft.errors import UsageError
from weft.limits import EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN, OFFSET_MAX
from weft.model.stream import Epoch, EventId, Position, Stream, check_place


class Event(Struct, frozen=True, gc=False):
    """A payload with its time, and optionally a key and headers.

    It is a ``msgspec.Struct`` because a subscriber gets a million of these a second: making one is 5 times faster than
    a named tuple and 15 times faster than a frozen dataclass. ``gc=False``: an event holds no cycles.

    Nothing is checked here: sizes and types are checked in bulk, when a batch is made of events. ``headers`` are for
    reading only, and the caller that made the mapping must not change it later.
    """

    payload: bytes
    timestamp_us: int
    key: bytes | None = None
    headers: Mapping[str, str] | None = None


def check_times_us(least: int, greatest: int) -> None:
    """Do the same for a range of times; ``least`` is not greater than ``greatest``."""
    if not EVENT_TIMESTAMP_US_MIN <= least <= greatest <= EVENT_TIMESTAMP_US_MAX:
        check_timestamp_us(least)
        check_timestamp_us(greatest)


def check_timestamp_us(timestamp_us: int) -> None:
    """Raise UsageError for a time that no calendar has."""
    if not EVENT_TIMESTAMP_US_MIN <= timestamp_us <= EVENT_TIMESTAMP_US_MAX:
        raise UsageError(
            "the timestamp of an event is out of range: the years 1 to 9999 are possible",
            timestamp_us=timestamp_us,
            least=EVENT_TIMESTAMP_US_MIN,
            limit=EVENT_TIMESTAMP_US_MAX,
        )


class Receipt(Struct, frozen=True, gc=False):
    """``count`` events of a stream, from ``first_offset`` on, are on stable storage on ``copies`` nodes.

    Nothing less gets a receipt: ``copies=1`` means that the origin has synced them to its disk.
    """

    stream: Stream
    epoch: Epoch
    first_offset: int
    count: int
    copies: int

    def __post_init__(self) -> None:
        first, count = self.first_offset, self.count
        if count >= 1 and self.copies >= 1 and 1 <= self.epoch <= OFFSET_MAX and 0 <= first <= OFFSET_MAX - count:
            return  # everything is right, as in nearly every receipt; the checks below find out what is not
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
