"""Both clocks in one value, and how fast datagrams may leave.

They leave slower when somebody reports congestion, and faster again when nobody does (EMC-14).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from weft.errors import UsageError


class Instant(NamedTuple):
    """One look at the clocks. A tuple, because there is one for every wake-up.

    Intervals are measured with the steady one, or a clock that is set back would stop the heartbeats. Packets are dated
    with the other, because other nodes compare them with theirs.
    """

    steady_s: float
    unix_s: float


DATAGRAM_BURST_S: Final = 0.02  # of the rate may leave at once: a switch's buffer takes 400 small datagrams
DATAGRAM_BURST_MIN: Final = 16  # at any rate: a burst that every device takes
DATAGRAM_CUT_INTERVAL_S: Final = 1.0  # between two cuts of the rate: reports in between are of the same congestion
DATAGRAM_RECOVERY_S: Final = 20.0  # from nothing to the full rate: after one cut, ten seconds
TOKEN: Final = 1 - 1e-6  # what is left to wait for would be lost in the rounding of a time


class Pace:
    """A bucket of tokens, one for each datagram, that fills at a rate.

    Congestion halves the rate, but once a second only: a queue in the network marks all packets of a second, and they
    are one message. The rate comes back evenly, from nothing to the most in ``DATAGRAM_RECOVERY_S``.
    """

    def __init__(self, rate_per_s_min: float, rate_per_s_max: float, now_s: float) -> None:
        if not 0 < rate_per_s_min <= rate_per_s_max:
            raise UsageError("a rate must be more than 0", least=rate_per_s_min, limit=rate_per_s_max)
        self._rate_per_s = rate_per_s_max
        self._rate_per_s_min = rate_per_s_min
        self._rate_per_s_max = rate_per_s_max
        self._tokens = self._burst
        self._counted_s = now_s
        self._cut_s: float | None = None

    def rate_per_s(self, now_s: float) -> float:
        self._count(now_s)
        return self._rate_per_s

    def take(self, now_s: float) -> bool:
        """Whether one datagram may leave now."""
        self._count(now_s)
        if self._tokens < TOKEN:
            return False
        self._tokens -= 1
        return True

    def ready_s(self) -> float:
        """When the next datagram may leave, as far as is known now. Never before the last ``take``."""
        return self._counted_s + max(0.0, 1 - self._tokens) / self._rate_per_s

    def congested(self, now_s: float) -> bool:
        """Somebody reports congestion; whether that cuts the rate."""
        self._count(now_s)
        if self._cut_s is not None and now_s < self._cut_s + DATAGRAM_CUT_INTERVAL_S:
            return False
        self._cut_s = now_s
        self._rate_per_s = max(self._rate_per_s_min, self._rate_per_s / 2)
        self._tokens = min(self._tokens, self._burst)
        return True

    def _count(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._counted_s)
        self._counted_s = max(now_s, self._counted_s)
        recovered = self._rate_per_s_max * passed_s / DATAGRAM_RECOVERY_S
        self._rate_per_s = min(self._rate_per_s_max, self._rate_per_s + recovered)
        self._tokens = min(self._burst, self._tokens + self._rate_per_s * passed_s)

    @property
    def _burst(self) -> float:
        return max(DATAGRAM_BURST_MIN, self._rate_per_s * DATAGRAM_BURST_S)
