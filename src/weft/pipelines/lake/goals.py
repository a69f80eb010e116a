"""A table's goals: how fresh it is, how large its files are, and how much work that may cost. Pure.

Small batches make a table fresh and its files small; compaction makes files large again. So one goal decides how often
a batch begins, which files are worth merging, and when there is time for that. If a goal cannot be met, the run says
so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from weft.lake.files import DataFile, batch_of
from weft.pipelines.lake.compaction import QUERY, SMALL_SHARE, Bin, plan

FRESHNESS_S_MIN: Final = 0.5  # a batch has a floor of some 200 ms
FRESHNESS_S_MAX: Final = 86_400.0
TRIGGER_SHARE: Final = 0.5  # the part of the freshness spent waiting; the rest is for the batch itself
BIN_FILES_MIN: Final = 8  # fewer are worth it only if they make a whole file
BEHIND_BATCHES: Final = 5  # slow batches in a row before the run says so: a single one can always be slow
BEHIND_PASSES: Final = 3  # the same for passes of compaction
LATE_AFTER_S: Final = 3600.0  # how long after a day's end its rows do not count as late


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of one table. ``share`` is the part of the time that upkeep may take; the rest belongs to the writer."""

    file_bytes: int
    freshness_s: float | None = None
    share: float = 0.2


def trigger_ms(freshness_s: float) -> int:
    """How often a batch begins: rarely, for few files, but often enough that an event is written within the goal."""
    return max(int(freshness_s * TRIGGER_SHARE * 1000), 1)


def worthwhile(files: Sequence[DataFile], file_bytes: int) -> list[Bin]:
    """Which files to merge now.

    A file that is almost full is not rewritten for a few more rows. A bin is worth merging if it makes a file of the
    wanted size, or if it has many files and none of them has half of its bytes. So a byte is rewritten at most as often
    as its file's size can double.
    """
    return [each for each in plan(files, file_bytes) if _is_worth_it(each, file_bytes)]


def _is_worth_it(each: Bin, file_bytes: int) -> bool:
    if each.size_bytes >= file_bytes * SMALL_SHARE:
        return True
    largest = max(file.size_bytes for file in each.files)
    return len(each.files) >= BIN_FILES_MIN and largest * 2 <= each.size_bytes


def rest_s(worked_s: float, share: float) -> float:
    """How long to leave the table alone after this much work, to stay within the share."""
    return worked_s * (1 / share - 1)


class Freshness:
    """Watches whether batches are quick enough, and says so when that changes."""

    def __init__(self, goal_s: float) -> None:
        self._goal_s = goal_s
        self._slow = 0
        self._is_behind = False

    def take(self, batch_s: float) -> str | None:
        """Record how long a batch with rows took; return a sentence when things have changed."""
        age_s = batch_s + self._goal_s * TRIGGER_SHARE
        self._slow = self._slow + 1 if age_s > self._goal_s else 0
        if self._is_behind != (self._slow >= BEHIND_BATCHES) and self._slow in (0, BEHIND_BATCHES):
            self._is_behind = not self._is_behind
            if not self._is_behind:
                return f"the table is as fresh as wanted again ({self._goal_s:g} s)"
            return (
                f"the table cannot be as fresh as wanted: a batch takes {batch_s:.1f} s, and with the wait before it "
                f"{age_s:.1f} s instead of {self._goal_s:g} s. Allow more time (freshness), or give Spark more cores"
            )
        return None


class Sizes:
    """Watches whether compaction keeps up, and says so when it does not."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._last = 0
        self._growing = 0

    def take(self, waiting_bytes: int) -> str | None:
        """After a pass, record how much is still worth compacting; return a sentence if that keeps growing."""
        self._growing = self._growing + 1 if waiting_bytes > self._last else 0
        self._last = waiting_bytes
        if self._growing != BEHIND_PASSES:
            return None
        return (
            f"files cannot be as large as wanted: {waiting_bytes:,} bytes of small files wait, and {self._share:.0%} "
            "of the time is not enough for them. Allow more (upkeep.share), or later rows (freshness)"
        )


def late_files(files: Iterable[DataFile], known: Collection[str], column: str, now_s: float) -> list[DataFile]:
    """Files not in ``known`` that a writer added to days that were already over. Compaction's files do not count."""
    today = (datetime.fromtimestamp(now_s, UTC) - timedelta(seconds=LATE_AFTER_S)).date().isoformat()
    return [
        file
        for file in files
        if file.path not in known
        and (day := file.partition.get(column)) is not None
        and day < today
        and (written := batch_of(file.path)) is not None
        and written[0] != QUERY
    ]
