"""Keeping a table in good order while it is written: compaction, vacuum, snapshots, in a bounded share of the time.

A thread beside the query, in the process that started it. All that it does is safe beside the writer and beside other
keepers: each step swaps files in one commit, and is left if somebody else was faster. A step that fails is told, and
the query goes on: a table with small files is better than no table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from pydantic import Field

from weft.configuration import Section
from weft.lake.files import DataFile
from weft.pipelines import lake
from weft.pipelines.compact import DAY_COLUMN, merge
from weft.pipelines.lake.compaction import vacuum
from weft.pipelines.lake.goals import Freshness, Goal, Sizes, late_files, rest_s, worthwhile
from weft.pipelines.shuffling import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

UPKEEP_SHARE_MAX: Final = 0.9  # all of the time would leave none to look at anything else
UPKEEP_GRACE_HOURS_MAX: Final = 24 * 365
UPKEEP_VACUUM_S: Final = 3600.0  # files on disk that nobody needs cost money, not correctness
UPKEEP_PASS_S: Final = 10.0  # between looks at the table's files: each lists them all
LOOK_S: Final = 0.5  # how soon slow batches, and a wish to stop, are seen
STOP_TIMEOUT_S: Final = 60.0  # for the step in hand; what comes after it is left


class UpkeepSection(Section):
    """How a table is kept in order while it is written."""

    share: float = Field(
        default=0.2,
        ge=0.0,
        le=UPKEEP_SHARE_MAX,
        description="Of the time, for compaction and vacuum. 0: none; `compact` does it.",
    )
    grace_hours: int = Field(
        default=24,
        ge=1,
        le=UPKEEP_GRACE_HOURS_MAX,
        description="How long replaced files and old snapshots stay, for readers that are at it.",
    )


@dataclass(slots=True)
class Done:
    """What a keeper has done so far; as text, what is worth a word of it."""

    files_before: int = 0
    files_after: int = 0
    swept: int = 0
    late_rows: int = 0
    beside: Sequence[object] = ()  # what others have to say, as text

    def __str__(self) -> str:
        told = [
            f"{self.files_before} small files became {self.files_after}" if self.files_before else "",
            f"{self.swept} dead files removed" if self.swept else "",
            f"{self.late_rows:,} late rows kept" if self.late_rows else "",
            *map(str, self.beside),
        ]
        return ", ".join(filter(None, told))


@dataclass(slots=True)
class Keeper:
    """One table's. ``pass_over`` is one look at it, with the work that is due; ``run`` does so again and again."""

    spark: SparkSession
    table: lake.Table
    goal: Goal
    grace_s: float
    say: Callable[[str], None]
    done: Done = field(default_factory=Done)
    _sizes: Sizes = field(init=False)
    _known: set[str] | None = None
    _vacuum_s: float | None = None
    _broken: str | None = None

    def __post_init__(self) -> None:
        self._sizes = Sizes(self.goal.share)

    def begin(self) -> None:
        """Files that are there now are nobody's late rows."""
        with suppress(lake.TableError):  # the first pass tells it, and begins then
            self._known = {file.path for file in self.table.files()}

    def pass_over(self, now_s: float) -> None:
        """``now_s`` is the time of day: files have such."""
        files = self.table.files()
        self._count_late(files, now_s)
        bins = worthwhile(files, self.goal.file_bytes)
        step = cores_of(self.spark) if bins else 0
        if bins:
            changed = merge(self.spark, self.table, bins[:step])
            self.done.files_before += len(changed.removed)
            self.done.files_after += len(changed.added)
        if told := self._sizes.take(sum(each.size_bytes for each in bins[step:])):
            self.say(told)
        # A run that begins sweeps only if it has replaced something: with a run every minute nobody else has time to.
        if self._vacuum_s is None and not bins:
            self._vacuum_s = now_s
        elif self._vacuum_s is None or now_s - self._vacuum_s >= UPKEEP_VACUUM_S:
            self._vacuum_s = now_s
            self.done.swept += len(vacuum(self.table, now_s=now_s, grace_s=self.grace_s))

    def end(self) -> None:
        """Count what has come since the last pass."""
        with suppress(lake.TableError, OSError):  # a count is no reason for a run to fail
            self._count_late(self.table.files(), time.time())

    def _count_late(self, files: Sequence[DataFile], now_s: float) -> None:
        """Rows that came to days which were over: they are kept, and counted. What was there before is not."""
        known, self._known = self._known, {file.path for file in files}
        if known is None:
            return
        store = self.table.settings.store()
        for file in late_files(files, known, DAY_COLUMN, now_s):
            with closing(store.reader(file.path)) as source:
                self.done.late_rows += pq.read_metadata(source).num_rows

    def run(self, queries: Sequence[StreamingQuery], stopping: threading.Event) -> None:
        freshness = None if self.goal.freshness_s is None else Freshness(self.goal.freshness_s)
        seen = {query.id: -1 for query in queries}
        due_s = time.monotonic() + UPKEEP_PASS_S
        while not stopping.wait(LOOK_S):
            for query in queries:
                for progress in query.recentProgress:
                    batch, took = int(progress["batchId"]), (progress.get("durationMs") or {}).get("triggerExecution")
                    if batch > seen[query.id] and progress.get("numInputRows"):
                        seen[query.id] = batch
                        if freshness and (told := freshness.take(float(took or 0) / 1000)):
                            self.say(told)
            if self.goal.share and time.monotonic() >= due_s:
                begun_s = time.monotonic()
                self.try_pass(stopping)
                ended_s = time.monotonic()
                due_s = ended_s + max(rest_s(ended_s - begun_s, self.goal.share), UPKEEP_PASS_S)

    def try_pass(self, stopping: threading.Event) -> None:
        """One pass; a failure is reported once, and tried again at the next pass."""
        try:
            self.pass_over(time.time())
            self._broken = None
        except lake.TableChanged:
            pass  # somebody else was faster with the same files
        except Exception as error:  # from Spark, stores or formats: none of them is a reason to stop writing
            told = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            if not stopping.is_set() and told != self._broken:
                self.say(f"the table was not compacted: {told}")
            self._broken = told


@contextmanager
def keeping(keeper: Keeper, queries: Sequence[StreamingQuery], *, to_the_end: bool) -> Iterator[Keeper]:
    """Keep the table while this is entered. ``to_the_end``: a run that ends by itself makes one pass more, because it
    may be over before the first."""
    keeper.begin()
    stopping = threading.Event()
    thread = threading.Thread(target=keeper.run, args=(queries, stopping), name="upkeep", daemon=True)
    thread.start()
    failed = True
    try:
        yield keeper
        failed = False
    finally:
        stopping.set()
        thread.join(STOP_TIMEOUT_S)
        if to_the_end and not failed and keeper.goal.share:
            keeper.try_pass(threading.Event())
        elif not failed:
            keeper.end()
