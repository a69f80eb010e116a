"""Both ends of a call: who waits for whom, who may stop when, and what the other end hears of it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from tests.transport.http2.stories import (
    ECHO,
    ECHOING,
    RawPeer,
    channel_to,
    echo,
    on_both_loops,
    raw_peer,
    raw_server,
    serving,
    until,
)
from weft.transport.grpc.calls import DETAILS_MAX, UNREAD_BYTES_MAX, UNSENT_BYTES_MAX, ClientCall, ServerCall
from weft.transport.grpc.channel import Channel
from weft.wire import rpc
from weft.wire.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
)
from weft.wire.http2.headers import encode_block
from weft.wire.rpc import RpcError, StatusCode

PIECE = bytes(256 << 10)


async def write_until_full(write: Callable[[bytes], Awaitable[None]]) -> tuple[asyncio.Task[None], list[int]]:
    """Write until it waits: that write, and how many were done before it."""
    done = [0]

    async def go_on() -> None:
        while True:
            await write(PIECE)
            done[0] += 1

    writing = asyncio.create_task(go_on())
    before = -1
    while done[0] != before:
        before = done[0]
        await asyncio.sleep(0.1)
    return writing, done


async def failure(waiting: Awaitable[object]) -> RpcError:
    with pytest.raises(RpcError) as found:
        await waiting
    return found.value


# --- who waits for whom -----------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_writer_waits_for_a_reader_that_takes_its_time() -> None:
    go_on = asyncio.Event()
    received = 0

    async def slow(call: ServerCall) -> None:
        nonlocal received
        call.widen()
        await go_on.wait()
        while (message := await call.read()) is not None:
            received += len(message)

    async with serving({ECHO: slow, "/other": echo}) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        writing, done = await write_until_full(call.write)
        sent = done[0] * len(PIECE)
        assert sent < 2 * UNREAD_BYTES_MAX + 4 * UNSENT_BYTES_MAX, "unread there, in the window and unsent here"
        assert await channel.unary("/other", b"others are not held up") == b"others are not held up"
        go_on.set()
        await until(lambda: done[0] >= 200)
        writing.cancel()
        call.end()
        assert await call.read() is None
        assert received >= 200 * len(PIECE)


@on_both_loops
async def test_a_handler_waits_for_a_client_that_takes_its_time() -> None:
    done = 0

    async def pour(call: ServerCall) -> None:
        nonlocal done
        for _ in range(200):
            await call.write(PIECE)
            done += 1

    async with serving({ECHO: pour}) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        before = -1
        while done != before:
            before = done
            await asyncio.sleep(0.1)
        assert done * len(PIECE) < 2 * UNREAD_BYTES_MAX + 4 * UNSENT_BYTES_MAX
        received = 0
        while await call.read() is not None:
            received += 1
        assert received == done == 200


@on_both_loops
async def test_messages_that_waited_are_delivered_and_make_room() -> None:
    """Without room for more, the sender would wait for ever."""
    go_on = asyncio.Event()
    taken = 0

    async def later(call: ServerCall) -> None:
        nonlocal taken
        call.widen()
        await go_on.wait()

        def take(message: bytes) -> None:
            nonlocal taken
            taken += 1

        call.deliver_to(take)
        assert await call.read() is None

    async with serving({ECHO: later}) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        writing, done = await write_until_full(call.write)
        go_on.set()
        await until(lambda: done[0] >= 100)
        writing.cancel()
        call.end()
        assert await call.read() is None
        assert taken >= 100


@on_both_loops
@pytest.mark.req("SEC-05")
async def test_a_hold_lasts_that_is_asked_for_while_messages_that_waited_are_delivered() -> None:
    """A client that sends at once with its first message must not get around what the node takes at a time."""
    held: list[bool] = []

    async def overwhelmed(call: ServerCall) -> None:
        call.widen()
        await until(lambda: len(call._unread) == 2)
        call.deliver_to(lambda message: call.hold() if message == b"too much" else None)
        held.append(call._stream.held)
        call.release()
        held.append(call._stream.held)

    async with serving({ECHO: overwhelmed}) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        await call.write(b"too much")
        await call.write(b"more")
        assert await call.read() is None
    assert held == [True, False]


@on_both_loops
async def test_who_is_cancelled_while_reading_or_writing_does_no_harm() -> None:
    async with serving(ECHOING) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        received: list[bytes | None] = []
        for number in range(20):
            reading = asyncio.create_task(call.read())
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                received.append(reading.result())
            call.write_nowait(b"%d" % number)
        received += [await call.read() for _ in range(20 - len(received))]
        assert received == [b"%d" % number for number in range(20)]


@on_both_loops
async def test_a_message_is_not_lost_to_a_reader_that_is_cancelled_when_it_comes() -> None:
    async with serving(ECHOING) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        reading = asyncio.create_task(call.read())
        await asyncio.sleep(0)
        call.on_message(b"x")
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert await call.read() == b"x"


@on_both_loops
async def test_one_reader_at_a_time() -> None:
    async with serving(ECHOING) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        reading = asyncio.create_task(call.read())
        await asyncio.sleep(0)
        with pytest.raises(AssertionError, match="somebody else reads"):
            await call.read()
        await call.write(b"x")
        assert await reading == b"x"


# --- a write that waits, and a call that ends -------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["status", "ok", "cancel", "deadline", "connection"])
@on_both_loops
async def test_a_write_that_waits_hears_of_the_end(end: str) -> None:
    go_on = asyncio.Event()

    async def never_read(call: ServerCall) -> None:
        call.widen()
        await go_on.wait()
        if end == "status":
            raise RpcError(StatusCode.PERMISSION_DENIED, "not here")

    async with serving({ECHO: never_read}) as place, place.channel() as channel:
        call = await channel.call(ECHO, timeout_s=1.0 if end == "deadline" else None)
        writing, _ = await write_until_full(call.write)
        match end:
            case "cancel":
                call.cancel()
            case "connection":
                (await channel.connect()).abort("the test wants it")
            case "deadline":
                pass
            case _:
                go_on.set()
        error = await failure(writing)
        wanted = {
            "status": (StatusCode.PERMISSION_DENIED, "not here"),
            "ok": (StatusCode.CANCELLED, "the call is over"),
            "cancel": (StatusCode.CANCELLED, "cancelled by this side"),
            "deadline": (StatusCode.DEADLINE_EXCEEDED, "no answer within 1 s"),
            "connection": (StatusCode.UNAVAILABLE, "the test wants it"),
        }
        assert (error.status, error.details) == wanted[end]
        assert (await failure(call.write(b"more"))).status is error.status
        await until(lambda: place.server.calls == 0)


@pytest.mark.parametrize("end", ["reset", "deadline", "connection"])
@on_both_loops
async def test_a_handler_that_writes_and_waits_is_cancelled_with_the_call(end: str) -> None:
    told: list[BaseException] = []

    async def pour(call: ServerCall) -> None:
        try:
            while True:
                await call.write(PIECE)
        except BaseException as error:
            told.append(error)
            raise

    async with serving({ECHO: pour}) as place, place.channel() as channel:
        call = await call_with_deadline_of_server(channel, 0.5 if end == "deadline" else 3600.0)
        await until(lambda: call._unread_bytes > UNREAD_BYTES_MAX)
        if end == "reset":
            call.cancel()
        elif end == "connection":
            (await channel.connect()).abort("the test wants it")
        await until(lambda: place.server.calls == 0)
        assert all(isinstance(each, asyncio.CancelledError) for each in told)


@on_both_loops
async def test_another_writer_of_a_handler_that_has_returned_hears_of_it() -> None:
    errors: list[RpcError] = []

    async def leave_one_behind(call: ServerCall) -> None:
        async def pour() -> None:
            try:
                while True:
                    await call.write(PIECE)
            except RpcError as error:
                errors.append(error)

        pouring.append(asyncio.create_task(pour()))
        await until(lambda: call.unsent_bytes > UNSENT_BYTES_MAX)

    pouring: list[asyncio.Task[None]] = []
    async with serving({ECHO: leave_one_behind}) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        await until(lambda: pouring)
        await asyncio.wait(pouring)
        assert [error.details for error in errors] == ["the call is over"]
        while await call.read() is not None:
            pass


# --- deadlines --------------------------------------------------------------------------------------------------------


async def call_with_deadline_of_server(channel: Channel, timeout_s: float) -> ClientCall:
    """Our own end does not keep it, so what comes is the server's doing."""
    headers = rpc.request_headers(ECHO, "x", "http", "weft", timeout_s, ())
    return ClientCall(await channel.connect(), headers, None)


