"""The admin HTTP server: ``/healthz`` and ``/readyz`` for everybody, ``/metrics`` and the console for callers with a
key.

It runs in the node's own event loop, so an answer on ``/healthz`` shows that the loop turns. Without a console, ``/``
lists what is served.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from weft import __version__
from weft.console.app import Console, refusal
from weft.doors import Door, Doorkeeper
from weft.doors.accepting import listen_on, why_not
from weft.doors.descriptors import ADMIN_CONNECTIONS_MAX
from weft.doors.http import GuardedProtocol, HttpServer, http_config, http_limits
from weft.errors import UsageError, WeftError
from weft.transport.addresses import Address

PORT: Final = "admin"  # the name of its door
STOP_TIMEOUT_S: Final = 1  # answers take milliseconds; a client that has not read its answer by then does not get it
KEEP_ALIVE_S: Final = 75  # longer than most scrape intervals, so that a scraper keeps its connection


class NodeView(Protocol):
    """What the admin server needs to know of a node."""

    @property
    def registry(self) -> CollectorRegistry: ...

    async def look(self) -> None:
        """Count what takes long to count. Call it before the registry is read."""
        ...

    def ready_reasons(self) -> Sequence[str]:
        """Why the node should get no traffic, in words; empty if it should."""
        ...

    def status(self) -> Mapping[str, str | int | float | bool]:
        """A few facts for the index page, in order."""
        ...


@dataclass(frozen=True, slots=True)
class AdminOptions:
    """``console`` knows the callers' rights; its pages are served if ``shows_console``. With ``is_open``, everybody
    gets metrics and facts."""

    console: Console | None = None
    shows_console: bool = False
    is_open: bool = True


class AdminServer:
    """``start`` listens (``port`` is then the real one), ``stop`` lets answers finish. ``door`` says how many
    connections there may be: when there are too many, the one that has been idle longest is closed."""

    def __init__(
        self,
        host: str,
        port: int,
        view: NodeView,
        door: Door | None = None,
        options: AdminOptions | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._wanted = Address(host, port)
        self._view = view
        self._options = options or AdminOptions()
        self._tls = tls
        self._door = door or Doorkeeper().door(PORT, http_limits(ADMIN_CONNECTIONS_MAX), apart=True)
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = port

    async def start(self) -> None:
        """Raise UsageError if the address is not available."""
        assert self._server is None, "an admin server is started once"
        try:
            listening = listen_on(*self._wanted)
        except OSError as error:
            raise UsageError(f"cannot serve admin HTTP on {self._wanted}: {why_not(error)}") from None
        self.port = listening.getsockname()[1]
        config = http_config(application(self._view, self._options), GuardedProtocol, KEEP_ALIVE_S, STOP_TIMEOUT_S)
        self._server = HttpServer(config, listening, self._door, self._tls)
        self._serving = asyncio.create_task(self._server.serve(), name="weft-admin")
        await self._server.settled.wait()

    async def stop(self) -> None:
        if self._server is None or self._serving is None:
            return
        if self._options.console is not None:
            await self._options.console.close()
        self._server.should_exit = True
        await self._serving
        self._serving = None


# --- pages -------------------------------------------------------------------------------------------------------


def application(view: NodeView, options: AdminOptions) -> Starlette:
    async def metrics(request: Request) -> Response:
        if not options.is_open:
            assert options.console is not None, "somebody has to know the keys"
            try:
                await options.console.check_metrics(request)
            except WeftError as error:
                return refusal(error)
        await view.look()
        return Response(generate_latest(view.registry), media_type=CONTENT_TYPE_LATEST)

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readiness(_: Request) -> Response:
        reasons = list(view.ready_reasons())
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    async def index(_: Request) -> Response:
        return PlainTextResponse(_index(view.status() if options.is_open else {}))

    shown = options.console.routes() if options.console is not None and options.shows_console else [Route("/", index)]
    return Starlette(
        routes=[
            *shown,
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
