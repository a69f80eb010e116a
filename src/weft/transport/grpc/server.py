"""A gRPC server: it accepts connections, finds the methods of calls, and ends everything in order.

A connection costs something before we know who made it. So there are bounds from the start (``weft.doors``): on the
number of connections, on connections from one host, and on the time for a handshake, for a first request, and until a
call is welcome.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from weft.doors import Doorkeeper, DoorLimits, Guest, TurnedAway
from weft.doors.accepting import Acceptor, bound_to
from weft.transport.grpc.calls import ServerCall
from weft.transport.http2.endpoint import LINGER_S, Endpoint, EndpointSettings
from weft.transport.http2.tls import TlsFailed, TlsTransport
from weft.wire import rpc
from weft.wire.http2 import GoneAway, Headers, Http2Settings, Stream, StreamOwner
from weft.wire.rpc import BadCall, RpcError, StatusCode

Handler = Callable[[ServerCall], Awaitable[None]]

PORT: Final = "grpc"  # the name of its door
CANCEL_S_MAX: Final = 5.0  # for cancelled handlers to end
BEGINNINGS_MAX: Final = 16  # calls that begin in one turn of the loop, at 0.4 ms each; one read may bring a thousand
ENDINGS_MAX: Final = 16  # calls that end in one turn because their callers are gone: each has to release what it had
DEFECT: Final = "a defect in this server; its log says more"
STOPPING: Final = RpcError(StatusCode.UNAVAILABLE, "the server is stopping")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    endpoint: EndpointSettings = field(default_factory=lambda: EndpointSettings(Http2Settings()))
    connections_max: int = 4096
    connections_of_host_max: int = 1024
    strangers_max: int = 1024
    strangers_of_host_max: int = 512
    grace_s: float = 1.0
    handshake_timeout_s: float = 10.0
    first_request_timeout_s: float = 20.0
    stranger_timeout_s: float = math.inf  # until a handler welcomes the call

    @property
    def door(self) -> DoorLimits:
        return DoorLimits(
            self.connections_max,
            self.connections_of_host_max,
            self.strangers_max,
            self.strangers_of_host_max,
            self.grace_s,
            self.stranger_timeout_s,
        )


class ServerObserver(Protocol):
    """Metrics and logs."""

    def connection_refused(self, host: str, reason: str) -> None:
        """A connection was refused: it has no TLS; or there are too many, and no doorkeeper reports that."""

    def connection_dropped(self, host: str, reason: str) -> None:
        """A connection was ended: its peer broke a rule, or did nothing for too long."""

    def handler_failed(self, path: str, error: Exception) -> None:
        """A handler failed because of a bug of ours: mistakes of callers become an RpcError."""


class Server:
    """``handlers`` has the handlers by path, ``/package.Service/Method``. ``tls`` gives the context for every
    connection. A caller is a stranger until a handler welcomes it (``ServerCall.widen``)."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        settings: ServerSettings,
        observer: ServerObserver,
        tls: Callable[[], ssl.SSLContext] | None = None,
        keeper: Doorkeeper | None = None,
    ) -> None:
        self._handlers = handlers
        self._settings = settings
        self._observer = observer
        self._tls = tls
        self._door = (keeper or Doorkeeper(tell=self._turned_away)).door(PORT, settings.door)
        self._sockets: list[socket.socket] = []
        self._acceptors: list[Acceptor] = []
        self._guests: set[_Guest] = set()  # connections, including those in a handshake
        self._nobody_is_here = asyncio.Event()
        self._nobody_is_here.set()
        self._calls: dict[asyncio.Task[None], ServerCall] = {}
        self._beginnings = _Beginnings(BEGINNINGS_MAX)
        self._endings = _Endings(ENDINGS_MAX)
        self._is_stopping = False

    @property
    def connections(self) -> int:
        return len(self._guests)

    @property
    def calls(self) -> int:
        """How many calls are running."""
        return len(self._calls)

    # --- connections ---------------------------------------------------------------------------------------------

    def bind(self, host: str, port: int) -> int:
        """Take a port, before anything is served on it; raise UsageError."""
        listening = bound_to(host, port)
        self._sockets.append(listening)
        bound: int = listening.getsockname()[1]
        return bound

    async def start(self) -> None:
        self._acceptors = [Acceptor(each, self._door, self._connect) for each in self._sockets]
        for acceptor in self._acceptors:
            acceptor.start()

    async def _connect(self, connected: socket.socket, let_in: Guest, port: int) -> None:
        try:
            guest = _Guest(self, let_in, port)
        except Exception as error:  # making the TLS context failed; it may work for the next connection
            self._observer.connection_refused(let_in.host, f"no TLS context: {error}")
            raise OSError("no TLS context") from error
        try:
            await asyncio.get_running_loop().connect_accepted_socket(guest.protocol, connected)
        except (OSError, asyncio.CancelledError):  # the peer is gone already, or the server is stopping
            guest.protocol().connection_lost(None)
            raise

    def _turned_away(self, turned: TurnedAway) -> None:
        self._observer.connection_refused(turned.host, turned.text)

    # --- calls ---------------------------------------------------------------------------------------------------

    def _begin(self, call: ServerCall, headers: Headers) -> None:
        """Find the method of a call and run it."""
        fields = dict(headers)
        call.path = fields[":path"]
        if fields[":method"] != "POST" or not rpc.is_grpc(fields):
            call.refuse_http()
            return
        handler = self._handlers.get(call.path)
        if handler is None:
            call.finish(StatusCode.UNIMPLEMENTED, f"there is no method {call.path[:256]}")
            return
        try:
            call.metadata = rpc.read_metadata_untrusted(headers)
            if (timeout := fields.get("grpc-timeout")) is not None:
                call.set_deadline(rpc.read_timeout_untrusted(timeout))
        except BadCall as error:
            call.finish(StatusCode.INTERNAL, str(error))
            return
        call.task = asyncio.get_running_loop().create_task(self._run(call, handler))
        self._calls[call.task] = call
        call.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.pop(task).task = None  # breaks a cycle, which would leave both to the garbage collector

    async def _run(self, call: ServerCall, handler: Handler) -> None:
        try:
            try:
                if not self._beginnings.take():
                    await self._beginnings.wait()
                call.has_begun = True
                await handler(call)
            except RpcError as error:
                call.finish(error.status, error.details, error.metadata)
            else:
                call.finish(StatusCode.OK)
        except asyncio.CancelledError:
            call.finish(StatusCode.CANCELLED, "the call was cancelled")
            raise
        except Exception as error:
            call.finish(StatusCode.INTERNAL, DEFECT)
            self._observer.handler_failed(call.path, error)

    # --- ending --------------------------------------------------------------------------------------------------

    async def stop(self, grace_s: float) -> None:
        """Accept nothing new, let calls go on for this long, then end them. If this is cancelled, end them at once."""
        self._is_stopping = True
        try:
            await self._stop_accepting()
            for guest in list(self._guests):
                guest.drain()
            await self._wait_for_guests(grace_s)
        finally:
            cancelled = list(self._calls)
            for call in list(self._calls.values()):
                if not call.has_sent_part:  # within a message a status cannot be sent: the connection just ends
                    call.give_up(STOPPING)
            for guest in list(self._guests):
                guest.close()
        if cancelled:
            await asyncio.wait(cancelled, timeout=CANCEL_S_MAX)
        await self._wait_for_guests(LINGER_S)
        for guest in list(self._guests):
            guest.abort()
        await self._wait_for_guests(LINGER_S)

    async def _stop_accepting(self) -> None:
        for each in self._acceptors:
            await each.stop()
        for listening in self._sockets:
            listening.close()

    async def _wait_for_guests(self, timeout_s: float) -> None:
        """Wait for the connections to leave."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._nobody_is_here.wait()


class _Beginnings:
    """Lets at most this many calls begin in one turn of the loop. The others follow in later turns, in order. So a
    caller that opens thousands of calls at once does not hold up everybody else."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_turning = False

    def take(self) -> bool:
        """Whether a call may begin now."""
        if self._waiting or not self._left:
            return False
        self._left -= 1
        self._turn_soon()
        return True

    async def wait(self) -> None:
        """Wait for a later turn."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._turn_soon()
        await turn

    def _turn_soon(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._left, self._is_turning = self._most, False
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # its call may have been cancelled
                turn.set_result(None)
                self._left -= 1
        if self._waiting:
            self._turn_soon()


class _Endings:
    """The same for calls that end because their callers are gone: one lost connection may end a thousand calls."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_turning = False

    def add(self, end: Callable[[], None]) -> None:
        if self._left and not self._waiting:
            self._left -= 1
            end()
        else:
            self._waiting.append(end)
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._left, self._is_turning = self._most, False
        while self._waiting and self._left:
            self._left -= 1
            self._waiting.popleft()()
        if self._left < self._most:
            self._turn_soon()


