"""``archive``: writes topics to a lake table, exactly once, as raw events (SPK-03) or as typed ones (LAK-02).

Rows are events as the source gives them, with their identity (topic, origin, epoch, partition, offset), and the day of
their timestamp to partition by. Within a file, rows are sorted by topic, so that a reader of one topic skips the rest:
a thousand topics do not need a thousand files per batch. ``layout.topics`` adds a partition by topic where that pays.
Events go from the log into files without passing through the JVM (``ranges``). With ``[typed]``, payloads become
columns (``typed``), and events for which that is impossible go to a second table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, assert_never

import pyarrow as pa
from pydantic import BeforeValidator, Field, model_validator

from weft.configuration import Section
from weft.errors import UsageError
from weft.model import parse_topic
from weft.pipelines import lake
from weft.pipelines.archive_events import Events, TopicColumn, bucket, first_token
from weft.pipelines.base import Streaming
from weft.pipelines.idle import has_begun, nothing_since
from weft.pipelines.lake.goals import FRESHNESS_S_MAX, FRESHNESS_S_MIN, Goal, trigger_ms, worthwhile
from weft.pipelines.lake.table import ensure
from weft.pipelines.lake.writing import stored_schema
from weft.pipelines.ranges import only_ranges, read_ranges
from weft.pipelines.settings import AVAILABLE_NOW, SourceSection, StreamingSettings
from weft.pipelines.typed.settings import DeadLettersSection, TypedSection, dead_letters
from weft.pipelines.typed.tables import LetterCount, TypedTables
from weft.pipelines.upkeep import Done, Keeper, UpkeepSection, keeping
from weft.spark.connection import Connection
from weft.spark.offsets import Place, place_of, to_json
from weft.spark.option_values import parse_duration
from weft.spark.selection import parse_selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LAKE_TOPIC_BUCKETS_MAX: Final = 256  # each batch writes that many files, and has them open at the same time
NAME: Final = "archive"
STREAM_COLUMNS: Final = ("topic", "origin", "partition", "epoch")
SORT_BY: Final = ("topic",)


def _seconds(given: object) -> object:
    try:
        return parse_duration("freshness", given, FRESHNESS_S_MAX) if isinstance(given, str) else given
    except UsageError as error:
        raise ValueError(str(error)) from None  # what pydantic collects


class ByTopic(StrEnum):
    NONE = "none"
    TOKEN = "token"  # noqa: S105  of topics, no secret
    BUCKET = "bucket"


class LayoutSection(Section):
    """How the table is partitioned, in addition to the day."""

    topics: ByTopic = Field(
        default=ByTopic.NONE,
        description="`none`, the topic's first `token`, or a `bucket` by its hash. Every partition is at least a file "
        "per batch: only for tables that are always read by topic.",
    )
    sort_by: tuple[str, ...] = Field(
        default=SORT_BY,
        description="The order of rows within a file, such as `topic`, `timestamp`, or `key`, `timestamp`.",
    )
    buckets: int = Field(default=16, ge=2, le=LAKE_TOPIC_BUCKETS_MAX, description="How many, for `bucket`.")

    def events(self) -> Events:
        match self.topics:
            case ByTopic.NONE:
                return Events()
            case ByTopic.TOKEN:
                return Events(TopicColumn("topic_token", pa.string(), first_token))
            case ByTopic.BUCKET:
                return Events(TopicColumn("topic_bucket", pa.int32(), partial(bucket, buckets=self.buckets)))
            case _:
                assert_never(self.topics)


class ArchiveTableSection(lake.TableSection):
    """The table, and the freshness that it is to have."""

    freshness: Annotated[float, BeforeValidator(_seconds)] | None = Field(
        default=None,
        ge=FRESHNESS_S_MIN,
        le=FRESHNESS_S_MAX,
        description="How long after its publication an event is to be in the table: `10s`. It picks the trigger.",
    )


class ArchiveSettings(StreamingSettings):
    source: SourceSection
    table: ArchiveTableSection
    layout: LayoutSection = LayoutSection()
    upkeep: UpkeepSection = UpkeepSection()
    typed: TypedSection | None = None
    dead_letters: DeadLettersSection | None = None

    @model_validator(mode="after")
    def _typed_has_dead_letters(self) -> Self:
        if self.dead_letters is not None and self.typed is None:
            raise ValueError("[dead_letters] is for a typed archive: add [typed]")
        return self

    @model_validator(mode="after")
    def _one_trigger(self) -> Self:
        if self.table.freshness is not None and "trigger" in self.run.model_fields_set and not self.ends:
            raise ValueError("table.freshness picks the trigger: give it, or run.trigger")
        return self

    @model_validator(mode="after")
    def _raw_has_columns(self) -> Self:
        """Check the layout's columns for raw events. Those of a typed table are known only to the mesh."""
        if self.typed is None:
            try:
                stored_schema(self.table_settings(), self.layout.events().columns())
            except lake.TableError as error:
                raise ValueError(str(error)) from None  # what pydantic collects
        return self

    @property
    def ends(self) -> bool:
        """Whether a run ends when it has archived all there is."""
        return self.run.trigger == AVAILABLE_NOW

    def table_settings(self) -> lake.TableSettings:
        return self.table.settings(partition_by=self.layout.events().partition_by(), sort_by=self.layout.sort_by)

    def typed_tables(self) -> TypedTables | None:
        """The tables for typed events; None if events are archived raw."""
        if self.typed is None:
            return None
        return TypedTables(
            source=self.typed.source(Connection.from_options(self.mesh.options()), self.source.subscribe),
            table=self.table_settings(),
            dead_letters=dead_letters(self.dead_letters, self.table),
            layout=self.layout.events(),
            strict=self.typed.strict,
            checkpoint=str(self.run.checkpoint),
        )

    def tables(self) -> list[lake.TableSettings]:
        typed = self.typed_tables()
        return [self.table_settings(), *([] if typed is None else [typed.dead_letters])]

    def trigger_arguments(self) -> dict[str, Any]:
        """Arguments for ``DataStreamWriter.trigger``: as often as the goal needs, and no more often."""
        if self.table.freshness is None or self.ends:
            return self.run.trigger_arguments()
        return {"processingTime": f"{trigger_ms(self.table.freshness)} milliseconds"}

    def goal(self) -> Goal:
        return Goal(self.table.file_bytes, self.table.freshness, self.upkeep.share)

    def source_options(self) -> dict[str, str]:
        """Options that read only logs: events from archive tables are not archived again."""
        return self.mesh.options() | self.source.options(self.run_name(NAME)) | {"history": "false"}


