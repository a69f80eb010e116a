"""OpenTelemetry: one span per batch sent or handed out, and ``traceparent`` in the headers of events (SDK-02).

All of it only if the application has configured a tracer provider before it connected. Otherwise there is no
``Tracing``, and an event costs nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from weft.client.received import ReceivedBatch

PROPAGATOR: Final = TraceContextTextMapPropagator()
TRACEPARENT: Final = "traceparent"
NOTHING: Final = Context()  # no span, whatever the current one is
LINKS_MAX: Final = 128  # of one span, as OpenTelemetry's own limit has it


class Tracing:
    """Spans of a client."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("weft.client")

    @classmethod
    def if_configured(cls) -> Tracing | None:
        return None if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider) else cls()

    def headers(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The headers of an event, with the current span in them if there is one."""
        if not trace.get_current_span().get_span_context().is_valid:
            return headers
        carrier = dict(headers or {})
        PROPAGATOR.inject(carrier)
        return carrier

    def sending(self, topic: str, events: int, publishes: Sequence[Mapping[str, str] | None]) -> Span:
        """A span from the first sending of a batch to its outcome; see ``settled``.

        ``publishes``: the headers that each of its events was published with. The span that all of them were published
        in is the parent; if they were published in different ones, there are links to these.
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

    def received(self, batch: ReceivedBatch) -> None:
        """A span for handing out a batch, linked to what the first of its events was published in."""
        attributes = _attributes("receive", batch.stream.topic, len(batch))
        context = trace.get_current_span(PROPAGATOR.extract(batch.first_headers() or {})).get_span_context()
        links = [Link(context)] if context.is_valid else []
        name = f"{batch.stream.topic} receive"
        self._tracer.start_span(name, kind=SpanKind.CONSUMER, attributes=attributes, links=links).end()


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
