"""``replay``: writes history from the lake back into the mesh, after showing a plan. (SPK-04) Or, with the file of a
typed archive, puts dead letters into the archive's table. (LAK-02)

Events go to topics of their own, ``replay.<topic>`` unless configured otherwise. They get the current time, and their
headers say where they come from. The events of each stream keep their order. Each step of the plan is a numbered write
of the sink, so a replay that is started again under the same name continues where it stopped and writes nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Final, Self

from pydantic import AwareDatetime, Field, model_validator

from weft.client import NotAllowed
from weft.client.blocking import Client
from weft.configuration import Section
from weft.errors import UsageError
from weft.lake.files import DataFile
from weft.pipelines import lake
from weft.pipelines.archive import ArchiveSettings, ArchiveTableSection, LayoutSection
from weft.pipelines.base import Job, JobRun, Outcome
from weft.pipelines.replay_plan import (
    REPLAY_STRETCH_EVENTS,
    REPLAY_STRETCHES_MAX,
    Plan,
    Step,
    StreamKey,
    Stretch,
    decode_untrusted,
    encode,
    plan,
    wait_s,
)
from weft.pipelines.settings import JobSettings, RunSection, SelectionText, SourceSection
from weft.pipelines.topics import selects
from weft.pipelines.typed.replaying import replay_letters
from weft.pipelines.typed.settings import DeadLettersSection, TypedSection
from weft.pipelines.upkeep import UpkeepSection
from weft.spark.connection import Connection
from weft.spark.sink_books import Books
from weft.spark.sink_calls import check_publish
from weft.spark.sink_rows import check_topic
from weft.spark.staging import Writing, application_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPLAY_STEP_EVENTS: Final = 1_000_000  # written by one Spark job in some seconds; a killed replay repeats one step
REPLAY_STEP_EVENTS_MAX: Final = 10_000_000  # 10 GiB of events of 1 KiB, held in executors' memory or on their disks
RUN_NAME_CHARS_MAX: Final = 64  # as in settings
REPLAY_TOPICS_SHOWN_MAX: Final = 50  # in a plan for people. It shows each topic's readers: a call to the node per topic
NAME: Final = "replay"
STREAM: Final = ("topic", "origin", "partition", "epoch")
NEEDED: Final = (*STREAM, "offset", "timestamp", "key", "headers", "value")
DAY_COLUMN: Final = "date"
HEADER: Final = "weft-replay-"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIME_US_MIN: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
TIME_US_MAX: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
TOPICS_PRUNED_MAX: Final = 1000  # topics in one step's filter on file statistics; with more, Spark gets slower
BURST_S: Final = 10.0  # length of a step at the wanted rate: one Spark job a second would be mostly overhead


class ReplaySection(Section):
    """What to replay, and to which topics."""

    topics: SelectionText = Field(description="Topics in the table: names and patterns, with commas.")
    starting_timestamp: AwareDatetime | None = Field(default=None, description="Events from this time on.")
    ending_timestamp: AwareDatetime | None = Field(default=None, description="Events before this time.")
    prefix: str = Field(
        default="replay.",
        description="What goes before a topic's name. With none, events come to their old topics, and to an `archive` "
        "of those once more.",
    )
    events_per_s_max: float | None = Field(default=None, gt=0, description="On average; unset: as fast as it goes.")
    copies: int = Field(default=1, ge=1, le=1000, description="On how many nodes an event has to be safe.")
    step_events: int = Field(
        default=REPLAY_STEP_EVENTS, ge=1, le=REPLAY_STEP_EVENTS_MAX, description="Events written by one Spark job."
    )

    def events_of_a_step(self) -> int:
        """How many events a step has. With a rate it has fewer, because events come in bursts of one step."""
        if self.events_per_s_max is None:
            return self.step_events
        return min(self.step_events, ceil(self.events_per_s_max * BURST_S))


class ReplaySettings(JobSettings):
    table: lake.TableSection
    replay: ReplaySection

    def application(self) -> str:
        """The id of this replay. Another table, time or target makes a different replay, even under the same name."""
        wanted = self.replay
        parts = (
            self.name or NAME,
            self.table.path or self.table.name,
            wanted.topics,
            wanted.starting_timestamp,
            wanted.ending_timestamp,
            wanted.prefix,
        )
        return "\n".join(("weft replay", *map(str, parts)))

    def uses_mesh(self) -> bool:
        return True


def run(spark: SparkSession, settings: ReplaySettings, run: JobRun) -> Outcome:
    """Say what would be done; with ``execute``, do it."""
    connection = Connection.from_options(settings.mesh.options())
    with closing(connection.new_client(connection.addresses()[0])) as home:
        rows = selected(spark, settings)
        run.say("counting what the table has")
        step_events = settings.replay.events_of_a_step()
        made = plan(stretches(rows, min(step_events, REPLAY_STRETCH_EVENTS)), step_events)
        if not made.steps:
            return Outcome("the table has no such events")
        table, summary = _table(home, made, settings.replay.prefix), _summary(made, settings.replay)
        if not run.execute:
            return Outcome(f"{summary}. Nothing was done: run it with --execute", table)
        run.say(summary)
        return Outcome(execute(rows, settings, home, connection.secret(), made, run), table)


def selected(spark: SparkSession, settings: ReplaySettings) -> DataFrame:
    """The rows of the table that are wanted."""
    wanted = settings.replay
    first_us, end_us = _us(wanted.starting_timestamp), _us(wanted.ending_timestamp)
    last_us = None if end_us is None else end_us - 1
    table = lake.open_table(settings.table.settings())
    lake.check_columns(table, NEEDED)
    rows = table.read(spark, [file for file in table.files() if of_days(file, first_us, last_us)])
    rows = rows.where(selects(wanted.topics))
    return within(rows, first_us, last_us)


def of_days(file: DataFile, first_us: int | None, last_us: int | None) -> bool:
    """Whether a file may have rows of this time, judged by the day of its partition. Spark itself can tell only for
    tables in directories."""
    day = file.partition.get(DAY_COLUMN)
    if day is None:
        return True
    return (first_us is None or day >= _day(first_us).isoformat()) and (
        last_us is None or day <= _day(last_us).isoformat()
    )


def within(rows: DataFrame, first_us: int | None, last_us: int | None) -> DataFrame:
    """Rows of a time range, both ends included. If the table has a day column, it is filtered too: other days are not
    read."""
    from pyspark.sql import functions as f

    time, day, has_days = f.col("timestamp"), f.col(DAY_COLUMN), DAY_COLUMN in rows.columns
    if first_us is not None:
        rows = rows.where(time >= f.timestamp_micros(f.lit(first_us)))
        rows = rows.where(day.isNull() | (day >= f.lit(_day(first_us)))) if has_days else rows
    if last_us is not None:
        rows = rows.where(time <= f.timestamp_micros(f.lit(last_us)))
        rows = rows.where(day.isNull() | (day <= f.lit(_day(last_us)))) if has_days else rows
    return rows


def stretches(rows: DataFrame, stretch_events: int) -> list[Stretch]:
    """The rows counted in stretches of ``stretch_events`` offsets."""
    from pyspark.sql import functions as f

    size = f.octet_length("value") + f.coalesce(f.octet_length("key"), f.lit(0))
    counted = rows.groupBy(*STREAM, f.expr(f"offset DIV {stretch_events}").alias("stretch")).agg(
        f.min("offset").alias("first"),
        f.max("offset").alias("last"),
        f.count("*").alias("events"),
        f.sum(size).alias("size_bytes"),
        f.min(f.unix_micros("timestamp")).alias("first_us"),
        f.max(f.unix_micros("timestamp")).alias("last_us"),
    )
    found = counted.limit(REPLAY_STRETCHES_MAX + 1).collect()
    if len(found) > REPLAY_STRETCHES_MAX:
        raise UsageError(
            "too much for one replay: choose fewer topics or a shorter time, or larger steps",
            limit=REPLAY_STRETCHES_MAX,
            stretch_events=stretch_events,
        )
    return [
        Stretch(
            StreamKey(row.topic, row.origin, row.partition, row.epoch),
            row.first,
            row.last,
            row.events,
            row.size_bytes,
            row.first_us,
            row.last_us,
        )
        for row in found
    ]


# --- the plan, for people --------------------------------------------------------------------------------------------


def _table(home: Client, made: Plan, prefix: str) -> list[dict[str, object]]:
    """A row for each topic, with the readers of its events."""
    totals: dict[str, list[Stretch]] = {}
    for stretch in made.stretches():
        totals.setdefault(stretch.stream.topic, []).append(stretch)
    targets = {topic: check_topic(prefix + topic) for topic in sorted(totals)}
    return [
        {
            "topic": topic,
            "to": targets[topic],
            "events": sum(stretch.events for stretch in totals[topic]),
            "bytes": sum(stretch.size_bytes for stretch in totals[topic]),
            "from": _time(min(stretch.first_us for stretch in totals[topic])),
            "until": _time(max(stretch.last_us for stretch in totals[topic])),
            "received by": _recipients(home, targets[topic]),
        }
        for topic in list(targets)[:REPLAY_TOPICS_SHOWN_MAX]
    ]


def _recipients(home: Client, topic: str) -> str:
    try:
        found = home.explain(topic)
    except NotAllowed:
        return "not known: this key lacks the admin right"
    return ", ".join(f"{each.node_id} ({each.pattern})" for each in found) or "nobody"


def _summary(made: Plan, wanted: ReplaySection) -> str:
    first_us, last_us = min(step.first_us for step in made.steps), max(step.last_us for step in made.steps)
    topics = len({stretch.stream.topic for stretch in made.stretches()})
    told = (
        f"{made.events:,} events of {topics} topics, {made.size_bytes:,} bytes, from {_time(first_us)} "
        f"until {_time(last_us)}, in {len(made.steps)} steps"
    )
    if wanted.events_per_s_max is not None:
        told += f", at least {made.events / wanted.events_per_s_max:,.0f} s at {wanted.events_per_s_max:g} events/s"
    return told


# --- doing it --------------------------------------------------------------------------------------------------------


def execute(rows: DataFrame, settings: ReplaySettings, home: Client, secret: bytes, made: Plan, run: JobRun) -> str:
    """Write what is not written yet, following the first run's plan; return a summary. Raises NotAllowed before
    anything is written if this key may not publish to one of the topics."""
    check_publish(home, sorted({settings.replay.prefix + stretch.stream.topic for stretch in made.stretches()}))
    application = settings.application()
    plans = Books(home, Writing(home.owner(), application_id(f"{application}\nplan")), secret)
    agreed = decode_untrusted(plans.agree(encode(made)))
    is_ours = agreed == made  # the plan was made from these very files, so nothing has to be counted again
    if not is_ours:
        run.say("this replay was begun before, by another plan (the table may have grown): going on with that")
    done = Books(home, Writing(home.owner(), application_id(application)), secret).progress()
    first = 0 if done is None else done + 1
    begun_s, events = time.monotonic(), 0
    for number, step in enumerate(agreed.steps[first:], first):
        chosen = within(_of(rows, step.stretches), step.first_us, step.last_us)
        if not is_ours:
            check_there(chosen, number, step)
        write(chosen, settings, application, number)
        events += step.events
        elapsed_s = time.monotonic() - begun_s
        run.say(f"step {number + 1} of {len(agreed.steps)}: {events:,} events, {events / elapsed_s:,.0f}/s")
        if number + 1 < len(agreed.steps):
            time.sleep(wait_s(events, elapsed_s, settings.replay.events_per_s_max))
    if first:
        before = sum(step.events for step in agreed.steps[:first])
        return f"{events:,} events written; {before:,} were by earlier runs of this name"
    return f"{events:,} events written"


def check_there(chosen: DataFrame, number: int, step: Step) -> None:
    """Raise TableChanged unless there are as many events as were planned."""
    if (found := chosen.count()) != step.events:
        raise lake.TableChanged(
            "the table no longer has the events that this replay has planned: start one with another name",
            step=number + 1,
            planned=step.events,
            found=found,
        )


def write(chosen: DataFrame, settings: ReplaySettings, application: str, number: int) -> None:
    """Write the events of one step; does nothing if the step is done already."""
    options = {
        **settings.mesh.options(),
        "copies": str(settings.replay.copies),
        "txnAppId": application,
        "txnVersion": str(number),
    }
    events(chosen, settings.replay.prefix).write.format("weft").options(**options).mode("append").save()


def _of(rows: DataFrame, wanted: Sequence[Stretch]) -> DataFrame:
    from pyspark.sql import functions as f

    ranges = [(*stretch.stream, stretch.first_offset, stretch.last_offset) for stretch in wanted]
    schema = "topic string, origin string, partition int, epoch long, first long, last long"
    named = f.broadcast(rows.sparkSession.createDataFrame(ranges, schema))
    first, last = min(each.first_offset for each in wanted), max(each.last_offset for each in wanted)
    rows = rows.where(f.col("offset").between(first, last))  # with both filters, Spark skips parts of files
    if len(topics := sorted({each.stream.topic for each in wanted})) <= TOPICS_PRUNED_MAX:
        rows = rows.where(f.col("topic").isin(topics))
    return rows.join(named, list(STREAM)).where("offset BETWEEN first AND last").drop("first", "last")


def events(rows: DataFrame, prefix: str) -> DataFrame:
    """Rows of the table as rows for the sink, each stream in order, its epochs one after the other."""
    from pyspark.sql import functions as f

    told = {name: f.col(name).cast("string") for name in ("topic", "origin", "epoch", "partition", "offset")}
    told["timestamp"] = f.unix_micros("timestamp").cast("string")
    pairs = [each for name, value in told.items() for each in (f.lit(HEADER + name), value)]
    others = f.map_filter(
        f.coalesce("headers", f.create_map().cast("map<string,string>")), lambda name, _: ~name.startswith(HEADER)
    )
    ordered = rows.repartition("topic", "origin", "partition").sortWithinPartitions(*STREAM, "offset")
    return ordered.select(
        f.concat(f.lit(prefix), "topic").alias("topic"),
        "value",
        "key",
        f.map_concat(others, f.create_map(*pairs)).alias("headers"),
        "partition",
    )


def _us(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


def _moment(time_us: int) -> datetime:
    """A time that Python can represent: publishers choose timestamps, and some are beyond the year 9999."""
    return EPOCH + timedelta(microseconds=min(max(time_us, TIME_US_MIN), TIME_US_MAX))


def _day(time_us: int) -> date:
    return _moment(time_us).date()


def _time(time_us: int) -> str:
    return _moment(time_us).isoformat(timespec="seconds")


# --- or dead letters of a typed archive, into its table --------------------------------------------------------------


class ReplayFile(JobSettings):
    """Either a file with ``[replay]``, which says what goes back into the mesh; or the unchanged file of a typed
    archive: then dead letters that fit by now go into the table."""

    table: ArchiveTableSection
    replay: ReplaySection | None = None
    typed: TypedSection | None = None
    dead_letters: DeadLettersSection | None = None
    source: SourceSection | None = None
    layout: LayoutSection = LayoutSection()
    run: RunSection | None = None
    upkeep: UpkeepSection = UpkeepSection()

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.replay is None) == (self.typed is None):
            raise ValueError(
                "give [replay], which says what goes back into the mesh, or the file of an archive with [typed], whose "
                "dead letters are put into the table"
            )
        if self.typed is not None and (self.source is None or self.run is None):
            raise ValueError("dead letters are replayed with the file of their archive, with [source] and [run]")
        return self

    def uses_mesh(self) -> bool:
        return self.typed is None or self.typed.schema_file is None

    def run_name(self, pipeline: str) -> str:
        """The name of this run. The name in an archive's file is taken by the archive, which may be running."""
        if self.typed is None or self.name is None:
            return super().run_name(pipeline)
        return f"{self.name[: RUN_NAME_CHARS_MAX - len(pipeline) - 1]}-{pipeline}"

    def of_common(self) -> dict[str, object]:
        return {"name": self.name, "report": self.report, "mesh": self.mesh, "spark": self.spark, "table": self.table}

    def archive(self) -> ArchiveSettings:
        names = ("typed", "dead_letters", "source", "layout", "run", "upkeep")
        return ArchiveSettings.model_validate(self.of_common() | {name: getattr(self, name) for name in names})


def check(file: ReplayFile) -> None:
    """Raise TableError if the table has nothing that can be replayed."""
    if file.typed is None:
        lake.check_columns(lake.open_table(file.table.settings()), NEEDED)


def run_file(spark: SparkSession, file: ReplayFile, job: JobRun) -> Outcome:
    """Run the replay into the mesh, or that of dead letters, whichever the file is for."""
    if file.typed is None:
        return run(spark, ReplaySettings.model_validate(file.of_common() | {"replay": file.replay}), job)
    tables = file.archive().typed_tables()
    assert tables is not None, "it has [typed]"
    return replay_letters(spark, tables, job)


PIPELINE: Final = Job(NAME, ReplayFile, run_file, plans_first=True, check=check)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
