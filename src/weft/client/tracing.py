"""OpenTelemetry: one span per batch sent or handed out, and ``traceparent`` in the headers of events (SDK-02).

All of it only if the application has configured a tracer provider before it connected. Otherwise there is no
``Tracing``, and an event costs nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from weft.client.received import ReceivedBatch

PROPAGATOR = TraceContextTextMapPropagator()


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

    def sending(self, topic: str, events: int) -> Span:
        """A span from the first sending of a batch to its outcome; see ``settled``."""
        attributes = _attributes("publish", topic, events)
        return self._tracer.start_span(f"{topic} publish", kind=SpanKind.PRODUCER, attributes=attributes)

    def received(self, batch: ReceivedBatch) -> None:
        """A span for handing out a batch, linked to what the first of its events was published in."""
        attributes = _attributes("receive", batch.stream.topic, len(batch))
        headers = batch.record_batch.column("headers")[0].as_py()
        context = trace.get_current_span(PROPAGATOR.extract(dict(headers or ()))).get_span_context()
        links = [Link(context)] if context.is_valid else []
        name = f"{batch.stream.topic} receive"
        self._tracer.start_span(name, kind=SpanKind.CONSUMER, attributes=attributes, links=links).end()


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