class _Guest:
    """One connection of a server, from its first byte to its last."""

    def __init__(self, server: Server, let_in: Guest, port: int) -> None:
        self._server = server
        self._let_in = let_in
        self._host = let_in.host
        self._port = port
        self._timer: asyncio.TimerHandle | None = None
        self._is_made = False
        self._endpoint = Endpoint(self, False, server._settings.endpoint)
        self._tls: TlsTransport | None = None
        if server._tls is not None:
            self._tls = TlsTransport(
                self._endpoint,
                server._tls(),
                is_server=True,
                timeout_s=server._settings.handshake_timeout_s,
                on_failed=self._refused,
            )
        server._guests.add(self)
        server._nobody_is_here.clear()

    def protocol(self) -> asyncio.Protocol:
        return self._tls or self._endpoint

    def leave(self) -> None:
        """The connection is over: forget it. Calling this again does nothing."""
        server = self._server
        if self._timer is not None:
            self._timer.cancel()
        if self not in server._guests:
            return
        server._guests.remove(self)
        self._let_in.leave()
        if not server._guests:
            server._nobody_is_here.set()

    def drain(self) -> None:
        if self._is_made:
            self._endpoint.drain()
        elif self._tls is not None:
            self._tls.abort()

    def close(self) -> None:
        if self._is_made:
            self._endpoint.close("the server has stopped")
        elif self._tls is not None:
            self._tls.abort()

    def abort(self) -> None:
        if self._tls is not None:
            self._tls.abort()
        elif self._is_made:
            self._endpoint.transport.abort()

    def _refused(self, error: TlsFailed) -> None:
        self.leave()
        if not self._server._is_stopping and not self._let_in.is_leaving:
            self._server._observer.connection_refused(self._host, str(error))

    # --- what the endpoint says ----------------------------------------------------------------------------------

    def made(self, endpoint: Endpoint) -> None:
        self._is_made = True
        if self._server._is_stopping:
            endpoint.close()
            return
        self._let_in.turn_out = endpoint.abort
        limit_s = self._server._settings.first_request_timeout_s
        self._timer = asyncio.get_running_loop().call_later(limit_s, endpoint.drop, f"no request within {limit_s:g} s")

    def settled(self, endpoint: Endpoint) -> None: ...

    def stream_opened(self, endpoint: Endpoint, stream: Stream) -> StreamOwner:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        server = self._server
        return ServerCall(
            endpoint, stream, self._host, self._port, server._begin, server._endings.add, self._let_in.prove
        )

    def gone_away(self, endpoint: Endpoint, gone: GoneAway) -> None: ...

    def lost(self, endpoint: Endpoint, reason: str) -> None:
        self.leave()
        if endpoint.failure and not self._let_in.is_leaving:  # the door has reported those that it turned out
            self._server._observer.connection_dropped(self._host, endpoint.failure)
