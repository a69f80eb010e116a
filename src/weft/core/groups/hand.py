"""For a member that acknowledges by hand: what it has received and not settled yet, and what it gets next. Pure.

Everything from the group's position on that is neither done nor in hand is given out, the lowest offset first. An event
that failed waits for its time. If the group wants order, all later events of the stream wait, too; otherwise the failed
event is set aside. Over all streams together, at most one window of events is in hand. An event that has to come again
``alone`` is given out when nothing else is in hand. If the member dies then, it is clear which event killed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from weft.core.groups.ledger import SET_ASIDE_MAX, Ledger
from weft.core.messages import StreamKey
from weft.model.offsets import OffsetRanges


class Run(NamedTuple):
    """Events to give out next. ``tries``: how often each of them has failed."""

    first: int
    end: int
    tries: int


class Nothing(Enum):
    """Why there is nothing to give out."""

    NONE = "none"  # everything there is was given out
    LATER = "later"  # the window is full, or the next event waits for its retry


Given = Run | Nothing
CRUMB_SHARE: Final = 4  # a fourth of the window: smaller pieces are not worth their cost
NO_OFFSETS: Final = OffsetRanges()


class Hand:
    """The hand of one member, over all streams that it is served."""

    def __init__(self, window: int) -> None:
        self.window: Final = window
        self._streams: dict[StreamKey, OffsetRanges] = {}
        self._size = 0
        self._alone = False  # the hand holds one event that has to be alone
        self._postponed: dict[StreamKey, tuple[int, int]] = {}  # a stream waits from this offset on, for so much room

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[StreamKey, OffsetRanges]]:
        return iter(self._streams.items())

    def of(self, key: StreamKey) -> OffsetRanges:
        return self._streams.get(key, NO_OFFSETS)

    def take(self, key: StreamKey, first: int, end: int, *, alone: bool) -> None:
        """Add events that are on their way to the member."""
        held = self._streams.setdefault(key, OffsetRanges())
        before = len(held)
        held.add(first, end)
        self._size += len(held) - before
        self._alone = alone
        self._postponed.pop(key, None)

    def postpone(self, key: StreamKey, first: int, events: int) -> bool:
        """Postpone a stored batch of so many events if it does not fit now, but will when more is settled: taking a
        batch apart costs more than waiting. Return whether it waits."""
        waits = self._size > 0 and self.window - self._size < events <= self.window
        if waits:
            self._postponed[key] = first, events
        return waits

    def drop(self, key: StreamKey, first: int, end: int) -> None:
        """Remove events that the member no longer has, for whatever reason."""
        held = self._streams.get(key)
        if held is not None:
            before = len(held)
            held.remove(first, end)
            self._size -= before - len(held)
            if not held:
                del self._streams[key]
        if not self._size:
            self._alone = False

    def drop_stream(self, key: StreamKey) -> None:
        self._postponed.pop(key, None)
        held = self._streams.pop(key, None)
        if held is not None:
            self._size -= len(held)
        if not self._size:
            self._alone = False

    def next_run(
        self, key: StreamKey, ledger: Ledger, position: int, end: int, *, in_order: bool, now_us: int, lonely: bool
    ) -> Given:
        """What to give out next. ``lonely``: some event, in this stream or another one of this member, is due and has
        to come alone."""
        taken = self.of(key)
        for first, free_end in _free(ledger.done, taken, position, end):
            if self._is_postponed(key, first):
                return Nothing.LATER
            found = self._in_gap(ledger, first, free_end, in_order=in_order, now_us=now_us, lonely=lonely)
            if found is not None:
                return found
        return Nothing.LATER if any(each not in taken for each in ledger.tries) else Nothing.NONE

    def _in_gap(
        self, ledger: Ledger, first: int, end: int, *, in_order: bool, now_us: int, lonely: bool
    ) -> Given | None:
        """What to give out of a stretch of events that are neither done nor in hand; None: nothing here, so look at the
        next stretch."""
        while first < end:
            again = ledger.tries.get(first)
            if again is None:
                if lonely or self._alone or self._size >= self.window:
                    return Nothing.LATER
                if len(ledger.tries) >= SET_ASIDE_MAX or self._is_crumb(end - first):
                    return Nothing.LATER
                return Run(first, self._fresh_end(ledger, first, end), 0)
            if again.due_us <= now_us:
                if self._size and (again.alone or lonely or self._alone or self._size >= self.window):
                    return Nothing.LATER
                return Run(first, first + 1, again.tries)
            if in_order:
                return Nothing.LATER
            first += 1
        return None

    def _is_postponed(self, key: StreamKey, first: int) -> bool:
        waiting_first, room = self._postponed.get(key, (0, 0))
        return self._size > 0 and waiting_first == first and self.window - self._size < room

    def _is_crumb(self, events: int) -> bool:
        """Whether there is room for so few events that it is better to wait until more is settled."""
        room = self.window - self._size
        return self._size > 0 and room < min(events, self.window // CRUMB_SHARE)

    def _fresh_end(self, ledger: Ledger, first: int, end: int) -> int:
        end = min(end, first + self.window - self._size)
        if ledger.tries:
            end = min([end, *(offset for offset in ledger.tries if first < offset)])
        return end


def _free(done: OffsetRanges, taken: OffsetRanges, first: int, end: int) -> Iterator[tuple[int, int]]:
    for gap_first, gap_end in done.outside(first, end):
        yield from taken.outside(gap_first, gap_end)
