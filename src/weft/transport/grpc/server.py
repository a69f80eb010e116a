"""A gRPC server: connections are let in, calls find their methods, and all of it ends in order.

Strangers cost something before anybody knows who they are, so bounds come first: how many connections, how many of one
host, how long for a handshake and for a first request.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from weft.errors import UsageError
from weft.transport.grpc.calls import ServerCall
from weft.transport.http2.endpoint import LINGER_S, Endpoint, EndpointSettings
from weft.transport.http2.tls import TlsFailed, TlsTransport
from weft.wire import rpc
from weft.wire.http2 import GoneAway, Headers, Http2Settings, Stream, StreamOwner
from weft.wire.rpc import BadCall, RpcError, StatusCode

Handler = Callable[[ServerCall], Awaitable[None]]

BACKLOG: Final = 1024
ACCEPTED_AT_ONCE: Final = 32
ACCEPT_PAUSE_S: Final = 0.1  # when there are no descriptors left
CANCEL_S_MAX: Final = 5.0  # for handlers that were cancelled to end
EVERYWHERE: Final = "::"  # IPv4 too
MAPPED: Final = "::ffff:"  # how a socket for both shows IPv4
DEFECT: Final = "a defect in this server; its log says more"
STOPPING: Final = RpcError(StatusCode.UNAVAILABLE, "the server is stopping")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    endpoint: EndpointSettings = field(default_factory=lambda: EndpointSettings(Http2Settings()))
    connections_max: int = 4096
    connections_of_host_max: int = 1024
    handshake_timeout_s: float = 10.0
    first_request_timeout_s: float = 20.0


class ServerObserver(Protocol):
    """Metrics and logs."""

    def connection_refused(self, host: str, reason: str) -> None:
        """Too many, or no TLS with it. Without a host, none can be accepted."""

    def connection_dropped(self, host: str, reason: str) -> None:
        """Its peer broke a rule, or did nothing for too long."""

    def handler_failed(self, path: str, error: Exception) -> None:
        """A defect here: whatever callers do is an RpcError."""


class Server:
    """``handlers`` by path, ``/package.Service/Method``. ``tls`` is asked for the context at every connection."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        settings: ServerSettings,
        observer: ServerObserver,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._handlers = handlers
        self._settings = settings
        self._observer = observer
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._guests: set[_Guest] = set()  # connections, those in a handshake included
        self._hosts: Counter[str] = Counter()
        self._nobody_is_here = asyncio.Event()
        self._nobody_is_here.set()
        self._calls: dict[asyncio.Task[None], ServerCall] = {}
        self._is_stopping = False

    @property
    def connections(self) -> int:
        return len(self._guests)

    @property
    def calls(self) -> int:
        """That run."""
        return len(self._calls)

    # --- connections ---------------------------------------------------------------------------------------------

    def bind(self, host: str, port: int) -> int:
        """Take a port, before anything is served on it; UsageError."""
        both = host == EVERYWHERE and socket.has_dualstack_ipv6()
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
        except OSError as error:
            raise UsageError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
        listening.setblocking(False)
        self._sockets.append(listening)
        bound: int = listening.getsockname()[1]
        return bound

    async def start(self) -> None:
        for each in self._sockets:
            self._listen(each)

    def _listen(self, listening: socket.socket) -> None:
        if not self._is_stopping:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Some connections are there. Not with ``sock_accept``: one that it has accepted is lost if it is cancelled."""
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_AT_ONCE):  # others want their turn
            try:
                connected, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ECONNABORTED:
                    self._observer.connection_refused("", f"cannot accept connections: {error.strerror}")
                    loop.remove_reader(listening)
                    loop.call_later(ACCEPT_PAUSE_S, self._listen, listening)
                    return
                continue
            connected.setblocking(False)
            guest = self._let_in(str(address[0]).removeprefix(MAPPED), int(address[1]))
            if guest is None:
                connected.close()
                continue
            connecting = loop.create_task(self._connect(guest, connected))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, guest: _Guest, connected: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(guest.protocol, connected)
        except (OSError, asyncio.CancelledError):  # the peer is gone already, or all of us are
            connected.close()
            guest.protocol().connection_lost(None)

    def _let_in(self, host: str, port: int) -> _Guest | None:
        reason = self._reason_against(host)
        if reason is None:
            try:
                return _Guest(self, host, port)
            except Exception as error:  # of whoever has the certificates; the next connection may have more luck
                reason = f"no TLS context: {error}"
        self._observer.connection_refused(host, reason)
        return None

    def _reason_against(self, host: str) -> str | None:
        settings = self._settings
        if len(self._guests) >= settings.connections_max:
            return f"too many connections (limit {settings.connections_max})"
        if self._hosts[host] >= settings.connections_of_host_max:
            return f"too many connections of one host (limit {settings.connections_of_host_max})"
        return None

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
        call.task.add_done_callback(self._calls.pop)

    async def _run(self, call: ServerCall, handler: Handler) -> None:
        try:
            try:
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
        """Take nothing new, let calls end within this time, then end them. Cancelled, it ends them at once."""
        self._is_stopping = True
        try:
            await self._stop_accepting()
            for guest in list(self._guests):
                guest.drain()
            await self._wait_for_guests(grace_s)
        finally:
            cancelled = list(self._calls)
            for call in list(self._calls.values()):
                if not call.has_sent_part:  # there is no place for a status then: the end of the connection says it
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
        for each in self._sockets:
            if each.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(each)
                each.close()
        await asyncio.gather(*self._connecting)

    async def _wait_for_guests(self, timeout_s: float) -> None:
        """To leave."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._nobody_is_here.wait()


class _Guest:
    """One connection of a server, from its first byte to its last."""

    def __init__(self, server: Server, host: str, port: int) -> None:
        self._server = server
        self._host = host
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
        server._hosts[host] += 1
        server._nobody_is_here.clear()

    def protocol(self) -> asyncio.Protocol:
        return self._tls or self._endpoint

    def leave(self) -> None:
        """Once is enough."""
        server = self._server
        if self._timer is not None:
            self._timer.cancel()
        if self not in server._guests:
            return
        server._guests.remove(self)
        server._hosts[self._host] -= 1
        if not server._hosts[self._host]:
            del server._hosts[self._host]
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
        if not self._server._is_stopping:
            self._server._observer.connection_refused(self._host, str(error))

    # --- what the endpoint says ----------------------------------------------------------------------------------

    def made(self, endpoint: Endpoint) -> None:
        self._is_made = True
        if self._server._is_stopping:
            endpoint.close()
            return
        limit_s = self._server._settings.first_request_timeout_s
        self._timer = asyncio.get_running_loop().call_later(limit_s, endpoint.drop, f"no request within {limit_s:g} s")

    def settled(self, endpoint: Endpoint) -> None: ...

    def stream_opened(self, endpoint: Endpoint, stream: Stream) -> StreamOwner:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return ServerCall(endpoint, stream, self._host, self._port, self._server._begin)

    def gone_away(self, endpoint: Endpoint, gone: GoneAway) -> None: ...

    def lost(self, endpoint: Endpoint, reason: str) -> None:
        self.leave()
        if endpoint.failure:
            self._server._observer.connection_dropped(self._host, endpoint.failure)
