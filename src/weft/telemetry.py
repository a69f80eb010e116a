"""Where the spans of a process go: an OTLP collector, over HTTP.

Spans wait in a bounded queue and are sent by a thread of their own. A slow or missing collector costs only spans. The
SDK of OpenTelemetry is an extra (``pip install 'weft[tracing]'``), needed only with a collector.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Tracer

from weft import __version__
from weft.errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

TRACES_PATH: Final = "/v1/traces"  # of an OTLP collector, unless the endpoint says another
ENDPOINT_CHARS_MAX: Final = 2000
ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
QUEUE_SPANS_MAX: Final = 8192  # 2 KB each; beyond them spans are dropped, oldest first
EXPORT_SPANS: Final = 512  # in one request
EXPORT_INTERVAL_MS: Final = 500  # how long a span waits for others, at most
EXPORT_TIMEOUT_S: Final = 5.0  # of one request


def parse_endpoint(text: str) -> str:
    """The whole address that spans are sent to. ``http://HOST:PORT`` alone means OTLP's usual path."""
    try:
        parts = urlsplit(text if len(text) <= ENDPOINT_CHARS_MAX else "")
        known = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise UsageError(f"{text[:200]!r} is not the address of an OTLP collector: write http://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise UsageError("an OTLP endpoint must not contain a password: put secrets into OTEL_EXPORTER_OTLP_HEADERS")
    return text if parts.path not in ("", "/") else text.rstrip("/") + TRACES_PATH


class Telemetry:
    """A tracer, and the thread that sends what it makes."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider: Final = provider
        self.tracer: Final[Tracer] = provider.get_tracer("weft", __version__)

    def close(self, timeout_s: float = EXPORT_TIMEOUT_S) -> None:
        """Send what waits, within this time. The thread ends by itself, if the collector takes longer."""
        closing = threading.Thread(target=self.provider.shutdown, name="weft-tracing-close", daemon=True)
        closing.start()
        closing.join(timeout_s)


def open_telemetry(endpoint: str, *, service: str, facts: Mapping[str, str], sample: float) -> Telemetry:
    """Begin to send spans to this endpoint. ``sample``: of the traces that begin here, the share that is followed;
    what others began is followed if they say so. Raise UsageError if the SDK is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise UsageError(f"traces need OpenTelemetry's SDK: pip install 'weft[tracing]' ({error})") from None
    resource = Resource.create({"service.name": service, "service.version": __version__, **facts})
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(sample)), resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(endpoint=parse_endpoint(endpoint), timeout=EXPORT_TIMEOUT_S),
            max_queue_size=QUEUE_SPANS_MAX,
            schedule_delay_millis=EXPORT_INTERVAL_MS,
            max_export_batch_size=EXPORT_SPANS,
        )
    )
    return Telemetry(provider)


@contextmanager
def traced_by_environment(environ: Mapping[str, str], service: str) -> Iterator[None]:
    """For commands: sends spans of this process where OpenTelemetry's own variables say, if they are set. They are for
    all programs of a machine, so a command that cannot use them runs without.
    """
    endpoint = next((environ[name] for name in ENDPOINT_VARIABLES if environ.get(name)), None)
    try:
        telemetry = None if endpoint is None else open_telemetry(endpoint, service=service, facts={}, sample=1.0)
    except UsageError:
        telemetry = None
    if telemetry is None:
        yield
        return
    trace.set_tracer_provider(telemetry.provider)
    try:
        yield
    finally:
        telemetry.close()
