"""The admin HTTP server over a real socket: metrics, health, readiness, and getting out of the way."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import httpx
import pytest
from prometheus_client import CollectorRegistry

import weft.doors.http
from weft.doors import Door, Doorkeeper
from weft.doors.http import http_limits
from weft.errors import UsageError
from weft.node.admin_http import AdminServer
from weft.node.figures import NodeFigures
from weft.node.metrics import Metrics

WAIT_S = 30.0


class View:
    """A node as the server sees it."""

    def __init__(self) -> None:
        self.metrics = Metrics(lambda: NodeFigures(subscriptions=5))
        self.reasons: list[str] = []

    @property
    def registry(self) -> CollectorRegistry:
        return self.metrics.registry

    async def look(self) -> None:
        pass

    def ready_reasons(self) -> Sequence[str]:
        return self.reasons

    def status(self) -> dict[str, str | int | float | bool]:
        return {"node": "node-a", "epoch": 7}


@asynccontextmanager
async def serving(view: View, door: Door | None = None) -> AsyncIterator[httpx.AsyncClient]:
    server = AdminServer("127.0.0.1", 0, view, door)
    await server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=WAIT_S) as http:
            yield http
    finally:
        await server.stop()


@pytest.mark.req("OBS-01", "PL-06")
async def test_metrics_are_served() -> None:
    async with serving(View()) as http:
        answer = await http.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        assert "weft_subscriptions 5.0" in answer.text.splitlines()


@pytest.mark.req("OBS-01")
async def test_health_and_readiness() -> None:
    view = View()
    async with serving(view) as http:
        assert (await http.get("/healthz")).text == "ok\n"
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})
        view.reasons = ["draining"]
        draining = await http.get("/readyz")
        assert (draining.status_code, draining.json()) == (503, {"ready": False, "reasons": ["draining"]})
        assert (await http.get("/healthz")).status_code == 200


async def test_the_index_says_what_there_is() -> None:
    async with serving(View()) as http:
        text = (await http.get("/")).text
        assert "node: node-a" in text
        assert all(path in text for path in ("/metrics", "/healthz", "/readyz"))


async def test_nothing_else_is_there_and_nothing_can_be_changed() -> None:
    async with serving(View()) as http:
        assert (await http.get("/etc/passwd")).status_code == 404
        assert (await http.post("/metrics", content=b"x")).status_code == 405


async def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"cannot serve admin HTTP on 127\.0\.0\.1:{port}: Address already in"):
            await AdminServer("127.0.0.1", port, View()).start()


async def test_a_stopped_server_gives_its_port_back() -> None:
    server = AdminServer("127.0.0.1", 0, View())
    await server.stop()  # not started: nothing to stop
    await server.start()
    await server.stop()
    await server.stop()
    with socket.create_server(("127.0.0.1", server.port)):
        pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_stopping_does_not_wait_for_idle_connections() -> None:
    server = AdminServer("127.0.0.1", 0, View())
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\n")  # and never the rest
    await writer.drain()
    async with asyncio.timeout(WAIT_S):
        await server.stop()
    writer.close()


HALF = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.req("SEC-04")
@pytest.mark.parametrize("said", [b"", HALF, HALF + b"\r\n"], ids=["nothing", "half a request", "one request"])
async def test_idle_connections_make_room_for_whoever_asks(said: bytes) -> None:
    keeper = Doorkeeper()
    door = keeper.door("admin", http_limits(4), apart=True)
    async with serving(View(), door) as http, AsyncExitStack() as stack:
        for _ in range(10):
            _, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
            stack.callback(writer.close)
            writer.write(said)
        await until(lambda: keeper.turned_away["admin", "address"] == 6)
        for _ in range(10):
            assert (await http.get("/healthz")).text == "ok\n"
        assert keeper.turned_away["admin", "address"] == 7, "one place for one connection that is kept"


@pytest.mark.req("SEC-04")
@pytest.mark.parametrize("said", [b"", HALF, HALF + b"\r\n" + HALF, (HALF + b"\r\n") * 3 + HALF])
async def test_a_request_has_to_come_whole_within_a_time(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    """The first, and any later one, byte by byte or behind others; an idle connection may stay longer."""
    monkeypatch.setattr(weft.doors.http, "REQUEST_S_MAX", 0.2)

    door = Doorkeeper().door("admin", http_limits(4), apart=True)
    async with serving(View(), door) as http, asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
        writer.write(said)
        with suppress(ConnectionError):
            while await reader.read(4096):
                writer.write(b"x: y\r\n")  # so that it is not idle
        writer.close()
        await until(lambda: door.connections == 0)


@pytest.mark.req("SEC-04")
async def test_what_strangers_say_is_not_logged_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(View()) as http, asyncio.timeout(WAIT_S):
        for said in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
            writer.write(said)
            assert (await reader.read(4096)).startswith(b"HTTP/1.1 400")
            writer.close()
    assert caplog.records == []


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_signals_stay_with_the_node() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serving(View()):
        assert signal.getsignal(signal.SIGTERM) is before
