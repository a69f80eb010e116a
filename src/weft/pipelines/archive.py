"""``archive``: topics to a lake table of raw events, exactly once. (SPK-03)

Rows are events as the source gives them, with their identity (topic, origin, epoch, partition, offset), and the day of
their timestamp to partition by. Within a file rows are sorted by topic, so that readers of one topic skip the rest:
a thousand topics need no thousand files per batch. ``layout.topics`` adds a partition by topic where that pays.
Events go from the log into files without passing the JVM (``ranges``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, assert_never

import pyarrow as pa
from pydantic import BeforeValidator, Field, model_validator

from weft.configuration import Section
from weft.errors import UsageError
from weft.model import parse_topic
from weft.pipelines import lake
from weft.pipelines.archive_events import Events, TopicColumn, bucket, first_token
from weft.pipelines.base import Streaming
from weft.pipelines.lake.goals import FRESHNESS_S_MAX, FRESHNESS_S_MIN, Goal, trigger_ms
from weft.pipelines.ranges import only_ranges, read_ranges
from weft.pipelines.settings import AVAILABLE_NOW, SourceSection, StreamingSettings
from weft.pipelines.upkeep import Done, Keeper, UpkeepSection, keeping
from weft.spark.offsets import place_of, to_json
from weft.spark.option_values import parse_duration
from weft.spark.selection import parse_selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LAKE_TOPIC_BUCKETS_MAX: Final = 256  # as many files are open at a time, and each batch writes as many
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
    """How the table is partitioned, beside the day."""

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
    """The table, and what it is kept to."""

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

    @model_validator(mode="after")
    def _one_trigger(self) -> Self:
        if self.table.freshness is not None and "trigger" in self.run.model_fields_set and not self.ends:
            raise ValueError("table.freshness picks the trigger: give it, or run.trigger")
        return self

    @property
    def ends(self) -> bool:
        """Whether a run ends when it has all there is."""
        return self.run.trigger == AVAILABLE_NOW

    def table_settings(self) -> lake.TableSettings:
        return self.table.settings(partition_by=self.layout.events().partition_by(), sort_by=self.layout.sort_by)

    def trigger_arguments(self) -> dict[str, Any]:
        """For ``DataStreamWriter.trigger``: often enough for the goal, and no oftener."""
        if self.table.freshness is None or self.ends:
            return self.run.trigger_arguments()
        return {"processingTime": f"{trigger_ms(self.table.freshness)} milliseconds"}

    def goal(self) -> Goal:
        return Goal(self.table.file_bytes, self.table.freshness, self.upkeep.share)


def start(spark: SparkSession, settings: ArchiveSettings) -> Sequence[StreamingQuery]:
    """One query, from the mesh to the table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    name = settings.name or NAME
    table, events = settings.table_settings(), settings.layout.events()
    made = lake.Made(from_arrow_schema(events.columns()), events.rows)
    lake.prepare(table, made.schema)
    options = settings.mesh.options() | settings.source.options(name)
    if not _has_begun(settings.run.checkpoint) and (known := archived(spark, table, settings.source.subscribe)):
        options.pop("startingTimestamp", None)
        options["startingOffsets"] = known

    checkpoint = str(settings.run.checkpoint)

    def write(ranges: DataFrame, batch: int) -> None:
        lake.append_batch(only_ranges(ranges), table, query=lake.query_id(checkpoint), batch=batch, made=made)

    writer = read_ranges(spark, options).writeStream.foreachBatch(write)
    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    return [writer.trigger(**settings.trigger_arguments()).start()]


@contextmanager
def keep(
    spark: SparkSession, settings: ArchiveSettings, queries: Sequence[StreamingQuery], say: Callable[[str], None]
) -> Iterator[Done]:
    """Keep the table in order while its query runs."""
    table = lake.open_table(settings.table_settings())
    keeper = Keeper(spark, table, settings.goal(), settings.upkeep.grace_hours * 3600, say)
    with keeping(keeper, queries, to_the_end=settings.ends):
        yield keeper.done


def archived(spark: SparkSession, table: lake.TableSettings, subscribe: str) -> str | None:
    """Where to go on if the checkpoint is lost, as the option startingOffsets: behind what the table has.

    Spark would begin anew, and every event that is still in the log would be in the table twice.
    """
    from pyspark.sql import functions as f

    opened = lake.open_table(table)
    if not (files := opened.files()):
        return None
    streams = opened.read(spark, files).groupBy(*STREAM_COLUMNS).agg(f.max("offset").alias("last")).collect()
    wanted = parse_selection("subscribe", subscribe)
    known = {
        place_of(row.topic, row.origin, row.partition, row.epoch): row.last + 1
        for row in streams
        if wanted.selects_topic(parse_topic(row.topic))
    }
    return json.dumps(to_json(known)) if known else None


def _has_begun(checkpoint: Path) -> bool:
    """Whether Spark has written down where its first batch ends. The directory is there before that."""
    return any(path.name.isdigit() for path in (checkpoint / "offsets").glob("*"))


PIPELINE: Final = Streaming(NAME, ArchiveSettings, start, keep)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
