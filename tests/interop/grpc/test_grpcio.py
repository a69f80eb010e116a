"""grpcio, in both directions, plain and with mTLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from tests.interop.grpc.echo import DETAILS, LARGEST_BYTES, PATH, WHY, check_all, handlers
from tests.interop.grpc.foreign import CHECK_S_MAX
from tests.interop.grpc.grpcio_peer import grpcio_channel, grpcio_server
from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import Place, channel_to, on_loop, serving, until
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.channel import ChannelSettings
from weft.transport.grpc.server import ServerSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.wire.http2 import CLIENT_SETTINGS, Http2Settings
from weft.wire.rpc import RpcError, StatusCode

SECURITY = pytest.mark.parametrize("secured", [False, True], ids=["plain", "mtls"])
Check = Callable[[Any], Coroutine[Any, Any, None]]


async def refused(call: Any, code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as found:
        await call
    assert found.value.code() is code, found.value.details()
    return found.value


def unary(channel: Any, method: str) -> Any:
    return channel.unary_unary(PATH + method)


# --- their client -----------------------------------------------------------------------------------------------------


async def check_unary(channel: Any) -> None:
    metadata = (("x-text", "one"), ("x-text", "two"), ("x-data-bin", WHY), ("x-data-bin", b""))
    call = unary(channel, "Unary")(b"hello", metadata=metadata)
    assert await call == b"hello"
    assert tuple(await call.initial_metadata()) == metadata
    assert tuple(await call.trailing_metadata()) == (("x-end", "over"),)
    assert await unary(channel, "Unary")(b"") == b""


async def check_large_metadata(channel: Any) -> None:
    large = (("x-text", "x" * 6000),)
    call = unary(channel, "Unary")(b"hello", metadata=large)
    assert tuple(await call.initial_metadata()) == large


async def check_streams(channel: Any) -> None:
    assert len([each async for each in channel.unary_stream(PATH + "Down")(b"2000 100")]) == 2000
    call = channel.stream_unary(PATH + "Up")()
    for _ in range(500):
        await call.write(bytes(100))
    await call.done_writing()
    assert await call == b"500 50000"
    call = channel.stream_stream(PATH + "Chat")()
    for number in range(100):
        await call.write(b"%d" % number)
        assert await call.read() == b"%d" % number
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def check_statuses(channel: Any) -> None:
    error = await refused(unary(channel, "Fail")(b"x"), grpc.StatusCode.NOT_FOUND)
    assert error.details() == DETAILS
    assert tuple(error.trailing_metadata()) == (("why-bin", WHY),)
    await refused(unary(channel, "Nothing")(b"x"), grpc.StatusCode.UNIMPLEMENTED)
    await refused(unary(channel, "Slow")(b"x", timeout=0.2), grpc.StatusCode.DEADLINE_EXCEEDED)


async def check_cancel(channel: Any) -> None:
    before = await unary(channel, "Cancelled")(b"")
    call = unary(channel, "Slow")(b"x")
    await asyncio.sleep(0.05)
    call.cancel()
    while await unary(channel, "Cancelled")(b"") == before:
        await asyncio.sleep(0.01)


async def check_large(channel: Any) -> None:
    message = bytes(range(256)) * (LARGEST_BYTES >> 8)
    assert await unary(channel, "Unary")(message) == message
    error = await refused(unary(channel, "Unary")(message + b"x"), grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert error.details() == f"a message of {LARGEST_BYTES + 1} bytes is too large (limit {LARGEST_BYTES})"


async def check_gzip(channel: Any) -> None:
    call = unary(channel, "Unary")(bytes(10_000), compression=grpc.Compression.Gzip)
    error = await refused(call, grpc.StatusCode.UNIMPLEMENTED)
    assert error.details() == "compressed messages are not understood: send them as they are"
    assert await unary(channel, "Unary")(bytes(10_000)) == bytes(10_000)


async def check_many(channel: Any) -> None:
    calls = [channel.stream_stream(PATH + "Chat")() for _ in range(1000)]
    for call in calls:
        await call.write(b"x")
    for call in calls:
        assert await call.read() == b"x"
    for call in calls[::2]:
        call.cancel()
    for call in calls[1::2]:
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


CHECKS: list[Check] = [
    check_unary,
    check_large_metadata,
    check_streams,
    check_statuses,
    check_cancel,
    check_large,
    check_gzip,
    check_many,
]


@SECURITY
@on_loop("asyncio", CHECK_S_MAX)
async def test_their_client_and_our_server(secured: bool, certificates: Certificates) -> None:
    tls = certificates.server() if secured else None
    async with serving(handlers(), tls=tls) as place:
        async with grpcio_channel(place.port, certificates if secured else None) as channel:
            for check in CHECKS:
                await check(channel)
            await until(lambda: place.server.calls == 0)
            assert place.server.connections == 1
        assert not place.reports.reasons and not place.reports.failed


@on_loop("asyncio", CHECK_S_MAX)
async def test_metadata_beyond_what_we_said_we_take_ends_the_connection() -> None:
    """The table of a header block that is not read would be lost with it. The next call has another connection."""

    async with serving(handlers()) as place, grpcio_channel(place.port) as channel:
        too_large = (("x-text", "x" * 60_000),)
        error = await refused(unary(channel, "Unary")(b"x", metadata=too_large), grpc.StatusCode.UNAVAILABLE)
        assert "limit 32768" in error.details()
        assert await unary(channel, "Unary")(b"again", wait_for_ready=True) == b"again"
        assert place.reports.dropped


@on_loop("asyncio", CHECK_S_MAX)
async def test_a_compressed_call_hears_which_encodings_there_are() -> None:
    """grpcio keeps it from its users, so it is looked for on the wire."""

    seen = bytearray()
    async with serving(handlers()) as place, listened_to(place, seen) as port, grpcio_channel(port) as channel:
        call = unary(channel, "Unary")(bytes(10_000), compression=grpc.Compression.Gzip)
        await refused(call, grpc.StatusCode.UNIMPLEMENTED)
    assert b"grpc-accept-encoding\x08identity" in seen


@asynccontextmanager
async def listened_to(place: Place, seen: bytearray) -> AsyncIterator[int]:
    """A port before a server's; what comes from the server is noted."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, noted: bytearray) -> None:
        while data := await reader.read(1 << 16):
            noted += data
            writer.write(data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_connection("127.0.0.1", place.port)
        await asyncio.gather(pass_on(reader, theirs[1], bytearray()), pass_on(theirs[0], writer, seen))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@on_loop("asyncio", CHECK_S_MAX)
async def test_their_pings_are_answered_however_often_they_come() -> None:
    options = [
        ("grpc.keepalive_time_ms", 20),
        ("grpc.keepalive_timeout_ms", 30_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]

    settings = ServerSettings(EndpointSettings(Http2Settings(), keepalive_s=0.05, keepalive_timeout_s=30.0))
    async with serving(handlers(), settings) as place, grpcio_channel(place.port, options=options) as channel:
        call = channel.stream_stream(PATH + "Chat")()
        await call.write(b"x")
        assert await call.read() == b"x"
        await asyncio.sleep(0.6)  # pings of both sides; the outcome does not depend on how many
        await call.write(b"x")
        assert await call.read() == b"x"
        assert place.server.connections == 1 and not place.reports.reasons
        call.cancel()


@on_loop("asyncio", CHECK_S_MAX)
async def test_their_client_follows_a_server_that_goes_away() -> None:
    """Calls that run may end, and the next ones go to whoever is at the address then."""

    async with serving(handlers()) as first, grpcio_channel(first.port) as channel:
        call = channel.stream_stream(PATH + "Chat")()
        await call.write(b"x")
        assert await call.read() == b"x"
        stopping = asyncio.create_task(first.server.stop(60.0))
        await asyncio.sleep(0.05)
        await call.write(b"y")
        assert await call.read() == b"y"
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        await stopping
        await refused(unary(channel, "Unary")(b"x"), grpc.StatusCode.UNAVAILABLE)


@on_loop("asyncio", CHECK_S_MAX)
async def test_their_client_hears_how_a_call_was_ended_by_us() -> None:
    async def stop_at_once(call: ServerCall) -> None:
        await call.write(b"x")
        await asyncio.Event().wait()

    async def give_up(call: ServerCall) -> None:
        raise RpcError(StatusCode.CANCELLED, "not any more")

    both = {PATH + "A": stop_at_once, PATH + "B": give_up}
    async with serving(both) as place, grpcio_channel(place.port) as channel:
        await refused(unary(channel, "B")(b"x"), grpc.StatusCode.CANCELLED)
        call = channel.unary_stream(PATH + "A")(b"x")
        assert await call.read() == b"x"
        await place.server.stop(0.0)
        assert (await refused(call.read(), grpc.StatusCode.UNAVAILABLE)).details() == "the server is stopping"


# --- their server -----------------------------------------------------------------------------------------------------


@SECURITY
@on_loop("asyncio", CHECK_S_MAX)
async def test_our_client_and_their_server(secured: bool, certificates: Certificates) -> None:
    tls = certificates.client() if secured else None
    async with (
        grpcio_server(certificates if secured else None) as (_, port),
        channel_to("127.0.0.1", port, tls=tls) as channel,
    ):
        assert not await check_all(channel)
        with pytest.raises(RpcError) as found:
            await channel.unary(PATH + "GiveUp", b"x")
        assert found.value.status is StatusCode.CANCELLED
        with pytest.raises(RpcError) as found:
            await channel.unary(PATH + "Down", b"1 %d" % (LARGEST_BYTES + 1))
        assert found.value.status is StatusCode.RESOURCE_EXHAUSTED
        assert len(channel._connections) == 1


@on_loop("asyncio", CHECK_S_MAX)
async def test_a_server_that_compresses_unasked_is_told_apart() -> None:
    """The document does not allow it; grpcio's server does it all the same if it is told to."""

    server = grpcio_server(compression=grpc.Compression.Gzip)
    async with server as (_, port), channel_to("127.0.0.1", port) as channel:
        with pytest.raises(RpcError, match="the server sent a compressed message, unasked") as found:
            await channel.unary(PATH + "Unary", bytes(100_000))
        assert found.value.status is StatusCode.INTERNAL


@on_loop("asyncio", CHECK_S_MAX)
async def test_their_server_may_go_away_and_come_back() -> None:
    async with grpcio_server() as (server, port), channel_to("127.0.0.1", port) as channel:
        call = await channel.call(PATH + "Chat")
        await call.write(b"x")
        assert await call.read() == b"x"
        stopping = asyncio.create_task(server.stop(60.0))
        endpoint = await channel.connect()
        await until(lambda: endpoint.http2.gone_away is not None)
        await call.write(b"y")
        assert await call.read() == b"y"
        call.end()
        assert await call.read() is None
        await stopping
        with pytest.raises(RpcError) as found:
            await channel.unary(PATH + "Unary", b"x")
        assert found.value.status is StatusCode.UNAVAILABLE
        async with serving(handlers()) as ours:  # it does not matter who is there
            assert ours.port != port


@on_loop("asyncio", CHECK_S_MAX)
async def test_their_server_says_so_if_we_ping_too_often() -> None:
    settings = ChannelSettings(EndpointSettings(CLIENT_SETTINGS, keepalive_s=0.01))

    async with grpcio_server() as (_, port), channel_to("127.0.0.1", port, settings) as channel:
        with pytest.raises(RpcError, match=r"(?i)too.many.pings") as found:
            await channel.unary(PATH + "Slow", b"x")
        assert found.value.status is StatusCode.UNAVAILABLE
    options = [("grpc.http2.min_ping_interval_without_data_ms", 1), ("grpc.http2.max_ping_strikes", 0)]
    async with grpcio_server(options=options) as (_, port), channel_to("127.0.0.1", port, settings) as channel:
        call = await channel.call(PATH + "Chat")
        await asyncio.sleep(0.3)
        await call.write(b"x")
        assert await call.read() == b"x"
