"""A secured node while crowds connect at once and its certificate is renewed."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

import weft
from tests.node.secured import client_credentials
from tests.transport.held_port import held_port
from tests.up import RunningNode, up
from weft.security import Authority, AuthoritySettings, CertificateStore, ca_directory, tls_directory

WAIT_S: Final = 60.0
LIFETIME_S: Final = 4  # renewed after about 2.5 s
AT_ONCE: Final = 256
PUBLISHERS: Final = 4
# length:u24 type:u8 flags:u8 stream:u32   (RFC 9113, 4.1): settings, empty, of the connection
SETTINGS_TYPE: Final = 4
SETTINGS: Final = struct.pack("!HBBBI", 0, 0, SETTINGS_TYPE, 0, 0)
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS


@dataclass(frozen=True)
class Crowd:
    """Everybody who connects to one node."""

    host: str
    port: int
    valid: ssl.SSLContext
    stranger: ssl.SSLContext  # shows a certificate of another CA
    nobody: ssl.SSLContext  # shows none

    def connect(self) -> socket.socket:
        """Over TCP alone. The kernel does that for the node: a hundred take a millisecond or two."""
        return socket.create_connection((self.host, self.port), WAIT_S)

    async def valid_client(self, connected: socket.socket) -> bytes:
        """The certificate that the node shows to a client that it serves."""
        reader, writer = await asyncio.open_connection(sock=connected, ssl=self.valid, server_hostname=self.host)
        try:
            writer.write(PREFACE)
            header = await reader.readexactly(9)
            assert header[3] == SETTINGS_TYPE, f"HTTP/2 begins with settings, not {header!r}"
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            assert isinstance(shown, bytes)
            return shown
        finally:
            writer.transport.abort()

    async def refused_client(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            reader, writer = await asyncio.open_connection(sock=connected, ssl=context, server_hostname=self.host)
            try:
                writer.write(PREFACE)
                await reader.readexactly(9)  # TLS 1.3: a client hears only now that it is refused
            finally:
                writer.transport.abort()

    async def garbage(self, connected: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connected)
        try:
            writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(range(256)))
            while await reader.read(4096):
                pass
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    async def wave(self) -> set[bytes]:
        """All at once, five of eight of them valid; the certificates that were shown to those."""
        clients: list[Coroutine[Any, Any, bytes | None]] = []
        for number, connected in enumerate([self.connect() for _ in range(AT_ONCE)]):
            match number % 8:
                case 5:
                    clients.append(self.refused_client(connected, self.stranger))
                case 6:
                    clients.append(self.refused_client(connected, self.nobody))
                case 7:
                    clients.append(self.garbage(connected))
                case _:
                    clients.append(self.valid_client(connected))
        return {shown for shown in await asyncio.gather(*clients) if shown is not None}


def crowd_of(node: RunningNode, data: Path, directory: Path) -> Crowd:
    """With certificates that last longer than the test."""
    ours = Authority.open(ca_directory(data))
    patient = Authority(ours.directory, msgspec.structs.replace(ours.settings, lifetime_s=3600), ours.root)
    other = Authority.create(directory / "other", AuthoritySettings("weft", "https://127.0.0.1:1"), time.time())

    def context(shown: Authority | None) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.load_verify_locations(cadata=ours.root_pem.decode())
        made.set_alpn_protocols(["h2"])
        if shown is not None:
            store = CertificateStore(directory / f"client-{shown.fingerprint}")
            store.save(client_credentials(shown, time.time()))
            made.load_cert_chain(store.identity_file)
        return made

    host, _, port = node.grpc.rpartition(":")
    return Crowd(host, int(port), context(patient), context(other), context(None))


@contextmanager
def staying_alive(node: RunningNode) -> Iterator[None]:
    """What goes wrong for clients of a node that died is not the point."""
    try:
        yield
    finally:
        assert node.process.poll() is None, f"the node ended with status {node.process.returncode}"


@asynccontextmanager
async def publishing(node: RunningNode, topic: str) -> AsyncIterator[set[bytes]]:
    """Clients of the SDK connect, publish and go, again and again; what they have receipts for."""
    receipts: set[bytes] = set()

    async def publish(name: int) -> None:
        for number in count():
            async with node.client() as client:
                await client.publish(topic, f"{name}/{number}")
                receipts.add(f"{name}/{number}".encode())

    tasks = [asyncio.create_task(publish(name)) for name in range(PUBLISHERS)]
    try:
        yield receipts
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), ended


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.02)


def certificate_on_disk(data: Path) -> bytes:
    credentials = CertificateStore(tls_directory(data)).load()
    assert credentials is not None
    return credentials.leaf.public_bytes(Encoding.DER)


def renewals(node: RunningNode) -> int:
    return sum(each["event"] == "certificate_renewed" for each in node.logged())


@pytest.mark.req("SEC-01")
async def test_crowds_that_connect_at_once_do_not_end_a_node_while_its_certificate_is_renewed(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text(f'[security]\ncertificate_lifetime_s = {LIFETIME_S}\nclient_certificates = "required"\n')
    data = tmp_path / "a"

    with up(data, "--config", str(file)) as node:
        with staying_alive(node):
            crowd = crowd_of(node, data, tmp_path)
            async with asyncio.timeout(WAIT_S), publishing(node, "plant.temp") as receipts:
                shown: set[bytes] = set()
                while len(shown) < 2 or not receipts:  # until a wave has met the renewal
                    shown |= await crowd.wave()
            before, times = await crowd.valid_client(crowd.connect()), renewals(node)
            await until(lambda: renewals(node) > times)
            on_disk = {certificate_on_disk(data)}
            shown = await crowd.wave()
            on_disk.add(certificate_on_disk(data))  # another one, if the wave was that slow
            assert before not in shown, "every handshake after a renewal is with the new certificate"
            assert shown <= on_disk
            async with asyncio.timeout(WAIT_S), node.client() as client:
                await client.publish("plant.temp", b"last")
                kept: set[bytes] = set()
                async with client.subscribe("plant.temp", start="earliest") as events:
                    async for event in events:
                        kept.add(event.payload)
                        if event.payload == b"last":
                            break
            assert receipts
            assert receipts <= kept
        assert node.end() == 0
        assert "Traceback" not in node.said()


@pytest.mark.req("SEC-01")
async def test_clients_that_reconnect_at_once_do_not_end_a_node_that_was_restarted(tmp_path: Path) -> None:
    data = tmp_path / "a"

    async def published(clients: list[weft.Client], text: str) -> None:
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(client.publish("plant.temp", text) for client in clients))

    with held_port() as port:
        place = ("--listen", f"127.0.0.1:{port}")
        async with AsyncExitStack() as parts:
            with up(data, *place) as node:
                with staying_alive(node):
                    clients = [await parts.enter_async_context(node.client()) for _ in range(32)]
                    await published(clients, "before")
                assert await asyncio.to_thread(node.end) == 0
            with up(data, *place) as node:
                with staying_alive(node):
                    await published(clients, "after")
                assert await asyncio.to_thread(node.end) == 0