@on_both_loops
async def test_a_server_keeps_the_deadline_after_the_client_has_sent_everything() -> None:
    cancelled = asyncio.Event()

    async def slow(call: ServerCall) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with serving({ECHO: slow}) as place, place.channel() as channel:
        call = await call_with_deadline_of_server(channel, 0.05)
        call.write_nowait(b"all of it")
        call.end()
        error = await failure(call.read())
        assert (error.status, error.details) == (StatusCode.DEADLINE_EXCEEDED, "the caller's deadline has passed")
        await cancelled.wait()


@on_both_loops
async def test_what_waits_for_a_caller_that_does_not_read_is_dropped_at_its_deadline() -> None:
    """The handler has returned. A good status must not end a stream that lacks messages."""

    async def pour(call: ServerCall) -> None:
        for _ in range(64):
            call.write_nowait(PIECE)

    async with serving({ECHO: pour}) as place, place.channel() as channel:
        call = await call_with_deadline_of_server(channel, 0.3)
        await until(lambda: call.done)
        count = 0
        with pytest.raises(RpcError) as found:
            while await call.read() is not None:
                count += 1
        assert count < 64
        assert found.value.status is StatusCode.CANCELLED


@pytest.mark.parametrize("end", ["deadline", "stop"])
@on_both_loops
async def test_no_status_comes_within_a_message(end: str) -> None:
    """A caller that gets half of a message, and then how the call ended, would blame the protocol."""

    async def pour(call: ServerCall) -> None:
        await call.write(bytes(4 << 20))

    async with serving({ECHO: pour}) as place, raw_peer(place.port) as peer:
        request = rpc.request_headers(ECHO, "x", "http", "weft", 0.3 if end == "deadline" else None, ())
        peer.send(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, encode_block(request)))
        kinds: list[int] = []
        size = 0
        while len(kinds) < 20:
            head = await peer.reader.read(9)
            if not head:
                break
            size += len(await peer.reader.readexactly(int.from_bytes(head[:3]))) if head[3] == DATA else 0
            if head[3] != DATA:
                await peer.reader.readexactly(int.from_bytes(head[:3]))
            kinds.append(head[3])
            if size == 65_535 and end == "stop":
                size += 1
                await place.server.stop(0.0)
            if head[3] == RST_STREAM:
                break
        assert kinds.count(HEADERS) == 1, "those of the answer"
        assert kinds[-1] == (RST_STREAM if end == "deadline" else GOAWAY)


