"""Spans of micro-batches, linked to the traces of the events in them (SEE-03).

Spark tells the driver which offsets a batch had. The driver then looks for traced events among them, in the headers of
the first events of a few streams. The batch has a span of its own with links to these traces, and each of these traces
gets a span of the pipeline with a link to the batch. This happens only if the process is configured to export spans
(``OTEL_EXPORTER_OTLP_ENDPOINT``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, Tracer, set_span_in_context

from weft.client.blocking import Client
from weft.errors import WeftError
from weft.model.traces import TRACES_PER_BATCH_MAX, SpanRef, spans_of_column
from weft.pipelines.progress import rows_of
from weft.spark.offsets import BadOffsets, Place, from_json

STREAMS_LOOKED_MAX: Final = 16  # of a batch, one small fetch each
NS_PER_MS: Final = 1_000_000


class Taken(NamedTuple):
    """The offsets that a batch had of one stream."""

    place: Place
    first: int
    end: int


def taken_by(progress: Mapping[str, Any]) -> Iterator[Taken]:
    """The ranges of offsets that a batch read from a mesh. Sources of other kinds are skipped."""
    for source in progress.get("sources") or ():
        try:
            ends = from_json(_parsed(source.get("endOffset")))
            firsts = from_json(_parsed(source.get("startOffset")) or {})
        except (BadOffsets, ValueError):
            continue
        for place, end in ends.items():
            if end > firsts.get(place, 0):
                yield Taken(place, firsts.get(place, 0), end)


def _parsed(offsets: Any) -> Any:
    return json.loads(offsets) if isinstance(offsets, str) else offsets


class BatchTraces:
    """``connect`` gives this process' client of the mesh."""

    def __init__(self, tracer: Tracer, name: str, connect: Callable[[], Client]) -> None:
        self._tracer = tracer
        self._name = name
        self._connect = connect

    @classmethod
    def if_configured(cls, name: str, connect: Callable[[], Client]) -> BatchTraces | None:
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):  # a placeholder: no provider is configured
            return None
        return cls(provider.get_tracer("weft.pipelines"), name, connect)

    def finished(self, query: str, progress: Mapping[str, Any]) -> None:
        """Record the spans of a finished batch. If events cannot be looked up, links are missing: tracing never makes a
        run fail."""
        try:
            parents = self._parents(progress)
        except WeftError:
            parents = ()
        began_ns = int(datetime.fromisoformat(str(progress["timestamp"])).timestamp() * 1000) * NS_PER_MS
        took_ms = int((progress.get("durationMs") or {}).get("triggerExecution") or 0)
        ended_ns = began_ns + took_ms * NS_PER_MS
        facts: dict[str, str | int] = {
            "messaging.system": "weft",
            "weft.pipeline": self._name,
            "weft.query": query,
            "weft.batch": int(progress["batchId"]),
            "messaging.batch.message_count": rows_of(progress),
        }
        links = [Link(_context(parent)) for parent in parents]
        batch = self._tracer.start_span(
            f"{self._name} batch", Context(), SpanKind.CONSUMER, facts, links=links, start_time=began_ns
        )
        batch.end(ended_ns)
        for parent in parents:
            inside = set_span_in_context(NonRecordingSpan(_context(parent)), Context())
            own = [Link(batch.get_span_context())]
            name = f"{self._name} handle"
            span = self._tracer.start_span(name, inside, SpanKind.CONSUMER, facts, links=own, start_time=began_ns)
            span.end(ended_ns)

    def _parents(self, progress: Mapping[str, Any]) -> tuple[SpanRef, ...]:
        found: dict[SpanRef, None] = {}
        for number, taken in enumerate(taken_by(progress)):
            if number == STREAMS_LOOKED_MAX or len(found) >= TRACES_PER_BATCH_MAX:
                break
            found |= dict.fromkeys(self._spans(taken))
        return tuple(found)[:TRACES_PER_BATCH_MAX]

    def _spans(self, taken: Taken) -> tuple[SpanRef, ...]:
        stream, epoch = taken.place
        batches = self._connect().fetch(stream, epoch, taken.first, taken.end, columns=("headers",))
        for batch in batches:
            return spans_of_column(batch.record_batch.column("headers"))
        return ()


def _context(span: SpanRef) -> SpanContext:
    return SpanContext(span.trace_id, span.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
