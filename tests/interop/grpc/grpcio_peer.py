"""The service of echo.py on grpcio, and channels of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from tests.interop.grpc.echo import DETAILS, MIRRORED, WHY
from tests.transport.http2.certificates import Certificates

MESSAGE_BYTES_MAX = 64 << 20
OPTIONS = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),
]


class Echo:
    """Handlers; what they are given is grpcio's and has no types."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def unary(self, request: bytes, context: Any) -> bytes:
        asked = context.invocation_metadata()
        await context.send_initial_metadata(tuple(each for each in asked if each[0] in MIRRORED))
        context.set_trailing_metadata((("x-end", "over"),))
        return request

    async def down(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        count, size = map(int, request.split())
        for _ in range(count):
            yield b"x" * size

    async def up(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        count = total = 0
        async for message in requests:
            count += 1
            total += len(message)
        return b"%d %d" % (count, total)

    async def chat(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for message in requests:
            yield message

    async def fail(self, request: bytes, context: Any) -> None:
        await context.abort(grpc.StatusCode.NOT_FOUND, DETAILS, (("why-bin", WHY),))

    async def slow(self, request: bytes, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1

    async def count(self, request: bytes, context: Any) -> bytes:
        return b"%d" % self.cancelled

    async def give_up(self, request: bytes, context: Any) -> None:
        await context.abort(grpc.StatusCode.CANCELLED, "not any more")

    def handler(self) -> Any:
        methods = {
            "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "Down": grpc.unary_stream_rpc_method_handler(self.down),
            "Up": grpc.stream_unary_rpc_method_handler(self.up),
            "Chat": grpc.stream_stream_rpc_method_handler(self.chat),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Slow": grpc.unary_unary_rpc_method_handler(self.slow),
            "Cancelled": grpc.unary_unary_rpc_method_handler(self.count),
            "GiveUp": grpc.unary_unary_rpc_method_handler(self.give_up),
        }
        return grpc.method_handlers_generic_handler("interop.Echo", methods)


@asynccontextmanager
async def grpcio_server(
    certificates: Certificates | None = None, options: list[tuple[str, Any]] | None = None, **more: Any
) -> AsyncIterator[tuple[Any, int]]:
    server = grpc.aio.server(options=OPTIONS + (options or []), **more)
    server.add_generic_rpc_handlers((Echo().handler(),))
    if certificates is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        pair = (certificates.read("server.key"), certificates.read("server.crt"))
        port = server.add_secure_port(
            "127.0.0.1:0", grpc.ssl_server_credentials([pair], certificates.read("root.pem"), True)
        )
    await server.start()
    try:
        yield server, port
    finally:
        await server.stop(None)


@asynccontextmanager
async def grpcio_channel(
    port: int, certificates: Certificates | None = None, options: list[tuple[str, Any]] | None = None, **more: Any
) -> AsyncIterator[Any]:
    address, options = f"127.0.0.1:{port}", OPTIONS + (options or [])
    if certificates is None:
        channel = grpc.aio.insecure_channel(address, options, **more)
    else:
        files = [certificates.read(name) for name in ("root.pem", "client.key", "client.crt")]
        channel = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(*files), options, **more)
    async with channel:
        yield channel