@on_both_loops
async def test_a_call_is_forgotten_long_before_its_deadline() -> None:
    """Callers may give any: a server that remembers calls until then could be filled up."""
    seen: list[weakref.ref[ServerCall]] = []

    async def look(call: ServerCall) -> None:
        seen.append(weakref.ref(call))
        if len(seen) % 2:
            raise RpcError(StatusCode.NOT_FOUND, "no")
        call.write_nowait(PIECE)

    async with serving({ECHO: look}) as place, place.channel() as channel:
        for number in range(20):
            call = await call_with_deadline_of_server(channel, 3600.0 * 9999)
            if number % 3:
                call.end()
            with pytest.raises(RpcError) if not number % 2 else memoryview(b""):
                while await call.read() is not None:
                    pass
        await until(lambda: place.server.calls == 0)
        del call
        for _ in range(3):
            await asyncio.sleep(0)
            gc.collect()
        assert [each() for each in seen] == [None] * 20


@on_both_loops
async def test_a_client_keeps_its_deadline_by_itself() -> None:
    async def say_nothing(peer: RawPeer) -> None:
        peer.send(frame(SETTINGS, 0, 0))
        await peer.until_closed()

    async with raw_server(say_nothing) as port, channel_to("127.0.0.1", port) as channel:
        error = await failure(channel.unary(ECHO, b"x", timeout_s=0.1))
        assert error.status is StatusCode.DEADLINE_EXCEEDED


