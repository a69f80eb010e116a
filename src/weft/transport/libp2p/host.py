"""One libp2p peer with all its connections: it listens, dials, and learns who and where each neighbour is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.doors import Door, Doorkeeper, DoorLimits, Guest
from weft.doors.accepting import Acceptor, listen_on
from weft.errors import PeerError, UsageError, WeftError
from weft.limits import IDENTIFY_BYTES_MAX, LIBP2P_CONNECTIONS_MAX
from weft.transport.libp2p.connection import LIBP2P_NEGOTIATION_S, Accept, Connection, Stream
from weft.wire.libp2p import identify, multiaddr, varint
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.framing import VarintFrames
from weft.wire.libp2p.multiaddr import Multiaddr
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.private_keys import PrivateKey
from weft.wire.libp2p.upgrade import Entropy, Upgrade

LIBP2P_DIAL_S: Final = 10.0  # for a TCP connection
# The door of a host without a node's doorkeeper. If there is no room, a peer that needs longer than a handshake takes
# may be closed.
LIBP2P_DOOR: Final = DoorLimits(
    LIBP2P_CONNECTIONS_MAX, LIBP2P_CONNECTIONS_MAX, LIBP2P_CONNECTIONS_MAX, LIBP2P_CONNECTIONS_MAX, grace_s=2.0
)
PROTOCOL_VERSION: Final = "ipfs/0.1.0"  # what the reference says


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A peer that is connected, as it described itself."""

    peer: PeerId
    protocols: tuple[str, ...]
    addresses: tuple[Multiaddr, ...]  # where it says that it listens


