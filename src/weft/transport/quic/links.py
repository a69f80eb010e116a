"""All QUIC connections of one owner: those that it made, and those that others made to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

from weft.doors import Door, Doorkeeper, DoorLimits, Guest
from weft.errors import PeerError, UsageError
from weft.limits import QUIC_CONNECTIONS_MAX
from weft.transport.quic.configuration import (
    QUIC_KEPT_TIMEOUT_S,
    Shown,
    client_configuration,
    present,
    server_configuration,
)
from weft.transport.quic.connection import Connection
from weft.transport.udp import OnDatagrams
from weft.wire.udp import TTL_DEFAULT, Address, Datagram, quic_address, show

QUIC_DATAGRAMS_AT_ONCE: Final = 512  # handed on before others have their turn
QUIC_CONNECT_TIMEOUT_S: Final = 10.0  # two round trips and a certificate
QUIC_GRACE_S: Final = 2.0  # a handshake takes two round trips: a slower one is closed if there is no room
QUIC_PINGS_PER_TIMEOUT: Final = 3  # so that two may be lost

OnGone = Callable[[Address], None]


def nobody_asks(address: Address) -> None:
    pass


class QuicLinks:
    """``on_datagrams`` gets what arrived since the last call, ``on_gone`` the address of a connection that was up and
    ended. The loop owns everything here; ``close`` ends all of it.

    ``door`` is how others get in; without one, ``connections_max`` says how many may.
    """

    def __init__(
        self,
        on_datagrams: OnDatagrams,
        on_gone: OnGone = nobody_asks,
        *,
        connections_max: int = QUIC_CONNECTIONS_MAX,
        kept_timeout_s: float = QUIC_KEPT_TIMEOUT_S,
        door: Door | None = None,
    ) -> None:
        self.dropped = 0  # frames that found no room
        self._on_datagrams = on_datagrams
        self._on_gone = on_gone
        self._kept_timeout_s = kept_timeout_s  # of connections that we made
        self._door = door or _own_door(connections_max)
        self._guests: dict[Connection, Guest] = {}  # connections that others made
        self._deadline: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._server: _Server | None = None
        self._configuration: QuicConfiguration | None = None
        self._all: set[Connection] = set()
        self._up: dict[Address, Connection] = {}
        self._dialled: dict[Connection, asyncio.DatagramTransport] = {}
        self._arrived: list[Datagram] = []

    def __len__(self) -> int:
        """The number of connections that are up."""
        return len(self._up)

    # --- coming up -----------------------------------------------------------------------------------------------

    def is_up(self, address: Address) -> bool:
        return address in self._up

    async def listen(self, host: str, port: int, credentials: Shown) -> Address:
        """Accept connections; return where. UsageError if that is not possible. Port 0 takes any."""
        assert self._server is None, "one listener each"
        self._configuration = server_configuration(credentials)
        # With retry, a caller has to prove its address before it costs us memory.
        make = partial(_Server, configuration=self._configuration, create_protocol=self._accepted, retry=True)
        try:
            transport, server = await self._loop.create_datagram_endpoint(make, local_addr=(host, port))
        except OSError as error:
            raise UsageError(f"cannot listen for QUIC on {host}:{port}: {error.strerror or error}") from None
        self._server = server
        return cast(Address, transport.get_extra_info("sockname"))

    def renew(self, credentials: Shown) -> None:
        """Show this certificate to everybody who connects from now on."""
        if self._configuration is not None:
            present(self._configuration, credentials)

    async def connect(
        self, host: str, port: int, root_pem: bytes, *, timeout_s: float = QUIC_CONNECT_TIMEOUT_S
    ) -> Address:
        """Connect to the node that has a certificate for ``host`` from that root; return where to send to. PeerError if
        that fails."""
        quic = QuicConnection(configuration=client_configuration(host, root_pem, self._kept_timeout_s))
        address = await _resolved(host, port)
        connection = self._connection(quic)
        try:
            transport, _ = await self._loop.create_datagram_endpoint(lambda: connection, remote_addr=address[:2])
        except OSError as error:
            self._forget(connection)
            raise PeerError(f"cannot connect to {show(address)} over QUIC: {error.strerror or error}") from None
        except asyncio.CancelledError:
            self._forget(connection)
            raise
        self._dialled[connection] = transport
        connection.peer = transport.get_extra_info("peername")
        try:
            async with asyncio.timeout(timeout_s):
                if not connection.ended:
                    connection.connect(connection.peer)
                await connection.settled.wait()
        except TimeoutError:
            connection.ended = connection.ended or f"no answer within {timeout_s:g} s"
        except asyncio.CancelledError:
            self._forget(connection)
            raise
        target = quic_address(connection.peer)
        if connection.ended or self._up.get(target) is not connection:
            self._forget(connection)
            raise PeerError(f"cannot connect to {show(address)} over QUIC: {connection.ended}")
        return target

    async def standing(self, address: Address) -> None:
        """Keep a connection alive; return when it is over."""
        connection = self._up.get(address)
        while connection is not None and not connection.gone.is_set():
            try:
                async with asyncio.timeout(self._kept_timeout_s / QUIC_PINGS_PER_TIMEOUT):
                    await connection.gone.wait()
            except TimeoutError:
                connection.keep_alive()

    async def acknowledged(self, address: Address) -> None:
        """Wait until the other side has acknowledged something that was sent after everything so far. PeerError if it
        is gone. A packet that was lost on the way stays lost."""
        connection = self._up.get(address)
        if connection is None:
            raise PeerError("the connection is over")
        try:
            await connection.ping()
        except ConnectionError:
            raise PeerError(f"the other side ended the connection: {connection.ended}") from None

    def _accepted(self, quic: Any, stream_handler: Any = None) -> Connection:
        """A handshake begins. The caller has answered a retry, so the address is really its own."""
        assert self._server is not None and self._server.sender is not None, "it has just received something"
        guest = self._door.arrive(self._server.sender[0], self._loop.time())
        if guest is None:
            raise _NotLetIn
        made = self._connection(quic)
        self._guests[made] = guest
        guest.turn_out = partial(self._turn_out, made)
        self._watch()
        return made

    def _turn_out(self, connection: Connection, text: str) -> None:
        """Remove a connection at once. The peer gets a packet that says so, unless it is lost."""
        connection.end(text)
        self._forget(connection)

    def _watch(self) -> None:
        """Look again when the oldest handshake has taken too long."""
        deadline_s = self._door.next_deadline_s()
        if self._deadline is None and deadline_s is not None:
            self._deadline = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        self._door.expire(self._loop.time())
        self._watch()

    def _connection(self, quic: Any) -> Connection:
        made = Connection(quic, self._on_up, self._on_frame, self._forget)
        self._all.add(made)
        return made

    def _on_up(self, connection: Connection) -> None:
        assert connection.peer is not None, "a handshake has a peer"
        if connection in self._guests:
            self._guests[connection].prove()
        address = quic_address(connection.peer)
        if (before := self._up.get(address)) is not None:  # the peer was started again, and has the same port
            before.end("connected again")
            self._forget(before)
        self._up[address] = connection

    # --- frames --------------------------------------------------------------------------------------------------

    def send(self, data: bytes, target: Address) -> bool:
        """Send a packet. Return False if there is no such connection, it has no room, or the packet does not fit into a
        frame."""
        connection = self._up.get(target)
        return connection is not None and connection.send(data)

    def _on_frame(self, connection: Connection, data: bytes) -> None:
        assert connection.peer is not None, "a frame came from somewhere"
        if not self._arrived:
            self._loop.call_soon(self._hand_over)
        if len(self._arrived) >= QUIC_DATAGRAMS_AT_ONCE:
            self.dropped += 1
            return
        self._arrived.append(Datagram(data, quic_address(connection.peer), TTL_DEFAULT, 0))

    def _hand_over(self) -> None:
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._on_datagrams(arrived)

    # --- going down ----------------------------------------------------------------------------------------------

    def _forget(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.gone.set()
        guest = self._guests.pop(connection, None)
        if guest is not None:
            guest.leave()
        transport = self._dialled.pop(connection, None)
        if transport is not None:
            connection.abandon()
            transport.close()
        address = None if connection.peer is None else quic_address(connection.peer)
        if address is not None and self._up.get(address) is connection:
            del self._up[address]
            self._hand_over()  # what came before the end is handed on first
            self._on_gone(address)

    def drop(self, address: Address) -> None:
        """End the connection, if it is up."""
        if (connection := self._up.get(address)) is not None:
            connection.end("no longer wanted")
            self._forget(connection)

    def close(self) -> None:
        """End all connections. Closing twice does nothing."""
        self._arrived.clear()
        self._on_gone = nobody_asks
        if self._deadline is not None:
            self._deadline.cancel()
        for connection in list(self._all):
            connection.end("closed")
            connection.abandon()
            self._forget(connection)
        if self._server is not None:
            self._server.close()
            self._server = None


class _NotLetIn(Exception):
    """There is no room for a connection, so none is made. The caller is told nothing, and tries again."""


class _Server(QuicServer):
    """Replaces aioquic's, which would make a connection of every handshake."""

    sender: Address | None = None  # of the datagram that is being received

    def datagram_received(self, data: Any, addr: Any) -> None:
        self.sender = addr
        with suppress(_NotLetIn):
            super().datagram_received(data, addr)


def _own_door(connections_max: int) -> Door:
    """A door for links without a doorkeeper: all bounds equal the one on connections."""
    limits = DoorLimits(
        connections_max, connections_max, connections_max, connections_max, QUIC_GRACE_S, QUIC_CONNECT_TIMEOUT_S
    )
    return Doorkeeper().door("emm-quic", limits, apart=True)


async def _resolved(host: str, port: int) -> Address:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(f"no address for {host!r} and port {port}: {error.strerror or error}") from None
    return cast(Address, found[0][4])
