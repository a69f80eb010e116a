"""Calls to one server, over one connection. It is made when it is first needed, and made again after it was lost."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Final

from weft.errors import PeerError, UsageError
from weft.transport.grpc.calls import ClientCall
from weft.transport.http2.endpoint import CLOSED_SILENTLY, Endpoint, EndpointSettings
from weft.transport.http2.tls import TlsFailed, TlsTransport
from weft.wire import rpc
from weft.wire.http2 import CLIENT_SETTINGS, GoneAway, Stream, StreamOwner
from weft.wire.rpc import Metadata, RpcError, StatusCode

ATTEMPTS_MAX: Final = 3  # for a call that a server refused without looking at it
PLACES_FOR_CALLS: Final = 24  # of the 1,024 streams that a node allows, ``stream`` leaves these free for short calls


class Unreachable(PeerError):
    """There is no connection; the text says why."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    endpoint: EndpointSettings = field(default_factory=lambda: EndpointSettings(CLIENT_SETTINGS))
    connect_timeout_s: float = 10.0
    user_agent: str = "weft"


@dataclass(frozen=True, slots=True)
class ChannelTls:
    """``name`` is the name that the certificate must have; None if the context does not check it."""

    context: ssl.SSLContext
    name: str | None


class Crowded(UsageError):
    """One connection has as many streams open as it may; a second connection is needed."""


