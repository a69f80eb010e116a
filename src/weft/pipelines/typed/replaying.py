"""Puts dead letters that fit by now into the table, once each, and marks them as done.

A letter is done when the table has its event: an event whose identity is there is never added again. One commit adds
all letters that fit. It is numbered, so of two replays at the same time only one wins. Then the letters are marked, by
swapping their files for new ones. If a replay dies before that, its rows are in the table, and the next replay only
marks the letters.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.lake.files import DataFile, WrittenFile
from weft.lake.settings import TableSettings
from weft.limits import LAKE_COMMIT_ATTEMPTS
from weft.pipelines import lake
from weft.pipelines.base import JobRun, Outcome
from weft.pipelines.lake.compaction import QUERY as COMPACTION
from weft.pipelines.lake.evolution import combined
from weft.pipelines.lake.reading import columns_of
from weft.pipelines.lake.staging import stage, write_files
from weft.pipelines.typed.events import DAY, DEAD, IDENTITY, REASON, REPLAYED, TypedArchive, typed_columns
from weft.pipelines.typed.tables import TypedTables
from weft.spark.options import COLUMNS
from weft.spark.rows import schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY: Final = "dead-letters"  # the query id under which the table counts replays
REASONS_MAX: Final = 1_000  # that a task counts separately: reasons contain parts of payloads
REASONS_SHOWN_MAX: Final = 20
OTHER: Final = "other reasons"


@dataclass(frozen=True, slots=True)
class Share:
    """What one task found and wrote."""

    fit: int = 0
    unfit: Counter[str] = field(default_factory=Counter)
    files: tuple[WrittenFile, ...] = ()


def replay_letters(spark: SparkSession, tables: TypedTables, run: JobRun) -> Outcome:
    """Say how many letters fit by now; with ``execute``, put them into the table."""
    table, letters = tables.pair.opened()
    tables.pair.finish()
    topics = tables.source.topics()
    wanted = typed_columns(topics, tables.layout)
    columns = tables.fit(spark, topics) if run.execute else combined(columns_of(table.schema()), wanted)
    last = table.committed(QUERY)  # read before searching, so that only one of two replays wins
    batch = 0 if last is None else last + 1
    run.say("looking for dead letters that are not in the table")
    waiting = _unmarked(letters, spark)
    days = _days(waiting)
    if not days:
        return Outcome("there are no dead letters to replay")
    missing = waiting.join(_identities(spark, table, days), list(IDENTITY), "left_anti")
    archive = TypedArchive(topics, columns, tables.layout, tables.strict)
    share = _judge(missing, Replaying(archive, table.settings if run.execute else None, batch))
    told = [{"letters": count, "reason": reason} for reason, count in share.unfit.most_common(REASONS_SHOWN_MAX)]
    if not run.execute:
        return Outcome(f"{_summary(share)}. Nothing was done: run it with --execute", told)
    if share.files and not table.commit(share.files, QUERY, batch):
        raise lake.TableChanged("another replay of these dead letters was faster: look again", batch=batch)
    run.say(f"{share.fit:,} rows added; marking their dead letters")
    marked = mark(spark, table, letters, days)
    return Outcome(f"{_summary(share)}; {marked:,} marked as done", told)


def _summary(share: Share) -> str:
    unfit = sum(share.unfit.values())
    return f"{share.fit:,} of {share.fit + unfit:,} dead letters fit the schema of now"


# --- judging ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replaying:
    """For ``mapInArrow``: reads letters with the current schema, and writes those that fit if it is to execute."""

    archive: TypedArchive
    table: TableSettings | None
    batch: int

    def __call__(self, letters: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dead: list[pa.RecordBatch] = []
        counted = _Counted(self.archive.rows(map(_as_events, letters), dead))
        files: list[WrittenFile] = []
        if self.table is not None:
            files = write_files(self.table, self.archive.columns, QUERY, self.batch, counted)
        for _ in counted:
            pass
        reasons = Counter(reason for batch in dead for reason in batch.column(REASON).to_pylist())
        share = Share(counted.rows, _fewer(reasons), tuple(files))
        yield pa.record_batch({"share": pa.array([pickle.dumps(share)], pa.binary())})


class _Counted:
    """Batches, and how many rows they had."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _as_events(letters: pa.RecordBatch) -> pa.RecordBatch:
    """Convert Spark's types to those of the source."""
    schema = schema_of(COLUMNS)
    return pa.RecordBatch.from_arrays([letters.column(each.name).cast(each.type) for each in schema], schema=schema)


def _fewer(reasons: Counter[str]) -> Counter[str]:
    most = Counter(dict(reasons.most_common(REASONS_MAX)))
    if rest := reasons.total() - most.total():
        most[OTHER] += rest
    return most


def _judge(letters: DataFrame, replaying: Replaying) -> Share:
    rows = letters.select(*COLUMNS).mapInArrow(replaying, "share binary").collect()
    shares: list[Share] = [pickle.loads(row.share) for row in rows]  # noqa: S301  from our own tasks, through Spark
    unfit: Counter[str] = Counter()
    for share in shares:
        unfit.update(share.unfit)
    return Share(sum(each.fit for each in shares), unfit, tuple(file for each in shares for file in each.files))


# --- what is there, and what is done ---------------------------------------------------------------------------------


def _unmarked(letters: lake.Table, spark: SparkSession) -> DataFrame:
    return letters.read(spark).where(f"{REPLAYED} IS NULL")


def _days(letters: DataFrame) -> set[str | None]:
    """The days of these letters, as partition values."""
    found = letters.select(DAY).distinct().collect()
    return {None if row[0] is None else row[0].isoformat() for row in found}


def _of_days(files: Sequence[DataFile], days: set[str | None]) -> list[DataFile]:
    return [file for file in files if file.partition[DAY] in days]


def _identities(spark: SparkSession, table: lake.Table, days: set[str | None]) -> DataFrame:
    """The identities of the events that the table has for these days. An event and its letter have the same day: that
    of the event's timestamp."""
    return table.read(spark, _of_days(table.files(), days)).select(*IDENTITY)


def mark(spark: SparkSession, table: lake.Table, letters: lake.Table, days: set[str | None]) -> int:
    """Mark the letters whose events the table has; return how many. Only days with such letters are rewritten."""
    for _ in range(LAKE_COMMIT_ATTEMPTS - 1):
        try:
            return _mark(spark, table, letters, days)
        except lake.TableChanged:
            continue  # somebody compacted the same files meanwhile
    return _mark(spark, table, letters, days)


def _mark(spark: SparkSession, table: lake.Table, letters: lake.Table, days: set[str | None]) -> int:
    from pyspark.sql import functions as f

    files = _of_days(letters.files(), days)
    there = _identities(spark, table, days).withColumn("is_done", f.lit(True))
    rows = letters.read(spark, files).join(there, list(IDENTITY), "left")
    is_new = f.col(REPLAYED).isNull() & f.col("is_done").isNotNull()
    counts = rows.where(is_new).groupBy(DAY).count().collect()
    if not counts:
        return 0
    done = {None if row[0] is None else row[0].isoformat() for row in counts}
    files = _of_days(files, done)
    rows = letters.read(spark, files).join(there, list(IDENTITY), "left")
    marked = rows.withColumn(REPLAYED, f.when(is_new, f.current_timestamp()).otherwise(f.col(REPLAYED)))
    added = stage(marked.select(*DEAD.names), letters.settings, COMPACTION, 0)
    letters.replace(files, added)
    return sum(int(row[1]) for row in counts)
