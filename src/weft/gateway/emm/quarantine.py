"""Refused packets as events, so that somebody can look at them, and no more of them than that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from weft.gateway.emm.rows import Rejected
from weft.limits import QUARANTINE_PER_S
from weft.wire.reject import Reject

QUARANTINE_BURST: Final = 1000


class Quarantine:
    """Counts everything that is refused, and lets as much of it through as may be kept."""

    def __init__(self, now_s: float, *, per_s: float = QUARANTINE_PER_S, burst: int = QUARANTINE_BURST) -> None:
        self.rejected: Counter[Reject] = Counter()
        self.skipped = 0  # refused and not kept
        self._per_s = per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._counted_s = now_s

    def take(self, rejected: Sequence[Rejected], now_s: float) -> Sequence[Rejected]:
        """Those to keep: the first ones."""
        self.rejected.update(each.reason for each in rejected)
        self._tokens = min(self._burst, self._tokens + max(now_s - self._counted_s, 0.0) * self._per_s)
        self._counted_s = now_s
        kept = rejected[: int(self._tokens)]
        self._tokens -= len(kept)
        self.skipped += len(rejected) - len(kept)
        return kept
