"""``audit``: compares a lake table with the log it came from, by offsets, counts and digests, stream by stream.

First the tasks that read the events add up both sides over stretches of offsets (``audit_sums``). Only stretches that
differ are then compared event by event. All of this runs in Spark, so the log and the table may be larger than any one
machine. The result is ranges of offsets.

The table is read before the log. So events that an ``archive`` adds meanwhile count as not there yet, never as surplus.

The log is what all nodes of the mesh have: the named nodes, and the other members that these know of. The audit asks
each of them and plans the reading itself, so it knows who did not answer. It succeeds only if no node is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pydantic import Field

from weft.configuration import Section
from weft.limits import MIB
from weft.pipelines import lake
from weft.pipelines.audit_sums import AUDIT_STRETCH_BITS, COMPARED, STREAM, SUMS, added_up
from weft.pipelines.base import Job, JobRun, Outcome
from weft.pipelines.lake.reading import columns_of, map_files
from weft.pipelines.ranges import events_of, fetched, planned_ranges
from weft.pipelines.settings import JobSettings, SelectionText
from weft.pipelines.topics import selected, selects
from weft.spark.options import Members, SourceOptions, parse_options
from weft.spark.planning import everything
from weft.spark.survey import Survey, Unread, listed
from weft.spark.surveyor import Surveyor

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

AUDIT_TASK_BYTES: Final = 32 * MIB  # of files for one task: small, so that all cores get work
AUDIT_RANGES_MAX: Final = 100  # per stream and kind of finding, reported one by one; the rest is reported as one range
AUDIT_STREAMS_SHOWN_MAX: Final = 1000  # streams shown that differ: nobody reads more, and the summary counts them all
NAME: Final = "audit"
StreamKey = tuple[str, str, int, int]  # the columns of STREAM


class AuditSection(Section):
    """What to compare, and how strictly."""

    subscribe: SelectionText = Field(
        description="Topics and patterns, with commas; others in the table are not looked at."
    )
    ignore_tail: bool = Field(
        default=False, description="Do not mind that the last events of a stream are missing: the archive still runs."
    )
    retired: tuple[str, ...] = Field(
        default=(), description="Nodes that need not answer, by id: gone for good, or plain peers, which keep no log."
    )


class AuditSettings(JobSettings):
    audit: AuditSection
    table: lake.TableSection

    def uses_mesh(self) -> bool:
        return True

    def reads(self) -> str:
        return self.audit.subscribe


class Finding(StrEnum):
    """What the audit found out about a range of offsets."""

    MISSING = "missing"  # in the log, not in the table, although the table has later ones
    BEHIND = "behind"  # in the log, after all that the table has
    DIFFERENT = "different"  # in both, and not the same event
    DUPLICATED = "duplicated"  # in the table more than once
    KEPT = "kept"  # in the table only: retention or compaction took it from the log
    UNKNOWN = "unknown"  # in the table, after all that the log has
    UNASKED = "unasked"  # in the table only, and the node that accepted it did not answer


FAULTS: Final = frozenset(Finding) - {Finding.BEHIND, Finding.KEPT}


@dataclass(frozen=True, slots=True)
class Side:
    """What one side has of a stream."""

    count: int = 0
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Events of a stream with the same finding, from ``first`` to ``last``, both included."""

    finding: Finding
    first: int
    last: int
    count: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class StreamAudit:
    """Both sides of a stream, and where they differ."""

    stream: StreamKey
    log: Side
    lake: Side
    ranges: Sequence[Range] = field(default_factory=tuple)

    def events(self, finding: Finding) -> int:
        return sum(each.count for each in self.ranges if each.finding is finding)

    def is_sound(self, *, ignore_tail: bool) -> bool:
        faults = FAULTS if ignore_tail else FAULTS | {Finding.BEHIND}
        return not any(each.finding in faults for each in self.ranges)

    def row(self) -> dict[str, object]:
        """For people and for JSON."""
        topic, origin, epoch, partition = self.stream
        found: dict[str, object] = {
            "topic": topic,
            "origin": origin,
            "epoch": epoch,
            "partition": partition,
            "log": self.log.count,
            "lake": self.lake.count,
        }
        for finding in Finding:
            found[finding.value] = self.events(finding)
        shown = [f"{each.finding.value} {each}" for each in self.ranges if each.finding is not Finding.KEPT]
        found["ranges"] = ", ".join(shown)
        return found


def check(settings: AuditSettings) -> None:
    """TableError if the table cannot be audited."""
    lake.check_columns(lake.open_table(settings.table.settings()), (*STREAM, "offset", *COMPARED))


