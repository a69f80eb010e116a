"""How often somebody may fail: buckets of attempts, for wrong API keys and wrong tokens (SEC-02, SEC-04). And how often
a log says so. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple

from weft.doors.keeper import source_of

FAILURES_BURST: Final = 10  # wrong keys or tokens of one source before it has to wait
FAILURES_PER_S: Final = 0.1  # after that
FAILURE_SOURCES_MAX: Final = 10_000  # remembered; those that failed longest ago go first
GUESSES_BURST: Final = 100  # wrong keys of one source, for any keys: 10 s of a core
GUESSES_PER_S: Final = 2.0  # after that: a fifth of a core
REFUSAL_INTERVAL_S: Final = 60.0  # between log lines of one cause and caller
REFUSALS_KEPT_MAX: Final = 1024  # causes and callers that lines are held back for

__all__ = ["FailureLimiter", "source_of"]


class _Bucket(NamedTuple):
    left: float
    at_s: float


class FailureLimiter:
    """Counts only failures: a caller that succeeds is never slowed down. Time is of a monotonic clock."""

    def __init__(
        self,
        burst: int = FAILURES_BURST,
        per_s: float = FAILURES_PER_S,
        sources_max: int = FAILURE_SOURCES_MAX,
    ) -> None:
        self._burst = burst
        self._per_s = per_s
        self._sources_max = sources_max
        self._buckets: dict[str, _Bucket] = {}  # in the order of their last failure

    def wait_s(self, source: str, now_s: float) -> float:
        """How long the source has to wait before it may try again; 0 if it may now."""
        return max(0.0, (1.0 - self._left(source, now_s)) / self._per_s)

    def failed(self, source: str, now_s: float) -> None:
        left = self._left(source, now_s) - 1.0
        self._buckets.pop(source, None)
        if len(self._buckets) >= self._sources_max:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[source] = _Bucket(max(0.0, left), now_s)

    def _left(self, source: str, now_s: float) -> float:
        bucket = self._buckets.get(source)
        if bucket is None:
            return float(self._burst)
        return min(float(self._burst), bucket.left + max(0.0, now_s - bucket.at_s) * self._per_s)

    def has_failed(self, source: str, now_s: float) -> bool:
        """Whether a failure of the source is still remembered."""
        return self._left(source, now_s) < self._burst


class GuessedKey(NamedTuple):
    """Somebody who shows a key that is not known to be good. ``source``: see ``source_of``."""

    source: str
    key_id: str


class KeyGuessLimiter:
    """Slows down a key where it was wrong, and no other key of the same address.

    Every key that exists can be guessed at, so an address has a limit in all, too. It holds for keys that were wrong
    there before: one that was not is tried however often others failed.
    """

    def __init__(self) -> None:
        self._of_key = FailureLimiter()
        self._of_source = FailureLimiter(GUESSES_BURST, GUESSES_PER_S)

    def wait_s(self, guessing: GuessedKey, now_s: float) -> float:
        """How long to wait before this key may be tried from there; 0 if it may now."""
        place = _place(guessing)
        wait_s = self._of_key.wait_s(place, now_s)
        if self._of_key.has_failed(place, now_s):
            wait_s = max(wait_s, self._of_source.wait_s(guessing.source, now_s))
        return wait_s

    def failed(self, guessing: GuessedKey, now_s: float) -> None:
        self._of_key.failed(_place(guessing), now_s)
        self._of_source.failed(guessing.source, now_s)


def _place(guessing: GuessedKey) -> str:
    return f"{guessing.key_id} {guessing.source}"


@dataclass(slots=True)
class _Kept:
    logged_s: float
    held_back: int


class RefusalLog:
    """When a refusal is logged: once a minute for each cause and caller, with a count (SEC-02).

    Says whether a refusal is worth a line, and counts all of them. Time is of a monotonic clock.
    """

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
