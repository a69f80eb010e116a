"""Sets of offsets of one stream, as ranges: for example what was acknowledged out of order, or what a reader has in
hand.

>>> offsets = OffsetRanges([(0, 5), (7, 9)])
>>> offsets.add(5, 7)
>>> list(offsets), len(offsets)
([(0, 9)], 9)
>>> offsets.remove(3, 4)
>>> list(offsets), 3 in offsets, offsets.next_outside(0)
([(0, 3), (4, 9)], False, 3)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class OffsetRanges:
    """Ranges that neither touch nor overlap, ascending; the end of each is not included."""

    __slots__ = ("_ends", "_firsts", "_size")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._size = 0
        for first, end in ranges:
            self.add(first, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._ends, strict=True)

    def __len__(self) -> int:
        """The number of offsets."""
        return self._size

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._firsts, offset) - 1
        return place >= 0 and offset < self._ends[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRanges) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OffsetRanges({list(self)})"

    @property
    def ranges(self) -> int:
        """The number of ranges."""
        return len(self._firsts)

    @property
    def first(self) -> int | None:
        return self._firsts[0] if self._firsts else None

    def add(self, first: int, end: int) -> None:
        if first >= end:
            return
        if self._ends and self._ends[-1] == first:  # as nearly always
            self._ends[-1] = end
            self._size += end - first
            return
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
            self._size -= sum(self._ends[low:high]) - sum(self._firsts[low:high])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]
        self._size += end - first

    def remove(self, first: int, end: int) -> None:
        if first >= end or not self._firsts:
            return
        low = bisect_right(self._ends, first)
        high = bisect_left(self._firsts, end)
        if low >= high:
            return
        kept = []
        if self._firsts[low] < first:
            kept.append((self._firsts[low], first))
        if self._ends[high - 1] > end:
            kept.append((end, self._ends[high - 1]))
        self._size -= sum(self._ends[low:high]) - sum(self._firsts[low:high])
        self._size += sum(each[1] - each[0] for each in kept)
        self._firsts[low:high] = [each[0] for each in kept]
        self._ends[low:high] = [each[1] for each in kept]

    def keep_first(self, ranges: int) -> None:
        """Keep the first ``ranges`` ranges, and drop all others."""
        if len(self._firsts) > ranges:
            self._size -= sum(self._ends[ranges:]) - sum(self._firsts[ranges:])
            del self._firsts[ranges:], self._ends[ranges:]

    def clear(self) -> None:
        self._firsts.clear()
        self._ends.clear()
        self._size = 0

    def within(self, first: int, end: int) -> list[tuple[int, int]]:
        """The parts of this range that are in the set."""
        low, high = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        return [(max(self._firsts[at], first), min(self._ends[at], end)) for at in range(low, high)]

    def outside(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of this range that are not in the set."""
        for taken_first, taken_end in self.within(first, end):
            if first < taken_first:
                yield first, taken_first
            first = taken_end
        if first < end:
            yield first, end

    def next_outside(self, offset: int) -> int:
        """The first offset at or after this one that is not in the set."""
        place = bisect_right(self._firsts, offset) - 1
        return self._ends[place] if place >= 0 and offset < self._ends[place] else offset

    def next_inside(self, offset: int) -> int | None:
        """The first offset at or after this one that is in the set; None if there is none."""
        place = bisect_right(self._ends, offset)
        return max(self._firsts[place], offset) if place < len(self._firsts) else None
