"""A channel: dialling, waiting for a place, servers that go away and come back, and its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import (
    ECHO,
    ECHOING,
    PATIENCE_S,
    RawPeer,
    Reports,
    channel_to,
    closed_port,
    echo,
    on_both_loops,
    raw_server,
    serving,
    until,
)
from weft.transport.grpc.calls import ClientCall, ServerCall
from weft.transport.grpc.channel import Channel, ChannelSettings, Crowded, Unreachable
from weft.transport.grpc.server import Server, ServerSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.wire import rpc
from weft.wire.http2 import Http2Settings
from weft.wire.http2.frames import (
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    GOAWAY_HEAD,
    HEADERS,
    NUMBER_MAX,
    PREFACE,
    SETTING,
    SETTINGS,
    Setting,
    frame,
)
from weft.wire.http2.headers import encode_block
from weft.wire.rpc import RpcError, StatusCode

HOST = "127.0.0.1"
HASTY = ChannelSettings(connect_timeout_s=0.2)
ONE_AT_A_TIME = ServerSettings(EndpointSettings(Http2Settings(streams_max=1)))


async def failure(channel: Channel, timeout_s: float | None = None) -> RpcError:
    with pytest.raises(RpcError) as found:
        await channel.unary(ECHO, b"x", timeout_s=timeout_s)
    return found.value


@asynccontextmanager
async def serving_at(port: int) -> AsyncIterator[Server]:
    server = Server(ECHOING, ServerSettings(), Reports())
    server.bind(HOST, port)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0.0)


# --- dialling ---------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_channel_dials_when_it_is_first_used_and_once_for_all() -> None:
    async with serving(ECHOING) as place, place.channel() as channel:
        await asyncio.sleep(0.05)
        assert place.server.connections == 0
        assert await asyncio.gather(*[channel.unary(ECHO, b"%d" % i) for i in range(50)]) == [
            b"%d" % i for i in range(50)
        ]
        assert place.server.connections == 1


@on_both_loops
async def test_a_channel_says_why_there_is_no_connection() -> None:
    async def say_nothing(peer: RawPeer) -> None:
        await peer.until_closed()

    async def speak_http_1(peer: RawPeer) -> None:
        peer.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await peer.until_closed()

    async def hang_up(peer: RawPeer) -> None: ...

    async def refuse(peer: RawPeer) -> None:
        peer.send(frame(SETTINGS, 0, 0) + frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(0, 11) + b"not today"))
        await peer.writer.drain()

    with closed_port() as port:
        async with channel_to(HOST, port) as channel:
            error = await failure(channel)
            assert error.details == f"cannot connect: Connection refused (address {HOST}:{port})"
            assert error.status is StatusCode.UNAVAILABLE
            with pytest.raises(Unreachable, match="Connection refused"):
                await channel.connect()
    async with channel_to("nowhere.invalid", 1) as channel:
        assert "cannot connect: " in (await failure(channel)).details
    async with channel_to("x" * 300, 1) as channel:
        assert (await failure(channel)).status is StatusCode.UNAVAILABLE
    async with raw_server(say_nothing) as port, channel_to(HOST, port, HASTY) as channel:
        assert (await failure(channel)).details == f"nobody answers (address {HOST}:{port}, waited 0.2 s)"
    async with raw_server(speak_http_1) as port, channel_to(HOST, port) as channel:
        assert "the peer speaks HTTP/1, not HTTP/2" in (await failure(channel)).details
    async with raw_server(hang_up) as port, channel_to(HOST, port) as channel:
        assert "connection" in (await failure(channel)).details
    async with raw_server(refuse) as port, channel_to(HOST, port) as channel:
        error = await failure(channel)
        assert error.status is StatusCode.UNAVAILABLE


@on_both_loops
async def test_who_is_cancelled_while_dialling_does_not_cancel_it_for_others() -> None:
    answers: list[RawPeer] = []

    async def answer_later(peer: RawPeer) -> None:
        answers.append(peer)
        await peer.until_closed()

    async with raw_server(answer_later) as port, channel_to(HOST, port) as channel:
        waiting = [asyncio.create_task(channel.connect()) for _ in range(3)]
        await until(lambda: answers)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        assert waiting[0].cancelled()
        answers[0].send(frame(SETTINGS, 0, 0))
        first, second = await waiting[1], await waiting[2]
        assert first is second and len(answers) == 1


@on_both_loops
async def test_a_dial_that_nobody_waits_for_any_more_leaves_nothing_behind() -> None:
    """It fails later, and nobody is told; the test would be, of an exception that nobody took."""
    answers: list[RawPeer] = []

    async def answer_later(peer: RawPeer) -> None:
        answers.append(peer)
        await peer.reader.read(1 << 16)

    async with raw_server(answer_later) as port, channel_to(HOST, port) as channel:
        waiting = asyncio.create_task(channel.connect())
        await until(lambda: answers)
        waiting.cancel()
        await asyncio.wait([waiting])
        await until(lambda: channel._dialling is None)


@on_both_loops
async def test_dialling_and_waiting_count_against_the_deadline_of_a_call() -> None:
    async def say_nothing(peer: RawPeer) -> None:
        await peer.until_closed()

    async with raw_server(say_nothing) as port, channel_to(HOST, port) as channel:
        error = await failure(channel, timeout_s=0.1)
        assert error.status is StatusCode.DEADLINE_EXCEEDED
        assert error.details == "no connection with room for a call within 0.1 s"
    seen: list[float | None] = []

    async def look(call: ServerCall) -> None:
        seen.append(None if call._timer is None else call._timer.when() - asyncio.get_running_loop().time())

    async with serving({ECHO: look}, ONE_AT_A_TIME) as place, place.channel() as channel:
        with pytest.raises(RpcError):
            await channel.unary(ECHO, b"x", timeout_s=30.0)
        assert seen[0] is not None and 0 < seen[0] < 30.001  # times of the loop are rounded


# --- servers that go away ---------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_channel_comes_back_to_a_server_that_comes_back() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    async with channel_to(HOST, port) as channel:
        for _ in range(3):
            assert "Connection refused" in (await failure(channel)).details
            async with serving_at(port) as server:
                call = await channel.call(ECHO)
                await call.write(b"x")
                assert await call.read() == b"x"
                assert server.connections == 1
            with pytest.raises(RpcError) as found:
                await call.read()
            assert found.value.status is StatusCode.UNAVAILABLE


@on_both_loops
async def test_calls_under_way_end_on_the_connection_that_goes_away() -> None:
    """New ones get another, and the first is closed when its last call is over, whatever the server does."""
    peers: list[RawPeer] = []

    async def leave(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peers.append(peer)
        peer.send(frame(SETTINGS, 0, 0))
        await peer.until_closed()

    async with raw_server(leave) as port, channel_to(HOST, port) as channel:
        first = await channel.call(ECHO)
        second = await channel.call(ECHO)
        peers[0].send(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(NUMBER_MAX, 0)))
        await until(lambda: channel._current() is None)
        third = await channel.call(ECHO)
        assert len(peers) == 2 and len(channel._connections) == 2
        assert not (first.done or second.done or third.done)
        peers[0].send(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(1, 0)))
        with pytest.raises(RpcError, match="going away") as found:
            await second.read()
        assert found.value.status is StatusCode.UNAVAILABLE
        assert not first.done
        first.cancel()
        await until(lambda: len(channel._connections) == 1)
        assert not third.done


@on_both_loops
async def test_a_connection_that_goes_away_idle_is_closed() -> None:
    connected, ended = asyncio.Event(), asyncio.Event()

    async def leave(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peer.send(frame(SETTINGS, 0, 0))
        await connected.wait()
        peer.send(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(NUMBER_MAX, 0)))
        await peer.until_closed()
        ended.set()

    async with raw_server(leave) as port, channel_to(HOST, port) as channel:
        await channel.connect()
        connected.set()
        await ended.wait()
        await until(lambda: not channel._connections)


@on_both_loops
async def test_an_old_connection_that_breaks_does_not_hurt_a_dial_under_way() -> None:
    peers: list[RawPeer] = []

    async def leave(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peers.append(peer)
        if len(peers) == 1:
            peer.send(frame(SETTINGS, 0, 0))
        await peer.until_closed()

    async with raw_server(leave) as port, channel_to(HOST, port) as channel:
        first = await channel.call(ECHO)
        peers[0].send(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(NUMBER_MAX, 0)))
        await until(lambda: channel._current() is None)
        dialling = asyncio.create_task(channel.connect())
        await until(lambda: len(peers) == 2)
        peers[0].writer.transport.abort()
        await until(lambda: first.done)
        assert not dialling.done()
        peers[1].send(frame(SETTINGS, 0, 0))
        assert (await dialling).takes_streams


@on_both_loops
async def test_a_connection_without_numbers_for_streams_is_followed_by_another() -> None:
    async with serving(ECHOING) as place, place.channel() as channel:
        first = await channel.connect()
        first.http2._next_id = NUMBER_MAX
        last = await channel.call(ECHO)
        await last.write(b"x")
        assert await channel.unary(ECHO, b"y") == b"y"
        assert place.server.connections == 2
        assert await last.read() == b"x"
        last.end()
        assert await last.read() is None
        await until(lambda: place.server.connections == 1)


# --- waiting for the server to allow one more -------------------------------------------------------------------------


@on_both_loops
async def test_calls_wait_for_their_turn_in_order() -> None:
    order: list[int] = []

    async def ask(channel: Channel, number: int) -> None:
        await channel.unary(ECHO, b"x")
        order.append(number)

    async with serving(ECHOING, ONE_AT_A_TIME) as place, place.channel() as channel:
        first = await channel.call(ECHO)
        waiting = []
        for number in range(20):
            waiting.append(asyncio.create_task(ask(channel, number)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert not order
        first.cancel()
        await asyncio.gather(*waiting)
        assert order == list(range(20))
        assert not channel._queue


@on_both_loops
async def test_who_is_cancelled_in_the_queue_passes_its_turn_on() -> None:
    """At any moment: while it waits, or when its turn has just come."""
    async with serving(ECHOING, ONE_AT_A_TIME) as place, place.channel() as channel:
        for moment in ("waits", "turn"):
            first = await channel.call(ECHO)
            waiting = [asyncio.create_task(channel.unary(ECHO, b"%d" % number)) for number in range(4)]
            await until(lambda: len(channel._queue) == 4)
            if moment == "turn":
                first.cancel()
                waiting[0].cancel()
            else:
                waiting[0].cancel()
                waiting[2].cancel()
                await asyncio.sleep(0)
                first.cancel()
            done = await asyncio.gather(*waiting, return_exceptions=True)
            cancelled = [isinstance(each, asyncio.CancelledError) for each in done]
            assert cancelled == ([True, False, False, False] if moment == "turn" else [True, False, True, False])
            assert not channel._queue


@on_both_loops
async def test_a_queue_of_cancelled_calls_holds_up_nobody() -> None:
    async with serving(ECHOING, ONE_AT_A_TIME) as place, place.channel() as channel:
        first = await channel.call(ECHO)
        error = await failure(channel, timeout_s=0.05)
        assert error.status is StatusCode.DEADLINE_EXCEEDED
        first.cancel()
        assert await channel.unary(ECHO, b"x") == b"x"


@on_both_loops
async def test_who_cannot_begin_when_its_turn_comes_passes_it_on() -> None:
    async with serving(ECHOING, ONE_AT_A_TIME) as place, place.channel() as channel:
        first = await channel.call(ECHO)
        bad = asyncio.create_task(channel.unary(ECHO, b"x", metadata=[("Not A Name", "x")]))
        await until(lambda: len(channel._queue) == 1)
        good = asyncio.create_task(channel.unary(ECHO, b"x"))
        await until(lambda: len(channel._queue) == 2)
        first.cancel()
        assert await good == b"x"
        with pytest.raises(AssertionError, match="metadata"):
            await bad


@on_both_loops
async def test_a_server_may_allow_more_later() -> None:
    peers: list[RawPeer] = []

    def allow(count: int) -> bytes:
        return frame(SETTINGS, 0, 0, SETTING.pack(Setting.MAX_CONCURRENT_STREAMS, count))

    async def generous(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peers.append(peer)
        peer.send(allow(0))
        await peer.until_closed()

    async with raw_server(generous) as port, channel_to(HOST, port) as channel:
        waiting = [asyncio.create_task(channel.call(ECHO)) for _ in range(5)]
        await until(lambda: len(channel._queue) == 5)
        peers[0].send(allow(3))
        await until(lambda: len(channel._queue) == 2)
        for each in waiting[:3]:
            await each
        peers[0].send(allow(100))
        for each in waiting:
            await each


@on_both_loops
async def test_many_calls_share_few_places() -> None:
    settings = ServerSettings(EndpointSettings(Http2Settings(streams_max=7)))
    async with serving(ECHOING, settings) as place, place.channel() as channel:
        found = await asyncio.gather(*[channel.unary(ECHO, b"%d" % number) for number in range(500)])
        assert found == [b"%d" % number for number in range(500)]
        assert place.server.connections == 1


@on_both_loops
@pytest.mark.req("SEC-05")
async def test_streams_that_stay_open_leave_places_for_calls_and_one_too_many_is_refused() -> None:
    settings = ServerSettings(EndpointSettings(Http2Settings(streams_max=16)))
    async with serving(ECHOING, settings) as place, place.channel() as channel:
        begun = await asyncio.gather(*(channel.stream(ECHO) for _ in range(20)), return_exceptions=True)
        streams = [each for each in begun if isinstance(each, ClientCall)]
        refused = [each for each in begun if isinstance(each, BaseException)]
        assert len(streams) == 14 and len(refused) == 6
        assert all(isinstance(each, Crowded) and "has 14 streams open" in str(each) for each in refused)
        assert await channel.unary(ECHO, b"there is room for calls") == b"there is room for calls"
        streams.pop().cancel()
        streams.append(await channel.stream(ECHO))
        for each in streams:
            each.cancel()


# --- calls ------------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_call_that_is_cancelled_is_cancelled_at_the_server() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def slow(call: ServerCall) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with serving({ECHO: slow}) as place, place.channel() as channel:
        asking = asyncio.create_task(channel.unary(ECHO, b"x"))
        await begun.wait()
        asking.cancel()
        await cancelled.wait()
        await asyncio.wait([asking])
        assert asking.cancelled()


@on_both_loops
async def test_a_reply_is_one_message() -> None:
    async def none(call: ServerCall) -> None: ...

    async def two(call: ServerCall) -> None:
        await call.write(b"1")
        await call.write(b"2")

    async def one_then_failure(call: ServerCall) -> None:
        await call.write(b"1")
        raise RpcError(StatusCode.ABORTED, "after all, no")

    async with serving({"/none": none, "/two": two, "/fail": one_then_failure}) as place:
        async with place.channel() as channel:
            for path in ("/none", "/two"):
                with pytest.raises(RpcError, match="did not send one reply") as found:
                    await channel.unary(path, b"x")
                assert found.value.status is StatusCode.INTERNAL
            with pytest.raises(RpcError, match="after all, no"):
                await channel.unary("/fail", b"x")
        await until(lambda: place.server.calls == 0)


@on_both_loops
async def test_a_call_that_was_refused_unseen_is_made_again() -> None:
    """By a server that goes away (twice), but not for ever."""
    asked = refusals = 0

    async def refuse(peer: RawPeer) -> None:
        nonlocal asked
        await peer.reader.readexactly(len(PREFACE))
        peer.send(frame(SETTINGS, 0, 0))
        await peer.reader.readuntil(ECHO.encode())
        asked += 1
        if asked < refusals + 1:
            peer.send(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(0, 0)))
        else:
            peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_block(rpc.trailers(StatusCode.OK, "", ()))))
        await peer.until_closed()

    for more, wanted in ((2, StatusCode.INTERNAL), (9, StatusCode.UNAVAILABLE)):
        asked, refusals = 0, more
        async with raw_server(refuse) as port, channel_to(HOST, port) as channel:
            assert (await failure(channel)).status is wanted
            assert asked == 3


# --- the end ----------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_channel_that_is_closed_ends_its_calls_and_has_no_more() -> None:
    async with serving({ECHO: echo}, ONE_AT_A_TIME) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        waiting = asyncio.create_task(channel.unary(ECHO, b"x"))
        await until(lambda: channel._queue)
        channel.close()
        for ended in (call.read(), waiting, channel.unary(ECHO, b"x")):
            with pytest.raises(RpcError, match="the channel was closed") as found:
                await ended
            assert found.value.status is StatusCode.UNAVAILABLE
        await channel.wait_closed()
        await until(lambda: place.server.connections == 0)


@on_both_loops
async def test_a_channel_may_be_closed_while_it_dials() -> None:
    async def say_nothing(peer: RawPeer) -> None:
        await peer.until_closed()

    async with raw_server(say_nothing) as port:
        channel = Channel(HOST, port, ChannelSettings())
        at_once = asyncio.create_task(channel.unary(ECHO, b"x"))
        await asyncio.sleep(0)
        channel.close()
        with pytest.raises(RpcError, match="the channel was closed"):
            await at_once
        channel = Channel(HOST, port, ChannelSettings())
        waiting = asyncio.create_task(channel.unary(ECHO, b"x"))
        await until(lambda: channel._connections)
        channel.close()
        with pytest.raises(RpcError, match="the channel was closed"):
            await waiting
        async with asyncio.timeout(PATIENCE_S):
            await channel.wait_closed()


@on_both_loops
async def test_a_channel_closes_connections_that_go_away_too() -> None:
    async def leave(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peer.send(frame(SETTINGS, 0, 0) + frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(NUMBER_MAX, 0)))
        await peer.until_closed()

    async def stay(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peer.send(frame(SETTINGS, 0, 0))
        await peer.reader.readuntil(b"/test.Echo/Echo")
        peer.send(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(NUMBER_MAX, 0)))
        await peer.until_closed()

    async with raw_server(stay) as port:
        channel = Channel(HOST, port, ChannelSettings())
        call = await channel.call(ECHO)
        await until(lambda: channel._current() is None)
        channel.close()
        with pytest.raises(RpcError, match="the channel was closed"):
            await call.read()
        await channel.wait_closed()
    async with raw_server(leave) as port:
        channel = Channel(HOST, port, ChannelSettings())
        assert (await failure(channel)).status is StatusCode.UNAVAILABLE
        channel.close()
        await channel.wait_closed()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
@on_both_loops
async def test_a_dial_may_be_ended_at_any_moment(secured: bool, certificates: Certificates) -> None:
    """Not every event loop says that a connection is lost which is cancelled while it is made."""
    server_tls, tls = (certificates.server(), certificates.client()) if secured else (None, None)
    async with serving(ECHOING, tls=server_tls) as place:
        for moment in range(16):
            async with place.channel(tls=tls) as channel:
                connecting = asyncio.create_task(channel.connect())
                for _ in range(moment):
                    await asyncio.sleep(0)
                channel.close()
                await asyncio.wait([connecting])
                connecting.exception()
                async with asyncio.timeout(PATIENCE_S):
                    await channel.wait_closed()
        await until(lambda: place.server.connections == 0)


@on_both_loops
async def test_a_server_may_be_stopped_at_any_moment_of_a_dial() -> None:
    for moment in range(16):
        async with serving(ECHOING) as place, place.channel() as channel:
            connecting = asyncio.create_task(channel.connect())
            for _ in range(moment):
                await asyncio.sleep(0)
            await place.server.stop(0.0)
            assert place.server.connections == 0
            await asyncio.wait([connecting])
            connecting.exception()