class Channel:
    """``tls`` is called at every dial, so a new certificate is used from the next dial on."""

    def __init__(
        self, host: str, port: int, settings: ChannelSettings, tls: Callable[[], ChannelTls] | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._settings = settings
        self._tls = tls
        self._authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._endpoint: Endpoint | None = None  # for new calls
        self._connections: set[_Connection] = set()  # this one, and older ones whose last calls are ending
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._dialling: asyncio.Task[Endpoint] | None = None
        self._queue: deque[asyncio.Future[None]] = deque()  # calls that wait for the server to allow one more
        self._is_closed = False

    async def connect(self) -> Endpoint:
        """Return the connection, and dial if there is none; raise Unreachable."""
        if (endpoint := self._current()) is not None:
            return endpoint
        if self._is_closed:
            raise self._closed()
        dialling = self._dialling
        if dialling is None:
            # A connection calls its users in the context in which it was made. It outlives the caller that needs it
            # first, so it is made in an empty context.
            dialling = self._dialling = Context().run(asyncio.get_running_loop().create_task, self._dial())
            dialling.add_done_callback(self._dialled)
        await asyncio.wait([dialling])  # if this caller is cancelled, dialling goes on, because others may wait for it
        if dialling.cancelled():
            raise self._closed()
        endpoint = dialling.result()
        if not endpoint.takes_streams:
            raise Unreachable("the server closed the connection at once", address=self._authority)
        return endpoint

    @property
    def certificate(self) -> bytes | None:
        """What the server showed, as DER."""
        if self._endpoint is None:
            return None
        shown = self._endpoint.transport.get_extra_info("ssl_object")
        return None if shown is None else shown.getpeercert(binary_form=True)

    async def call(self, path: str, metadata: Metadata = (), timeout_s: float | None = None) -> ClientCall:
        """Begin a call; raise RpcError if no connection can be made. Waiting for one counts towards the timeout."""
        endpoint, left_s = self._current(), timeout_s
        if endpoint is None or self._queue or _is_full(endpoint):
            endpoint, left_s = await self._place(timeout_s)
        scheme = "http" if self._tls is None else "https"
        try:
            headers = rpc.request_headers(path, self._authority, scheme, self._settings.user_agent, left_s, metadata)
        except BaseException:
            self._pass_turn()  # we had the turn, and do not use it
            raise
        call = ClientCall(endpoint, headers, timeout_s, left_s)
        call.on_done = self._pass_turn
        return call

    async def stream(self, path: str, metadata: Metadata = ()) -> ClientCall:
        """Begin a call that stays open. Raise RpcError as ``call`` does, and Crowded at once if there are too many,
        because waiting for another one to end could take for ever."""
        try:
            endpoint = await self.connect()
        except Unreachable as error:
            raise RpcError(StatusCode.UNAVAILABLE, str(error)) from None
        most = endpoint.http2.peer_streams_max
        most -= min(PLACES_FOR_CALLS, most // 8)
        if len(endpoint.http2.streams) >= most:
            raise Crowded(
                f"one connection to {self._authority} has {most} streams open, as many as the node allows: close "
                "subscriptions, or open another client (weft.connect) for more",
                limit=most,
            )
        return await self.call(path, metadata)

    async def unary(self, path: str, request: bytes, metadata: Metadata = (), timeout_s: float | None = None) -> bytes:
        """Make a call with one message each way; raise RpcError. If the server refuses the call without looking at it,
        because it is going away, the call is made again: proxies go away after every thousand calls or so."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        left_s = timeout_s
        for attempt in range(ATTEMPTS_MAX):
            call = await self.call(path, metadata, left_s)
            try:
                call.write_nowait(request)
                call.end()
                reply = await call.read()
                if reply is None or await call.read() is not None:
                    raise RpcError(StatusCode.INTERNAL, "the server did not send one reply")
                return reply
            except RpcError:
                if not call.is_refused or attempt + 1 == ATTEMPTS_MAX:
                    raise
            finally:
                call.cancel()
            left_s = None if timeout_s is None else max(0.0, timeout_s - (loop.time() - begin_s))
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Fail the open calls, and allow no more."""
        self._is_closed = True
        self._endpoint = None
        if self._dialling is not None:
            self._dialling.cancel()
        for connection in list(self._connections):
            connection.endpoint.close("the channel was closed")
        self._wake_all()

    async def wait_closed(self) -> None:
        """Wait for the sockets after ``close``, a few seconds at most."""
        await self._all_gone.wait()

    def _closed(self) -> Unreachable:
        return Unreachable("the channel was closed", address=self._authority)

    def _current(self) -> Endpoint | None:
        """The connection, if it takes calls. One that no longer does ends after its last call."""
        endpoint = self._endpoint
        if endpoint is not None and not endpoint.takes_streams:
            self._endpoint = None
            endpoint.end_when_idle()
        return self._endpoint

    # --- dialling ------------------------------------------------------------------------------------------------

    async def _dial(self) -> Endpoint:
        timeout_s = self._settings.connect_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                self._endpoint = await self._dial_untimed()
                return self._endpoint
        except TimeoutError:
            raise Unreachable("nobody answers", address=self._authority, waited_s=timeout_s) from None
        except TlsFailed as error:
            raise Unreachable(error.what, **error.facts, address=self._authority) from None
        except OSError as error:  # each event loop words it differently
            code = error.errno or 0
            reason = os.strerror(code) if code > 0 else error.strerror or str(error)
            raise Unreachable(f"cannot connect: {reason}", address=self._authority) from None
        except UnicodeError:
            raise Unreachable("this is not the name of a host", address=self._authority) from None

    async def _dial_untimed(self) -> Endpoint:
        connection = _Connection(self)
        protocol: asyncio.Protocol = connection.endpoint
        secure: TlsTransport | None = None
        if self._tls is not None:
            tls = self._tls()
            protocol = secure = TlsTransport(
                connection.endpoint,
                tls.context,
                server_name=tls.name,
                is_server=False,
                timeout_s=self._settings.connect_timeout_s,
            )
        transport: asyncio.Transport | None = None
        try:
            transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, self._host, self._port)
            if secure is not None:
                await secure.shaken
            await connection.settled_once  # with TLS 1.3, a server that refuses our certificate says so only now
        except BaseException:
            if transport is not None:
                transport.abort()
            protocol.connection_lost(None)
            raise
        return connection.endpoint

    def _dialled(self, task: asyncio.Task[Endpoint]) -> None:
        self._dialling = None
        if not task.cancelled():
            task.exception()  # in case nobody waits for it any longer

    # --- waiting for the server to allow one more ----------------------------------------------------------------

    async def _place(self, timeout_s: float | None) -> tuple[Endpoint, float | None]:
        """A connection that has room for a call, and how much of the call's time is left; raise RpcError."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                endpoint = await self._wait_for_place()
        except TimeoutError:
            raise RpcError(
                StatusCode.DEADLINE_EXCEEDED, f"no connection with room for a call within {timeout_s:g} s"
            ) from None
        except Unreachable as error:
            raise RpcError(StatusCode.UNAVAILABLE, str(error)) from None
        return endpoint, None if timeout_s is None else max(0.0, timeout_s - (loop.time() - begin_s))

    async def _wait_for_place(self) -> Endpoint:
        endpoint = await self.connect()
        if self._queue:
            await self._wait_in_queue(self._queue.append)
            endpoint = await self.connect()
        while _is_full(endpoint):
            await self._wait_in_queue(self._queue.appendleft)
            endpoint = await self.connect()
        return endpoint

    async def _wait_in_queue(self, join: Callable[[asyncio.Future[None]], None]) -> None:
        waiter = asyncio.get_running_loop().create_future()
        join(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with suppress(ValueError):  # ``_pass_turn`` may have removed it already
                    self._queue.remove(waiter)
            else:
                self._pass_turn()  # we had the turn, and do not use it
            raise

    def _pass_turn(self) -> None:
        """Let the next call in the queue begin, because another one is over."""
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        queue, self._queue = self._queue, deque()
        for waiter in queue:
            if not waiter.done():
                waiter.set_result(None)


def _is_full(endpoint: Endpoint) -> bool:
    return len(endpoint.http2.streams) >= endpoint.http2.peer_streams_max


class _Connection:
    """One connection of a channel. ``settled_once`` is done when the server has accepted us."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.endpoint = Endpoint(self, True, channel._settings.endpoint)
        self.settled_once: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def made(self, endpoint: Endpoint) -> None:
        self._channel._connections.add(self)
        self._channel._all_gone.clear()

    def settled(self, endpoint: Endpoint) -> None:
        if not self.settled_once.done():
            self.settled_once.set_result(None)
        for _ in range(endpoint.http2.peer_streams_max - len(endpoint.http2.streams)):
            if not self._channel._queue:
                break
            self._channel._pass_turn()

    def stream_opened(self, endpoint: Endpoint, stream: Stream) -> StreamOwner:
        raise AssertionError("servers open no streams")

    def gone_away(self, endpoint: Endpoint, gone: GoneAway) -> None:
        """It takes no new calls: the next one dials again."""
        endpoint.end_when_idle()
        self._channel._wake_all()

    def lost(self, endpoint: Endpoint, reason: str) -> None:
        channel = self._channel
        channel._connections.discard(self)
        if not channel._connections:
            channel._all_gone.set()
        if channel._endpoint is endpoint:
            channel._endpoint = None
        if not self.settled_once.done():
            if reason == CLOSED_SILENTLY and channel._tls is None:
                reason = f"{reason}: it may want TLS"
            self.settled_once.set_exception(Unreachable(reason, address=channel._authority))
            self.settled_once.exception()
        channel._wake_all()
