"""What a table is kept to: how fresh it is, how large its files are, and how much work that may cost. Pure.

Small batches make a table fresh, and its files small; compaction makes files large again. So from the one goal follow
how often a batch begins, which files are worth being written together, and when there is time for it. What cannot be
met is said.
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
TRIGGER_SHARE: Final = 0.5  # of the freshness, for waiting; the rest is for the batch itself
BIN_FILES_MIN: Final = 8  # fewer are worth it only if they make a whole file
BEHIND_BATCHES: Final = 5  # in a row, before it is said: one can always be slow
BEHIND_PASSES: Final = 3  # as above, of compaction
LATE_AFTER_S: Final = 3600.0  # a day takes rows for so long after its end without a word


@dataclass(frozen=True, slots=True)
class Goal:
    """One table's. ``share`` is of the time that passes: the rest is the writer's alone."""

    file_bytes: int
    freshness_s: float | None = None
    share: float = 0.2


def trigger_ms(freshness_s: float) -> int:
    """How often a batch begins: an event waits and is written within the goal, in as few files as that allows."""
    return max(int(freshness_s * TRIGGER_SHARE * 1000), 1)


def worthwhile(files: Sequence[DataFile], file_bytes: int) -> list[Bin]:
    """Which files to write together now.

    A file that is almost whole is not written again for a few rows more: a bin is worth it if it makes a file of the
    wanted size, or if it is many files of which none has half of its bytes. So each byte is written again at most as
    often as the size of files can double.
    """
    return [each for each in plan(files, file_bytes) if _is_worth_it(each, file_bytes)]


def _is_worth_it(each: Bin, file_bytes: int) -> bool:
    if each.size_bytes >= file_bytes * SMALL_SHARE:
        return True
    largest = max(file.size_bytes for file in each.files)
    return len(each.files) >= BIN_FILES_MIN and largest * 2 <= each.size_bytes


def rest_s(worked_s: float, share: float) -> float:
    """How long to leave the table alone after work that took so long, to keep within the share."""
    return worked_s * (1 / share - 1)


class Freshness:
    """Whether batches are quick enough, and whether that has to be said."""

    def __init__(self, goal_s: float) -> None:
        self._goal_s = goal_s
        self._slow = 0
        self._is_behind = False

    def take(self, batch_s: float) -> str | None:
        """Of a batch with rows in it; a sentence, when that changes."""
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
    """Whether compaction keeps up, and whether that has to be said."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._last = 0
        self._growing = 0

    def take(self, waiting_bytes: int) -> str | None:
        """After a pass: how much is worth being compacted and had no time; a sentence, when that grows and grows."""
        self._growing = self._growing + 1 if waiting_bytes > self._last else 0
        self._last = waiting_bytes
        if self._growing != BEHIND_PASSES:
            return None
        return (
            f"files cannot be as large as wanted: {waiting_bytes:,} bytes of small files wait, and {self._share:.0%} "
            "of the time is not enough for them. Allow more (upkeep.share), or later rows (freshness)"
        )


def late_files(files: Iterable[DataFile], known: Collection[str], column: str, now_s: float) -> list[DataFile]:
    """Those that a writer has added since to days that were over. What compaction wrote is not new."""
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
