"""Rates, sizes and latencies per topic and window: one row for each window in which a topic had events.

An event's own timestamp decides its window. From the mesh, a window is written once, when the watermark, which is
``late`` behind the newest event, has passed its end. From an archive, all windows are computed in one go; a window that
now has more events replaces the one in the table.

``docs/derived-tables.md`` says what the columns measure, and by which clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

from pydantic import AwareDatetime, Field, model_validator

from weft.configuration import Section
from weft.limits import EVENT_HEADER_NAME_BYTES_MAX
from weft.pipelines import lake
from weft.pipelines.base import Streaming, read_topics
from weft.pipelines.derived_tables import Interval, is_misdated, next_batch, read_at
from weft.pipelines.settings import SourceSection, StreamingSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROLLUP_DELAY_S_MAX: Final = 86_400  # between sending and publishing; a delay of more than a day is a wrong clock
ROLLUP_PERCENTILE_ACCURACY: Final = 1000  # ranks are off by a thousandth at most, for some KiB of state per window
NAME: Final = "rollup"
KEYS: Final = ("date", "topic", "window_start")
PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class ArchiveSection(lake.TableSection):
    """A table of raw events that ``archive`` wrote, instead of the mesh."""

    since: AwareDatetime | None = Field(default=None, description="Events from this time on.")
    until: AwareDatetime | None = Field(default=None, description="Events before this time.")

    @classmethod
    def is_input(cls) -> bool:
        return True


class WindowSection(Section):
    """The time that one row covers."""

    length: Interval = Field(default="1 minute", description="Of a window.")
    late: Interval = Field(default="10 minutes", description="How long a window waits for events that come late.")
    sent_header: str = Field(
        default="weft-sent",
        min_length=1,
        max_length=EVENT_HEADER_NAME_BYTES_MAX,
        description="The header in which a sender wrote when it sent: microseconds since 1970.",
    )


class RollupSettings(StreamingSettings):
    """Events from the mesh (`source`) or from the lake (`archive`), and the table of windows."""

    source: SourceSection | None = None
    archive: ArchiveSection | None = None
    window: WindowSection = WindowSection()
    table: lake.TableSection

    @model_validator(mode="after")
    def _one_input(self) -> Self:
        if (self.source is None) == (self.archive is None):
            raise ValueError("give either [source], to read from the mesh, or [archive], to read a table")
        return self


def start(spark: SparkSession, settings: RollupSettings) -> Sequence[StreamingQuery]:
    name = settings.name or NAME
    table = settings.table.settings(partition_by=("date",), sort_by=("topic",))
    if settings.source is not None:
        events = measured(read_topics(spark, settings.mesh, settings.source, name), settings.window, live=True)
        query = lake.write_stream(
            windows(events.withWatermark("at", settings.window.late), settings.window),
            table,
            query_name=name,
            checkpoint=settings.run.checkpoint / NAME,
            trigger=settings.run.trigger_arguments(),
        )
        return [query]
    assert settings.archive is not None, "the settings have one of the two"
    roll_up_archive(spark, settings.archive, settings.window, table, query=f"{NAME}-{name}")
    return []


def roll_up_archive(
    spark: SparkSession, archive: ArchiveSection, window: WindowSection, table: lake.TableSettings, *, query: str
) -> None:
    """Compute all windows of a table of events; they replace windows that were made from fewer events."""
    from pyspark.sql import functions as f

    events = lake.read(spark, archive.settings())
    if archive.since is not None:
        events = events.where(f.col("timestamp") >= f.lit(archive.since))
    if archive.until is not None:
        events = events.where(f.col("timestamp") < f.lit(archive.until))
    rows = windows(measured(events, window, live=False), window)
    lake.prepare(table, rows.schema)
    lake.upsert_batch(rows, table, keys=KEYS, order_by=("events",), query=query, batch=next_batch(table, query))


def measured(events: DataFrame, window: WindowSection, *, live: bool) -> DataFrame:
    """What is measured of each event. ``live``: events are read as they come, so the reading delay is meaningful."""
    from pyspark.sql import functions as f

    timestamp = f.col("timestamp")
    timestamp_us = f.unix_micros(timestamp)
    header = f.try_element_at("headers", f.lit(window.sent_header))
    sent_us = f.when(header.rlike("^[0-9]{1,16}$"), header.try_cast("bigint"))
    delay_us = timestamp_us - sent_us
    believed = f.abs(delay_us) <= ROLLUP_DELAY_S_MAX * 1_000_000
    lag_us = f.unix_micros(read_at()) - timestamp_us
    return events.select(
        "topic",
        f.when(is_misdated(timestamp), read_at()).otherwise(timestamp).alias("at"),
        is_misdated(timestamp).alias("misdated"),
        f.octet_length("value").cast("bigint").alias("payload_bytes"),
        (f.when(~is_misdated(timestamp), lag_us / 1000) if live else f.lit(None).cast("double")).alias("lag_ms"),
        f.when(believed, delay_us / 1000).alias("delay_ms"),
        (header.isNotNull() & ~f.coalesce(believed, f.lit(False))).alias("sent_rejected"),
    )


def windows(events: DataFrame, window: WindowSection) -> DataFrame:
    """One row per topic and window."""
    from pyspark.sql import functions as f

    grouped = events.groupBy("topic", f.window("at", window.length).alias("window")).agg(
        f.count("*").alias("events"),
        f.sum("payload_bytes").alias("payload_bytes"),
        *_spread("payload_bytes"),
        *_spread("lag_ms"),
        f.count("delay_ms").alias("sent_events"),
        *_spread("delay_ms"),
        f.count_if("sent_rejected").alias("sent_rejected"),
        f.count_if("misdated").alias("misdated_events"),
    )
    begin, end = f.col("window.start"), f.col("window.end")
    length_s = (f.unix_millis(end) - f.unix_millis(begin)) / 1000
    return grouped.select(
        f.to_date(begin).alias("date"),
        "topic",
        begin.alias("window_start"),
        end.alias("window_end"),
        "events",
        (f.col("events") / length_s).alias("events_per_s"),
        "payload_bytes",
        (f.col("payload_bytes") / length_s).alias("payload_bytes_per_s"),
        *_spread_columns("payload_bytes", "payload_bytes"),
        *_spread_columns("lag_ms", "timestamp_to_read_ms"),
        "sent_events",
        *_spread_columns("delay_ms", "sent_to_timestamp_ms"),
        "sent_rejected",
        "misdated_events",
    )


def _spread(name: str) -> list[Column]:
    """Percentiles by Spark's own sketch, and the maximum, which is exact."""
    from pyspark.sql import functions as f

    sketch = f.percentile_approx(name, list(PERCENTILES.values()), ROLLUP_PERCENTILE_ACCURACY)
    return [sketch.alias(f"{name}_percentiles"), f.max(name).alias(f"{name}_max")]


def _spread_columns(name: str, shown: str) -> list[Column]:
    from pyspark.sql import functions as f

    columns = [f.col(f"{name}_percentiles")[place].alias(f"{shown}_{label}") for place, label in enumerate(PERCENTILES)]
    return [*columns, f.col(f"{name}_max").alias(f"{shown}_max")]


PIPELINE: Final = Streaming(NAME, RollupSettings, start)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
