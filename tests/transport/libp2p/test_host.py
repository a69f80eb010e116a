"""Hosts that dial, accept, say who they are, and part again."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from tests.transport.libp2p.hosts import eventually, new_curve_identity, new_identity, peer
from weft.errors import PeerError, UsageError
from weft.transport.libp2p import Stream
from weft.wire.libp2p import floodsub, identify, multiaddr


class Echo:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def on_message(self, data: bytes) -> None:
        self.stream.send(data)

    def on_end(self) -> None:
        self.stream.close()

    def on_lost(self) -> None:
        pass


class Listening:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ended = self.lost = False

    def on_message(self, data: bytes) -> None:
        self.heard.append(data)

    def on_end(self) -> None:
        self.ended = True

    def on_lost(self) -> None:
        self.lost = True


@pytest.mark.req("COA-01")
async def test_two_hosts_know_each_other_by_their_keys() -> None:
    async with peer(new_curve_identity()) as one, peer() as other:
        connection = await one.host.dial(other.address)
        assert connection.peer == other.host.peer
        await eventually(lambda: other.host.peer in one.host.neighbours and one.host.peer in other.host.neighbours)
        known = other.host.neighbours[one.host.peer]
        assert known.addresses == one.host.listen_addresses
        assert set(known.protocols) == {identify.PROTOCOL, floodsub.PROTOCOL}
        assert await one.host.dial(other.address) is connection  # one is enough
        connection.close()
        await eventually(lambda: other.lost and one.lost)
        assert (one.lost[0].closed_by_us, other.lost[0].closed_by_us) == (True, False)
        assert not one.host.neighbours
        assert not other.host.neighbours


async def test_a_stream_carries_messages_both_ways_and_ends_by_halves() -> None:
    async with peer() as one, peer() as other:
        other.host.handle("/echo/1", Echo)
        connection = await one.host.dial(other.address)
        ear = Listening()
        stream = await connection.open("/echo/1", lambda stream: ear)
        big = secrets.token_bytes(3_000_000)
        stream.send(b"small")
        stream.send(big)
        await eventually(lambda: sum(map(len, ear.heard)) == 5 + len(big))
        assert b"".join(ear.heard) == b"small" + big
        stream.close()
        await eventually(lambda: ear.ended)
        with pytest.raises(PeerError, match="does not speak"):
            await connection.open("/nothing/1", lambda stream: ear)
        second = Listening()
        await connection.open("/echo/1", lambda stream: second)
        connection.close()
        await eventually(lambda: second.lost)
        with pytest.raises(PeerError, match="gone"):
            await connection.open("/echo/1", lambda stream: ear)


async def test_a_connection_apart_counts_for_nobody_here() -> None:
    async with peer() as one, peer() as other:
        connection = await one.host.dial_apart(other.address)
        await eventually(lambda: other.host.neighbours)
        assert not one.host.neighbours
        connection.close()
        await connection.over
        assert not one.lost


async def test_whoever_answers_has_to_be_the_one_that_was_dialled() -> None:
    async with peer() as one, peer() as other:
        endpoint = other.address.tcp_endpoint
        assert endpoint is not None
        with pytest.raises(PeerError, match="another peer answers"):
            await one.host.dial(multiaddr.tcp(*endpoint, new_identity().peer))
        with pytest.raises(UsageError, match="has to name the peer"):
            await one.host.dial(multiaddr.tcp(*endpoint))
        assert not one.host.neighbours


async def test_nobody_there() -> None:
    async with peer() as one:
        async with peer() as other:
            gone = other.address
        with pytest.raises(PeerError, match="cannot reach the peer"):
            await one.host.dial(gone)
        with pytest.raises(UsageError, match="cannot listen"):
            await one.host.listen("192.0.2.1", 0)


async def test_a_name_that_is_no_host_is_a_peer_out_of_reach() -> None:
    """Neighbours say where they listen, and may say anything: asyncio's own loop raises a UnicodeError for this."""

    async with peer() as one:
        nowhere = multiaddr.parse(f"/dns4/{'a' * 64}/tcp/1/p2p/{new_identity().peer}")
        with pytest.raises(PeerError, match="cannot reach the peer"):
            await one.host.dial(nowhere)


async def test_closing_a_host_ends_what_it_was_dialling() -> None:
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(0), "127.0.0.1", 0)
    host, port = silent.sockets[0].getsockname()
    async with peer() as one:
        dialling = asyncio.create_task(one.host.dial(multiaddr.tcp(host, port, new_identity().peer)))
        await asyncio.sleep(0)
    with pytest.raises((asyncio.CancelledError, PeerError)):
        await dialling
    silent.close()
