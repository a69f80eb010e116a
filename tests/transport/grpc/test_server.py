"""Who is let in, for how long, and how a server ends."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import (
    ECHO,
    ECHOING,
    PATIENCE_S,
    Reports,
    channel_to,
    echo,
    on_both_loops,
    raw_peer,
    serving,
    until,
)
from weft.errors import UsageError
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.server import ENDINGS_MAX, Server, ServerSettings, _Beginnings, _Endings
from weft.wire.http2.frames import HEADERS, PREFACE, SETTINGS, frame
from weft.wire.rpc import RpcError, StatusCode

HOST = "127.0.0.1"
OPENING = PREFACE + frame(SETTINGS, 0, 0)


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (ServerSettings(connections_max=2, grace_s=PATIENCE_S), "too many connections (limit 2)"),
        (
            ServerSettings(connections_of_host_max=2, grace_s=PATIENCE_S),
            "too many connections from one address (limit 2)",
        ),
    ],
)
@on_both_loops
async def test_connections_are_bounded_and_make_room_when_they_end(settings: ServerSettings, reason: str) -> None:
    async with (
        serving(ECHOING, settings) as place,
        place.channel() as first,
        place.channel() as second,
        place.channel() as third,
    ):
        for channel in (first, second):
            assert await channel.unary(ECHO, b"x") == b"x"
        with pytest.raises(RpcError, match="connection"):
            await third.unary(ECHO, b"x")
        assert place.reports.refused == [(HOST, reason)]
        second.close()
        await until(lambda: place.server.connections == 1)
        assert await third.unary(ECHO, b"x") == b"x"


@on_both_loops
async def test_handshakes_count_as_connections(certificates: Certificates) -> None:
    settings = ServerSettings(connections_max=1, grace_s=PATIENCE_S)
    async with serving(ECHOING, settings, certificates.server()) as place:
        async with raw_peer(place.port):
            await until(lambda: place.server.connections == 1)
            async with place.channel(tls=certificates.client()) as channel:
                with pytest.raises(RpcError):
                    await channel.unary(ECHO, b"x")
        await until(lambda: place.server.connections == 0)
        async with place.channel(tls=certificates.client()) as channel:
            assert await channel.unary(ECHO, b"x") == b"x"


@on_both_loops
async def test_other_hosts_have_bounds_of_their_own() -> None:
    """All of 127.0.0.0/8 is here."""
    async with serving(ECHOING, ServerSettings(connections_of_host_max=1), host="0.0.0.0") as place:
        async with raw_peer(place.port):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, HOST, place.port, local_addr=("127.0.0.2", 0))
            await until(lambda: place.server.connections == 2)
            transport.close()
        await until(lambda: place.server.connections == 0)
        assert not place.reports.reasons


@on_both_loops
async def test_a_first_request_has_a_deadline() -> None:
    """Whether there is nothing, half of a request, or byte after byte of it. Afterwards there is none."""
    settings = ServerSettings(first_request_timeout_s=0.3)
    async with serving(ECHOING, settings) as place, place.channel() as channel:
        call = await channel.call(ECHO)

        async def drip() -> None:
            for byte in OPENING + frame(HEADERS, 0, 1, bytes(1000)):
                slow.send(bytes([byte]))
                await asyncio.sleep(0.005)

        async with raw_peer(place.port) as silent, raw_peer(place.port) as half, raw_peer(place.port) as slow:
            half.send(OPENING + frame(HEADERS, 0, 1, b"\x83"))
            dripping = asyncio.create_task(drip())
            for peer in (silent, half, slow):
                assert b"no request within 0.3 s" in await peer.until_closed()
            dripping.cancel()
        await until(lambda: place.server.connections == 1)
        assert place.reports.dropped == [(HOST, "no request within 0.3 s")] * 3
        await call.write(b"x")
        assert await call.read() == b"x"


@pytest.mark.req("SEC-04")
@on_both_loops
async def test_whoever_is_never_welcome_has_to_go_and_others_stay() -> None:
    """Calls that are refused keep no connection open, however often they are made."""

    async def welcome(call: ServerCall) -> None:
        call.widen()
        await echo(call)

    async def refuse(call: ServerCall) -> None:
        raise RpcError(StatusCode.UNAUTHENTICATED, "who are you?")

    settings = ServerSettings(stranger_timeout_s=0.5)
    async with (
        serving({ECHO: welcome, "/test/Refuse": refuse}, settings) as place,
        place.channel() as known,
        place.channel() as stranger,
    ):
        call = await known.call(ECHO)
        await call.write(b"x")
        assert await call.read() == b"x"
        with pytest.raises(RpcError, match="who are you"):
            await stranger.unary("/test/Refuse", b"x")
        await until(lambda: place.reports.refused == [(HOST, "no authentication within 0.5 s")])
        await until(lambda: place.server.connections == 1)
        await call.write(b"y")
        assert await call.read() == b"y"
        assert not place.reports.dropped


@pytest.mark.req("SEC-04")
@pytest.mark.parametrize("secured", [False, True])
@on_both_loops
async def test_an_idle_crowd_of_the_same_address_keeps_nobody_out(certificates: Certificates, secured: bool) -> None:
    async def welcome(call: ServerCall) -> None:
        call.widen()
        await echo(call)

    settings = ServerSettings(strangers_of_host_max=8, grace_s=0.0)
    tls = certificates.server() if secured else None
    async with serving({ECHO: welcome}, settings, tls) as place, AsyncExitStack() as stack:
        for _ in range(20):
            await stack.enter_async_context(raw_peer(place.port))
        await until(lambda: len(place.reports.refused) == 12)
        for _ in range(10):
            channel = await stack.enter_async_context(place.channel(tls=certificates.client() if secured else None))
            assert await channel.unary(ECHO, b"x") == b"x"
        reason = "too many unauthenticated connections from one address (limit 8)"
        assert place.reports.refused[:12] == [(HOST, reason)] * 12


@on_both_loops
async def test_a_server_without_descriptors_waits_for_some() -> None:
    async with serving(ECHOING) as place:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        sockets = [socket.socket() for _ in range(3)]
        lowest = max(each.fileno() for each in sockets)
        used = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
        sockets += [socket.socket() for _ in range(lowest + 1 - len(used & set(range(lowest + 1))))]
        peers = [socket.socket() for _ in range(2)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(each.fileno() for each in peers) + 1, before[1]))
            for peer in peers:
                peer.setblocking(False)
                await asyncio.get_running_loop().sock_connect(peer, (HOST, place.port))
            await until(lambda: place.reports.refused)
            assert place.reports.refused[0] == ("", "cannot accept connections: Too many open files")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for each in sockets + peers:
                each.close()
        async with place.channel() as channel:
            assert await channel.unary(ECHO, b"x") == b"x"


# --- addresses --------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_it_listens_on_ipv6_and_on_both() -> None:
    seen: list[tuple[str, str]] = []

    async def look(call: ServerCall) -> None:
        seen.append((call.host, call.peer.rpartition(":")[0]))
        await echo(call)

    for listen, dials in (("::1", ["::1"]), ("::", ["::1", "127.0.0.1"])):
        async with serving({ECHO: look}, host=listen) as place:
            for dial in dials:
                async with place.channel(host=dial) as channel:
                    assert await channel.unary(ECHO, b"x") == b"x"
    assert seen == [("::1", "[::1]"), ("::1", "[::1]"), ("127.0.0.1", "127.0.0.1")]


@on_both_loops
async def test_a_port_that_is_taken_is_a_mistake_of_the_caller() -> None:
    async with serving(ECHOING) as place:
        with pytest.raises(UsageError, match=f"cannot listen on {HOST} port {place.port}: Address already in use"):
            Server(ECHOING, ServerSettings(), Reports()).bind(HOST, place.port)
    with pytest.raises(UsageError, match=r"cannot listen on nowhere\.invalid port 0"):
        Server(ECHOING, ServerSettings(), Reports()).bind("nowhere.invalid", 0)


# --- the end ----------------------------------------------------------------------------------------------------------


class Act:
    """A handler that waits, and what became of it."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, call: ServerCall) -> None:
        try:
            call.send_initial()
            await self.go_on.wait()
            call.write_nowait(b"done")
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@on_both_loops
async def test_calls_may_end_while_the_server_stops_and_new_ones_go_elsewhere(certificates: Certificates) -> None:
    act = Act()
    async with (
        serving({ECHO: act}, tls=certificates.server()) as place,
        place.channel(tls=certificates.client()) as channel,
    ):
        call = await channel.call(ECHO)
        await until(lambda: place.server.calls == 1)
        stopping = asyncio.create_task(place.server.stop(PATIENCE_S))
        endpoint = await channel.connect()
        await until(lambda: endpoint.http2.gone_away is not None)
        with pytest.raises(RpcError, match="Connection refused") as found:
            await channel.unary(ECHO, b"x")
        assert found.value.status is StatusCode.UNAVAILABLE
        assert not stopping.done() and not call.done
        act.go_on.set()
        assert await call.read() == b"done"
        assert await call.read() is None
        await stopping
        assert place.server.connections == 0


