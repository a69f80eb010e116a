"""A connection and its transport: peers that are dead, deaf or rude, and an end in order."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from tests.transport.http2.stories import (
    ECHO,
    ECHOING,
    PATIENCE_S,
    RawPeer,
    channel_to,
    on_both_loops,
    raw_peer,
    raw_server,
    serving,
    until,
)
from weft.transport.grpc.channel import ChannelSettings
from weft.transport.grpc.server import ServerSettings
from weft.transport.http2 import endpoint as endpoint_module
from weft.transport.http2.endpoint import UNREAD_ANSWERS_BYTES_MAX, Endpoint, EndpointSettings, TurnTime
from weft.wire.http2 import CLIENT_SETTINGS, GoneAway, Http2Settings, Stream, StreamOwner
from weft.wire.http2.frames import ACK, GOAWAY, GOAWAY_HEAD, PING, PREFACE, SETTINGS, frame
from weft.wire.rpc import RpcError, StatusCode

OPENING = PREFACE + frame(SETTINGS, 0, 0)
WATCHFUL = EndpointSettings(CLIENT_SETTINGS, keepalive_s=0.05, keepalive_timeout_s=0.1)
WATCHFUL_SERVER = ServerSettings(EndpointSettings(Http2Settings(), keepalive_s=0.05, keepalive_timeout_s=0.1))
PATIENT = ChannelSettings(EndpointSettings(CLIENT_SETTINGS, keepalive_s=0.02, keepalive_timeout_s=PATIENCE_S))
PATIENT_SERVER = ServerSettings(EndpointSettings(Http2Settings(), keepalive_s=0.02, keepalive_timeout_s=PATIENCE_S))


async def answer_pings(peer: RawPeer, seen: list[bytes]) -> None:
    """Read frames, answer pings, and do nothing else."""
    while True:
        head = await peer.reader.readexactly(9)
        payload = await peer.reader.readexactly(int.from_bytes(head[:3]))
        if head[3] == PING and not head[4] & ACK:
            seen.append(payload)
            peer.send(frame(PING, ACK, 0, payload))


# --- is the peer still there? -----------------------------------------------------------------------------------------


@on_both_loops
async def test_a_client_notices_a_server_that_is_dead() -> None:
    async def dead(peer: RawPeer) -> None:
        peer.send(frame(SETTINGS, 0, 0))
        await peer.until_closed()

    async with raw_server(dead) as port, channel_to("127.0.0.1", port, ChannelSettings(WATCHFUL)) as channel:
        with pytest.raises(RpcError, match=r"does not answer pings \(limit 0\.1 s\)") as found:
            await channel.unary(ECHO, b"x")
        assert found.value.status is StatusCode.UNAVAILABLE


@on_both_loops
async def test_a_server_notices_a_client_that_is_dead() -> None:
    async with serving(ECHOING, WATCHFUL_SERVER) as place, raw_peer(place.port) as peer:
        peer.send(OPENING)
        await until(lambda: place.reports.dropped)
        assert place.reports.dropped == [("127.0.0.1", "the peer does not answer pings (limit 0.1 s)")]
        assert place.server.connections == 0
        await peer.until_closed()


@on_both_loops
async def test_a_peer_that_answers_pings_is_alive() -> None:
    seen: list[bytes] = []

    async def silent(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peer.send(frame(SETTINGS, 0, 0))
        await answer_pings(peer, seen)

    async with raw_server(silent) as port, channel_to("127.0.0.1", port, PATIENT) as channel:
        call = await channel.call(ECHO)
        await until(lambda: len(seen) >= 5)
        assert not call.done


@on_both_loops
async def test_two_of_us_keep_each_other_alive() -> None:
    async with serving(ECHOING, PATIENT_SERVER) as place, place.channel(PATIENT) as channel:
        call = await channel.call(ECHO)
        await asyncio.sleep(0.3)  # several intervals; the outcome does not depend on how many
        await call.write(b"x")
        assert await call.read() == b"x"
        assert place.server.connections == 1 and not place.reports.reasons


# --- why it ended -----------------------------------------------------------------------------------------------------


@on_both_loops
async def test_the_reason_of_a_goaway_reaches_the_caller() -> None:
    async def rude(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(PREFACE))
        peer.send(frame(SETTINGS, 0, 0))
        await peer.reader.readuntil(b"/test.Echo/Echo")
        peer.send(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(1, 11) + b"too_many_pings"))
        await peer.writer.drain()

    async with raw_server(rude) as port, channel_to("127.0.0.1", port) as channel:
        with pytest.raises(RpcError) as found:
            await channel.unary(ECHO, b"x")
        assert found.value.status is StatusCode.UNAVAILABLE
        assert found.value.details == "the peer ended the connection: too_many_pings"


@on_both_loops
async def test_who_breaks_the_rules_hears_why_even_if_it_goes_on_sending() -> None:
    """A socket that is closed while something unread is in it destroys what is on its way out."""
    async with serving(ECHOING) as place, raw_peer(place.port) as peer:
        peer.send(OPENING + frame(SETTINGS, 0, 7))

        async def flood() -> None:
            for _ in range(100):
                peer.send(bytes(10_000))
                await asyncio.sleep(0)

        flooding = asyncio.create_task(flood())
        received = await peer.until_closed()
        await flooding
        await peer.close()
        assert b"SETTINGS on a stream (stream 7)" in received
        await until(lambda: place.reports.dropped)
        assert place.reports.dropped == [("127.0.0.1", "SETTINGS on a stream (stream 7)")]
        assert place.server.connections == 0


@on_both_loops
async def test_a_peer_that_never_hangs_up_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither reads the reason nor closes its side."""
    monkeypatch.setattr("weft.transport.http2.endpoint.LINGER_S", 0.1)
    async with serving(ECHOING) as place, raw_peer(place.port) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.send(b"this is not HTTP/2 at all")
        await until(lambda: place.reports.dropped)
        assert place.server.connections == 0