def run(spark: SparkSession, settings: AuditSettings, run: JobRun) -> Outcome:
    """Compare, and say what is missing."""
    wanted = settings.audit
    check(settings)
    archived = of_table(spark, lake.open_table(settings.table.settings()), wanted.subscribe)
    only_logs = {"failOnDataLoss": "false", "history": "false"}
    options = parse_options(settings.mesh.options() | {"subscribe": wanted.subscribe, **only_logs})
    run.say("asking the nodes what they have")
    survey = ask_all(options)
    log = of_ranges(planned_ranges(spark, options, everything(survey.held)))
    run.say("adding up the table and the log")
    audits = compare(log, archived, survey.answered.union(wanted.retired))
    unread = [each for each in (*survey.unread(), *_unknown(audits, survey)) if each.node not in wanted.retired]
    faulty = [each for each in audits if not each.is_sound(ignore_tail=wanted.ignore_tail)]
    shown = [each for each in audits if each.ranges][:AUDIT_STREAMS_SHOWN_MAX]
    return Outcome(
        _summary(audits, faulty, unread),
        [each.row() for each in shown],
        ok=not (faulty or unread),
        warnings=[str(each) for each in unread],
    )


def ask_all(options: SourceOptions) -> Survey:
    """What the named nodes and the other members of the mesh have; Unavailable if no named node answers."""
    with closing(Surveyor.of(options, Members.REACHABLE)) as surveyor:
        return surveyor.look(complete=False)


def _unknown(audits: Sequence[StreamAudit], survey: Survey) -> list[Unread]:
    """Nodes that accepted events in the table, but that no node knows as members of the mesh."""
    origins = {each.stream[1] for each in audits if each.events(Finding.UNASKED)}
    why = "accepted events of the table, and no node that answered knows it as a member"
    return [Unread(node, "", why) for node in sorted(origins - survey.missing_members().keys())]


@dataclass(frozen=True, slots=True)
class Events:
    """One side, in Spark: the sums that tasks made of its events (``SUMS``), and the events, if they are needed."""

    sums: DataFrame
    rows: Callable[[], DataFrame]


def of_table(spark: SparkSession, table: lake.Table, subscribe: str) -> Events:
    """The events that the table has now."""
    files, needed = table.files(), (*STREAM, "offset", *COMPARED)
    columns = pa.schema([each for each in columns_of(table.schema()) if each.name in needed])

    def add_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return added_up(selected(subscribe, batch) for batch in batches)

    sums = map_files(spark, table.settings, columns, files, add_up, _sums_row(), AUDIT_TASK_BYTES)
    return Events(sums, lambda: table.read(spark, files).where(selects(subscribe)))


def of_ranges(ranges: DataFrame) -> Events:
    """The events of the log."""

    def add_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return added_up(fetched(batches))

    return Events(ranges.mapInArrow(add_up, _sums_row()), lambda: events_of(ranges))


def of_rows(rows: DataFrame) -> Events:
    """Events that are rows in Spark already."""
    return Events(rows.select(*STREAM, "offset", *COMPARED).mapInArrow(added_up, _sums_row()), lambda: rows)


def _sums_row() -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SUMS)


def compare(log: Events, archived: Events, asked: Collection[str]) -> list[StreamAudit]:
    """Each stream that either side has; those with differences first. ``asked`` are the nodes that answered: only for
    events that they accepted is it certain that the log no longer has them."""
    sums = _sums(log, "log").join(_sums(archived, "lake"), [*STREAM, "stretch"], "full_outer").cache()
    try:
        sides = _sides(sums)
        differing = sums.where(_differs()).select(*STREAM, "stretch")
        found = _ranges(_unequal(log.rows(), archived.rows(), differing)) if differing.take(1) else {}
    finally:
        sums.unpersist()
    audits = [
        StreamAudit(
            stream,
            log_side,
            lake_side,
            classified(found.get(stream, []), log_side, lake_side, was_asked=stream[1] in asked),
        )
        for stream, (log_side, lake_side) in sides.items()
    ]
    return sorted(audits, key=lambda each: (not each.ranges, each.stream))


def classified(ranges: Iterable[Range], log: Side, archived: Side, *, was_asked: bool) -> list[Range]:
    """Refine Spark's findings for events on one side only, by their position in the stream. Pure."""
    found = []
    for each in ranges:
        finding = each.finding
        if finding is Finding.MISSING and (archived.last is None or each.first > archived.last):
            finding = Finding.BEHIND
        elif finding is Finding.KEPT and not was_asked:
            finding = Finding.UNASKED
        elif finding is Finding.KEPT and log.last is not None and each.first > log.last:
            finding = Finding.UNKNOWN
        found.append(Range(finding, each.first, each.last, each.count))
    return found


# --- in Spark -------------------------------------------------------------------------------------------------------


def _hash() -> Column:
    """One number for the content of an event. Nulls do not change a hash, so which columns are null is hashed too."""
    from pyspark.sql import functions as f

    headers = f.sort_array(f.map_entries("headers"))  # a map has no order, and Spark cannot hash maps
    nulls = [f.isnull(name) for name in COMPARED]
    return f.xxhash64("offset", "timestamp", "key", "value", headers, *nulls)


def _sums(events: Events, side: str) -> DataFrame:
    """For stretches of each stream: the number of events, and the sum of digests in two halves that cannot overflow."""
    from pyspark.sql import functions as f

    return events.sums.groupBy(*STREAM, "stretch").agg(
        *(f.sum(name).alias(f"{side}_{name}") for name in ("count", "low", "high")),
        f.min("first").alias(f"{side}_first"),
        f.max("last").alias(f"{side}_last"),
    )


