"""Times of any number of events, in little memory: counted in classes that are 2 % wide."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Final

CLASS_WIDTH: Final = 1.02  # the end of a class, if its beginning is 1
SHORTEST_S: Final = 1e-6  # all that is quicker is in one class
_LOG_WIDTH: Final = math.log(CLASS_WIDTH)


class Histogram:
    """Counts times. A percentile is exact to 2 %; the least and the greatest are exact."""

    def __init__(self) -> None:
        self.count = 0
        self.least_s = math.inf
        self.greatest_s = 0.0
        self._classes: dict[int, int] = {}

    def record(self, time_s: float, count: int = 1) -> None:
        """Add ``count`` events that took this long each."""
        number = int(math.log(max(time_s, SHORTEST_S) / SHORTEST_S) / _LOG_WIDTH)
        self._classes[number] = self._classes.get(number, 0) + count
        self.count += count
        self.least_s = min(self.least_s, time_s)
        self.greatest_s = max(self.greatest_s, time_s)

    def percentile_s(self, share: float) -> float:
        """The time within which this share of the events (0 to 1) lies; 0 if there are none."""
        wanted = min(math.floor(share * self.count) + 1, self.count)
        seen = 0
        for number in sorted(self._classes):
            seen += self._classes[number]
            if seen >= wanted:
                return min(max(_middle_s(number), self.least_s), self.greatest_s)
        return 0.0

    def bars(self) -> Iterator[tuple[float, int]]:
        """The same in coarse classes, for people: the end of each in s (1, 2, 5, 10, ...), and its count. From the
        first class that has any to the last."""
        rest = deque(sorted(self._classes.items()))
        ends_s = (step * 10.0**power for power in range(-6, 5) for step in (1.0, 2.0, 5.0))
        has_begun = False
        while rest:
            end_s, count = next(ends_s, math.inf), 0
            while rest and _middle_s(rest[0][0]) <= end_s:
                count += rest.popleft()[1]
            has_begun = has_begun or count > 0
            if has_begun:
                yield end_s, count


def _middle_s(number: int) -> float:
    """The time that stands for all values of a class."""
    return SHORTEST_S * math.exp((number + 0.5) * _LOG_WIDTH)
