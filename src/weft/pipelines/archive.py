"""``archive``: topics to a lake table of raw events, exactly once. (SPK-03)

Rows are events as the source gives them, with their identity (topic, origin, epoch, partition, offset), and the day of
their timestamp to partition by. Within a file rows are sorted by topic, so that readers of one topic skip the rest:
a thousand topics need no thousand files per batch. ``layout.topics`` adds a partition by topic where that pays.
Events go from the log into files without passing the JVM (``ranges``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

import pyarrow as pa
from pydantic import Field

from weft.configuration import Section
from weft.model import parse_topic
from weft.pipelines import lake
from weft.pipelines.archive_events import Events, TopicColumn, bucket, first_token
from weft.pipelines.base import Streaming
from weft.pipelines.ranges import only_ranges, read_ranges
from weft.pipelines.settings import SourceSection, StreamingSettings
from weft.spark.offsets import place_of, to_json
from weft.spark.selection import parse_selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LAKE_TOPIC_BUCKETS_MAX: Final = 256  # as many files are open at a time, and each batch writes as many
NAME: Final = "archive"
STREAM_COLUMNS: Final = ("topic", "origin", "partition", "epoch")
SORT_BY: Final = ("topic",)


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


class ArchiveSettings(StreamingSettings):
    source: SourceSection
    table: lake.TableSection
    layout: LayoutSection = LayoutSection()

    def table_settings(self) -> lake.TableSettings:
        return self.table.settings(partition_by=self.layout.events().partition_by(), sort_by=SORT_BY)


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
    return [writer.trigger(**settings.run.trigger_arguments()).start()]


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


PIPELINE: Final = Streaming(NAME, ArchiveSettings, start)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
