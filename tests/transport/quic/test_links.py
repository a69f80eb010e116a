"""QUIC with the mesh's certificates: our two sides with each other, and with somebody else's client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.security import pki
from tests.transport.quic.foreign import WAIT_S, foreign_client
from weft.doors import Door, Doorkeeper, DoorLimits
from weft.errors import PeerError, UsageError
from weft.limits import QUIC_CONNECTIONS_MAX
from weft.security import Credentials, Names, Secret, node
from weft.transport.quic import (
    ALPN,
    QUIC_PACKET_BYTES_MAX,
    QuicLinks,
    is_quic,
    quic_address,
    read_roots,
    show_any,
)
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

    def __init__(self, connections_max: int = QUIC_CONNECTIONS_MAX, door: Door | None = None, **settings: Any) -> None:
        self.arrived: list[Datagram] = []
        self.gone: list[Address] = []
        self.links = QuicLinks(
            self.arrived.extend, self.gone.append, connections_max=connections_max, door=door, **settings
        )

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
async def test_one_packet_per_frame_both_ways(own: Credentials) -> None:
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
    assert server.gone == [source]
    assert not server.links.send(b"nobody there", source)
    assert server.links.dropped == 0, "what was not sent was not dropped on its way in"
    server.links.close()
    server.links.close()


@pytest.mark.req("EMM-28")
async def test_a_foreign_client(own: Credentials) -> None:
    server = Side()
    port = await server.listen(own)
    async with foreign_client(port, own.root_pem) as client:
        client.send(b"from elsewhere")
        assert await server.data(1) == [b"from elsewhere"]
        server.links.send(b"x" * 548, server.arrived[0].source)
        assert await client.frame() == b"x" * 548
    server.links.close()


@pytest.mark.req("EMM-28")
async def test_who_speaks_another_protocol_is_refused(own: Credentials) -> None:
    server = Side()
    port = await server.listen(own)
    with pytest.raises(ConnectionError):
        async with foreign_client(port, own.root_pem, alpn="h3"):
            pass
    assert len(server.links) == 0
    server.links.close()


async def test_streams_end_the_connection(own: Credentials) -> None:
    server = Side()
    port = await server.listen(own)
    async with foreign_client(port, own.root_pem) as client:
        client.send_on_stream(b"a" * 100_000)
        assert await client.ended() == f"{ALPN} has no streams"
    await server.until(lambda: len(server.links) == 0)
    server.links.close()


@pytest.mark.req("EMM-28")
async def test_a_server_of_another_mesh_or_of_another_name_is_not_believed(
    own: Credentials, other: Credentials
) -> None:
    server, client = Side(), Side()
    port = await server.listen(own)
    with pytest.raises(PeerError, match=r"cannot connect to 127\.0\.0\.1"):
        await client.links.connect(HOST, port, other.root_pem)
    with pytest.raises(PeerError, match="localhost"):
        await client.links.connect("localhost", port, own.root_pem)
    client.links.close()
    server.links.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_nobody_there(own: Credentials, run: Any) -> None:
    async def story() -> None:
        client = Side()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind((HOST, 0))
            port = silent.getsockname()[1]
            with pytest.raises(PeerError, match=r"no answer within 0\.2 s"):
                await client.links.connect(HOST, port, own.root_pem, timeout_s=0.2)
        with pytest.raises(PeerError, match="refused"):
            await client.links.connect(HOST, port, own.root_pem, timeout_s=WAIT_S)
        with pytest.raises(UsageError, match="no address"):
            await client.links.connect("no.such.host.invalid", 9, own.root_pem)
        client.links.close()

    run(story())


async def test_a_renewed_certificate_is_shown_to_new_clients(tmp_path: Path) -> None:
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


async def test_bounds(own: Credentials) -> None:
    server, client, late = Side(connections_max=1), Side(), Side()
    port = await server.listen(own)
    target = await client.links.connect(HOST, port, own.root_pem)
    with pytest.raises(PeerError, match="no answer within"):
        await late.links.connect(HOST, port, own.root_pem, timeout_s=0.5)
    taken = [client.links.send(b"x" * 500, target) for _ in range(QUIC_FRAMES_WAITING_MAX + 10)]
    assert taken.count(False) == 10
    client.links.close()
    late.links.close()
    server.links.close()


async def test_a_packet_that_fits_no_frame_holds_up_nothing(own: Credentials) -> None:
    server, client = Side(), Side()
    port = await server.listen(own)
    target = await client.links.connect(HOST, port, own.root_pem)
    assert not client.links.send(bytes(QUIC_PACKET_BYTES_MAX + 1), target)
    assert client.links.send(bytes(QUIC_PACKET_BYTES_MAX), target)
    assert client.links.send(b"next", target)
    assert await server.data(2) == [bytes(QUIC_PACKET_BYTES_MAX), b"next"]
    client.links.close()
    server.links.close()


async def test_a_client_without_datagram_frames_is_shown_out(own: Credentials) -> None:
    server = Side()
    port = await server.listen(own)
    async with foreign_client(port, own.root_pem, frame_bytes_max=None) as client:
        assert "DATAGRAM" in await client.ended()
    server.links.close()


async def test_what_a_client_said_last_comes_before_its_end(own: Credentials) -> None:
    told: list[str] = []
    links = QuicLinks(
        lambda some: told.extend(each.data.decode() for each in some), lambda address: told.append("gone")
    )
    port = (await links.listen(HOST, 0, own))[1]
    client = Side()
    target = await client.links.connect(HOST, port, own.root_pem)
    client.links.send(b"last words", target)
    await client.links.acknowledged(target)
    client.links.close()
    await client.until(lambda: "gone" in told)
    assert told == ["last words", "gone"]
    links.close()


async def test_roots_in_any_layout_are_read_and_others_are_named(
    own: Credentials, other: Credentials, tmp_path: Path
) -> None:
    server, client = Side(), Side()
    port = await server.listen(own)
    file = tmp_path / "roots.pem"
    file.write_bytes(b"the other\r\n" + other.root_pem + b"\n\nours\n" + own.root_pem.replace(b"\n", b"\r\n"))
    await client.links.connect(HOST, port, read_roots(file))
    client.links.close()
    server.links.close()
    with pytest.raises(UsageError, match=r"there is no file .*none\.pem"):
        read_roots(tmp_path / "none.pem")
    (tmp_path / "empty.pem").write_bytes(b"nothing here")
    with pytest.raises(UsageError, match="no certificates to trust"):
        read_roots(tmp_path / "empty.pem")


async def test_a_servers_reason_is_bounded_and_harmless(own: Credentials) -> None:
    server, client = Side(), Side()
    port = await server.listen(own)
    target = await client.links.connect(HOST, port, own.root_pem)
    connection = client.links._up[target]
    await server.until(lambda: len(server.links) == 1)
    next(iter(server.links._all)).end("\x1b[2Jgone\n" + 500 * "x")
    await client.until(lambda: client.gone)
    assert connection.ended.startswith(" [2Jgone xxx")
    assert len(connection.ended) == 200
    client.links.close()
    server.links.close()


@dataclass(frozen=True)
class Pinned:
    chain_pem: bytes
    key_pem: Secret[bytes]


def signed_by_itself() -> Pinned:
    """As a device's own program would make it, knowing nothing of meshes."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "device")])
    now = datetime.fromtimestamp(pki.wall(), UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, now - timedelta(hours=1), now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pinned(made.public_bytes(Encoding.PEM), Secret(pem))


@pytest.mark.req("EMM-28")
async def test_a_certificate_that_signed_itself_can_be_pinned() -> None:
    server, client, pinned = Side(), Side(), signed_by_itself()
    port = (await server.links.listen(HOST, 0, pinned))[1]
    await client.links.connect(HOST, port, pinned.chain_pem)
    with pytest.raises(PeerError):
        await client.links.connect(HOST, port, signed_by_itself().chain_pem)
    client.links.close()
    server.links.close()


async def begin_handshake(port: int) -> socket.socket:
    """As far as a server keeps something of it: the first packet, and again with the token that came back."""
    loop = asyncio.get_running_loop()
    quic = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=[ALPN]))
    quic.connect((HOST, port), now=0.0)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    await loop.sock_connect(sock, (HOST, port))
    await send_all(sock, quic)
    quic.receive_datagram(await loop.sock_recv(sock, 65536), (HOST, port), now=0.0)
    await send_all(sock, quic)
    return sock


