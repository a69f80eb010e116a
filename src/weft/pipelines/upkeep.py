"""Keeps a table in good order while it is written: compaction, vacuum, snapshots, in a limited share of the time.

It runs in a thread beside the query, in the process that started the query. It is safe beside the writer and other
keepers: each step swaps files in one commit, and is dropped if somebody else was faster. If a step fails, the failure
is reported and the query goes on: a table with small files is better than no table.
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

UPKEEP_SHARE_MAX: Final = 0.9  # a share of 1 would leave no time for anything else
UPKEEP_GRACE_HOURS_MAX: Final = 24 * 365
UPKEEP_VACUUM_S: Final = 3600.0  # between two vacuums, which are not urgent: unneeded files only cost money
UPKEEP_PASS_S: Final = 10.0  # between looks at the table's files: each lists them all
LOOK_S: Final = 0.5  # how soon slow batches and a request to stop are noticed
STOP_TIMEOUT_S: Final = 60.0  # how long to wait for the current step; later steps are not begun


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
    """What a keeper has done so far. As text: the parts that are worth reporting."""

    files_before: int = 0
    files_after: int = 0
    swept: int = 0
    late_rows: int = 0
    beside: Sequence[object] = ()  # further objects whose text is added to the report

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
    """Keeps one table. ``pass_over`` looks at it once and does the work that is due; ``run`` repeats that."""

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
        """Remember the files that are there now: their rows do not count as late."""
        with suppress(lake.TableError):  # the first pass reports the error, and begins then
            self._known = {file.path for file in self.table.files()}

    def pass_over(self, now_s: float) -> None:
        """Look at the table once. ``now_s`` is the wall-clock time, because files have wall-clock times."""
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
        # A new run vacuums only if it has replaced files: otherwise a run every minute would do little else.
        if self._vacuum_s is None and not bins:
            self._vacuum_s = now_s
        elif self._vacuum_s is None or now_s - self._vacuum_s >= UPKEEP_VACUUM_S:
            self._vacuum_s = now_s
            self.done.swept += len(vacuum(self.table, now_s=now_s, grace_s=self.grace_s))

    def end(self) -> None:
        """Count the late rows since the last pass."""
        with suppress(lake.TableError, OSError):  # a count is no reason for a run to fail
            self._count_late(self.table.files(), time.time())

    def _count_late(self, files: Sequence[DataFile], now_s: float) -> None:
        """Count rows that were added to days that were already over. Rows that were there before do not count."""
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
            pass  # somebody else changed the same files first
        except Exception as error:  # from Spark, stores or formats: no reason to stop writing
            told = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            if not stopping.is_set() and told != self._broken:
                self.say(f"the table was not compacted: {told}")
            self._broken = told


@contextmanager
def keeping(keeper: Keeper, queries: Sequence[StreamingQuery], *, to_the_end: bool) -> Iterator[Keeper]:
    """Keep the table in order while this is entered. ``to_the_end``: a run that ends by itself makes one more pass,
    because it may be over before the first one."""
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
