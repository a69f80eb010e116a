"""The events that are due, in order. Each takes sixteen bytes, so a million of them take 16 MB.

New entries go into a small heap. When it is full, it becomes a sorted run of two columns; when there are many runs,
they become one. The first entry of all is the first of the heap or of some run.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:  # loaded when there are many entries: a node starts without it
    import numpy as np
    import numpy.typing as npt

HEAP_MAX: Final = 16_384  # about 2 MB of tuples
RUNS_MAX: Final = 16
OFFSET_BITS: Final = 40  # a trillion events in one slot
SLOTS_MAX: Final = 1 << 23  # slots that a node can tell apart

Numbers: TypeAlias = "npt.NDArray[np.int64]"


class Due(NamedTuple):
    """An event that is due at a time: the number of its slot at this node, and its offset there."""

    due_us: int
    slot: int
    offset: int


class DueIndex:
    def __init__(self, heap_max: int = HEAP_MAX) -> None:
        self._heap_max = heap_max
        self._heap: list[tuple[int, int]] = []
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return len(self._heap) + sum(len(run.dues) - run.at for run in self._runs)

    def add(self, due: Due) -> None:
        heappush(self._heap, (due.due_us, _place(due.slot, due.offset)))
        if len(self._heap) >= self._heap_max:
            self._add_run(*zip(*self._heap, strict=True))
            self._heap.clear()

    def add_many(self, slot: int, dues_us: Sequence[int], offsets: Sequence[int]) -> None:
        """Add entries of one slot, in any order."""
        if len(dues_us) < self._heap_max // 4:
            for due_us, offset in zip(dues_us, offsets, strict=True):
                self.add(Due(due_us, slot, offset))
        else:
            self._add_run(dues_us, [_place(slot, offset) for offset in offsets])

    def _add_run(self, dues_us: Sequence[int], places: Sequence[int]) -> None:
        import numpy as np

        self._runs.append(_Run(np.array(dues_us, np.int64), np.array(places, np.int64)))
        if len(self._runs) > RUNS_MAX:
            dues = np.concatenate([run.dues[run.at :] for run in self._runs])
            self._runs = [_Run(dues, np.concatenate([run.places[run.at :] for run in self._runs]))]

    def next_us(self) -> int | None:
        """When the first entry is due."""
        first = self._first()
        return None if first is None else first[0]

    def pop(self, now_us: int) -> Due | None:
        """Take the first entry, if it is due."""
        first = self._first()
        if first is None or first[0] > now_us:
            return None
        if self._heap and self._heap[0] == first:
            heappop(self._heap)
        else:
            run = next(run for run in self._runs if run.first == first)
            run.at += 1
            if run.at == len(run.dues):
                self._runs.remove(run)
        due_us, place = first
        return Due(due_us, place >> OFFSET_BITS, place & ((1 << OFFSET_BITS) - 1))

    def _first(self) -> tuple[int, int] | None:
        firsts = [run.first for run in self._runs]
        if self._heap:
            firsts.append(self._heap[0])
        return min(firsts, default=None)


class _Run:
    """Entries sorted by time. ``at``: how many of them have been taken out."""

    def __init__(self, dues: Numbers, places: Numbers) -> None:
        import numpy as np

        order = np.lexsort((places, dues))
        self.dues = dues[order]
        self.places = places[order]
        self.at = 0

    @property
    def first(self) -> tuple[int, int]:
        return int(self.dues[self.at]), int(self.places[self.at])


def _place(slot: int, offset: int) -> int:
    assert 0 <= slot < SLOTS_MAX and 0 <= offset < 1 << OFFSET_BITS, "it fits a number of 64 bits"
    return slot << OFFSET_BITS | offset
