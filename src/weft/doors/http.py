"""An HTTP server behind a door. uvicorn does the work; this adds what it lacks: bounds before the first request.

HTTP callers never prove who they are on their connection. So when there are too many, the connection that has been idle
longest is closed for a new one: health checks are always answered. A client that loses a kept connection makes a new
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.doors.accepting import Acceptor
from weft.doors.keeper import Door, DoorLimits, Guest

REQUEST_S_MAX: Final = (
    10.0  # for a request to come, whole, and for its answer to be taken; with TLS, a handshake before
)


def http_limits(connections_max: int) -> DoorLimits:
    """All callers are strangers, and idle ones are closed at once when there is no room."""
    return DoorLimits(connections_max, connections_max, connections_max, connections_max, grace_s=0.0)


def http_config(
    application: Any, protocol: type[GuardedProtocol], keep_alive_s: int, stop_timeout_s: int, **more: Any
) -> uvicorn.Config:
    """How every port serves HTTP: without headers about the server, and without uvicorn's own logs."""
    return uvicorn.Config(
        application,
        http=protocol,
        lifespan="off",
        log_config=None,
        log_level="error",  # a line for every request that is not HTTP would let strangers write the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=keep_alive_s,
        timeout_graceful_shutdown=stop_timeout_s,
        **more,
    )


class GuardedProtocol(H11Protocol):
    """One connection, with deadlines. ``HttpServer`` makes it, and sets its guest before anything happens."""

    guest: Guest

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._has_spoken = False
        self._is_streaming = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.guest.turn_out = lambda text: transport.abort()
        self._expect()

    def data_received(self, data: bytes) -> None:
        if not self._has_spoken:  # who speaks outlasts who is silent; but once only, or drop by drop would do
            self._has_spoken = True
            self.guest.was_active(self.loop.time())
        if self._deadline is None:
            self._expect()
        super().data_received(data)

    # --- answers that go on for long -----------------------------------------------------------------------------

    def begin_stream(self) -> None:
        """The answer has no end of its own. From now on there is a deadline only while the client does not read."""
        self._is_streaming = True
        self._relax()
        if self.flow.write_paused:
            self._expect()

    def go_on(self) -> None:
        """Another part of it leaves: the connection is not idle."""
        self.guest.was_active(self.loop.time())

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._is_streaming and self._deadline is None:
            self._expect()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_streaming:
            self._relax()

    # --- ends ----------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self._is_streaming = False
        self._relax()
        self.guest.was_active(self.loop.time())
        super().on_response_complete()
        if not self.cycle.response_complete and self._deadline is None:  # the next request was there already
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._relax()
        self.guest.leave()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_S_MAX, self.transport.abort)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class HttpServer(uvicorn.Server):
    """Installs no signal handlers: the node does that. ``config.http`` is a GuardedProtocol."""

    def __init__(
        self,
        config: uvicorn.Config,
        listening: socket.socket,
        door: Door,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """``tls`` is called for every connection, so that the next one gets a renewed certificate."""
        super().__init__(config)
        self._tls = tls
        self.settled = asyncio.Event()  # it listens
        self._listening = listening
        self._door = door
        self._acceptor: Acceptor

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """In place of uvicorn's, which would accept everybody."""
        await self.lifespan.startup()
        self.servers = []
        self._acceptor = Acceptor(self._listening, self._door, self._connect)
        self._acceptor.start()
        self.started = True
        self.settled.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._acceptor.stop()
        await super().shutdown(sockets)

    async def _connect(self, connected: socket.socket, guest: Guest, port: int) -> None:
        loop = asyncio.get_running_loop()
        make = partial(self._protocol, guest)
        context = self.config.ssl if self._tls is None else self._tls()
        if isinstance(context, ssl.SSLContext):
            await loop.connect_accepted_socket(make, connected, ssl=context, ssl_handshake_timeout=REQUEST_S_MAX)
        else:
            await loop.connect_accepted_socket(make, connected)

    def _protocol(self, guest: Guest) -> GuardedProtocol:
        kind = self.config.http_protocol_class
        assert issubclass(kind, GuardedProtocol), "what is served here has a door"
        made = kind(self.config, self.server_state, self.lifespan.state)
        made.app_state = {**self.lifespan.state, "connection": made}  # an application may answer for long
        made.guest = guest
        return made
