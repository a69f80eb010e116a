"""How long to wait before dialling again: twice as long each time, up to a limit, and not all nodes at once (PL-01,
EXM-10)."""

from __future__ import annotations

from typing import Final

from weft.membership import Chance

DOUBLINGS_MAX: Final = 32  # a millisecond becomes weeks: more than any limit


class Backoff:
    """The delays for one address. ``jitter`` is the share of a delay that chance may remove: 0 for nothing, 1 for all
    of it."""

    def __init__(self, least_s: float, most_s: float, jitter: float, chance: Chance) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._jitter = jitter
        self._chance = chance
        self._failures = 0

    @property
    def ceiling_s(self) -> float:
        """The next delay, before chance shortens it."""
        return min(self._most_s, self._least_s * 2.0 ** min(self._failures, DOUBLINGS_MAX))

    def next_s(self) -> float:
        """The delay after one more failure."""
        delay_s = self.ceiling_s * (1.0 - self._jitter * self._chance.random())
        self._failures += 1
        return delay_s

    def on_lived(self, lived_s: float) -> None:
        """A link has ended after this long. Reset the delays, unless it stood for less time than we waited for it."""
        if lived_s >= self.ceiling_s:
            self._failures = 0
