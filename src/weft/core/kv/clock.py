"""A hybrid logical clock: as close to the wall clock as it can be, and never behind what this node has seen.

A time is milliseconds since 1970 in the upper bits and a counter in the lower sixteen, so comparing times compares
numbers. A write that follows a read has a later time than what was read, however wrong the clocks are, up to
``skew_ms_max``: a clock farther ahead than that does not pull others along.
"""

from __future__ import annotations

from weft.errors import WeftError
from weft.model.key_value import COUNTER_BITS


class ClockBehind(WeftError):
    """The wall clock of this node is behind what the node has already written."""


class HybridClock:
    def __init__(self, skew_ms_max: int) -> None:
        self._skew_ms_max = skew_ms_max
        self.last = 0  # the latest time that was given or seen

    def is_ahead(self, time: int, now_ms: int) -> bool:
        """Whether a time is so far ahead that its clock must be wrong."""
        return time >> COUNTER_BITS > now_ms + self._skew_ms_max

    def observe(self, time: int) -> None:
        """Note a time that was seen and is not ahead, or any time of our own."""
        self.last = max(self.last, time)

    def tick(self, now_ms: int) -> int:
        """The time of something that happens now. Raise ClockBehind if others would not show it for a while."""
        time = max(self.last + 1, now_ms << COUNTER_BITS)
        if self.is_ahead(time, now_ms):
            behind_s = round((time >> COUNTER_BITS) / 1000 - now_ms / 1000, 3)
            raise ClockBehind(
                "the clock of this node is behind its last write: set it right, or wait",
                behind_s=behind_s,
                limit_s=self._skew_ms_max / 1000,
            )
        self.last = time
        return time
