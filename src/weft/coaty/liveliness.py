"""Performs what ``weft.wire.coaty.Liveliness`` decides: announcements, pings, last wills (COA-10)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, assert_never

from weft.errors import WeftError
from weft.transport.libp2p import Connection, Host, Stream
from weft.wire.coaty import (
    LIVELINESS_PROTOCOL,
    BadCoatyMessage,
    CarryOut,
    Effect,
    LastWill,
    Liveliness,
    Message,
    Ping,
    PingAlive,
    PingAliveAck,
    Reply,
    Send,
    decode_liveliness_untrusted,
    encode_liveliness,
)
from weft.wire.libp2p import Multiaddr, PeerId, multiaddr
from weft.wire.libp2p.peer_id import from_text_untrusted

COATY_PING_TIMEOUT_S: Final = 5.0  # for a new connection and an answer; then the peer is dead


class LivelinessService:
    """``carry_out`` is given the Deadvertise event of every agent that died."""

    def __init__(self, host: Host, own_will: LastWill, carry_out: Callable[[Message], None]) -> None:
        self._host = host
        self._decisions = Liveliness(own_will)
        self._carry_out = carry_out
        self._addresses: dict[str, tuple[Multiaddr, ...]] = {}  # of neighbours: where a ping goes
        host.handle(LIVELINESS_PROTOCOL, lambda stream: _Inbound(self, stream))

    def knows(self, peer: PeerId) -> bool:
        return str(peer) in self._addresses

    def joined(self, peer: PeerId) -> None:
        """A neighbour that speaks the protocol has subscribed to a topic of our namespace."""
        neighbour = self._host.neighbours.get(peer)
        if neighbour is not None and LIVELINESS_PROTOCOL in neighbour.protocols:
            self._addresses[str(peer)] = neighbour.addresses
            self._perform(self._decisions.connected(str(peer)))

    def lost(self, connection: Connection) -> None:
        """Its last connection is gone."""
        peer = str(connection.peer)
        effects = self._decisions.last_connection_closed(peer, time.monotonic(), by_us=connection.closed_by_us)
        self._perform(effects)
        if not any(isinstance(effect, Ping) for effect in effects):
            self._addresses.pop(peer, None)

    def received(self, stream: Stream, data: bytes) -> bool:
        """One frame is one message; raise BadCoatyMessage if it is none. Whether it is a ping that is left unanswered:
        then the stream has to stay open, because its end would be taken for an answer."""
        message = decode_liveliness_untrusted(data)
        effects = self._decisions.received(message, str(stream.peer), time.monotonic())
        replies = [effect for effect in effects if isinstance(effect, Reply)]
        for reply in replies:
            stream.send(encode_liveliness(reply.message))
        self._perform(effect for effect in effects if not isinstance(effect, Reply))
        return isinstance(message, PingAlive) and not replies

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer_id, message):
                    self._host.spawn(self._send(peer_id, encode_liveliness(message)), f"announce to {peer_id}")
                case Ping(peer_id):
                    self._host.spawn(self._ping(peer_id), f"ping {peer_id}")
                case CarryOut(last_will):
                    self._carry_out(last_will.to_event())
                case Reply():
                    raise AssertionError("replies go out where the question came in")
                case _:
                    assert_never(effect)

    async def _send(self, peer_id: str, frame: bytes) -> None:
        for connection in self._host.connections(from_text_untrusted(peer_id)):
            stream = await connection.open(LIVELINESS_PROTOCOL, lambda stream: _Answer(None))
            stream.send(frame)
            stream.close()
            return

    async def _ping(self, peer_id: str) -> None:
        alive = False
        for address in self._addresses.pop(peer_id, ()):
            if alive := await self._is_alive(address, from_text_untrusted(peer_id)):
                break
        self._perform(self._decisions.ping_result(peer_id, alive=alive))

    async def _is_alive(self, address: Multiaddr, peer: PeerId) -> bool:
        endpoint = address.tcp_endpoint
        if endpoint is None:
            return False
        connection: Connection | None = None
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(COATY_PING_TIMEOUT_S):
                connection = await self._host.dial_apart(multiaddr.tcp(*endpoint, peer))
                stream = await connection.open(LIVELINESS_PROTOCOL, lambda stream: _Answer(answer))
                stream.send(encode_liveliness(PingAlive()))
                return await answer
        except (TimeoutError, WeftError):
            return False
        finally:
            if connection is not None:
                connection.close()


class _Inbound:
    def __init__(self, service: LivelinessService, stream: Stream) -> None:
        self._service = service
        self._stream = stream
        self._is_left_open = False

    def on_message(self, data: bytes) -> None:
        try:
            self._is_left_open = self._service.received(self._stream, data)
        except BadCoatyMessage:
            self._stream.reset()  # the link is as good as it was

    def on_end(self) -> None:
        if not self._is_left_open:
            self._stream.close()

    def on_lost(self) -> None:
        pass


class _Answer:
    """A stream that we opened. After a ping, an answer is expected on it; after an announcement, nothing."""

    def __init__(self, answer: asyncio.Future[bool] | None) -> None:
        self._answer = answer

    def on_message(self, data: bytes) -> None:
        try:
            self._settle(isinstance(decode_liveliness_untrusted(data), PingAliveAck))
        except BadCoatyMessage:
            self._settle(False)

    def on_end(self) -> None:
        pass

    def on_lost(self) -> None:
        self._settle(False)

    def _settle(self, alive: bool) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(alive)
