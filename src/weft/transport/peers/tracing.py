"""OpenTelemetry spans around what a link sends and receives (PL-06), for processes that have a tracer.

Without one, ``sending`` and ``receiving`` hand out the same empty context every time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, SpanKind

from weft import __version__

NOTHING: Final = nullcontext()


def sending(peer: str, *, size: int, batches: int = 0) -> AbstractContextManager[Any]:
    """Around handing a frame to the network."""
    return _span("weft.send", SpanKind.PRODUCER, peer, batches, size)


def receiving(peer: str, *, size: int, batches: int = 0) -> AbstractContextManager[Any]:
    """Around what is done with a frame that came."""
    return _span("weft.receive", SpanKind.CONSUMER, peer, batches, size)


def _span(name: str, kind: SpanKind, peer: str, batches: int, size: int) -> AbstractContextManager[Any]:
    """``batches``: none for a frame that carries other things, or that has not been read yet."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):  # the place of one that nobody has set
        return NOTHING
    attributes: dict[str, str | int] = {
        "messaging.system": "weft",
        "weft.peer": peer,
        "messaging.message.body.size": size,
    }
    if batches:
        attributes["messaging.batch.message_count"] = batches
    tracer = provider.get_tracer("weft.transport.grpc", __version__)
    return tracer.start_as_current_span(name, kind=kind, attributes=attributes)
