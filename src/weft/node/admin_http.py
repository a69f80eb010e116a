"""The admin HTTP server: ``/metrics``, ``/healthz``, ``/readyz``, and a page that says so.

It runs in the node's own event loop: an answer on ``/healthz`` shows that the loop turns. It takes GET only, reads no
bodies and changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, Protocol

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from weft import __version__
from weft.errors import UsageError
from weft.transport.addresses import Address

ADMIN_CONNECTIONS_MAX: Final = 64  # to the admin HTTP server: a few scrapers and people; more get a 503
STOP_TIMEOUT_S: Final = 1  # answers take milliseconds; who has not read its answer by then does not get it
KEEP_ALIVE_S: Final = 75  # longer than most scrape intervals, so that a scraper keeps its connection


class NodeView(Protocol):
    """What the admin server asks of a node."""

    @property
    def registry(self) -> CollectorRegistry: ...

    def ready_reasons(self) -> Sequence[str]:
        """Why the node should get no traffic, in words; none if it should."""
        ...

    def status(self) -> Mapping[str, str | int | float | bool]:
        """A few facts for the index page, in order."""
        ...


class AdminServer:
    """``start`` listens (``port`` is then the real one), ``stop`` lets answers finish."""

    def __init__(self, host: str, port: int, view: NodeView) -> None:
        self._wanted = Address(host, port)
        self._view = view
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = port

    async def start(self) -> None:
        """Raise UsageError if the address cannot be had."""
        assert self._server is None, "an admin server is started once"
        listener = _listen(self._wanted)
        self.port = listener.getsockname()[1]
        self._server = _Server(_config(self._view))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]), name="weft-admin")
        await self._server.settled.wait()
        if not self._server.started:
            await self._serving  # raises why

    async def stop(self) -> None:
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        await self._serving
        self._serving = None


class _Server(uvicorn.Server):
    """Without signal handlers: signals are the node's business."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = asyncio.Event()  # it listens, or never will

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.settled.set()


def _config(view: NodeView) -> uvicorn.Config:
    return uvicorn.Config(
        application(view),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=ADMIN_CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
    )


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server(address, family=family)
    except OSError as error:
        raise UsageError(f"cannot serve admin HTTP on {address}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


# --- pages -------------------------------------------------------------------------------------------------------


def application(view: NodeView) -> Starlette:
    async def metrics(_: Request) -> Response:
        return Response(generate_latest(view.registry), media_type=CONTENT_TYPE_LATEST)

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readiness(_: Request) -> Response:
        reasons = list(view.ready_reasons())
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    async def index(_: Request) -> Response:
        return PlainTextResponse(_index(view.status()))

    return Starlette(
        routes=[
            Route("/", index),
            Route("/metrics", metrics),
            Route("/healthz", health),
            Route("/readyz", readiness),
        ]
    )


def _index(status: Mapping[str, Any]) -> str:
    facts = "".join(f"{name}: {value}\n" for name, value in status.items())
    return (
        f"weft {__version__}\n\n{facts}\n"
        "/metrics  numbers for Prometheus\n"
        "/healthz  200 while the process lives\n"
        "/readyz   200 while it should get traffic, else 503 and why\n"
    )
