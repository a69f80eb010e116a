"""What a member that acknowledges by hand has been given and has not settled, and what it is given next. Pure.

Everything at or after the group's position that is neither done nor in its hand is to be given out, the lowest offset
first. What failed waits for its time: in order, all behind it waits too; set aside, only itself. No more than the
window is in hand, over all streams together. Events that come again ``alone`` come when nothing else is in hand: if the
member dies then, it is known of what.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from weft.core.groups.ledger import SET_ASIDE_MAX, Ledger
from weft.core.messages import StreamKey
from weft.model.offsets import OffsetRanges


class Run(NamedTuple):
    """Events to give out next. ``tries``: how often each has failed."""

    first: int
    end: int
    tries: int


class Nothing(Enum):
    """Why there is nothing to give out."""

    NONE = "none"  # all there is has been given out
    LATER = "later"  # the window is full, or a retry is waited for


Given = Run | Nothing
CRUMB_SHARE: Final = 4  # of the window: less is not given out piece by piece, because each piece has its price
NO_OFFSETS: Final = OffsetRanges()


class Hand:
    """Of one member, over all streams that it is served."""

    def __init__(self, window: int) -> None:
        self.window: Final = window
        self._streams: dict[StreamKey, OffsetRanges] = {}
        self._size = 0
        self._alone = False  # what it has is one event that has to be alone
        self._postponed: dict[StreamKey, tuple[int, int]] = {}  # from which offset on, how much room is waited for

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[StreamKey, OffsetRanges]]:
        return iter(self._streams.items())

    def of(self, key: StreamKey) -> OffsetRanges:
        return self._streams.get(key, NO_OFFSETS)

    def take(self, key: StreamKey, first: int, end: int, *, alone: bool) -> None:
        """These are on their way to it."""
        held = self._streams.setdefault(key, OffsetRanges())
        before = len(held)
        held.add(first, end)
        self._size += len(held) - before
        self._alone = alone
        self._postponed.pop(key, None)

    def postpone(self, key: StreamKey, first: int, events: int) -> bool:
        """So many are stored together. If they do not fit now, and will when more is settled, they wait for that: to
        take a batch apart costs more than to wait. Whether they do."""
        waits = self._size > 0 and self.window - self._size < events <= self.window
        if waits:
            self._postponed[key] = first, events
        return waits

    def drop(self, key: StreamKey, first: int, end: int) -> None:
        """It has these no longer, however that ended."""
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
        """``lonely``: something that this member is served has to come alone, here or in another stream."""
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
        """What to give out of a stretch that is neither done nor in hand; None: nothing, look further."""
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
        """Whether there is room for so few of them that it is better to wait until more is settled."""
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
