"""Which ids a peer has used of late, in little memory (EXM-05).

Ids must not repeat, and need not rise. Most peers count, so ids are kept as runs of consecutive ones: a peer that
counts costs one run, however long it talks. One whose ids jump about costs a run for each id, about 60 bytes, and a
search in a sorted array for each request.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque

NO_RUN = (1, 0)  # first and last: nothing lies between them


class RecentIds:
    """``count`` ids in the order in which they came; the oldest go first."""

    def __init__(self) -> None:
        self.count = 0
        self._highest = 0  # of all that there ever were: a higher one is new without a search
        self._oldest_first, self._oldest_last = NO_RUN
        self._newest_first, self._newest_last = NO_RUN
        # The runs between these two: sorted, for looking up, and the first of each in the order in which they came.
        self._firsts = array("Q")
        self._lasts = array("Q")
        self._order: deque[int] = deque()

    def __contains__(self, number: int) -> bool:
        if self._newest_first <= number <= self._newest_last or self._oldest_first <= number <= self._oldest_last:
            return True
        index = bisect_right(self._firsts, number) - 1 if self._firsts else -1
        return index >= 0 and number <= self._lasts[index]

    def add(self, number: int) -> bool:
        """False, and nothing happens, if it is there already."""
        if number > self._highest:
            self._highest = number
        elif number in self:
            return False
        if number == self._newest_last + 1:  # right also for a run of which all is forgotten
            self._newest_last = number
        else:
            self._put_away_newest()
            self._newest_first = self._newest_last = number
        self.count += 1
        return True

    def drop_oldest(self) -> None:
        """Forget the one that came first; there must be one."""
        assert self.count, "only what was added can be dropped"
        if self._oldest_first > self._oldest_last and self._order:
            self._take_out_oldest()
        if self._oldest_first <= self._oldest_last:
            self._oldest_first += 1
        else:
            self._newest_first += 1
        self.count -= 1

    def _put_away_newest(self) -> None:
        if self._newest_first > self._newest_last:
            return
        index = bisect_left(self._firsts, self._newest_first)
        self._firsts.insert(index, self._newest_first)
        self._lasts.insert(index, self._newest_last)
        self._order.append(self._newest_first)

    def _take_out_oldest(self) -> None:
        index = bisect_left(self._firsts, self._order.popleft())
        self._oldest_first, self._oldest_last = self._firsts.pop(index), self._lasts.pop(index)
