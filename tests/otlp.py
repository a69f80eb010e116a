"""An OTLP collector for tests: an HTTP server on loopback that reads the protobuf of OpenTelemetry's own schema."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

WAIT_S: Final = 60.0  # a bound, not an expectation: the machine may be busy


@dataclass(frozen=True)
class SeenSpan:
    """One span as it came over the wire."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    instance: str  # which node; empty for others
    began_ns: int
    ended_ns: int
    failed: bool
    facts: dict[str, str | int] = field(hash=False)
    links: tuple[str, ...] = ()  # trace ids


class Collector:
    """``url`` is what users write into ``[tracing] endpoint``."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.refuses = False
        self._changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector.take(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            self.spans += _spans(request)
            self._changed.notify_all()

    def wait_for(self, found: Callable[[list[SeenSpan]], bool]) -> list[SeenSpan]:
        """All spans, once there are such; fail with what there was."""
        with self._changed:
            seen = self._changed.wait_for(lambda: found(self.spans), WAIT_S)
            assert seen, "\n".join(f"{each.instance} {each.name} {each.trace_id} {each.facts}" for each in self.spans)
            return list(self.spans)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)


@contextmanager
def collector() -> Iterator[Collector]:
    found = Collector()
    try:
        yield found
    finally:
        found.close()


def _spans(request: ExportTraceServiceRequest) -> Iterator[SeenSpan]:
    for resource in request.resource_spans:
        about = _facts(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SeenSpan(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    service=str(about["service.name"]),
                    instance=str(about.get("service.instance.id", "")),
                    began_ns=span.start_time_unix_nano,
                    ended_ns=span.end_time_unix_nano,
                    failed=span.status.code == 2,
                    facts=_facts(span.attributes),
                    links=tuple(link.trace_id.hex() for link in span.links),
                )


def _facts(attributes: Any) -> dict[str, str | int]:
    return {each.key: each.value.string_value or each.value.int_value for each in attributes}