@on_both_loops
async def test_calls_that_do_not_end_are_ended_after_the_grace() -> None:
    act = Act()
    async with serving({ECHO: act}) as place, place.channel() as channel:
        calls = [await channel.call(ECHO) for _ in range(3)]
        await until(lambda: place.server.calls == 3)
        await place.server.stop(0.1)
        assert place.server.connections == 0 and act.cancelled == 3
        for call in calls:
            with pytest.raises(RpcError, match="the server is stopping") as found:
                await call.read()
            assert found.value.status is StatusCode.UNAVAILABLE


@on_both_loops
async def test_a_stopping_server_waits_for_what_a_client_has_not_read_yet() -> None:
    """The handler has returned; the client's windows are full."""
    pieces = 64

    async def pour(call: ServerCall) -> None:
        for _ in range(pieces):
            call.write_nowait(bytes(256 << 10))

    async with serving({ECHO: pour}) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        call.end()
        await until(lambda: call._unread and not place.server.calls)
        stopping = asyncio.create_task(place.server.stop(PATIENCE_S))
        await asyncio.sleep(0.1)
        assert not stopping.done()
        received = 0
        while await call.read() is not None:
            received += 1
        assert received == pieces
        await stopping


@on_both_loops
async def test_idle_and_half_made_connections_do_not_hold_up_a_stop(certificates: Certificates) -> None:
    async with (
        serving(ECHOING, tls=certificates.server()) as place,
        raw_peer(place.port) as half,
        place.channel(tls=certificates.client()) as idle,
    ):
        half.send(b"\x16\x03\x01")
        assert await idle.unary(ECHO, b"x") == b"x"
        await until(lambda: place.server.connections == 2)
        async with asyncio.timeout(PATIENCE_S / 2):
            await place.server.stop(PATIENCE_S)
        assert not place.reports.reasons