async def send_all(sock: socket.socket, quic: QuicConnection) -> None:
    for data, _ in quic.datagrams_to_send(now=0.0):
        await asyncio.get_running_loop().sock_sendall(sock, data)


@pytest.mark.req("SEC-04")
async def test_handshakes_that_never_end_are_bounded_per_address_and_given_up(own: Credentials) -> None:
    """They keep neither places nor memory, and those who mean it get in."""

    keeper = Doorkeeper()
    door = keeper.door("emm-quic", DoorLimits(100, 100, 100, 3, grace_s=0.2, stranger_s=1.0), apart=True)
    server, client = Side(door=door), Side()
    port = await server.listen(own)
    silent = []
    async with asyncio.timeout(WAIT_S):
        for _ in range(3):
            silent.append(await begin_handshake(port))
        await server.until(lambda: door.strangers == 3)
        target = await client.links.connect(HOST, port, own.root_pem)
    assert keeper.turned_away["emm-quic", "address"] >= 1, "one that was silent made room"
    await server.until(lambda: keeper.turned_away["emm-quic", "late"] == 2)
    assert door.connections == len(server.links._all) == 1, "who is up stays"
    client.links.send(b"here", target)
    assert await server.data(1) == [b"here"]
    for each in silent:
        each.close()
    client.links.close()
    server.links.close()


async def test_an_address_that_is_taken_is_named(own: Credentials) -> None:
    server, late = Side(), Side()
    port = await server.listen(own)
    with pytest.raises(UsageError, match=r"cannot listen for QUIC on 127\.0\.0\.1"):
        await late.links.listen(HOST, port, own)
    server.links.close()


@pytest.mark.parametrize("address", [("10.0.0.1", 7), ("::1", 7, 0, 0)])
def test_addresses_are_told_apart(address: Address) -> None:
    assert not is_quic(address)
    assert is_quic(quic_address(address))
    assert quic_address(address)[1:] == address[1:]
    assert show_any(quic_address(address)) == f"quic/{show_any(address)}"