@on_both_loops
async def test_a_connection_may_break_when_a_deadline_is_now() -> None:
    """uvloop's timers for at once are no timers: they do not know when they are due."""

    async with serving(ECHOING) as place, place.channel() as channel:
        first = await channel.call(ECHO)  # connected
        headers = rpc.request_headers(ECHO, "x", "http", "weft", 0.0, ())
        call = ClientCall(first._endpoint, headers, timeout_s=0.0)
        call.on_reset(8, "broken")
        assert call.error is not None
        assert call.error.status is StatusCode.DEADLINE_EXCEEDED


# --- handlers ---------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_handler_may_end_a_call_in_any_way() -> None:
    async def fail(call: ServerCall) -> None:
        raise RpcError(StatusCode.NOT_FOUND, "nö\n100% ✓", [("why-bin", b"\x00\xff"), ("why", "so")])

    async def defect(call: ServerCall) -> None:
        raise ValueError("a secret")

    async def bad_metadata(call: ServerCall) -> None:
        raise RpcError(StatusCode.NOT_FOUND, "no", [("Not A Name", "x")])

    async def long_details(call: ServerCall) -> None:
        raise RpcError(StatusCode.NOT_FOUND, "x" * 100_000)

    async def after_a_message(call: ServerCall) -> None:
        call.send_initial([("first", "1")])
        await call.write(b"one")
        raise RpcError(StatusCode.ABORTED, "enough")

    handlers = {
        "/a": fail,
        "/b": defect,
        "/c": bad_metadata,
        "/d": long_details,
        "/e": after_a_message,
    }
    async with serving(handlers) as place, place.channel() as channel:
        error = await failure(channel.unary("/a", b"x"))
        assert (error.status, error.details) == (StatusCode.NOT_FOUND, "nö\n100% ✓")
        assert list(error.metadata) == [("why-bin", b"\x00\xff"), ("why", "so")]
        for path in ("/b", "/c"):
            error = await failure(channel.unary(path, b"x"))
            assert error.status is StatusCode.INTERNAL
            assert "secret" not in error.details
        assert [path for path, _ in place.reports.failed] == ["/b", "/c"]
        error = await failure(channel.unary("/d", b"x"))
        assert error.details == "x" * DETAILS_MAX
        call = await channel.call("/e")
        assert await call.read() == b"one"
        assert call.metadata == [("first", "1")]
        assert (await failure(call.read())).details == "enough"
        error = await failure(channel.unary("/nothing", b"x"))
        assert (error.status, error.details) == (StatusCode.UNIMPLEMENTED, "there is no method /nothing")


@on_both_loops
async def test_a_handler_may_return_before_the_client_has_sent_everything() -> None:
    async def first_only(call: ServerCall) -> None:
        call.widen()
        call.write_nowait(await call.read() or b"")

    async with serving({ECHO: first_only}) as place, place.channel() as channel:
        for _ in range(10):
            call = await channel.call(ECHO)
            for _ in range(20):
                call.write_nowait(PIECE)
            assert await call.read() == PIECE
            assert await call.read() is None
            call.end()
        assert await channel.unary(ECHO, b"and others go on") == b"and others go on"
        assert place.server.connections == 1


@pytest.mark.parametrize("when", ["unread", "read", "unknown"])
@on_both_loops
async def test_callers_that_are_turned_away_do_not_fill_the_connection(when: str) -> None:
    """Nobody has welcomed them, so there is one small window. What they sent is dropped, and counts no longer."""

    async def turn_away(call: ServerCall) -> None:
        if when == "read":
            assert await call.read() == bytes(2000)
        raise RpcError(StatusCode.UNAUTHENTICATED, "who are you?")

    async with serving({} if when == "unknown" else {ECHO: turn_away}) as place, place.channel() as channel:
        endpoint = await channel.connect()
        for _ in range(200):
            call = await channel.call(ECHO, timeout_s=20.0)
            call.write_nowait(bytes(2000))
            while call.unsent_bytes:
                await asyncio.sleep(0.001)
            error = await failure(call.read())
            assert error.status in (StatusCode.UNAUTHENTICATED, StatusCode.UNIMPLEMENTED)
        assert 1 << 14 < endpoint.http2.out.window < 1 << 16


