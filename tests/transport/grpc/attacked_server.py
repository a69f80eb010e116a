"""A server in a process of its own, for those who mean it no good: ``python -m tests.transport.grpc.attacked_server``.

It prints its port, and serves until standard input ends. ``/test/Reports`` gives what it has reported, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import uvloop

from tests.transport.http2.stories import ECHO, Reports, echo
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.server import Server, ServerSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.transport.http2.tls import for_http2
from weft.wire.http2 import Http2Settings

ROOT = Path(__file__).parents[3]
REPORTS = "/test/Reports"
POUR = "/test/Pour"
PATIENT_S = 60.0  # with peers that have asked for nothing yet: so an attack is hung up on for what it does
SETTINGS = ServerSettings(
    EndpointSettings(Http2Settings(), keepalive_s=1.0, keepalive_timeout_s=1.0),
    connections_max=300,
    connections_of_host_max=200,
    handshake_timeout_s=1.0,
)


async def pour(call: ServerCall) -> None:
    """Messages without end."""
    while True:
        await call.write(bytes(64 << 10))


async def serve(certificate: str, first_request_timeout_s: float) -> None:
    reports = Reports()

    async def tell(call: ServerCall) -> None:
        figures = {
            "connections": server.connections,
            "calls": server.calls,
            "reasons": reports.reasons,
            "failed": len(reports.failed),
        }
        call.write_nowait(json.dumps(figures).encode())

    def context() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(certificate)
        return for_http2(made)

    handlers = {ECHO: echo, POUR: pour, REPORTS: tell}
    settings = replace(SETTINGS, first_request_timeout_s=first_request_timeout_s)
    server = Server(handlers, settings, reports, context if certificate else None)
    sys.stdout.write(f"{server.bind('127.0.0.1', 0)}\n")
    sys.stdout.flush()
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0.0)


class Attacked:
    """The process, and what it costs it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def cpu_s(self) -> float:
        return time.clock_gettime((~self.process.pid << 3) | 2)

    @property
    def memory_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096


@contextmanager
def attacked(certificate: Path | None = None, first_request_timeout_s: float = 1.0) -> Iterator[Attacked]:
    options = [str(certificate or ""), str(first_request_timeout_s)]
    command = [sys.executable, "-m", "tests.transport.grpc.attacked_server", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Attacked(process, int(process.stdout.readline()))
        finally:
            process.stdin.close()
            if process.wait(30):
                raise AssertionError(f"the server ended with {process.returncode}")


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], float(sys.argv[2])))
