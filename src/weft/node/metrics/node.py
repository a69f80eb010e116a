"""The node itself: its log and disk, its largest topics, the spans that it makes, and its event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.node.figures import Histogram, NodeFigures
from weft.node.metrics.definition import Definition, Kind, family, histogram, single

TOPIC_EVENTS: Final = Definition(
    "weft_topic_events_total",
    Kind.COUNTER,
    "Events of the topic that came to this node's log, by whichever way; the largest topics by bytes.",
    ("topic",),
)
TOPIC_BYTES: Final = Definition(
    "weft_topic_log_bytes", Kind.GAUGE, "Bytes of the topic in this node's log; the same topics.", ("topic",)
)
LOG_BYTES: Final = Definition("weft_log_bytes", Kind.GAUGE, "Bytes of all batches in the log.")
LOG_STREAMS: Final = Definition("weft_log_streams", Kind.GAUGE, "Streams in the log, copies of other nodes' included.")
LOG_APPENDED: Final = Definition("weft_log_appended_batches_total", Kind.COUNTER, "Batches appended since the start.")
LOG_SYNCED: Final = Definition(
    "weft_log_synced_batches_total", Kind.COUNTER, "Batches synced since the start; the rest has no receipt yet."
)
LOG_SYNC: Final = Definition("weft_log_sync_seconds", Kind.HISTOGRAM, "How long a sync of the log takes.")
LOG_CUTS: Final = Definition("weft_log_cuts", Kind.GAUGE, "Streams cut on opening: unfinished writes, never promised.")
LOG_LOST: Final = Definition("weft_log_lost_events", Kind.GAUGE, "Events that the log had promised and cannot read.")
DISK_FREE: Final = Definition("weft_disk_free_bytes", Kind.GAUGE, "Free space on the disk of the log.")
DISK_FULL: Final = Definition("weft_disk_full", Kind.GAUGE, "1 while events are refused for want of space, else 0.")


def of_log(figures: NodeFigures, sync_s: Histogram) -> Iterator[Metric]:
    yield single(LOG_BYTES, figures.log_bytes)
    yield single(LOG_STREAMS, figures.log_streams)
    yield single(LOG_APPENDED, figures.log_appended)
    yield single(LOG_SYNCED, figures.log_synced)
    yield histogram(LOG_SYNC, sync_s)
    yield single(LOG_CUTS, figures.log_cuts)
    yield single(LOG_LOST, figures.log_lost_events)
    yield single(DISK_FREE, figures.disk_free_bytes)
    yield single(DISK_FULL, figures.disk_full)
    yield family(TOPIC_EVENTS, [((each.topic,), each.events) for each in figures.topics])
    yield family(TOPIC_BYTES, [((each.topic,), each.size_bytes) for each in figures.topics])


SPANS: Final = Definition("weft_trace_spans_total", Kind.COUNTER, "Spans of traced events that this node made.")
SPANS_DROPPED: Final = Definition(
    "weft_trace_spans_dropped_total", Kind.COUNTER, "Spans not made, because tracing.spans_per_s_max was reached."
)
LOOP_DELAY: Final = Definition(
    "weft_loop_delay_seconds", Kind.HISTOGRAM, "How late the event loop comes to what is due: others held it up."
)


def of_process(figures: NodeFigures, loop_delay_s: Histogram) -> Iterator[Metric]:
    yield single(SPANS, figures.spans_made)
    yield single(SPANS_DROPPED, figures.spans_dropped)
    yield histogram(LOOP_DELAY, loop_delay_s)
