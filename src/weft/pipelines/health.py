"""The state of devices and agents: who is alive, late or gone, since when, and with which gaps; and alerts about that.

Signs of life come from topics of the mesh (``devices.signals`` says which) or from the table that ``packets`` writes.
Decisions are made in time order, once the watermark has passed (``node_health``). From the mesh, one query updates the
table of nodes, adds to the table of alerts, and publishes the alerts. From a table, both are computed in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import AwareDatetime, Field, model_validator

from weft.configuration import Section
from weft.limits import HEALTH_INTERVAL_S_MAX
from weft.model import Topic
from weft.pipelines import lake
from weft.pipelines.base import Streaming, read_topics
from weft.pipelines.derived_tables import REJECTED, Interval, ddl, is_misdated, to_decode, with_times
from weft.pipelines.devices.node_health import Rules
from weft.pipelines.devices.output import HealthOutput
from weft.pipelines.devices.tables import ALERTS, NODES, OUTPUT
from weft.pipelines.settings import SourceSection, StreamingSettings, TopicText
from weft.spark.selection import parse_selection

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME: Final = "health"


class PacketsSection(lake.TableSection):
    """The table of good events that ``packets`` wrote, instead of the mesh."""

    since: AwareDatetime | None = Field(default=None, description="Packets from this time on.")
    until: AwareDatetime | None = Field(default=None, description="Packets before this time.")

    @classmethod
    def is_input(cls) -> bool:
        return True


class RulesSection(Section):
    """When a node is late, and when it is gone."""

    interval_s: float = Field(
        default=30.0, gt=0, le=HEALTH_INTERVAL_S_MAX, description="Between heartbeats of nodes that do not say."
    )
    late_intervals: float = Field(default=2.0, ge=1, description="Intervals of silence until a node is late.")
    gone_intervals: float = Field(default=5.0, ge=1, description="... and until it is gone.")
    forget_s: float = Field(
        default=7 * 86_400.0, gt=0, description="After being gone for so long, a node that comes back is a new one."
    )
    wait: Interval = Field(
        default="1 minute", description="How long signals may be under way, clocks that are behind included."
    )

    @model_validator(mode="after")
    def _late_before_gone(self) -> Self:
        if self.gone_intervals <= self.late_intervals:
            raise ValueError("gone_intervals has to be more than late_intervals")
        return self

    def rules(self) -> Rules:
        return Rules(self.interval_s, self.late_intervals, self.gone_intervals, self.forget_s)


class HealthSettings(StreamingSettings):
    """Signs of life from the mesh (`source`) or from the lake (`packets`), and the tables made from them."""

    source: SourceSection | None = None
    packets: PacketsSection | None = None
    rules: RulesSection = RulesSection()
    nodes: lake.TableSection
    alerts: lake.TableSection
    rejected: lake.TableSection
    alert_topic: TopicText | None = Field(default=None, description="Where alerts are published; unset: nowhere.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if (self.source is None) == (self.packets is None):
            raise ValueError("give either [source], to read from the mesh, or [packets], to read a table")
        if self.alert_topic is not None:
            if self.source is None:
                raise ValueError("alert_topic needs [source]: alerts of history are no news")
            if self.alert_topic.startswith("weft."):
                raise ValueError("alert_topic: topics below weft. belong to the mesh")
            if parse_selection("subscribe", self.source.subscribe).selects_topic(Topic(self.alert_topic)):
                raise ValueError("alert_topic is among the topics that [source] reads")
        return self


def start(spark: SparkSession, settings: HealthSettings) -> Sequence[StreamingQuery]:
    name = settings.name or NAME
    topic = settings.alert_topic
    output = HealthOutput(
        nodes=settings.nodes.settings(),
        alerts=settings.alerts.settings(),
        rejected=settings.rejected.settings(),
        sink=None if topic is None else {**settings.mesh.options(), "topic": topic},
    )
    output.prepare()
    if settings.source is None:
        assert settings.packets is not None, "the settings have one of the two"
        output.put_history(decided_history(spark, settings.packets, settings.rules.rules()), f"{NAME}-{name}")
        return []
    rows = decided(read_topics(spark, settings.mesh, settings.source, name), settings.rules)
    checkpoint = str(settings.run.checkpoint / NAME)
    put = partial(output.put, checkpoint)
    writer = rows.writeStream.foreachBatch(put).queryName(name).outputMode("append")
    trigger = settings.run.trigger_arguments()
    return [writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()]


def decided(events: DataFrame, section: RulesSection) -> DataFrame:
    """Rows of ``NODES``, ``ALERTS`` and ``REJECTED`` in one frame, from a stream of events."""
    from weft.pipelines.devices.signals import SIGNALS_DDL, read_events
    from weft.pipelines.devices.state import HealthProcessor

    signals = to_decode(events).mapInArrow(read_events, SIGNALS_DDL).withWatermark("at", section.wait)
    rows = signals.groupBy("node_key").transformWithStateInPandas(
        HealthProcessor(section.rules()), outputStructType=ddl(OUTPUT), outputMode="append", timeMode="eventTime"
    )
    return with_times(rows, NODES | ALERTS | REJECTED)


def decided_history(spark: SparkSession, packets: PacketsSection, rules: Rules) -> DataFrame:
    """The same from a table: the history of each node, up to the time of the last packet of any node."""
    from pyspark.sql import functions as f

    from weft.pipelines.devices.signals import PACKET_KINDS, SIGNALS_DDL, read_packets

    at = f.coalesce("arrived", "created_at")
    rows = lake.read(spark, packets.settings())
    if packets.since is not None:
        rows = rows.where(at >= f.lit(packets.since))
    if packets.until is not None:
        rows = rows.where(at < f.lit(packets.until))
    newest = rows.where(~is_misdated(at)).agg(f.unix_micros(f.max(at)).alias("us")).collect()[0].us
    heard = rows.where(f.col("kind").isin(*PACKET_KINDS)).select(
        *("topic", "origin", "epoch", "partition", "offset", "protocol", "kind", "node_id", "message_id", "fields"),
        f.unix_micros("arrived").alias("arrived_us"),
        f.unix_micros("created_at").alias("created_us"),
        f.coalesce(is_misdated(at), f.lit(False)).alias("misdated"),
    )
    grouped = heard.mapInArrow(read_packets, SIGNALS_DDL).groupBy("node_key")
    decide = _historian(rules, 0 if newest is None else newest)
    return with_times(grouped.applyInPandas(decide, ddl(OUTPUT)), NODES | ALERTS | REJECTED)


def _historian(rules: Rules, until_us: int) -> Callable[[Any, pd.DataFrame], pd.DataFrame]:
    def decide(key: Any, frame: pd.DataFrame) -> pd.DataFrame:
        from weft.pipelines.devices.state import decide_history

        return decide_history(rules, until_us, key[0], [bytes(each) for each in frame["data"]])

    return decide


PIPELINE: Final = Streaming(NAME, HealthSettings, start)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
