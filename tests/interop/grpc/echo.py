"""The service that all peers of these tests have, on our own server, and checks of it for our own client.

Messages are bytes. The same methods are in go/echo.go, java/Echo.java, js/echo.js, and in grpcio_peer.py:

    Unary      the request, and its metadata ``x-text`` and ``x-data-bin``; ``x-end: over`` after it
    Down       "COUNT SIZE": so many messages of so many bytes
    Up         "COUNT BYTES", of what came
    Chat       every message comes back
    Fail       NOT_FOUND with DETAILS, and ``why-bin``
    Slow       never answers
    Cancelled  how many of those were cancelled
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.channel import Channel
from weft.transport.grpc.server import Handler
from weft.wire.rpc import Metadata, RpcError, StatusCode

PATH: Final = "/interop.Echo/"
DETAILS: Final = "nö 100% ✓"
WHY: Final = b"\x01\x02\xff"
LARGEST_BYTES: Final = 32 << 20
MIRRORED: Final = ("x-text", "x-data-bin")


# --- server -----------------------------------------------------------------------------------------------------------


def handlers() -> Mapping[str, Handler]:
    cancelled = 0

    async def unary(call: ServerCall) -> None:
        call.widen()
        request = await call.read()
        assert request is not None and await call.read() is None
        call.send_initial([each for each in call.metadata if each[0] in MIRRORED])
        call.write_nowait(request)
        call.finish(StatusCode.OK, metadata=[("x-end", "over")])

    async def down(call: ServerCall) -> None:
        count, size = map(int, (await call.read() or b"").split())
        for _ in range(count):
            await call.write(b"x" * size)

    async def up(call: ServerCall) -> None:
        call.widen()
        count = total = 0
        while (message := await call.read()) is not None:
            count += 1
            total += len(message)
        call.write_nowait(b"%d %d" % (count, total))

    async def chat(call: ServerCall) -> None:
        call.widen()
        while (message := await call.read()) is not None:
            await call.write(message)

    async def fail(call: ServerCall) -> None:
        raise RpcError(StatusCode.NOT_FOUND, DETAILS, [("why-bin", WHY)])

    async def slow(call: ServerCall) -> None:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        finally:
            cancelled += 1

    async def count(call: ServerCall) -> None:
        call.write_nowait(b"%d" % cancelled)

    made = {"Unary": unary, "Down": down, "Up": up, "Chat": chat, "Fail": fail, "Slow": slow, "Cancelled": count}
    return {PATH + name: handler for name, handler in made.items()}


# --- client -----------------------------------------------------------------------------------------------------------


async def refused(channel: Channel, method: str, request: bytes, status: StatusCode, **options: float) -> RpcError:
    try:
        await channel.unary(PATH + method, request, timeout_s=options.get("timeout_s"))
    except RpcError as error:
        assert error.status is status, (error.status, error.details)
        return error
    raise AssertionError("was not refused")


async def check_unary(channel: Channel) -> None:
    metadata: Metadata = [("x-text", "one"), ("x-text", "two"), ("x-data-bin", WHY)]
    call = await channel.call(PATH + "Unary", metadata)
    call.write_nowait(b"hello")
    call.end()
    assert await call.read() == b"hello"
    assert await call.read() is None
    assert [value for name, value in call.metadata if name == "x-data-bin"] == [WHY]
    texts = [str(value) for name, value in call.metadata if name == "x-text"]
    assert ", ".join(texts) == "one, two", "Node.js joins them"
    assert ("x-end", "over") in call.trailing
    assert await channel.unary(PATH + "Unary", b"") == b""


async def check_down(channel: Channel) -> None:
    call = await channel.call(PATH + "Down")
    call.write_nowait(b"2000 100")
    call.end()
    count = 0
    while (message := await call.read()) is not None:
        assert len(message) == 100
        count += 1
    assert count == 2000


async def check_up(channel: Channel) -> None:
    call = await channel.call(PATH + "Up")
    for _ in range(2000):
        await call.write(bytes(100))
    call.end()
    assert await call.read() == b"2000 200000"
    assert await call.read() is None


async def check_chat(channel: Channel) -> None:
    call = await channel.call(PATH + "Chat")
    for number in range(200):
        await call.write(b"%d" % number)
        assert await call.read() == b"%d" % number
    call.end()
    assert await call.read() is None


async def check_fail(channel: Channel) -> None:
    error = await refused(channel, "Fail", b"x", StatusCode.NOT_FOUND)
    assert error.details == DETAILS
    assert ("why-bin", WHY) in error.metadata
    await refused(channel, "Nothing", b"x", StatusCode.UNIMPLEMENTED)


async def check_deadline(channel: Channel) -> None:
    await refused(channel, "Slow", b"x", StatusCode.DEADLINE_EXCEEDED, timeout_s=0.2)


async def check_cancel(channel: Channel) -> None:
    before = await channel.unary(PATH + "Cancelled", b"")
    asking = asyncio.create_task(channel.unary(PATH + "Slow", b"x"))
    await asyncio.sleep(0.05)
    asking.cancel()
    async with asyncio.timeout(30):
        while await channel.unary(PATH + "Cancelled", b"") == before:
            await asyncio.sleep(0.01)
    assert asking.cancelled()


async def check_large(channel: Channel) -> None:
    message = bytes(range(256)) * (LARGEST_BYTES >> 8)
    assert await channel.unary(PATH + "Unary", message) == message


async def check_many(channel: Channel) -> None:
    async def one(number: int) -> None:
        call = await channel.call(PATH + "Chat")
        await call.write(b"%d" % number)
        assert await call.read() == b"%d" % number
        call.end()
        assert await call.read() is None

    await asyncio.gather(*[one(number) for number in range(1000)])


CHECKS: Final[Mapping[str, Callable[[Channel], Awaitable[None]]]] = {
    "unary": check_unary,
    "down": check_down,
    "up": check_up,
    "chat": check_chat,
    "fail": check_fail,
    "deadline": check_deadline,
    "cancel": check_cancel,
    "large": check_large,
    "many": check_many,
}


async def check_all(channel: Channel) -> dict[str, str]:
    """Which failed, and how."""
    failed = {}
    for name, check in CHECKS.items():
        try:
            async with asyncio.timeout(60):
                await check(channel)
        except Exception as error:  # of each, so that one says nothing about the next
            failed[name] = f"{type(error).__name__}: {error}"
    return failed
