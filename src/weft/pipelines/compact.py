"""``compact``: merges a table's small files into large ones, removes old days, and deletes dead files. (SPK-05)

It is safe beside a running ``archive``: every step swaps files of the table for others in one commit, and files that
were added meanwhile stay. If somebody else changes the same files first, the step is planned again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pydantic import Field

from weft.configuration import Section
from weft.lake.files import DataFile, WrittenFile
from weft.limits import LAKE_COMMIT_ATTEMPTS, MIB
from weft.pipelines import lake
from weft.pipelines.base import Job, JobRun, Outcome
from weft.pipelines.lake.compaction import QUERY, Bin, plan, rewrite, vacuum
from weft.pipelines.lake.staging import stage
from weft.pipelines.lake.upsert import latest
from weft.pipelines.settings import JobSettings
from weft.pipelines.shuffling import cores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAKE_KEEP_DAYS_MAX: Final = 36_500  # a hundred years: beyond it, keep all
LAKE_GRACE_HOURS_MAX: Final = 24 * 365  # a year of replaced files on disk
NAME: Final = "compact"
DAY_COLUMN: Final = "date"
DEFAULT_ORDER: Final = ("topic",)
BINS_PER_CORE: Final = 4  # committed together: little work is lost to a faster writer, and there are few commits


class CompactSection(Section):
    """What to do."""

    sort_by: tuple[str, ...] | None = Field(
        default=None, description="The order of rows within a file; unset: by topic, if there is such a column."
    )
    latest_per_key: bool = Field(default=False, description="Keep only the latest event of each key.")
    keys: tuple[str, ...] = Field(
        default=("topic", "origin", "partition", "key"),
        min_length=1,
        description="What makes a key. Rows in which the last of them is null are kept.",
    )
    order_by: tuple[str, ...] = Field(
        default=("epoch", "offset"), min_length=1, description="The greatest by these is the latest."
    )
    keep_days: int | None = Field(
        default=None, ge=1, le=LAKE_KEEP_DAYS_MAX, description="Remove days before that; unset: keep all."
    )
    grace_hours: int = Field(
        default=24,
        ge=0,
        le=LAKE_GRACE_HOURS_MAX,
        description="How long files that were replaced stay on disk, for readers that are at it.",
    )


class CompactSettings(JobSettings):
    table: lake.TableSection
    compact: CompactSection = CompactSection()


@dataclass(frozen=True, slots=True)
class Changed:
    """What a step did: the files that left the table, and the files that were added."""

    removed: Sequence[DataFile]
    added: Sequence[DataFile]


def run(spark: SparkSession, settings: CompactSettings, run: JobRun) -> Outcome:
    """Retention first, so that no file is rewritten and then removed; then compaction; then deleting dead files."""
    table = opened(settings)
    wanted = settings.compact
    now_s = time.time()
    before = table.files()
    rows: list[dict[str, object]] = []
    if (days := wanted.keep_days) is not None:
        rows.append(_told("days removed", _retried(lambda: drop_days(table, now_s, days)), run.say))
    if wanted.latest_per_key:
        rows.append(_told("latest per key", _retried(lambda: keep_latest(spark, table, wanted)), run.say))
    rows.append(_told("small files", _retried(lambda: merge_small(spark, table, run.say)), run.say))
    swept = vacuum(table, now_s=now_s, grace_s=wanted.grace_hours * 3600)
    after = table.files()
    return Outcome(
        f"{table.settings.path}: {len(before)} files with {_mib(before)} MiB became {len(after)} with {_mib(after)} "
        f"MiB; {len(swept)} dead files removed",
        rows,
    )


def opened(settings: CompactSettings) -> lake.Table:
    """The table, partitioned as it is; TableError if it cannot be sorted as wanted."""
    table = lake.open_table(settings.table.settings())
    by, schema = table.partition_by(), table.schema()
    sort_by = settings.compact.sort_by
    if sort_by is None:
        sort_by = tuple(name for name in DEFAULT_ORDER if name in schema.names and name not in by)
    wanted = settings.table.settings(partition_by=by, sort_by=sort_by)
    lake.prepare(wanted, schema)
    return lake.open_table(wanted)


def drop_days(table: lake.Table, now_s: float, keep_days: int) -> Changed:
    """Remove days older than ``keep_days`` from the table; rows without a day stay."""
    if DAY_COLUMN not in table.partition_by():
        raise lake.TableError(f"keep_days needs a table that is partitioned by {DAY_COLUMN}", table=table.settings.path)
    first = (datetime.fromtimestamp(now_s, UTC) - timedelta(days=keep_days)).date().isoformat()
    old = [file for file in table.files() if (day := file.partition[DAY_COLUMN]) is not None and day < first]
    if old:
        table.replace(old, [])
    return Changed(old, [])


def keep_latest(spark: SparkSession, table: lake.Table, wanted: CompactSection) -> Changed:
    """Rewrite the whole table without the rows that a later row of the same key supersedes."""
    files = table.files()
    if not files:
        return Changed([], [])
    rows = table.read(spark, files)
    if missing := [name for name in (*wanted.keys, *wanted.order_by) if name not in rows.columns]:
        raise lake.TableError("no such column", column=missing[0], known=", ".join(rows.columns))
    kept = superseded_gone(rows, wanted.keys, wanted.order_by)
    count = 1 + sum(file.size_bytes for file in files) // table.settings.file_bytes
    order = (*table.settings.partition_by, *table.settings.sort_by)
    spread = kept.repartitionByRange(count, *order) if order else kept.repartition(count)
    return _swapped(table, files, stage(spread, table.settings, QUERY, 0))


def superseded_gone(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    """The latest row of each key, and all rows without a key."""
    from pyspark.sql import functions as f

    has_key = f.col(keys[-1]).isNotNull()
    return latest(rows.where(has_key), keys, order_by).unionByName(rows.where(~has_key))


def merge_small(spark: SparkSession, table: lake.Table, say: Callable[[str], None]) -> Changed:
    """Merge small files within partitions, some bins at a time."""
    bins = plan(table.files(), table.settings.file_bytes)
    step = BINS_PER_CORE * cores_of(spark)
    removed: list[DataFile] = []
    added: list[DataFile] = []
    for first in range(0, len(bins), step):
        part: Sequence[Bin] = bins[first : first + step]
        changed = merge(spark, table, part)
        removed += changed.removed
        added += changed.added
        say(f"{min(first + step, len(bins))} of {len(bins)} groups of small files written together")
    return Changed(removed, added)


def merge(spark: SparkSession, table: lake.Table, bins: Sequence[Bin]) -> Changed:
    """Merge the files of each bin, in one commit for all bins; TableChanged if somebody else was faster."""
    return _swapped(table, [file for each in bins for file in each.files], rewrite(spark, table, bins))


def _swapped(table: lake.Table, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> Changed:
    try:
        table.replace(removed, added)
    except lake.TableChanged:
        store = table.settings.store()
        for file in added:  # nobody else knows these files
            store.remove(table.place(file.path))
        raise
    return Changed(removed, added)


def _retried(step: Callable[[], Changed]) -> Changed:
    """Do a step; repeat it if somebody else has changed the same files."""
    for _ in range(LAKE_COMMIT_ATTEMPTS - 1):
        try:
            return step()
        except lake.TableChanged:
            continue
    return step()


def _told(what: str, changed: Changed, say: Callable[[str], None]) -> dict[str, object]:
    say(f"{what}: {len(changed.removed)} files replaced by {len(changed.added)}")
    return {
        "step": what,
        "files_before": len(changed.removed),
        "files_after": len(changed.added),
        "bytes_before": sum(file.size_bytes for file in changed.removed),
        "bytes_after": sum(file.size_bytes for file in changed.added),
    }


def _mib(files: Sequence[DataFile]) -> str:
    return f"{sum(file.size_bytes for file in files) / MIB:,.1f}"


PIPELINE: Final = Job(NAME, CompactSettings, run)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