@on_both_loops
async def test_a_client_that_ignores_everything_does_not_hold_up_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.transport.http2.endpoint.LINGER_S", 0.1)
    async with serving(ECHOING) as place, raw_peer(place.port) as peer:
        peer.send(OPENING)
        await until(lambda: place.server.connections == 1)
        await place.server.stop(0.1)
        assert place.server.connections == 0


@on_both_loops
async def test_a_stop_that_is_cancelled_still_ends_everything() -> None:
    act = Act()
    async with serving({ECHO: act}) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        await until(lambda: place.server.calls == 1)
        stopping = asyncio.create_task(place.server.stop(PATIENCE_S))
        await asyncio.sleep(0.05)
        stopping.cancel()
        await asyncio.wait([stopping])
        with pytest.raises(RpcError, match="the server is stopping"):
            while await call.read() is not None:
                pass
        await until(lambda: act.cancelled == 1)
        await until(lambda: place.server.connections == 0)
        with pytest.raises(RpcError, match="Connection refused"):
            await channel.unary(ECHO, b"x")


@on_both_loops
async def test_a_server_may_be_stopped_twice_or_before_it_started() -> None:
    async with serving(ECHOING) as place:
        await asyncio.gather(place.server.stop(0.1), place.server.stop(0.1))
    server = Server(ECHOING, ServerSettings(), Reports())
    port = server.bind(HOST, 0)
    await server.stop(1.0)
    async with channel_to(HOST, port) as channel:
        with pytest.raises(RpcError, match="Connection refused"):
            await channel.unary(ECHO, b"x")