@on_both_loops
async def test_calls_that_are_given_up_unread_do_not_fill_the_connection() -> None:
    async def never_read(call: ServerCall) -> None:
        call.widen()
        await asyncio.Event().wait()

    async with serving({"/never": never_read, ECHO: echo}) as place, place.channel() as channel:
        for _ in range(3):
            calls = [await channel.call("/never") for _ in range(8)]
            for call in calls:
                for _ in range(20):
                    call.write_nowait(PIECE)
            await until(lambda: sum(1 for each in place.server._calls.values() if each._unread_bytes > 1 << 20) > 1)
            for call in calls:
                call.cancel()
            await until(lambda: place.server.calls == 0)
        assert await channel.unary(ECHO, PIECE, timeout_s=20.0) == PIECE


# --- answers that are not gRPC ----------------------------------------------------------------------------------------


def answer(*blocks: bytes) -> Callable[[RawPeer], Awaitable[None]]:
    """A server that says this to the first call."""

    async def play(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peer.send(frame(SETTINGS, 0, 0))
        await peer.reader.readuntil(b"/test.Echo/Echo")
        for block in blocks:
            peer.send(block)
        await peer.until_closed()

    return play


def headers(*fields: tuple[str, str], end: bool = False) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), 1, encode_block(fields))


OK_HEADERS = headers((":status", "200"), ("content-type", "application/grpc"))


@pytest.mark.parametrize(
    ("blocks", "status", "details"),
    [
        ([headers((":status", "503"), end=True)], StatusCode.UNAVAILABLE, "HTTP status 503, not gRPC"),
        ([headers((":status", "404"), ("content-type", "text/html"))], StatusCode.UNIMPLEMENTED, "HTTP status 404"),
        ([headers((":status", "200"), ("content-type", "text/html"))], StatusCode.UNKNOWN, "'text/html', not gRPC"),
        ([OK_HEADERS, frame(DATA, END_STREAM, 1)], StatusCode.INTERNAL, "ended without a status"),
        ([OK_HEADERS, headers(("grpc-status", "x"), end=True)], StatusCode.INTERNAL, "grpc-status is not a number"),
        ([OK_HEADERS, headers(("grpc-status", "0"), end=True)], StatusCode.INTERNAL, "did not send one reply"),
        ([OK_HEADERS, frame(DATA, 0, 1, b"\x01\0\0\0\1x")], StatusCode.INTERNAL, "a compressed message, unasked"),
        ([OK_HEADERS, frame(DATA, 0, 1, b"\0\x7f\0\0\0")], StatusCode.RESOURCE_EXHAUSTED, "too large"),
        ([headers((":status", "200"))], StatusCode.UNKNOWN, "'nothing', not gRPC"),
    ],
)
@on_both_loops
async def test_an_answer_that_is_not_grpc_is_told_as_such(
    blocks: list[bytes], status: StatusCode, details: str
) -> None:
    async with raw_server(answer(*blocks)) as port, channel_to("127.0.0.1", port) as channel:
        error = await failure(channel.unary(ECHO, b"x"))
        assert error.status is status
        assert details in error.details


@on_both_loops
async def test_a_request_that_is_not_grpc_is_answered_in_http() -> None:
    async with serving(ECHOING) as place, place.channel() as channel:
        endpoint = await channel.connect()
        request = [(":method", "GET"), (":scheme", "http"), (":path", ECHO), (":authority", "x")]
        call = ClientCall(endpoint, request, None)
        error = await failure(call.read())
        assert error.details == "the answer is HTTP status 415, not gRPC"
        for bad in ([("grpc-timeout", "1x")], [("x-bin", "?")]):
            request = [*rpc.request_headers(ECHO, "x", "http", "weft", None, ()), *bad]
            assert (await failure(ClientCall(endpoint, request, None).read())).status is StatusCode.INTERNAL
        assert await channel.unary(ECHO, b"x") == b"x"
