"""QUIC with the mesh's certificates: our two sides with each other, and with somebody else's client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security import pki
from tests.transport.quic.foreign import WAIT_S, foreign_client
from weft.errors import PeerError, UsageError
from weft.security import Credentials, Names, node
from weft.transport.quic import ALPN, QuicLinks, is_quic, quic_address, show_any
from weft.transport.quic.connection import QUIC_FRAMES_WAITING_MAX
from weft.wire.udp import Address, Datagram

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return pki.issued(pki.authority(tmp_path_factory.mktemp("own"), now_s=pki.wall()), now_s=pki.wall())


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """Of another mesh."""
    return pki.issued(pki.authority(tmp_path_factory.mktemp("other"), now_s=pki.wall()), now_s=pki.wall())


class Side:
    """Links that remember what arrived."""

    def __init__(self, **settings: int) -> None:
        self.arrived: list[Datagram] = []
        self.links = QuicLinks(self.arrived.extend, **settings)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.01)

    async def data(self, count: int) -> list[bytes]:
        await self.until(lambda: len(self.arrived) >= count)
        return [each.data for each in self.arrived]

    async def listen(self, credentials: Credentials) -> int:
        return (await self.links.listen(HOST, 0, credentials))[1]


@pytest.mark.req("EMM-28")
def test_one_packet_per_frame_both_ways(own: Credentials) -> None:
    async def story() -> None:
        server, client = Side(), Side()
        port = await server.listen(own)
        target = await client.links.connect(HOST, port, own.root_pem)
        assert is_quic(target)
        for number in range(5):
            assert client.links.send(b"packet %d" % number, target)
        assert await server.data(5) == [b"packet %d" % number for number in range(5)]
        source = server.arrived[0].source
        assert is_quic(source)
        assert server.links.send(b"answer", source)
        assert await client.data(1) == [b"answer"]
        assert client.arrived[0].source == target
        client.links.close()
        await server.until(lambda: len(server.links) == 0)
        assert not server.links.send(b"nobody there", source)
        server.links.close()
        server.links.close()

    asyncio.run(story())


@pytest.mark.req("EMM-28")
def test_a_foreign_client(own: Credentials) -> None:
    async def story() -> None:
        server = Side()
        port = await server.listen(own)
        async with foreign_client(port, own.root_pem) as client:
            client.send(b"from elsewhere")
            assert await server.data(1) == [b"from elsewhere"]
            server.links.send(b"x" * 548, server.arrived[0].source)
            assert await client.frame() == b"x" * 548
        server.links.close()

    asyncio.run(story())


@pytest.mark.req("EMM-28")
def test_who_speaks_another_protocol_is_refused(own: Credentials) -> None:
    async def story() -> None:
        server = Side()
        port = await server.listen(own)
        with pytest.raises(ConnectionError):
            async with foreign_client(port, own.root_pem, alpn="h3"):
                pass
        assert len(server.links) == 0
        server.links.close()

    asyncio.run(story())


def test_streams_end_the_connection(own: Credentials) -> None:
    async def story() -> None:
        server = Side()
        port = await server.listen(own)
        async with foreign_client(port, own.root_pem) as client:
            client.send_on_stream(b"a" * 100_000)
            assert await client.ended() == f"{ALPN} has no streams"
        await server.until(lambda: len(server.links) == 0)
        server.links.close()

    asyncio.run(story())


@pytest.mark.req("EMM-28")
def test_a_server_of_another_mesh_or_of_another_name_is_not_believed(own: Credentials, other: Credentials) -> None:
    async def story() -> None:
        server, client = Side(), Side()
        port = await server.listen(own)
        with pytest.raises(PeerError, match=r"cannot connect to 127\.0\.0\.1"):
            await client.links.connect(HOST, port, other.root_pem)
        with pytest.raises(PeerError, match="localhost"):
            await client.links.connect("localhost", port, own.root_pem)
        client.links.close()
        server.links.close()

    asyncio.run(story())


def test_nobody_there(own: Credentials) -> None:
    async def story() -> None:
        client = Side()
        with pytest.raises(PeerError, match=r"no answer within 0\.2 s"):
            await client.links.connect(HOST, 9, own.root_pem, timeout_s=0.2)
        with pytest.raises(UsageError, match="no address"):
            await client.links.connect("no.such.host.invalid", 9, own.root_pem)
        client.links.close()

    asyncio.run(story())


def test_a_renewed_certificate_is_shown_to_new_clients(tmp_path: Path) -> None:
    async def story() -> None:
        ca = pki.authority(tmp_path, now_s=pki.wall())
        first = pki.issued(ca, Names(node(pki.MESH, "a"), ("old.example.org",)), pki.wall())
        renewed = pki.issued(ca, Names(node(pki.MESH, "a"), (HOST,)), pki.wall())
        server, client = Side(), Side()
        port = await server.listen(first)
        with pytest.raises(PeerError):
            await client.links.connect(HOST, port, first.root_pem)
        server.links.renew(renewed)
        target = await client.links.connect(HOST, port, first.root_pem)
        client.links.send(b"better", target)
        assert await server.data(1) == [b"better"]
        client.links.close()
        server.links.close()

    asyncio.run(story())


def test_bounds(own: Credentials) -> None:
    async def story() -> None:
        server, client = Side(connections_max=1), Side()
        port = await server.listen(own)
        target = await client.links.connect(HOST, port, own.root_pem)
        await client.links.connect(HOST, port, own.root_pem)  # the handshake goes through, then it is shown out
        await server.until(lambda: server.links.refused == 1)
        await client.until(lambda: len(client.links) == 1)
        taken = [client.links.send(b"x" * 500, target) for _ in range(QUIC_FRAMES_WAITING_MAX + 10)]
        assert taken.count(False) == 10
        assert client.links.dropped == 10
        client.links.close()
        server.links.close()

    asyncio.run(story())


def test_an_address_that_is_taken_is_named(own: Credentials) -> None:
    async def story() -> None:
        server, late = Side(), Side()
        port = await server.listen(own)
        with pytest.raises(UsageError, match=r"cannot listen for QUIC on 127\.0\.0\.1"):
            await late.links.listen(HOST, port, own)
        server.links.close()

    asyncio.run(story())


@pytest.mark.parametrize("address", [("10.0.0.1", 7), ("::1", 7, 0, 0)])
def test_addresses_are_told_apart(address: Address) -> None:
    assert not is_quic(address)
    assert is_quic(quic_address(address))
    assert quic_address(address)[1:] == address[1:]
    assert show_any(quic_address(address)) == f"quic/{show_any(address)}"
