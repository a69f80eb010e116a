"""Clients that send damaged messages to each port of a running node, with rights of each kind.

A client makes one attempt after the other, each from the next of its inputs, and takes whatever answer comes. What it
is refused, or that it is hung up on, is as it should be; whether the node bears it is for ``tools.fuzz_ports`` to see.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from google.protobuf.message import Message

from tests.console.signing import MARK, signed_in
from tests.gateway.emm.devices import Device
from tests.security.attacks.test_strangers import ports_of, trusting
from tests.transport.quic.foreign import foreign_client
from tests.up import RunningNode
from tools.fuzzing.filling import filled
from tools.fuzzing.mutator import mutations
from tools.fuzzing.targets import Target
from weft.errors import WeftError
from weft.model import Batch
from weft.security.credentials import Credentials
from weft.transport.grpc.channel import Channel, ChannelSettings, ChannelTls
from weft.transport.http2.tls import for_http2
from weft.transport.peers.links import CONTROL_STREAM, EVENT_STREAM
from weft.wire.exmp import Operation, encode_operation
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh import peerlink_pb2 as peer_pb
from weft.wire.mesh.features import Feature, Hello
from weft.wire.mesh.frames import write_peer_message

HOST: Final = "127.0.0.1"
ATTEMPT_S: Final = 20.0  # a bound: the node may be busy
ANSWER_S: Final = 0.05  # for whatever it says; most attempts are answered, or hung up on, much sooner
FRAMES: Final = 30  # to one link, unless it breaks before
PEER: Final = "fuzzer"  # the id in the certificate of the node
MESH: Final = "weft"
DEVICE: Final = Device(7)
EXPECTED: Final = (OSError, WeftError, TimeoutError, asyncio.IncompleteReadError, EOFError, ConnectionError)
TEXTS: Final = (
    "fuzz.a", "fuzz.b.c", "fuzz.>", "fuzz.*", ">", "weft.groups.fuzz", "weft.inbox.x.y", "kv.fuzz",
    "fuzz-1", "fuzz", "n1", PEER, "a", "127.0.0.1:1", "timestamp", "payload",
)  # fmt: skip


@dataclass(frozen=True)
class Victim:
    """The node, and what callers have: a key with few rights, and the certificate of a node."""

    node: RunningNode
    key: str
    certificate: Credentials
    targets: dict[str, Target]
    seed: int

    def seeds(self, *names: str) -> list[bytes]:
        return [seed for name in names for seed in self.targets[name].seeds]

    def mutations(self, name: str, seeds: Sequence[bytes]) -> Iterator[bytes]:
        return mutations(seeds, f"{name}-{self.seed}")

    def chance(self, name: str) -> Random:
        return Random(f"{name}-{self.seed}")  # noqa: S311  (has to be repeatable, need not be secret)

    def tls(self, *, as_node: bool = False) -> ssl.SSLContext:
        context = trusting(self.node)
        context.check_hostname = False
        if as_node:
            folder = Path(self.node.config)
            file = folder / "fuzzer.pem"
            file.write_bytes(self.certificate.key_pem.reveal() + self.certificate.chain_pem)
            context.load_cert_chain(file)
        return context


Attempts = AsyncIterator[None]  # one for each that was made
Client = Callable[[Victim], Attempts]


async def _ignored(attempt: Awaitable[object]) -> None:
    """Whatever comes of it, in time."""
    with suppress(*EXPECTED):
        async with asyncio.timeout(ATTEMPT_S):
            await attempt


# --- streams of bytes ------------------------------------------------------------------------------------------------


async def _send(port: int, data: bytes, tls: ssl.SSLContext | None) -> None:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls, server_hostname=HOST if tls else None)
    try:
        writer.write(data)
        await writer.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1 << 16), ANSWER_S)
    finally:
        writer.transport.abort()


async def _stream(
    victim: Victim, name: str, port: str, seeds: Sequence[bytes], tls: ssl.SSLContext | None, before: bytes = b""
) -> Attempts:
    """``before`` is sent as it is."""
    place = ports_of(victim.node)[port]
    for data in victim.mutations(name, seeds):
        await _ignored(_send(place, before + data, tls))
        yield


def grpc_bytes(victim: Victim) -> Attempts:
    context = for_http2(victim.tls())
    return _stream(victim, "grpc-bytes", "grpc", victim.seeds("http2-server", "http2-stranger"), context)


def grpc_plain(victim: Victim) -> Attempts:
    """Without the TLS that the port wants: what the handshake makes of it."""
    return _stream(victim, "grpc-plain", "grpc", victim.seeds("http2-server"), None)


def exmp_stranger(victim: Victim) -> Attempts:
    return _stream(victim, "exmp-stranger", "exmps", victim.seeds("exmp-connection", "exmp-message"), victim.tls())


def exmp_key(victim: Victim) -> Attempts:
    """After a good key was shown."""
    hello = bytes.fromhex("00000008 00000000 01000000")
    shown = _exmp_request(1, Operation("authenticate", {"key": victim.key}))
    chance = victim.chance("exmp-key")
    asked = [
        _exmp_request(2, Operation(op, {name: chance.choice(TEXTS) for name in names}))
        for op, names in (
            ("publish", ("topic", "payload", "key")),
            ("subscribe", ("pattern", "start", "group", "member")),
            ("unsubscribe", ("subscription",)),
            ("topics", ("pattern", "page")),
            ("fetch", ("topic", "origin")),
            ("authenticate", ("key",)),
        )
        for _ in range(4)
    ]
    seeds = asked + victim.seeds("exmp-connection")
    return _stream(victim, "exmp-key", "exmps", seeds, victim.tls(), hello + shown)


def _exmp_request(number: int, operation: Operation) -> bytes:
    body = encode_operation(operation)
    return (12 + len(body)).to_bytes(4) + b"\x05\0\0\0" + number.to_bytes(8) + body


def coaty_stranger(victim: Victim) -> Attempts:
    names = [name for name in victim.targets if name.startswith("libp2p-") and name != "libp2p-dns"]
    hello = b"\x13/multistream/1.0.0\n\x0d/secio/1.0.0\n"
    seeds = [hello + seed for seed in victim.seeds(*names)] + victim.seeds("libp2p-multistream")
    return _stream(victim, "coaty", "coaty", seeds, None)


def _http(method: str, path: str, body: object = None, **headers: str) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    told = {"Host": f"{HOST}:1", "Connection": "close", "Content-Length": str(len(content)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items()), "", ""]
    return "\r\n".join(lines).encode() + content


def _pages(**headers: str) -> list[bytes]:
    asked = ("me", "overview", "topics", "groups", "peers", "links", "keys", "graph", "live", "tail", "dead")
    posted = {"topic": "fuzz.a", "payload": "x", "group": "fuzz-1"}
    return [
        *(_http("GET", f"/{name}", **headers) for name in ("healthz", "readyz", "metrics", "status", "")),
        *(_http("GET", f"/api/{name}?pattern=fuzz.>&group=fuzz-1&topic=fuzz.a", **headers) for name in asked),
        *(_http("POST", f"/api/{name}", posted, **headers) for name in ("publish", "dead", "sign-out")),
        _http("POST", "/api/sign-in", {"key": "weft_k3f09a81c22d4e07b_" + "0" * 64}, **headers),
    ]


def admin_stranger(victim: Victim) -> Attempts:
    return _stream(victim, "admin-stranger", "admin", _pages(), None)


def admin_key(victim: Victim) -> Attempts:
    """With a key in the header, and signed in to the console."""
    with signed_in(victim.node, victim.key) as console:
        cookie = "; ".join(f"{name}={value}" for name, value in console.cookies.items())
    return _stream(
        victim, "admin-key", "admin", _pages(Authorization=f"Bearer {victim.key}", Cookie=cookie, **MARK), None
    )


def _ca_pages() -> list[bytes]:
    return [
        _http("GET", "/health"),
        _http("GET", f"/root/{'0' * 64}"),
        _http(
            "POST", "/1.0/sign", {"csr": "-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n", "ott": "eyJhbGciOi.e30.AAAA"}
        ),
        _http("POST", "/1.0/renew", {}),
        _http("POST", "/sign", {"csr": "x", "ott": "a.b.c"}),
    ]


def ca_stranger(victim: Victim) -> Attempts:
    return _stream(victim, "ca-stranger", "ca", _ca_pages(), victim.tls())


def ca_node(victim: Victim) -> Attempts:
    return _stream(victim, "ca-node", "ca", _ca_pages(), victim.tls(as_node=True))


# --- calls -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _channel(victim: Victim, *, as_node: bool = False) -> AsyncIterator[Channel]:
    context = for_http2(victim.tls(as_node=as_node))
    channel = Channel(HOST, ports_of(victim.node)["grpc"], ChannelSettings(), lambda: ChannelTls(context, HOST))
    try:
        yield channel
    finally:
        channel.close()
        await channel.wait_closed()


def _methods() -> list[tuple[str, type[Message]]]:
    """What clients may call, with its request."""
    services = pb.DESCRIPTOR.services_by_name
    return [
        (f"/{service.full_name}/{method.name}", getattr(pb, method.input_type.name))
        for service in services.values()
        for method in service.methods
        if method.name != "Leave"  # an admin's right, and the end of the node
    ]


async def _calls(victim: Victim, name: str, metadata: tuple[tuple[str, str], ...]) -> Attempts:
    """Requests that are filled by chance, every other one damaged as well, several on a call."""
    chance, methods = victim.chance(name), _methods()
    batches = [
        Batch.from_columns([b"x", b"y"], 5).data,
        Batch.from_columns([bytes(1 << 16)], 5, compression="lz4").data,
    ]
    good = [filled(kind, TEXTS, batches, chance) for _, kind in methods for _ in range(50)]
    damaged = victim.mutations(name, good)
    async with _channel(victim) as channel:
        while True:
            path, kind = chance.choice(methods)
            messages = [
                filled(kind, TEXTS, batches, chance) if chance.random() < 0.5 else next(damaged)
                for _ in range(chance.randint(1, 4))
            ]
            await _ignored(_call(channel, path, messages, metadata))
            yield


async def _call(channel: Channel, path: str, messages: Sequence[bytes], metadata: Any) -> None:
    call = await channel.call(path, metadata)
    try:
        for message in messages:
            await call.write(message)
        call.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                while await call.read() is not None:
                    pass
    finally:
        call.cancel()


def grpc_stranger(victim: Victim) -> Attempts:
    return _calls(victim, "grpc-stranger", (("authorization", "Bearer weft_k3f09a81c22d4e07b_" + "0" * 64),))


def grpc_key(victim: Victim) -> Attempts:
    return _calls(victim, "grpc-key", (("authorization", f"Bearer {victim.key}"),))


async def peer_node(victim: Victim) -> Attempts:
    """Links of a node with a good certificate, which break at the first thing that is not as agreed."""
    chance = victim.chance("peer-node")
    batch = Batch.from_columns([b"x"], 5).with_base_offset(0).data
    damaged = victim.mutations("peer-node", victim.seeds("mesh-frame"))
    hello = write_peer_message(peer_pb.PeerMessage(handshake=_hello()))
    async with _channel(victim, as_node=True) as channel:
        while True:
            frames = [_frame(damaged, batch, chance) for _ in range(FRAMES)]
            await _ignored(_link(channel, hello, frames, chance))
            yield


def _hello() -> Any:
    return Hello(PEER, frozenset(Feature), MESH).to_message()  # type: ignore[arg-type]  # any text is a name here


def _frame(damaged: Iterator[bytes], batch: bytes, chance: Random) -> bytes:
    if chance.random() < 0.2:
        return next(damaged)
    message = peer_pb.PeerMessage.FromString(filled(peer_pb.PeerMessage, TEXTS, [batch], chance))
    return write_peer_message(message)


async def _link(channel: Channel, hello: bytes, frames: Sequence[bytes], chance: Random) -> None:
    dial = (("weft-dial", str(chance.randint(1, 1 << 30))),)
    calls = [await channel.call(path, dial) for path in (EVENT_STREAM, CONTROL_STREAM)]
    try:
        for call in calls:
            await call.write(hello)
            await call.read()
        for frame in frames:
            await chance.choice(calls).write(frame)
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                while await calls[0].read() is not None:
                    pass
    finally:
        for call in calls:
            call.cancel()


# --- datagrams -------------------------------------------------------------------------------------------------------


def _device_packets() -> list[bytes]:
    at_s = int(time.time())
    return [
        DEVICE.event("fuzz.a", 21.5, at_s=at_s),
        DEVICE.event("fuzz.b", "text" * 50, at_s=at_s),
        DEVICE.hello(at_s),
        DEVICE.heartbeat(at_s),
    ]


async def emm_udp(victim: Victim) -> Attempts:
    """A stranger's packets, and those of a device that is trusted: damaged, and as they should be."""
    place = int(victim.node.gateway("emm").rpartition(":")[2])
    damaged = victim.mutations("emm-udp", victim.seeds("emm-parse", "emm-compact-decode") + _device_packets())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.setblocking(False)
        while True:
            for _ in range(20):
                with suppress(OSError):
                    sending.sendto(next(damaged)[:60_000], (HOST, place))
            with suppress(OSError):
                sending.sendto(DEVICE.event("fuzz.a", 1, at_s=int(time.time())), (HOST, place))
            await asyncio.sleep(0.002)
            yield