@on_both_loops
async def test_a_half_closed_connection_is_over() -> None:
    async with serving(ECHOING) as place, raw_peer(place.port) as peer:
        peer.send(OPENING)
        await until(lambda: place.server.connections == 1)
        peer.writer.write_eof()
        await peer.until_closed()
        await until(lambda: place.server.connections == 0)
        assert not place.reports.reasons


# --- a peer that asks and does not read -------------------------------------------------------------------------------


class Deaf(asyncio.Transport):
    """Takes everything, and is full."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.unsent = 0
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written += len(data)

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_aborted

    def write_eof(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True


class SlowReader(Deaf):
    """Each time somebody looks, a little less waits; but only so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.unsent = 1 << 20
        self.looks = looks

    def get_write_buffer_size(self) -> int:
        if self.looks:
            self.looks -= 1
            self.unsent -= 1000
        return self.unsent


class Nobody:
    """An owner who wants nothing."""

    def made(self, endpoint: Endpoint) -> None: ...

    def settled(self, endpoint: Endpoint) -> None: ...

    def stream_opened(self, endpoint: Endpoint, stream: Stream) -> StreamOwner:
        raise AssertionError("there are no streams here")

    def gone_away(self, endpoint: Endpoint, gone: GoneAway) -> None: ...

    def lost(self, endpoint: Endpoint, reason: str) -> None: ...


