"""Floodsub on a host: it does what the router decides, and hands on the messages that it delivers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, assert_never

from weft.errors import PeerError
from weft.limits import FLOODSUB_RPC_BYTES_MAX
from weft.transport.libp2p.connection import Connection, Stream
from weft.transport.libp2p.host import Host, Neighbour
from weft.wire.libp2p import floodsub, varint
from weft.wire.libp2p.floodsub import Message, Router, Subscription
from weft.wire.libp2p.framing import VarintFrames
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.upgrade import Entropy

LIBP2P_STALL_S: Final = 30.0  # if a task waits for a peer that takes nothing for so long, the connection is closed
FLOODSUB_STREAMS_MAX: Final = 2  # opened by a peer on one connection, each with up to 5 MiB unread; the reference: one
FLOODSUB_RPCS_AT_ONCE: Final = 1024  # in one message of the muxer: peers send one; a million empty ones would fit
SEQNO_BYTES = 8  # as in the reference


class Pubsub:
    """Callbacks: ``on_message`` gets messages of topics that we subscribed to. ``on_changed`` is called when a peer has
    said what it subscribes to; it may not be a neighbour yet. ``on_left`` is called when that is forgotten, because the
    peer's last connection ended. ``on_dropped`` is called for messages that are not valid."""

    def __init__(self, host: Host, entropy: Entropy) -> None:
        self.on_message: Callable[[Message], None] = lambda message: None
        self.on_changed: Callable[[PeerId, Sequence[Subscription]], None] = lambda peer, changes: None
        self.on_left: Callable[[PeerId], None] = lambda peer: None
        self.on_dropped: Callable[[floodsub.Dropped], None] = lambda dropped: None
        self._host = host
        self._entropy = entropy
        self._router = Router(host.identity)
        self._streams: dict[PeerId, Stream] = {}  # ours; each side opens one
        self._joining: set[PeerId] = set()
        self._inbound: dict[Connection, int] = {}  # connections on which RPCs come, and on how many streams
        self._paused = False
        host.handle(floodsub.PROTOCOL, lambda stream: _Inbound(self, stream))

    # --- for the agent -------------------------------------------------------------------------------------------

    def subscribe(self, topic: str) -> None:
        self._perform(self._router.subscribe(topic))

    def unsubscribe(self, topic: str) -> None:
        self._perform(self._router.unsubscribe(topic))

    def publish(self, topic: str, data: bytes, seqno: bytes | None = None) -> None:
        """Publish to all neighbours that want it, and to ourselves if we do. Await ``drained`` before publishing much
        more.

        ``seqno`` tells our messages apart, and must never repeat; None takes a random one.
        """
        number = self._entropy(SEQNO_BYTES) if seqno is None else seqno
        self._perform(self._router.publish(topic, data, number, time.monotonic()))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to which we are subscribed."""
        return self._router.topics

    def peers_of(self, topic: str) -> frozenset[PeerId]:
        """The neighbours that get what is published on a topic: they want it, and our stream to them is open."""
        return self._router.peers_of(topic) & self._streams.keys()

    def sends_to(self, peer: PeerId, topic: str) -> bool:
        """Whether a neighbour gets what is published on a topic."""
        return peer in self._streams and self._router.wants(peer, topic)

    async def drained(self) -> None:
        """Wait until every neighbour has taken most of what was sent; one that takes nothing for too long loses its
        connection.

        Others have their turn in any case: a publisher in a loop must not stop its own host from reading.
        """
        await asyncio.sleep(0)
        for stream in list(self._streams.values()):
            try:
                async with asyncio.timeout(LIBP2P_STALL_S):
                    await stream.connection.drained()
            except TimeoutError:
                stream.connection.abort(
                    PeerError("peer does not read its messages", peer=stream.peer, limit_s=LIBP2P_STALL_S)
                )

    def pause(self) -> None:
        """The application is too slow: stop reading from neighbours, which slows them down in the end."""
        self._paused = True
        for connection in self._connections():
            connection.pause_reading()

    def resume(self) -> None:
        self._paused = False
        for connection in self._connections():
            connection.resume_reading()

    # --- neighbours: called by the owner of the host -------------------------------------------------------------

    def ready(self, connection: Connection, neighbour: Neighbour) -> None:
        if floodsub.PROTOCOL in neighbour.protocols:
            self._join(connection)

    def lost(self, connection: Connection) -> None:
        peer = connection.peer
        stream = self._streams.get(peer)
        if stream is not None and stream.connection is connection:
            del self._streams[peer]
        if others := self._host.connections(peer):
            self._join(others[0])
        else:
            self._forget(peer)

    def _forget(self, peer: PeerId) -> None:
        self._router.peer_left(peer)
        self.on_left(peer)

    def _join(self, connection: Connection) -> None:
        if connection.peer not in self._streams and connection.peer not in self._joining:
            self._joining.add(connection.peer)
            self._host.spawn(self._open(connection), f"floodsub {connection.peer}")

    async def _open(self, connection: Connection) -> None:
        peer = connection.peer
        try:
            stream = await connection.open(floodsub.PROTOCOL, lambda stream: _Outbound(connection))
        finally:
            self._joining.discard(peer)
        if connection.stands:
            self._streams[peer] = stream
            self._perform(self._router.peer_joined(peer))

    # --- what comes ----------------------------------------------------------------------------------------------

    def received(self, sender: PeerId, body: bytes) -> Iterator[None]:
        """Take an RPC from a neighbour, step by step; raise BadFrame if it is not valid."""
        for effects in self._router.rpc_effects(sender, body, time.monotonic()):
            self._perform(effects)
            yield

    def read_from(self, connection: Connection) -> None:
        """A peer has opened a stream for its RPCs; raise PeerError if it has too many.

        The connection is paused together with the others, whether or not the peer has said yet who it is.
        """
        if connection not in self._inbound:
            self._inbound[connection] = 0
            connection.over.add_done_callback(lambda _: self._over(connection))
        if self._inbound[connection] >= FLOODSUB_STREAMS_MAX:
            raise PeerError("peer opens too many Floodsub streams", peer=connection.peer, limit=FLOODSUB_STREAMS_MAX)
        self._inbound[connection] += 1
        if self._paused:
            connection.pause_reading()

    def read_no_more(self, connection: Connection) -> None:
        """One of these streams has ended."""
        if connection in self._inbound:
            self._inbound[connection] -= 1

    def _over(self, connection: Connection) -> None:
        """Forget what a peer subscribes to, even if it never said who it is, and so never was a neighbour."""
        del self._inbound[connection]
        peer = connection.peer
        if not self._host.connections(peer) and all(each.peer != peer for each in self._inbound):
            self._forget(peer)

    def _perform(self, effects: Iterable[floodsub.Effect]) -> None:
        for effect in effects:
            match effect:
                case floodsub.Send(peers, body):
                    framed = varint.prefixed(body)
                    for peer in peers:
                        if (stream := self._streams.get(peer)) is not None:
                            stream.send(framed)
                case floodsub.Deliver(message):
                    self.on_message(message)
                case floodsub.Subscribed(peer, changes):
                    self.on_changed(peer, changes)
                case floodsub.Dropped():
                    self.on_dropped(effect)
                case _:
                    assert_never(effect)

    def _connections(self) -> list[Connection]:
        neighbours = {connection for peer in self._host.neighbours for connection in self._host.connections(peer)}
        return list(neighbours | self._inbound.keys())


class _Inbound:
    """The stream on which a neighbour sends its RPCs."""

    def __init__(self, pubsub: Pubsub, stream: Stream) -> None:
        self._pubsub = pubsub
        self._stream = stream
        self._frames = VarintFrames()
        self._is_read = True
        pubsub.read_from(stream.connection)

    def on_message(self, data: bytes) -> Iterator[None]:
        self._frames.feed(data)
        count = 0
        while (body := self._frames.next_frame_untrusted(FLOODSUB_RPC_BYTES_MAX)) is not None:
            count += 1
            if count > FLOODSUB_RPCS_AT_ONCE:
                raise PeerError("peer sends too many RPCs at once", limit=FLOODSUB_RPCS_AT_ONCE)
            yield
            yield from self._pubsub.received(self._stream.peer, body)

    def on_end(self) -> None:
        self.on_lost()
        self._stream.close()

    def on_lost(self) -> None:
        if self._is_read:
            self._is_read = False
            self._pubsub.read_no_more(self._stream.connection)


class _Outbound:
    """Our own stream, on which the neighbour sends nothing. If this stream is lost and the connection is not, we hang
    up, so that both sides can start again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def on_message(self, data: bytes) -> None:
        pass  # the reference never sends anything here, so it can be ignored

    def on_end(self) -> None:
        pass

    def on_lost(self) -> None:
        self._connection.abort(PeerError("peer gave up the Floodsub stream"))
