"""OpenTelemetry spans around what a node sends and receives (PL-06), for processes that have a tracer.

Without one, ``sending`` and ``receiving`` hand out the same empty context every time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, SpanKind

from weft import __version__

NOTHING: Final = nullcontext()


def sending(peer: str, *, batches: int, size: int) -> AbstractContextManager[Any]:
    """Around handing a frame to the network."""
    return _span("weft.send", SpanKind.PRODUCER, peer, batches, size)


def receiving(peer: str, *, batches: int, size: int) -> AbstractContextManager[Any]:
    """Around what is done with a frame that came."""
    return _span("weft.receive", SpanKind.CONSUMER, peer, batches, size)


def _span(name: str, kind: SpanKind, peer: str, batches: int, size: int) -> AbstractContextManager[Any]:
    provider = trace.get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):  # the place of one that nobody has set
        return NOTHING
    return provider.get_tracer("weft.node", __version__).start_as_current_span(
        name,
        kind=kind,
        attributes={
            "messaging.system": "weft",
            "weft.peer": peer,
            "messaging.batch.message_count": batches,
            "messaging.message.body.size": size,
        },
    )