def start(spark: SparkSession, settings: ArchiveSettings) -> Sequence[StreamingQuery]:
    """One query, from the mesh to the table."""
    name = settings.run_name(NAME)
    write = _raw(settings) if (typed := settings.typed_tables()) is None else typed
    write.prepare(spark)
    options = settings.source_options()
    if not has_begun(settings.run.checkpoint) and (
        known := archived(spark, settings.tables(), settings.source.subscribe)
    ):
        options.pop("startingTimestamp", None)
        options["startingOffsets"] = known
    writer = read_ranges(spark, options).writeStream.foreachBatch(write)
    writer = writer.queryName(name).option("checkpointLocation", str(settings.run.checkpoint))
    return [writer.trigger(**settings.trigger_arguments()).start()]


def check(settings: ArchiveSettings) -> None:
    """Raise what is wrong with existing tables, or with the schemas of typed topics."""
    if (typed := settings.typed_tables()) is not None:
        typed.check()
    else:
        _raw(settings).check()


def is_idle(settings: ArchiveSettings) -> bool:
    """Whether a run would do nothing: there are no new events, and no table needs compaction."""
    if not settings.ends or not nothing_since(settings.run.checkpoint, settings.source_options()):
        return False
    goal = settings.goal()
    tables = [lake.open_table(each) for each in settings.tables()]
    return all(each.exists() and not (goal.share and worthwhile(each.files(), goal.file_bytes)) for each in tables)


@dataclass(frozen=True, slots=True)
class RawTable:
    """For ``foreachBatch``: writes the events of ranges. Spark Connect pickles it."""

    table: lake.TableSettings
    layout: Events
    checkpoint: str

    def check(self) -> None:
        """Raise TableError if an existing table does not fit."""
        if (table := lake.open_table(self.table)).exists():
            ensure(table, self._made().schema)

    def prepare(self, spark: SparkSession) -> None:
        """Make the table, or check that it fits."""
        lake.prepare(self.table, self._made().schema)

    def __call__(self, ranges: DataFrame, batch: int) -> None:
        query = lake.query_id(self.checkpoint)
        lake.append_batch(only_ranges(ranges), self.table, query=query, batch=batch, made=self._made())

    def _made(self) -> lake.Made:
        from pyspark.sql.pandas.types import from_arrow_schema

        return lake.Made(from_arrow_schema(self.layout.columns()), self.layout.rows)


def _raw(settings: ArchiveSettings) -> RawTable:
    return RawTable(settings.table_settings(), settings.layout.events(), str(settings.run.checkpoint))


@contextmanager
def keep(
    spark: SparkSession, settings: ArchiveSettings, queries: Sequence[StreamingQuery], say: Callable[[str], None]
) -> Iterator[Done]:
    """Keep the tables in order while their query runs."""
    first, *others = [lake.open_table(each) for each in settings.tables()]
    goals = [settings.goal(), *(Goal(each.settings.file_bytes, None, settings.upkeep.share) for each in others)]
    grace_s = settings.upkeep.grace_hours * 3600
    keepers = [Keeper(spark, table, goal, grace_s, say) for table, goal in zip((first, *others), goals, strict=True)]
    done = keepers[0].done
    done.beside = [*(keeper.done for keeper in keepers[1:]), *map(LetterCount, others)]
    with ExitStack() as stack:
        for keeper in keepers:
            stack.enter_context(keeping(keeper, queries, to_the_end=settings.ends))
        yield done


def archived(spark: SparkSession, tables: Sequence[lake.TableSettings], subscribe: str) -> str | None:
    """Where to continue if the checkpoint is lost, as the option startingOffsets: after the events in the tables.

    Otherwise Spark would start from the beginning, and every event still in the log would be in the table twice.
    """
    from pyspark.sql import functions as f

    wanted = parse_selection("subscribe", subscribe)
    known: dict[Place, int] = {}
    for table in map(lake.open_table, tables):
        if not (files := table.files()):
            continue
        streams = table.read(spark, files).groupBy(*STREAM_COLUMNS).agg(f.max("offset").alias("last")).collect()
        for row in streams:
            place = place_of(row.topic, row.origin, row.partition, row.epoch)
            if wanted.selects_topic(parse_topic(row.topic)):
                known[place] = max(known.get(place, 0), row.last + 1)
    return json.dumps(to_json(known)) if known else None


PIPELINE: Final = Streaming(NAME, ArchiveSettings, start, keep, is_idle, check)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
