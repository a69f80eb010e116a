"""Refused packets as events, so that people can look at some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from weft.gateway.emm.rows import Rejected
from weft.limits import KIB, QUARANTINE_PER_S
from weft.wire.reject import Reject

QUARANTINE_BURST: Final = 1000
QUARANTINE_BATCH_MAX: Final = 256  # datagrams kept of one turn: about a millisecond
QUARANTINE_BATCH_BYTES_MAX: Final = 256 * KIB  # and their size: datagrams may be large, and a batch has 16 MiB at most


class Quarantine:
    """Counts everything that is refused, and lets through as much as may be kept."""

    def __init__(self, now_s: float, *, per_s: float = QUARANTINE_PER_S, burst: int = QUARANTINE_BURST) -> None:
        self.rejected: Counter[Reject] = Counter()
        self.skipped = 0  # refused and not kept
        self._per_s = per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._counted_s = now_s

    def take(self, rejected: Sequence[Rejected], now_s: float) -> Sequence[Rejected]:
        """The first ones, to be kept as one batch."""
        self.rejected.update(each.reason for each in rejected)
        self._tokens = min(self._burst, self._tokens + max(now_s - self._counted_s, 0.0) * self._per_s)
        self._counted_s = now_s
        kept = _first(rejected[: min(int(self._tokens), QUARANTINE_BATCH_MAX)])
        self._tokens -= len(kept)
        self.skipped += len(rejected) - len(kept)
        return kept


def _first(rejected: Sequence[Rejected]) -> Sequence[Rejected]:
    """As many as the bound in bytes allows."""
    sizes = accumulate(len(each.data) for each in rejected)
    return rejected[: sum(size <= QUARANTINE_BATCH_BYTES_MAX for size in sizes)]