@on_both_loops
async def test_answers_for_a_peer_that_reads_nothing_are_bounded() -> None:
    settings = EndpointSettings(Http2Settings(idle_frames_burst=1e9))
    endpoint = Endpoint(Nobody(), False, settings)
    transport = Deaf()
    endpoint.connection_made(transport)
    endpoint.data_received(OPENING)
    endpoint.pause_writing()
    before = transport.written
    ping = frame(PING, 0, 0, bytes(8))
    for _ in range(UNREAD_ANSWERS_BYTES_MAX // (1000 * len(ping))):
        endpoint.data_received(ping * 1000)
        await asyncio.sleep(0)  # the rest of a long read waits for the next turn
    assert not transport.is_aborted
    for _ in range(4):
        endpoint.data_received(ping * 1000)
        await asyncio.sleep(0)
    assert transport.is_aborted
    assert "the peer does not read its answers" in endpoint.failure
    assert transport.written - before < UNREAD_ANSWERS_BYTES_MAX + 3000 * len(ping)
    endpoint.connection_lost(None)


@on_both_loops
async def test_a_slow_reader_is_not_taken_for_a_deaf_one() -> None:
    """Large messages fill the transport by far more than small answers may; that is no reason to hang up."""
    settings = EndpointSettings(Http2Settings())
    endpoint = Endpoint(Nobody(), False, settings)
    transport = Deaf()
    endpoint.connection_made(transport)
    endpoint.data_received(OPENING)
    for _ in range(10):
        endpoint.pause_writing()
        endpoint.data_received(frame(PING, 0, 0, bytes(8)) * 100)
        endpoint.resume_writing()
    assert not transport.is_aborted
    endpoint.abort("the test is over")
    endpoint.connection_lost(None)


@on_both_loops
async def test_a_peer_that_is_gone_when_it_is_to_hear_why_is_no_trouble() -> None:
    """It sent something wrong and reset the connection, both before we looked."""
    async with serving(ECHOING) as place:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", place.port)) as rude:
                rude.sendall(b"this is not HTTP/2 at all")
                rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await until(lambda: len(place.reports.dropped) == 50 or not place.server.connections)
        await until(lambda: not place.server.connections)


@on_both_loops
async def test_who_still_reads_what_is_left_gets_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.transport.http2.endpoint.LINGER_S", 0.001)
    endpoint = Endpoint(Nobody(), False, EndpointSettings(Http2Settings()))
    transport = SlowReader(looks=10)
    endpoint.connection_made(transport)
    endpoint.close()
    await until(lambda: transport.is_aborted)
    assert transport.looks == 0  # not before it stopped reading
    endpoint.connection_lost(None)


# --- much at once -----------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-05")
@on_both_loops
async def test_what_comes_at_once_is_taken_in_pieces_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of short calls in one read held up the loop for seconds. Now others have their turn in between."""
    monkeypatch.setattr(endpoint_module, "PIECE_BYTES", 1000)
    monkeypatch.setattr(endpoint_module, "RECEIVING", TurnTime(-1.0))  # its time is always over
    turns = 0
    go_on = Endpoint._receive_later

    def counted(self: Endpoint) -> None:
        nonlocal turns
        turns += 1
        go_on(self)

    monkeypatch.setattr(Endpoint, "_receive_later", counted)
    messages = [bytes([number]) * (1 + 997 * number) for number in range(40)]
    async with serving(ECHOING) as place, place.channel() as channel:
        call = await channel.call(ECHO)
        for message in messages:
            call.write_nowait(message)
        call.end()
        assert [await call.read() for _ in messages] == messages
        assert await call.read() is None
    assert turns > len(messages)


@pytest.mark.req("SEC-05")
@on_both_loops
async def test_connections_share_the_time_for_what_comes_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had its own, and five of them five times as much."""
    clock = iter(range(1000))
    monkeypatch.setattr("weft.transport.http2.endpoint.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    turn, loop = TurnTime(2.5), asyncio.get_running_loop()
    assert [turn.is_over(loop) for _ in range(5)] == [False, False, False, True, True]
    await asyncio.sleep(0)
    assert [turn.is_over(loop) for _ in range(4)] == [False, False, False, True]


@pytest.mark.req("SEC-05")
@on_both_loops
async def test_connections_share_the_time_for_large_writes_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of each of a hundred connections took a hundred milliseconds. Nothing is lost by waiting."""
    monkeypatch.setattr(endpoint_module, "WRITING", TurnTime(0.0))  # one such write in each turn, of all connections
    put_off = 0
    flush_soon = Endpoint.flush_soon

    def counted(self: Endpoint) -> None:
        nonlocal put_off
        put_off += bool(self.http2.out.turns)
        flush_soon(self)

    monkeypatch.setattr(Endpoint, "flush_soon", counted)
    async with serving(ECHOING) as place, AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(place.channel()) for _ in range(4)]
        messages = [bytes([number]) * 3_000_000 for number in range(4)]
        pairs = zip(channels, messages, strict=True)
        answers = await asyncio.gather(*(channel.unary(ECHO, message) for channel, message in pairs))
    assert answers == messages
    assert put_off > len(messages)


@on_both_loops
async def test_what_is_small_leaves_whatever_others_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "WRITING", TurnTime(-1.0))
    async with serving(ECHOING) as place, place.channel() as channel:
        assert await channel.unary(ECHO, b"x" * 10_000) == b"x" * 10_000


@on_both_loops
async def test_what_waits_for_its_turn_is_taken_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "PIECE_BYTES", 50)
    monkeypatch.setattr(endpoint_module, "RECEIVING", TurnTime(-1.0))
    async with serving(ECHOING) as place, raw_peer(place.port) as peer:
        peer.send(OPENING + b"".join(frame(PING, 0, 0, bytes([number]) * 8) for number in range(50)))
        peer.send(frame(99, 0, 1, b"") + b"\xff" * 100)  # and then it breaks the rules
        await until(lambda: place.reports.reasons)