async def quic_bytes(victim: Victim) -> Attempts:
    """What is no QUIC, or nearly."""
    place = int(victim.node.gateway("emm-quic").rpartition(":")[2])
    first = b"\xc3\x00\x00\x00\x01\x08" + b"d" * 8 + b"\x08" + b"s" * 8 + b"\x00\x44\x9e" + bytes(1174)
    damaged = victim.mutations("quic-bytes", [first, b"\x40" + bytes(60), first[:1] + b"\xff\0\0\x1d" + first[5:]])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.setblocking(False)
        while True:
            for _ in range(5):
                with suppress(OSError):
                    sending.sendto(next(damaged)[:60_000], (HOST, place))
            await asyncio.sleep(0.01)
            yield


async def quic_device(victim: Victim) -> Attempts:
    """Handshakes, then datagrams, and streams that nobody asked for."""
    place = int(victim.node.gateway("emm-quic").rpartition(":")[2])
    root = Path(str(victim.node.context.tls_root)).read_bytes()
    damaged = victim.mutations("quic-device", victim.seeds("emm-parse", "emm-compact-decode") + _device_packets())
    while True:
        await _ignored(_quic(place, root, [next(damaged)[:1000] for _ in range(20)]))
        yield


async def _quic(port: int, root: bytes, packets: Sequence[bytes]) -> None:
    async with foreign_client(port, root) as device:
        for number, packet in enumerate(packets):
            device.send(packet)
            if number % 5 == 0:
                device.send_on_stream(packet)
        await asyncio.sleep(ANSWER_S)


CLIENTS: Final[dict[str, Client]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        grpc_plain, grpc_bytes, grpc_stranger, grpc_key, peer_node, exmp_stranger, exmp_key, coaty_stranger,
        admin_stranger, admin_key, ca_stranger, ca_node, emm_udp, quic_bytes, quic_device,
    )
}  # fmt: skip
