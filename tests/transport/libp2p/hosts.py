"""Hosts on loopback with identities of their own, and a way to wait for what they should come to."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import coincurve
from cryptography.hazmat.primitives.asymmetric import ed25519

from weft.doors import Door
from weft.transport.libp2p import Connection, Host, Neighbour, Pubsub
from weft.wire.libp2p import Multiaddr, PrivateKey, multiaddr
from weft.wire.libp2p.floodsub import Dropped, Message

WAIT_S_MAX = 20.0


def new_identity() -> PrivateKey:
    return PrivateKey(ed25519.Ed25519PrivateKey.generate())


def new_curve_identity() -> PrivateKey:
    return PrivateKey(coincurve.PrivateKey())


@dataclass
class Peer:
    """A host with Floodsub, and what it has come to know."""

    host: Host
    pubsub: Pubsub
    messages: list[Message] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    lost: list[Connection] = field(default_factory=list)

    @property
    def address(self) -> Multiaddr:
        endpoint = self.host.listen_addresses[0].tcp_endpoint
        assert endpoint is not None
        return multiaddr.tcp(*endpoint, self.host.peer)

    @property
    def payloads(self) -> list[bytes]:
        return [message.data for message in self.messages]


async def eventually(holds: Callable[[], object]) -> None:
    """Wait for a condition, and fail if it does not come about."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def peer(identity: PrivateKey | None = None, *topics: str, door: Door | None = None) -> AsyncIterator[Peer]:
    """One that listens on a free port and is subscribed to ``topics``."""
    host = Host(identity or new_identity(), secrets.token_bytes, "weft-test/0")
    host.door = door or host.door
    pubsub = Pubsub(host, secrets.token_bytes)
    one = Peer(host, pubsub)
    pubsub.on_message, pubsub.on_dropped = one.messages.append, one.dropped.append

    def ready(connection: Connection, neighbour: Neighbour) -> None:
        pubsub.ready(connection, neighbour)

    def lost(connection: Connection) -> None:
        one.lost.append(connection)
        pubsub.lost(connection)

    host.on_ready, host.on_lost = ready, lost
    for topic in topics:
        pubsub.subscribe(topic)
    await host.listen("127.0.0.1", 0)
    try:
        yield one
    finally:
        await host.close()
