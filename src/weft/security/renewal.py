"""When to renew a certificate: at two thirds of its life, with patience when that fails (SEC-01). Decides only.

>>> renewer = Renewer(begin_s=0.0, end_s=90.0, chance=0.5)
>>> renewer.due_s
60.0
>>> renewer.failed(now_s=60.0, chance=0.5)
>>> renewer.due_s
61.0
"""

from __future__ import annotations

from typing import Final

RENEWAL_BACKOFF_S_MIN: Final = 1.0  # a CA that restarts is back in a few seconds
RENEWAL_BACKOFF_S_MAX: Final = 300.0  # a third of a day is left when renewal begins: a hundred attempts
RENEW_AT: Final = 2 / 3  # of the life
SPREAD: Final = 1 / 30  # of the life, to both sides: nodes that were started together do not renew together
ATTEMPTS_AT_LEAST: Final = 20  # in the last third, however short the life is


class Renewer:
    """Times are Unix seconds; ``chance`` is a random number from 0 to 1, which spreads what would come at once."""

    def __init__(self, begin_s: float, end_s: float, chance: float) -> None:
        assert begin_s < end_s, "a certificate begins before it ends"
        self.end_s = end_s
        self._life_s = end_s - begin_s
        self._failures = 0
        self.due_s = begin_s + self._life_s * (RENEW_AT + SPREAD * (2 * chance - 1))

    def failed(self, now_s: float, chance: float) -> None:
        """Try again, after longer every time. Never give up: an expired certificate may still be replaced by hand."""
        most_s = min(RENEWAL_BACKOFF_S_MAX, self._life_s / 3 / ATTEMPTS_AT_LEAST)
        least_s = min(RENEWAL_BACKOFF_S_MIN, most_s)
        delay_s = min(most_s, least_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        self.due_s = now_s + delay_s * (0.5 + chance)

    def expires_in_s(self, now_s: float) -> float:
        """For a metric; negative once it has expired."""
        return self.end_s - now_s