@on_both_loops
async def test_a_handler_that_does_not_let_go_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.transport.grpc.server.CANCEL_S_MAX", 0.1)
    let_go = asyncio.Event()

    async def stubborn(call: ServerCall) -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    reports = Reports()
    server = Server({ECHO: stubborn}, ServerSettings(), reports)
    port = server.bind(HOST, 0)
    await server.start()
    async with channel_to(HOST, port) as channel:
        call = await channel.call(ECHO)
        await until(lambda: server.calls == 1)
        await server.stop(0.0)
        assert server.connections == 0 and server.calls == 1
        with pytest.raises(RpcError, match="the server is stopping"):
            await call.read()
        let_go.set()
        await until(lambda: server.calls == 0)


async def test_a_crowd_of_calls_begins_a_few_in_each_turn_of_the_loop_and_in_order() -> None:
    """One read may bring a thousand calls: others have their turn in between (SEC-05)."""

    beginnings, begun, turns = _Beginnings(3), list[int](), list[int]()
    turn = 0

    async def call(number: int) -> None:
        if not beginnings.take():
            await beginnings.wait()
        begun.append(number)
        turns.append(turn)

    calls = [asyncio.create_task(call(number)) for number in range(10)]
    calls[4].cancel()
    while not all(each.done() for each in calls):
        await asyncio.sleep(0)
        turn += 1
    assert begun == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert max(Counter(turns).values()) <= 3


@pytest.mark.req("SEC-05")
async def test_a_crowd_of_calls_ends_a_few_in_each_turn_of_the_loop_and_in_order() -> None:
    """A connection that breaks may have a thousand subscriptions: dropping them took 0.2 s in one turn."""

    endings, ended, turns = _Endings(3), list[int](), list[int]()
    turn = 0

    def end(number: int) -> None:
        ended.append(number)
        turns.append(turn)
        if number < 5:  # one that ends may end another
            endings.add(partial(end, 10 + number))

    for number in range(10):
        endings.add(partial(end, number))
    while len(ended) < 15:
        turn += 1
        await asyncio.sleep(0)
    assert sorted(ended) == list(range(15)) and ended[:3] == [0, 10, 1], "at once, as long as they are few"
    assert [number for number in ended if number < 10] == list(range(10))
    assert max(Counter(turns).values()) <= 3


@on_both_loops
async def test_handlers_of_a_connection_that_breaks_end_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, at_once = 0, list[int]()
    add = _Endings.add

    def counted(self: _Endings, end: Callable[[], None]) -> None:
        add(self, end)
        at_once.append(len(self._waiting))

    async def waits(call: ServerCall) -> None:
        nonlocal begun
        begun += 1
        await call.read()

    monkeypatch.setattr(_Endings, "add", counted)
    async with serving({ECHO: waits}) as place:
        async with place.channel() as channel:
            for _ in range(100):
                await channel.call(ECHO)
            await until(lambda: begun == 100)
        await until(lambda: place.server.calls == 0)
        assert len(at_once) == 100 and max(at_once) == 100 - ENDINGS_MAX


@pytest.mark.req("SEC-05")
@on_both_loops
async def test_the_task_of_a_call_goes_with_its_end() -> None:
    """In a cycle with its call it waited for a search for garbage, which took long when thousands had ended."""
    tasks: list[weakref.ref[asyncio.Task[None]]] = []

    async def noted(call: ServerCall) -> None:
        assert call.task is not None
        tasks.append(weakref.ref(call.task))
        await echo(call)

    gc.disable()
    try:
        async with serving({ECHO: noted}) as place, place.channel() as channel:
            assert await channel.unary(ECHO, b"x") == b"x"
            await until(lambda: tasks[0]() is None)
    finally:
        gc.enable()
