"""What tests of connections share: a play on both event loops, servers that echo, and a record of what they report."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, ParamSpec

import pytest
import uvloop

from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.channel import Channel, ChannelSettings, ChannelTls
from weft.transport.grpc.server import Handler, Server, ServerSettings

P = ParamSpec("P")
PATIENCE_S = 60.0  # a bound, not an expectation: the machine may be busy
LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
}


def play(story: Callable[[], Awaitable[None]], loop: str, patience_s: float = PATIENCE_S) -> None:
    """Run it. What goes wrong in callbacks, and in tasks that nobody waits for, counts; so do tasks that never end."""
    wrong: list[dict[str, Any]] = []

    async def run() -> None:
        running = asyncio.get_running_loop()
        running.set_exception_handler(lambda _, context: wrong.append(context))
        running.slow_callback_duration = PATIENCE_S
        async with asyncio.timeout(patience_s):
            await story()
        async with asyncio.timeout(PATIENCE_S):
            while left := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(left)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())
        gc.collect(1)  # futures that nobody waited for speak up when they go; this is young enough, and quick
    assert not wrong


def on_both_loops(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine; its arguments are fixtures, as usual."""

    @functools.wraps(story)
    def test(*, loop: str, **fixtures: Any) -> None:
        play(lambda: story(**fixtures), loop)

    parameters = [*inspect.signature(story).parameters.values()]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    more = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    test.__signature__ = inspect.Signature([*parameters, more])  # type: ignore[attr-defined]
    del test.__wrapped__
    made: Callable[..., None] = pytest.mark.parametrize("loop", list(LOOPS))(test)
    return made


def on_loop(loop: str, patience_s: float) -> Callable[[Callable[P, Awaitable[None]]], Callable[P, None]]:
    """For tests of a peer that is not ours, on one loop."""

    def decorated(story: Callable[P, Awaitable[None]]) -> Callable[P, None]:
        @functools.wraps(story)
        def test(*args: P.args, **fixtures: P.kwargs) -> None:
            play(lambda: story(*args, **fixtures), loop, patience_s)

        return test

    return decorated


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


class Reports:
    """A server's observer."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str]] = []
        self.dropped: list[tuple[str, str]] = []
        self.failed: list[tuple[str, Exception]] = []

    def connection_refused(self, host: str, reason: str) -> None:
        self.refused.append((host, reason))

    def connection_dropped(self, host: str, reason: str) -> None:
        self.dropped.append((host, reason))

    def handler_failed(self, path: str, error: Exception) -> None:
        self.failed.append((path, error))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.refused + self.dropped]


class Place:
    """A server that runs, and what it reports."""

    def __init__(self, server: Server, port: int, reports: Reports) -> None:
        self.server = server
        self.port = port
        self.reports = reports

    @asynccontextmanager
    async def channel(
        self,
        settings: ChannelSettings | None = None,
        tls: ssl.SSLContext | Callable[[], ChannelTls] | None = None,
        host: str = "127.0.0.1",
    ) -> AsyncIterator[Channel]:
        async with channel_to(host, self.port, settings, tls) as channel:
            yield channel


@asynccontextmanager
async def channel_to(
    host: str,
    port: int,
    settings: ChannelSettings | None = None,
    tls: ssl.SSLContext | Callable[[], ChannelTls] | None = None,
) -> AsyncIterator[Channel]:
    secure = tls
    if isinstance(tls, ssl.SSLContext):
        context = tls
        secure = lambda: ChannelTls(context, "localhost")  # noqa: E731  # a name for it says no more
    channel = Channel(host, port, settings or ChannelSettings(), secure)  # type: ignore[arg-type]
    try:
        yield channel
    finally:
        channel.close()
        await channel.wait_closed()


@asynccontextmanager
async def serving(
    handlers: Mapping[str, Handler],
    settings: ServerSettings | None = None,
    tls: ssl.SSLContext | Callable[[], ssl.SSLContext] | None = None,
    host: str = "127.0.0.1",
    grace_s: float = 0.0,
) -> AsyncIterator[Place]:
    reports = Reports()
    secure: Any = (lambda: tls) if isinstance(tls, ssl.SSLContext) else tls
    server = Server(handlers, settings or ServerSettings(), reports, secure)
    port = server.bind(host, 0)
    await server.start()
    try:
        yield Place(server, port, reports)
    finally:
        await server.stop(grace_s)
        assert server.connections == 0 and server.calls == 0


async def echo(call: ServerCall) -> None:
    call.widen()
    while (message := await call.read()) is not None:
        await call.write(message)


ECHO = "/test.Echo/Echo"
ECHOING: Mapping[str, Handler] = {ECHO: echo}


class RawPeer:
    """A socket with somebody who reads and writes bytes at the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def until_closed(self) -> bytes:
        """What came before the end."""
        received = b""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while data := await self.reader.read(1 << 16):
                    received += data
        except ConnectionError:
            pass
        return received

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


@asynccontextmanager
async def raw_peer(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawPeer]:
    name = None if tls is None else "localhost"
    peer = RawPeer(*await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name))
    try:
        yield peer
    finally:
        await peer.close()


@asynccontextmanager
async def raw_server(
    answer: Callable[[RawPeer], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A server of bytes; its port. Each connection is for ``answer``, and ends with it."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = RawPeer(reader, writer)
        try:
            await answer(peer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            await peer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that is taken, but where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
