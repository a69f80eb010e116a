"""What a dialler finds out before it says hello, and that only the node it found can answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from weft.errors import PeerError
from weft.model import NodeId
from weft.security import (
    Authority,
    AuthoritySettings,
    CertificateRefused,
    CertificateStore,
    Credentials,
    Fault,
    LocalSource,
    Names,
    client,
    node,
)
from weft.transport.grpc.channel import Channel
from weft.transport.peers import LinkSettings, Proof, TlsGate
from weft.transport.peers.gate import proof_of

MESH = "plant"
LOOPBACK = ("127.0.0.1",)


def authority(directory: Path, lifetime_s: int = 3600) -> Authority:
    return Authority.create(directory, AuthoritySettings(MESH, "https://127.0.0.1:1", lifetime_s), time.time())


def issued(ca: Authority, name: str, hosts: tuple[str, ...] = LOOPBACK, mesh: str = MESH) -> Credentials:
    return LocalSource(ca).enrol(Names(node(mesh, name), hosts), time.time())


def gate(directory: Path, ours: Credentials, expected: dict[str, NodeId] | None = None) -> TlsGate:
    store = CertificateStore(directory / "tls")
    store.save(ours)
    return TlsGate(LinkSettings(), MESH, lambda: ours, store.identity_file, expected or {})


async def hello(_: bytes, context: Any) -> bytes:
    return b"hello"


class Server:
    """Shows whatever ``shown`` is."""

    def __init__(self, shown: Credentials) -> None:
        self.shown = shown
        self.address = ""

    def configuration(self) -> Any:
        pair = (self.shown.key_pem.reveal(), self.shown.chain_pem)
        return grpc.ssl_server_certificate_configuration([pair], self.shown.root_pem)


@asynccontextmanager
async def serving(shown: Credentials) -> AsyncIterator[Server]:
    server, made = grpc.aio.server(), Server(shown)
    handlers = {"Hello": grpc.unary_unary_rpc_method_handler(hello)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", handlers),))
    credentials = grpc.dynamic_ssl_server_credentials(made.configuration(), made.configuration, True)
    made.address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    await server.start()
    try:
        yield made
    finally:
        await server.stop(None)


async def ask(channel: Channel) -> bytes:
    try:
        return await channel.unary("/test.Test/Hello", b"", timeout_s=20)
    finally:
        channel.close()


@pytest.mark.req("SEC-01")
async def test_a_dialler_knows_who_is_there_whatever_the_host_is_called(tmp_path: Path) -> None:
    ca = authority(tmp_path / "ca")
    async with serving(issued(ca, "b", ("b.example.org",))) as server:
        channel, proof = await gate(tmp_path, issued(ca, "a")).dial(server.address)
        assert await ask(channel) == b"hello"
        assert proof == proof_of(server.shown.leaf)


@pytest.mark.req("SEC-01")
async def test_whom_a_dialler_refuses(tmp_path: Path) -> None:
    ca, other = authority(tmp_path / "ca"), authority(tmp_path / "other")
    a_client = LocalSource(ca).enrol(Names(client(MESH, "b"), LOOPBACK), time.time())
    brief = Authority(ca.directory, AuthoritySettings(MESH, "https://127.0.0.1:1", 1), ca.root)
    short = issued(brief, "b")
    while time.time() < short.end_s:
        await asyncio.sleep(0.05)
    cases = [
        (issued(other, "b"), Fault.WRONG_CA, "is not valid"),
        (short, Fault.EXPIRED, "is not valid: certificate has expired"),
        (a_client, Fault.WRONG_USAGE, "is not valid"),
        (issued(ca, "b", mesh="elsewhere"), Fault.WRONG_NAME, "of mesh elsewhere, this is mesh plant"),
        (issued(ca, "c"), Fault.WRONG_NAME, "certificate is of node c, but its owner says it is node b"),
    ]
    for shown, fault, message in cases:
        async with serving(shown) as server:
            wary = gate(tmp_path, issued(ca, "a"), {server.address: NodeId("b")})
            with pytest.raises(CertificateRefused, match=message) as caught:
                await wary.dial(server.address)
            assert caught.value.fault is fault


async def test_nobody_there_is_told(tmp_path: Path) -> None:
    ca = authority(tmp_path / "ca")
    async with serving(issued(ca, "b")) as server:
        address = server.address
    with pytest.raises(PeerError, match=f"cannot connect: .*{address}"):
        await gate(tmp_path, issued(ca, "a")).dial(address)
    silent = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(PeerError):
            await gate(tmp_path, issued(ca, "a")).dial(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("now_s", "in_s"),
    [(0.0, 85.0), (60.0, 25.0), (80.0, 10.0), (90.0, 5.0)],
    ids=["new", "late", "in the last part: half of what is left", "again"],
)
def test_a_link_is_renewed_when_the_other_side_has_a_new_certificate(now_s: float, in_s: float) -> None:
    assert Proof(None, 0.0, 100.0).renew_in_s(now_s) == pytest.approx(in_s)  # type: ignore[arg-type]