class Host:
    """Callbacks: ``on_ready`` is called for every connection to a neighbour, once it has said who it is; ``on_lost``
    for every such connection that ended. ``on_full`` is called when there are too many connections, and not again until
    there was room. ``door`` lets others in; a node sets its own before ``listen``."""

    def __init__(
        self,
        identity: PrivateKey,
        entropy: Entropy,
        agent_version: str,
        connections_max: int = LIBP2P_CONNECTIONS_MAX,
    ) -> None:
        self.identity = identity
        self.on_ready: Callable[[Connection, Neighbour], None] = lambda connection, neighbour: None
        self.on_lost: Callable[[Connection], None] = lambda connection: None
        self.on_full: Callable[[PeerError], None] = lambda error: None
        self.refused = 0  # connections beyond the bound, since the start
        self._connections_max = connections_max
        self._is_full = False
        self._entropy = entropy
        self._agent_version = agent_version
        self._accepted: dict[str, Accept] = {identify.PROTOCOL: self._tell_identity}
        self.door: Door = Doorkeeper().door("coaty", LIBP2P_DOOR)
        self._acceptors: list[Acceptor] = []
        self._listening: list[socket.socket] = []
        self._guests: dict[Connection, Guest] = {}  # as the door knows them
        self._all: set[Connection] = set()  # including those being upgraded and those kept apart
        self._apart: set[Connection] = set()
        self._ready: dict[PeerId, dict[Connection, Neighbour]] = {}
        self._dialling: dict[Multiaddr, asyncio.Task[Connection]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # --- what is there -------------------------------------------------------------------------------------------

    @property
    def peer(self) -> PeerId:
        return self.identity.peer

    @property
    def listen_addresses(self) -> tuple[Multiaddr, ...]:
        """Where this host can be reached, without its peer id."""
        names = [sock.getsockname()[:2] for sock in self._listening]
        return tuple(multiaddr.tcp(host, port) for host, port in names)

    @property
    def neighbours(self) -> dict[PeerId, Neighbour]:
        return {peer: next(iter(known.values())) for peer, known in self._ready.items()}

    def connections(self, peer: PeerId) -> Sequence[Connection]:
        """Those that are ready, oldest first."""
        return tuple(self._ready.get(peer, ()))

    def handle(self, protocol: str, accept: Accept) -> None:
        """Speak this protocol on streams that peers open."""
        self._accepted[protocol] = accept

    # --- coming and going ----------------------------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> None:
        try:
            listening = listen_on(host, port)
        except OSError as error:
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
        acceptor = Acceptor(listening, self.door, self._connect)
        acceptor.start()
        self._listening.append(listening)
        self._acceptors.append(acceptor)

    async def dial(self, address: Multiaddr) -> Connection:
        """A connection to the peer at ``address`` (which names it): an existing one or a new one; or PeerError."""
        peer = _named_peer(address)
        if standing := self.connections(peer):
            return standing[0]
        if (dialling := self._dialling.get(address)) is None:
            dialling = asyncio.get_running_loop().create_task(self._dial(address, peer), name=f"dial {address}")
            self._dialling[address] = dialling
            dialling.add_done_callback(lambda _: self._dialling.pop(address, None))
        return await asyncio.shield(dialling)

    async def dial_apart(self, address: Multiaddr) -> Connection:
        """Make a connection of which nobody is told: neither ``on_ready`` nor ``on_lost`` is called for it. Close it
        after use."""
        return await self._dial(address, _named_peer(address), apart=True)

    async def close(self) -> None:
        self._is_closed = True
        self._listening = []
        for acceptor in self._acceptors:
            await acceptor.stop()
        tasks: list[asyncio.Task[Any]] = [*self._tasks, *self._dialling.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        overs = {connection.over: connection for connection in self._all}
        for connection in overs.values():
            connection.close()
        if overs:
            _, late = await asyncio.wait(overs, timeout=LIBP2P_NEGOTIATION_S)
            for over in late:
                overs[over].abort(PeerError("peer did not take the rest in time"))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task until the host is closed. A PeerError ends the task quietly: its peer is gone, or refuses."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and not isinstance(task.exception(), PeerError | None):
            task.get_loop().call_exception_handler(
                {"message": f"{task.get_name()} failed", "exception": task.exception(), "task": task}
            )

    # --- what connections say ------------------------------------------------------------------------------------

    def accepted(self) -> dict[str, Accept]:
        return self._accepted

    def established(self, connection: Connection) -> None:
        if connection not in self._apart and not self._is_closed:
            self.spawn(self._ask_identity(connection), f"identify {connection.peer}")

    def lost(self, connection: Connection) -> None:
        known = self._ready.get(connection.peer, {})
        if known.pop(connection, None) is not None:
            if not known:
                del self._ready[connection.peer]
            self.on_lost(connection)

    # --- dialling and accepting ----------------------------------------------------------------------------------

    async def _connect(self, connected: socket.socket, guest: Guest, port: int) -> None:
        connection = self._new_connection(None)
        self._guests[connection] = guest
        guest.turn_out = lambda text: connection.abort(PeerError(text))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, connected)
        finally:
            if not connection.is_made:
                self._forget(connection)

    def _new_connection(self, expected: PeerId | None) -> Connection:
        connection = Connection(Upgrade(self.identity, expected, self._entropy), self)
        if len(self._all) >= self._connections_max:
            connection.reason = self._refuse()
        else:
            self._all.add(connection)
        connection.over.add_done_callback(lambda _: self._forget(connection))
        return connection

    def _refuse(self) -> PeerError:
        error = PeerError("too many connections", limit=self._connections_max)
        self.refused += 1
        if not self._is_full:
            self._is_full = True
            self.on_full(error)
        return error

    def _forget(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._apart.discard(connection)
        self._is_full = self._is_full and len(self._all) >= self._connections_max
        guest = self._guests.pop(connection, None)
        if guest is not None:
            guest.leave()

    async def _dial(self, address: Multiaddr, peer: PeerId, *, apart: bool = False) -> Connection:
        endpoint = address.tcp_endpoint
        if endpoint is None:
            raise PeerError("only TCP addresses can be dialled", address=address)
        connection = self._new_connection(peer)
        loop = asyncio.get_running_loop()
        guest = self.door.arrive(endpoint[0], loop.time())  # our own dials take a place as well
        if guest is None:
            self._forget(connection)
            raise PeerError("too many connections to dial another one", address=address)
        guest.prove()
        self._guests[connection] = guest
        if apart:
            self._apart.add(connection)
        try:
            async with asyncio.timeout(LIBP2P_DIAL_S):
                await loop.create_connection(lambda: connection, *endpoint)
        except TimeoutError:
            raise PeerError("cannot reach the peer: no answer", address=address, limit_s=LIBP2P_DIAL_S) from None
        except OSError as error:
            raise PeerError(f"cannot reach the peer: {error.strerror or error}", address=address) from None
        except UnicodeError as error:  # a label of a DNS name that is too long, for asyncio's own loop
            raise PeerError(f"cannot reach the peer: {error}", address=address) from None
        finally:
            if not connection.is_made:
                self._forget(connection)
        await asyncio.shield(connection.stood)
        if not connection.stands:
            raise connection.reason or PeerError("the peer hung up in the handshake", address=address)
        return connection

    # --- identify ------------------------------------------------------------------------------------------------

    def _tell_identity(self, stream: Stream) -> _Ignoring:
        host, port = stream.connection.endpoint
        answer = identify.Identify(
            public_key=self.identity.public,
            listen_addrs=self.listen_addresses,
            protocols=tuple(self._accepted),
            observed_addr=multiaddr.tcp(host, port),
            protocol_version=PROTOCOL_VERSION,
            agent_version=self._agent_version,
        )
        asyncio.get_running_loop().call_soon(_send_and_close, stream, varint.prefixed(answer.encode()))
        return _Ignoring()

    async def _ask_identity(self, connection: Connection) -> None:
        asked = _Asked(asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(LIBP2P_NEGOTIATION_S):
                stream = await connection.open(identify.PROTOCOL, lambda stream: asked)
                answer = await asked.answer
        except TimeoutError:
            connection.abort(PeerError("peer did not say who it is", limit_s=LIBP2P_NEGOTIATION_S))
            return
        except WeftError as error:
            connection.abort(PeerError(f"peer did not say who it is: {error}"))
            return
        stream.close()
        if connection.stands:
            neighbour = Neighbour(connection.peer, answer.protocols, answer.listen_addrs)
            self._ready.setdefault(connection.peer, {})[connection] = neighbour
            if connection in self._guests:
                self._guests[connection].prove()
            self.on_ready(connection, neighbour)


class _Ignoring:
    """For a stream on which the peer has nothing to say."""

    def on_message(self, data: bytes) -> None:
        raise BadFrame("peer speaks where it should listen", have=len(data))

    def on_end(self) -> None:
        pass

    def on_lost(self) -> None:
        pass


class _Asked:
    """The one message of an identify stream."""

    def __init__(self, answer: asyncio.Future[identify.Identify]) -> None:
        self.answer = answer
        self._frames = VarintFrames()

    def on_message(self, data: bytes) -> None:
        if self.answer.done():
            return  # ignore what a peer sends after its answer, so that it does not pile up
        self._frames.feed(data)
        body = self._frames.next_frame_untrusted(IDENTIFY_BYTES_MAX)
        if body is not None:
            self.answer.set_result(identify.decode_untrusted(body))

    def on_end(self) -> None:
        self.on_lost()

    def on_lost(self) -> None:
        if not self.answer.done():
            self.answer.set_exception(PeerError("the stream ended before the answer"))


def _send_and_close(stream: Stream, data: bytes) -> None:
    stream.send(data)
    stream.close()


def _named_peer(address: Multiaddr) -> PeerId:
    if address.peer is None:
        raise UsageError("the address has to name the peer: .../p2p/PEER", address=address)
    return address.peer
