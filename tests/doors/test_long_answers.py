"""Answers that go on for long: a reader may stay, one that does not read is cut off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import weft.doors.http
from weft.doors import Door, Doorkeeper
from weft.doors.accepting import listen_on
from weft.doors.http import GuardedProtocol, HttpServer, http_limits

WAIT_S = 30.0
ASK = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
PART = b"x" * 65_536


@asynccontextmanager
async def serving(door: Door, gap_s: float) -> AsyncIterator[int]:
    async def endless(request: Request) -> Response:
        connection = request.scope["state"]["connection"]

        async def parts() -> AsyncIterator[bytes]:
            connection.begin_stream()
            while True:
                connection.go_on()
                yield PART
                await asyncio.sleep(gap_s)

        return StreamingResponse(parts())

    config = uvicorn.Config(
        Starlette(routes=[Route("/", endless)]),
        http=GuardedProtocol,
        lifespan="off",
        log_config=None,
        log_level="critical",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    listening = listen_on("127.0.0.1", 0)
    server = HttpServer(config, listening, door)
    task = asyncio.create_task(server.serve())
    await server.settled.wait()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.req("SEE-01", "SEC-04")
async def test_a_browser_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.doors.http, "REQUEST_S_MAX", 0.3)

    door = Doorkeeper().door("admin", http_limits(4), apart=True)
    async with serving(door, 0.0) as port:
        with socket.create_connection(("127.0.0.1", port)) as stuck:
            stuck.sendall(ASK)
            await until(lambda: door.connections == 1)
            await until(lambda: door.connections == 0)


@pytest.mark.req("SEE-01")
async def test_a_browser_that_reads_may_stay_longer_than_a_request_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.doors.http, "REQUEST_S_MAX", 0.2)

    door = Doorkeeper().door("admin", http_limits(4), apart=True)
    async with serving(door, 0.05) as port, asyncio.timeout(WAIT_S):
        begun_s = asyncio.get_running_loop().time()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK)
        while asyncio.get_running_loop().time() < begun_s + 5 * 0.2:
            assert await reader.read(len(PART)), "it was cut off"
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        await until(lambda: door.connections == 0)
