"""The process itself: the spans that it makes, and its event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.node.figures import Histogram, NodeFigures
from weft.node.metrics.definition import Definition, Kind, histogram, single

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