def _differs() -> Column:
    from pyspark.sql import functions as f

    same = f.lit(True)
    for name in ("count", "low", "high"):
        same = same & f.col(f"log_{name}").eqNullSafe(f.col(f"lake_{name}"))
    return ~same


def _sides(sums: DataFrame) -> dict[StreamKey, tuple[Side, Side]]:
    from pyspark.sql import functions as f

    added = [
        each
        for side in ("log", "lake")
        for each in (
            f.coalesce(f.sum(f"{side}_count"), f.lit(0)).alias(f"{side}_count"),
            f.min(f"{side}_first").alias(f"{side}_first"),
            f.max(f"{side}_last").alias(f"{side}_last"),
        )
    ]
    return {
        (row.topic, row.origin, row.epoch, row.partition): (
            Side(row.log_count, row.log_first, row.log_last),
            Side(row.lake_count, row.lake_first, row.lake_last),
        )
        for row in sums.groupBy(*STREAM).agg(*added).collect()
    }


def _unequal(log: DataFrame, archived: DataFrame, differing: DataFrame) -> DataFrame:
    """Each unequal offset in the stretches that differ, with its finding."""
    from pyspark.sql import functions as f

    def events(rows: DataFrame, side: str) -> DataFrame:
        hashed = rows.select(
            *STREAM, "offset", f.shiftright("offset", AUDIT_STRETCH_BITS).alias("stretch"), _hash().alias("hash")
        )
        within = hashed.join(f.broadcast(differing), [*STREAM, "stretch"], "left_semi")
        return within.groupBy(*STREAM, "offset").agg(
            f.count("*").alias(f"{side}_copies"),
            f.min("hash").alias(f"{side}_hash"),
            f.max("hash").alias(f"{side}_most"),
        )

    both = events(log, "log").join(events(archived, "lake"), [*STREAM, "offset"], "full_outer")
    finding = (
        f.when(f.col("lake_copies").isNull(), Finding.MISSING.value)
        .when(f.col("log_copies").isNull(), Finding.KEPT.value)
        .when(
            (f.col("lake_hash") != f.col("log_hash")) | (f.col("lake_most") != f.col("log_hash")),
            Finding.DIFFERENT.value,
        )
        .when(f.col("lake_copies") > 1, Finding.DUPLICATED.value)
    )
    return both.select(*STREAM, "offset", finding.alias("finding")).where(f.col("finding").isNotNull())


def _ranges(unequal: DataFrame) -> dict[StreamKey, list[Range]]:
    """Join neighbouring offsets with the same finding. The first AUDIT_RANGES_MAX ranges of each stream and finding
    stay separate, and the rest become one range: a table without every second event would give far too many."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    ordered = Window.partitionBy(*STREAM, "finding").orderBy("offset")
    runs = unequal.withColumn("run", f.col("offset") - f.row_number().over(ordered))
    ranges = runs.groupBy(*STREAM, "finding", "run").agg(
        f.min("offset").alias("first"), f.max("offset").alias("last"), f.count("*").alias("events")
    )
    place = f.least(
        f.row_number().over(Window.partitionBy(*STREAM, "finding").orderBy("first")), f.lit(AUDIT_RANGES_MAX)
    )
    rows = (
        ranges.withColumn("place", place)
        .groupBy(*STREAM, "finding", "place")
        .agg(f.min("first").alias("first"), f.max("last").alias("last"), f.sum("events").alias("events"))
        .orderBy(*STREAM, "finding", "first")
        .collect()
    )
    found: dict[StreamKey, list[Range]] = {}
    for row in rows:
        each = Range(Finding(row.finding), row.first, row.last, row.events)
        found.setdefault((row.topic, row.origin, row.epoch, row.partition), []).append(each)
    return found


def _summary(audits: Sequence[StreamAudit], faulty: Sequence[StreamAudit], unread: Sequence[Unread]) -> str:
    compared = _compared(audits, faulty, "the nodes that answered" if unread else "the log")
    return f"{compared}; not asked: {listed([each.name for each in unread])}" if unread else compared


def _compared(audits: Sequence[StreamAudit], faulty: Sequence[StreamAudit], log: str) -> str:
    events = sum(each.lake.count for each in audits)
    totals = {finding: sum(each.events(finding) for each in audits) for finding in Finding}
    told = ", ".join(f"{count:,} {finding.value}" for finding, count in totals.items() if count)
    if faulty:
        first = faulty[0]
        worst = "@".join(first.stream[:2])
        differ = "differ or cannot be compared" if totals[Finding.UNASKED] else "differ"
        return f"{len(faulty)} of {len(audits)} streams {differ}: {told}; the first is {worst}"
    same = f"{len(audits)} streams with {events:,} events in the table agree with {log}"
    return f"{same} ({told})" if told else same


PIPELINE: Final = Job(NAME, AuditSettings, run, check=check)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
