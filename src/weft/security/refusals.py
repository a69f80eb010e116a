"""Refusals as people want to read of them: once a minute for each cause and caller, with a count (SEC-02). Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

REFUSAL_INTERVAL_S: Final = 60.0  # between log lines of one cause and caller
REFUSALS_KEPT_MAX: Final = 1024  # causes and callers that lines are held back for


@dataclass(slots=True)
class _Kept:
    logged_s: float
    held_back: int


class RefusalLog:
    """Says whether a refusal is worth a line, and counts all of them. Time is of a monotonic clock."""

    def __init__(self, kept_max: int = REFUSALS_KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._kept: dict[tuple[str, str], _Kept] = {}  # in the order in which lines were last written
        self.totals: Counter[str] = Counter()

    def note(self, cause: str, who: str, now_s: float) -> int | None:
        """How many refusals a line stands for, this one included; None if no line is due. ``who``: a key or address."""
        self.totals[cause] += 1
        kept = self._kept.get((cause, who))
        if kept is not None and now_s - kept.logged_s < REFUSAL_INTERVAL_S:
            kept.held_back += 1
            return None
        self._kept.pop((cause, who), None)
        if len(self._kept) >= self._kept_max:
            del self._kept[next(iter(self._kept))]
        self._kept[cause, who] = _Kept(now_s, 0)
        return 1 if kept is None else kept.held_back + 1
