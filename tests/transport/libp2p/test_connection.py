"""The first moments of a connection, on a transport that is made up."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, cast

from tests.transport.libp2p.hosts import new_identity
from weft.errors import PeerError
from weft.transport.libp2p import Connection, Host
from weft.wire.libp2p.upgrade import Upgrade


class Wire:
    """A transport as event loops of others have them: of no class that asyncio knows."""

    def __init__(self, peer_name: tuple[str, int] | None = ("127.0.0.1", 4001)) -> None:
        self.written = b""
        self.is_aborted = False
        self._peer_name = peer_name

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True

    def get_extra_info(self, name: str) -> Any:
        return self._peer_name if name == "peername" else None


def new_connection() -> Connection:
    """One that was dialled, so it is the first to say something."""
    identity = new_identity()
    host = Host(identity, secrets.token_bytes, "weft-test/0")
    return Connection(Upgrade(identity, new_identity().peer, secrets.token_bytes), host)


def made(connection: Connection, wire: Wire) -> None:
    connection.connection_made(cast(asyncio.BaseTransport, wire))


async def test_any_transport_will_do() -> None:
    connection, wire = new_connection(), Wire()
    made(connection, wire)
    assert wire.written and not wire.is_aborted
    assert connection.endpoint == ("127.0.0.1", 4001)
    connection.connection_lost(None)


async def test_what_is_aborted_before_it_is_made_ends_when_it_is() -> None:
    connection, wire = new_connection(), Wire()
    connection.abort(PeerError("not wanted"))
    connection.close()
    made(connection, wire)
    assert wire.is_aborted and not wire.written
    connection.connection_lost(None)
    assert str(connection.reason) == "not wanted"
    assert connection.over.done()


async def test_a_peer_that_hung_up_at_once_has_no_address() -> None:
    connection, wire = new_connection(), Wire(peer_name=None)
    made(connection, wire)
    assert wire.is_aborted and not wire.written
    connection.connection_lost(None)
    assert str(connection.reason) == "peer hung up at once"
