"""Virtual time: a heap of what will happen, and the trace of what did."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

LINES_KEPT: Final = 120  # of the trace, for a report: the last seconds of a small mesh


class Violation(AssertionError):
    """The mesh broke a promise. The text says which one, when and where."""


def chance_of(seed: int, concern: str) -> Random:
    """A generator for one concern, so that a new die thrown for one of them does not change the others."""
    return Random(f"{seed} {concern}")  # noqa: S311 - chance from a seed is the point


class Schedule:
    def __init__(self, *, traces: bool = False) -> None:
        self.now_s = 0.0
        self.steps = 0
        self.trace = Trace(traces)
        self.story: list[str] | None = None  # what a person wants to know of it, if it is to be told
        self._failure: BaseException | None = None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        assert delay_s >= 0.0, "nothing happens in the past"
        heappush(self._heap, (self.now_s + delay_s, next(self._order), action))

    def run(self, duration_s: float) -> None:
        end_s = self.now_s + duration_s
        while self._heap and self._heap[0][0] <= end_s:
            self.now_s, _, action = heappop(self._heap)
            self.steps += 1
            action()
            if self._failure is not None:
                raise self._failure
        self.now_s = end_s

    def fail(self, error: BaseException) -> None:
        """For code whose exceptions would be caught: the run ends with the first such failure."""
        self._failure = self._failure or error

    def note(self, who: str, what: object) -> None:
        """Put a line into the trace, if there is one; ``what`` is turned into text only then."""
        if self.trace.enabled:
            self.trace.add(f"{self.now_s:10.4f} {who:<8} {what}")

    def tell(self, who: str, what: str) -> None:
        """Put a line into the trace and into the story."""
        self.note(who, what)
        if self.story is not None:
            self.story.append(f"{self.now_s:8.2f} s  {who:<8} {what}")


class Trace:
    """The last lines, and a checksum over all of them: two runs with the same one took the same course."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.checksum = 0
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.on_line: Callable[[str], None] | None = None

    def add(self, line: str) -> None:
        self.checksum = zlib.crc32(line.encode(), self.checksum)
        self.lines.append(line)
        if self.on_line is not None:
            self.on_line(line)
