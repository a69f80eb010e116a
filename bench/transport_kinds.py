"""The three transports that ``bench.transport`` compares: a client and a server of each, which answer every message.

``weft`` is ours, ``grpc.aio`` the library, ``raw`` a length and so many bytes on asyncio: what Python can do at best.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import grpc

from weft.security import Authority, AuthoritySettings, LocalSource, Names, client, node
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.channel import Channel, ChannelSettings, ChannelTls
from weft.transport.grpc.server import Server, ServerSettings

PATH = "/bench.Echo/Stream"
UNARY = "/bench.Echo/Unary"
SMALL = 4096  # larger messages are answered with a short one
SHORT = b"taken"
NAME = "localhost"
GRPC_OPTIONS = [
    ("grpc.max_send_message_length", 1 << 25),
    ("grpc.max_receive_message_length", 1 << 25),
    ("grpc.so_reuseport", 0),
]
FRAME = struct.Struct(">I")


def answer(message: bytes) -> bytes:
    return message if len(message) <= SMALL else SHORT


class Certificates:
    """Made once for all; ``here`` has root.pem, server.pem and client.pem."""

    def __init__(self, here: Path) -> None:
        self.here = here

    @classmethod
    def make(cls, here: Path, now_s: float) -> Certificates:
        source = LocalSource(Authority.create(here / "ca", AuthoritySettings("bench", "https://127.0.0.1:1"), now_s))
        for name, names in (
            ("server", Names(node("bench", "server"), (NAME, "127.0.0.1"))),
            ("client", Names(client("bench", "client"))),
        ):
            made = source.enrol(names, now_s)
            (here / f"{name}.pem").write_bytes(made.key_pem.reveal() + made.chain_pem)
            (here / "root.pem").write_bytes(made.root_pem)
        return cls(here)

    def context(self, name: str) -> ssl.SSLContext:
        kind = ssl.PROTOCOL_TLS_SERVER if name == "server" else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(kind)
        context.load_cert_chain(self.here / f"{name}.pem")
        context.load_verify_locations(self.here / "root.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["h2"])
        return context

    def pem(self, name: str) -> bytes:
        return (self.here / f"{name}.pem").read_bytes()


class Conversation(Protocol):
    """An open stream to a server."""

    async def ask(self, message: bytes) -> None:
        """Send one and wait for its answer."""

    async def flood(self, message: bytes, count: int, in_flight: int) -> None:
        """Send so many, at most so many of them unanswered."""


# --- ours -------------------------------------------------------------------------------------------------------------


class Quiet:
    def connection_refused(self, host: str, reason: str) -> None: ...

    def connection_dropped(self, host: str, reason: str) -> None: ...

    def handler_failed(self, path: str, error: Exception) -> None:
        raise error


async def serve_weft(tls: ssl.SSLContext | None) -> int:
    async def echo(call: ServerCall) -> None:
        call.widen()
        ended = asyncio.get_running_loop().create_future()
        call.deliver_to(lambda message: call.write_nowait(answer(message)))
        await ended

    async def unary(call: ServerCall) -> None:
        call.write_nowait(answer(await call.read() or b""))

    server = Server({PATH: echo, UNARY: unary}, ServerSettings(), Quiet(), None if tls is None else lambda: tls)
    port = server.bind("127.0.0.1", 0)
    await server.start()
    return port


class WeftConversation:
    def __init__(self, call: Any) -> None:
        self._call = call
        self._answers = Answers()
        call.deliver_to(self._answers.take)

    async def ask(self, message: bytes) -> None:
        self._call.write_nowait(message)
        await self._answers.wait(1)

    async def flood(self, message: bytes, count: int, in_flight: int) -> None:
        sent = 0
        while sent < count:
            for _ in range(min(in_flight - self._answers.owed, count - sent)):
                self._call.write_nowait(message)
                self._answers.owed += 1
                sent += 1
            await self._answers.some()
        await self._answers.all()


class Answers:
    """Counts what comes back."""

    def __init__(self) -> None:
        self.owed = 0
        self._waiter: asyncio.Future[None] | None = None

    def take(self, message: bytes) -> None:
        self.owed -= 1
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, more: int) -> None:
        self.owed += more
        await self.all()

    async def some(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        if self.owed:
            await self._waiter

    async def all(self) -> None:
        while self.owed > 0:
            await self.some()


@asynccontextmanager
async def weft_client(port: int, tls: ssl.SSLContext | None) -> AsyncIterator[Conversation]:
    secure = None if tls is None else lambda: ChannelTls(tls, NAME)
    channel = Channel("127.0.0.1", port, ChannelSettings(), secure)
    yield WeftConversation(await channel.call(PATH))
    channel.close()


# --- grpc.aio ---------------------------------------------------------------------------------------------------------


async def serve_grpc(certificates: Certificates | None) -> int:
    async def echo(_: Any, context: Any) -> None:
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(answer(message))

    server = grpc.aio.server(options=GRPC_OPTIONS)
    handlers = {"Stream": grpc.stream_stream_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    if certificates is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        pem = certificates.pem("server")
        credentials = grpc.ssl_server_credentials([(pem, pem)], certificates.pem("root"), True)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    serve_grpc.kept = server  # type: ignore[attr-defined]  # it ends when nobody has it
    return int(port)


class GrpcConversation:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def ask(self, message: bytes) -> None:
        await self._call.write(message)
        await self._call.read()

    async def flood(self, message: bytes, count: int, in_flight: int) -> None:
        room = asyncio.Semaphore(in_flight)

        async def read() -> None:
            for _ in range(count):
                await self._call.read()
                room.release()

        reading = asyncio.create_task(read())
        for _ in range(count):
            await room.acquire()
            await self._call.write(message)
        await reading


@asynccontextmanager
async def grpc_client(port: int, certificates: Certificates | None) -> AsyncIterator[Conversation]:
    if certificates is None:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", GRPC_OPTIONS)
    else:
        pem = certificates.pem("client")
        credentials = grpc.ssl_channel_credentials(certificates.pem("root"), pem, pem)
        channel = grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, GRPC_OPTIONS)
    yield GrpcConversation(channel.stream_stream(PATH)())
    await channel.close()


# --- raw --------------------------------------------------------------------------------------------------------------


class RawProtocol(asyncio.Protocol):
    def __init__(self, take: Callable[[RawProtocol, bytes], None]) -> None:
        self._take = take
        self._parts: deque[bytes] = deque()
        self._rest = b""
        self.transport: Any = None
        self.out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(1 << 24)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while at + FRAME.size <= end:
            (size,) = FRAME.unpack_from(data, at)
            if at + FRAME.size + size > end:
                break
            self._take(self, data[at + FRAME.size : at + FRAME.size + size])
            at += FRAME.size + size
        self._rest = data[at:]
        self.flush()

    def send(self, message: bytes) -> None:
        self.out += (FRAME.pack(len(message)), message)

    def flush(self) -> None:
        if self.out:
            self.transport.write(b"".join(self.out))
            self.out = []


async def serve_raw(tls: ssl.SSLContext | None) -> int:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: RawProtocol(lambda protocol, message: protocol.send(answer(message))), "127.0.0.1", 0, ssl=tls
    )
    serve_raw.kept = server  # type: ignore[attr-defined]
    return int(server.sockets[0].getsockname()[1])


class RawConversation:
    def __init__(self) -> None:
        self._answers = Answers()
        self.protocol = RawProtocol(lambda _, message: self._answers.take(message))

    async def ask(self, message: bytes) -> None:
        self.protocol.send(message)
        self.protocol.flush()
        await self._answers.wait(1)

    async def flood(self, message: bytes, count: int, in_flight: int) -> None:
        sent = 0
        while sent < count:
            for _ in range(min(in_flight - self._answers.owed, count - sent)):
                self.protocol.send(message)
                self._answers.owed += 1
                sent += 1
            self.protocol.flush()
            await self._answers.some()
        await self._answers.all()


@asynccontextmanager
async def raw_client(port: int, tls: ssl.SSLContext | None) -> AsyncIterator[Conversation]:
    conversation = RawConversation()
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: conversation.protocol, "127.0.0.1", port, ssl=tls, server_hostname=None if tls is None else NAME
    )
    yield conversation
    transport.close()
