"""OpenTelemetry: one span per batch sent or handed out, and ``traceparent`` in the headers of events (SDK-02, SEE-03).

This happens only if the application configured a tracer provider before it connected. Otherwise there is no
``Tracing``, and events cost nothing extra. The header of an event names the span in which it was published. A batch
that was published outside any span begins a trace of its own, and the header of its first event names it. Nodes,
gateways and readers add their spans to that trace, if it is sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from weft.client.received import Received, ReceivedBatch
from weft.limits import EVENT_HEADERS_MAX
from weft.model.traces import TRACEPARENT, SpanRef, span_of

PROPAGATOR: Final = TraceContextTextMapPropagator()
NOTHING: Final = Context()  # no span, whatever the current one is
LINKS_MAX: Final = 128  # of one span, the limit of OpenTelemetry itself


class Tracing:
    """Spans of a client."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("weft.client")

    @classmethod
    def if_configured(cls) -> Tracing | None:
        return None if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider) else cls()

    def headers(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The headers of an event, with the current span if there is one."""
        if not trace.get_current_span().get_span_context().is_valid or _is_full(headers):
            return headers
        carrier = dict(headers or {})
        PROPAGATOR.inject(carrier)
        return carrier

    def sending(self, topic: str, events: int, publishes: Sequence[Mapping[str, str] | None]) -> Span:
        """A span from the first sending of a batch to its outcome; see ``settled``.

        ``publishes``: the headers with which each of its events was published. If all were published in one span, that
        is the parent; otherwise there are links to their spans.
        """
        found = _spans_of(publishes)
        one = len(found) == 1 and all(headers and TRACEPARENT in headers for headers in publishes)
        return self._tracer.start_span(
            f"{topic} publish",
            context=trace.set_span_in_context(NonRecordingSpan(found[0]), NOTHING) if one else NOTHING,
            kind=SpanKind.PRODUCER,
            attributes=_attributes("publish", topic, events),
            links=[] if one else [Link(each) for each in found],
        )

    def carried(
        self, span: Span, events: int, headers: list[Mapping[str, str] | None] | None
    ) -> list[Mapping[str, str] | None] | None:
        """The headers with which a batch is sent. If none of its events was published in a span, and the batch's own
        span is sampled, the first event gets that span in its headers."""
        context = span.get_span_context()
        known = headers if headers is not None else [None] * events
        if not known or not context.trace_flags & TraceFlags.SAMPLED or _is_full(known[0]):
            return headers
        if any(each and TRACEPARENT in each for each in known):
            return headers
        own = SpanRef(context.trace_id, context.span_id).traceparent
        return [{**(known[0] or {}), TRACEPARENT: own}, *known[1:]]

    def handing_out(self, batch: ReceivedBatch) -> list[Span]:
        """Begin spans for handing out a batch: one in each trace of its events, or else one of its own. The caller has
        to end them when the next batch is requested."""
        topic = batch.stream.topic
        parents: Sequence[SpanRef | None] = batch.sampled_spans() or (None,)
        return [
            self._tracer.start_span(
                f"{topic} handle",
                context=_inside(parent),
                kind=SpanKind.CONSUMER,
                attributes=_attributes("process", topic, len(batch)),
            )
            for parent in parents
        ]

    def handling(self, event: Received) -> AbstractContextManager[Any]:
        """A span around the handling of one event, if the event is traced. It is the current span meanwhile, so events
        that the handler publishes belong to the same trace."""
        parent = span_of(event.headers)
        if parent is None:
            return nullcontext()
        return self._tracer.start_as_current_span(
            f"{event.topic} handle",
            context=_inside(parent),
            kind=SpanKind.CONSUMER,
            attributes=_attributes("process", event.topic, 1) | {"weft.event": str(event.id)},
        )


def _is_full(headers: Mapping[str, str] | None) -> bool:
    return headers is not None and len(headers) >= EVENT_HEADERS_MAX and TRACEPARENT not in headers


def _inside(parent: SpanRef | None) -> Context:
    if parent is None:
        return NOTHING
    flags = TraceFlags(TraceFlags.SAMPLED)
    context = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(context), NOTHING)


def _spans_of(publishes: Iterable[Mapping[str, str] | None]) -> list[SpanContext]:
    """The different spans that these headers name, in order; the first LINKS_MAX of them."""
    named = {headers[TRACEPARENT]: headers for headers in publishes if headers and TRACEPARENT in headers}
    contexts = (PROPAGATOR.extract(headers, NOTHING) for headers in islice(named.values(), LINKS_MAX))
    spans = (trace.get_current_span(context).get_span_context() for context in contexts)
    return [span for span in spans if span.is_valid]


def settled(span: Span, failure: BaseException | None) -> None:
    if failure is not None:
        span.set_status(StatusCode.ERROR, str(failure))
    span.end()


def _attributes(operation: str, topic: str, events: int) -> dict[str, str | int]:
    return {
        "messaging.system": "weft",
        "messaging.operation": operation,
        "messaging.destination.name": topic,
        "messaging.batch.message_count": events,
    }
