"""One connection to a peer: it is encrypted and has streams, and each stream has a handler that takes its messages."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast

from weft.errors import PeerError, UsageError, WeftError
from weft.limits import MIB
from weft.wire.libp2p import mplex
from weft.wire.libp2p.mplex import StreamId
from weft.wire.libp2p.multistream import Dialler, Listener, Selected
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.upgrade import Upgrade, Upgraded

LIBP2P_UPGRADE_S: Final = 10.0  # to make a TCP connection one with streams: a few round trips and an RSA signature
LIBP2P_NEGOTIATION_S: Final = 10.0  # for the two lines at the beginning of a stream
LIBP2P_SILENCE_S: Final = 30  # a peer whose machine acknowledges nothing for so long is gone
LIBP2P_PROBE_S: Final = 5  # between checks whether the peer is there, on a quiet connection
LIBP2P_TURN_S: Final = 0.005  # to handle what came on one connection, in one turn of the loop
LIBP2P_UNSENT_BYTES_MAX: Final = 16 * MIB  # to one peer: eight of the longest messages; then it is closed


DONE: Final = object()


class StreamHandler(Protocol):
    """Handles one stream. If it raises PeerError, the connection ends."""

    def on_message(self, data: bytes) -> Iterator[None] | None:
        """Take one message of the muxer, as it was sent. If the work may take long, return an iterator that does it
        step by step; nothing else is taken from this connection before the last step."""

    def on_end(self) -> None:
        """The peer sends no more on this stream."""

    def on_lost(self) -> None:
        """The stream was reset, or the connection is gone. This is the last call."""


Accept = Callable[["Stream"], StreamHandler]


class Owner(Protocol):
    """What a connection tells its host."""

    def established(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...

    def accepted(self) -> dict[str, Accept]:
        """The protocols that we speak."""


class Stream:
    """One stream of a connection, once both sides agreed on its protocol."""

    __slots__ = ("_id", "connection", "protocol")

    def __init__(self, connection: Connection, stream: StreamId, protocol: str) -> None:
        self.connection = connection
        self.protocol = protocol
        self._id = stream

    @property
    def peer(self) -> PeerId:
        return self.connection.peer

    def send(self, data: bytes) -> None:
        """Send a message; this does nothing on a stream that is gone."""
        self.connection.send_on(self._id, data)

    def close(self) -> None:
        """Say that we send nothing more; the peer may still send."""
        self.connection.close_stream(self._id)

    def reset(self) -> None:
        self.connection.reset_stream(self._id)


class _Opening:
    """A stream whose protocol is still being negotiated."""

    __slots__ = ("handler", "negotiator", "timer", "waiter")

    def __init__(self, negotiator: Dialler | Listener, timer: asyncio.TimerHandle) -> None:
        self.negotiator = negotiator
        self.timer = timer
        self.waiter: asyncio.Future[Stream] | None = None  # our task that opens it; None: the peer opens it
        self.handler: Accept | None = None


class Connection(asyncio.Protocol):
    """asyncio uses it as the protocol of a TCP connection; the host is told when it stands and when it is lost."""

    def __init__(self, upgrade: Upgrade, owner: Owner) -> None:
        self._upgrade: Upgrade | None = upgrade
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._opening: dict[StreamId, _Opening] = {}
        self._handlers: dict[StreamId, StreamHandler] = {}
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_lost = False
        self._line: deque[Iterator[None]] = deque()  # work on what came, still to be done, in order
        self._is_waiting = False  # the rest of the line is for the next turn of the loop
        self._is_held = False  # its owner wants nothing to be read
        self.is_made = False  # there is a TCP connection, or was one
        self.endpoint: tuple[str, int]  # the address of the other end, once there is a connection
        self.closed_by_us = False
        self.reason: WeftError | None = None  # why it ended, if somebody is to blame
        self.stood: asyncio.Future[None] = self._loop.create_future()  # done when it stands, or never will
        self.over: asyncio.Future[None] = self._loop.create_future()

    # --- for its owner -------------------------------------------------------------------------------------------

    @property
    def peer(self) -> PeerId:
        return self._up.remote.peer

    @property
    def stands(self) -> bool:
        return self._upgrade is None and not self._is_lost

    async def open(self, protocol: str, handler: Accept) -> Stream:
        """Open a stream of this protocol; raise PeerError if the peer does not speak it, has no stream left for us, or
        the connection ends."""
        if not self.stands:
            raise PeerError("the connection is gone", protocol=protocol)
        try:
            stream, data = self._up.muxer.open_stream()
        except UsageError as error:  # usually because of the streams that the peer has open
            raise PeerError(error.what, protocol=protocol, **error.facts) from None
        negotiator = Dialler([protocol])
        opening = self._opening[stream] = _Opening(negotiator, self._timer(stream))
        opening.waiter, opening.handler = self._loop.create_future(), handler
        self._write(data + self._up.muxer.send(stream, negotiator.data_to_send()))
        try:
            return await opening.waiter
        finally:
            if self._opening.pop(stream, None) is not None:  # cancelled in between
                opening.timer.cancel()
                self.reset_stream(stream)

    async def drained(self) -> None:
        """Wait until the peer has taken most of what was sent, or is gone."""
        await self._can_write.wait()

    def close(self) -> None:
        """Hang up. What was written is still sent."""
        self.closed_by_us = True
        if self.is_made:
            self._transport.close()
        else:
            self.abort(PeerError("closed before it stood"))

    def abort(self, reason: WeftError) -> None:
        """Hang up at once, because of something that the peer did; or as soon as there is a TCP connection."""
        if self.reason is None and not self._is_lost:
            self.reason = reason
        if self.is_made:
            self._transport.abort()

    def pause_reading(self) -> None:
        self._is_held = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._is_held = False
        self._read_or_not()

    def _read_or_not(self) -> None:
        if self._is_lost or self._transport.is_closing():
            return
        if self._is_held or self._is_waiting:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- for its streams -----------------------------------------------------------------------------------------

    def send_on(self, stream: StreamId, data: bytes) -> None:
        if stream in self._handlers and not self._is_lost and self._up.muxer.sends_on(stream):
            self._write(self._up.muxer.send(stream, data))

    def close_stream(self, stream: StreamId) -> None:
        if not self._is_lost:
            self._write(self._up.muxer.close(stream))
            self._forget_if_gone(stream)

    def reset_stream(self, stream: StreamId) -> None:
        if not self._is_lost:
            self._write(self._up.muxer.reset(stream))
            self._handlers.pop(stream, None)

    # --- what asyncio calls --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is one in all but name
        self.is_made = True
        self._upgrade_timer = self._loop.call_later(LIBP2P_UPGRADE_S, self._give_up)
        peer_name = transport.get_extra_info("peername")
        if peer_name is None:  # reset already; asking later would be useless, too
            self.abort(PeerError("peer hung up at once"))
            return
        self.endpoint = (peer_name[0], peer_name[1])
        _watch_for_silence(transport.get_extra_info("socket"))
        if self.reason is not None:  # its owner did not want it from the start
            self._transport.abort()
            return
        assert self._upgrade is not None, "new"
        self._transport.write(self._upgrade.data_to_send())

    def data_received(self, data: bytes) -> None:
        try:
            if self._upgrade is not None:
                self._take_upgrade(self._upgrade, data)
            else:
                self._receive(self._up.channel.plaintexts(data))
        except PeerError as error:
            self.abort(error)

    def eof_received(self) -> bool:
        return False  # half a connection is useless

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        stood = self.stands
        self._is_lost = True
        self._line.clear()
        self._upgrade_timer.cancel()
        self._can_write.set()
        if exc is not None and self.reason is None:
            self.reason = PeerError(f"the connection broke: {exc}")
        for opening in self._opening.values():
            opening.timer.cancel()
            _refuse(opening, self.reason or PeerError("the connection ended before the stream stood"))
        self._opening.clear()
        handlers, self._handlers = list(self._handlers.values()), {}
        for handler in handlers:
            handler.on_lost()
        if stood:
            self._owner.lost(self)
        _done(self.stood)
        _done(self.over)

    # --- becoming a libp2p connection ----------------------------------------------------------------------------

    def _take_upgrade(self, upgrade: Upgrade, data: bytes) -> None:
        upgraded = upgrade.receive_data(data)
        self._transport.write(upgrade.data_to_send())
        if upgraded is None:
            return
        self._upgrade_timer.cancel()
        self._up: Upgraded = upgraded
        self._upgrade = None
        self._owner.established(self)
        _done(self.stood)
        self._receive(iter((upgraded.rest,)))

    def _give_up(self) -> None:
        self.abort(PeerError("peer did not finish the handshake", limit_s=LIBP2P_UPGRADE_S))

    # --- streams -------------------------------------------------------------------------------------------------

    def _receive(self, plaintexts: Iterator[bytes]) -> None:
        self._line.append(self._taken(plaintexts))
        if not self._is_waiting:
            self._work()

    def _work(self) -> None:
        """Take what came, for as long as one connection may hold up the loop (SEC-05). No more is read meanwhile."""
        end_s = time.perf_counter() + LIBP2P_TURN_S
        self._is_waiting = False
        try:
            while self._line and self.reason is None:
                if next(self._line[0], DONE) is DONE:
                    self._line.popleft()
                elif time.perf_counter() >= end_s:
                    self._is_waiting = True
                    self._loop.call_soon(self._work)
                    break
        except PeerError as error:
            self._line.clear()
            self.abort(error)
        self._read_or_not()

    def _taken(self, plaintexts: Iterator[bytes]) -> Iterator[None]:
        """Do what these say, step by step."""
        for plaintext in plaintexts:
            for event in self._up.muxer.events(plaintext):
                yield from self._take(event) or ()
                yield
            self._write(self._up.muxer.data_to_send())

    def _take(self, event: mplex.Event | None) -> Iterator[None] | None:
        match event:
            case mplex.StreamOpened(stream):
                self._opening[stream] = _Opening(Listener(tuple(self._owner.accepted())), self._timer(stream))
            case mplex.StreamData(stream, data):
                return self._on_data(stream, data)
            case mplex.StreamClosed(stream):
                self._on_closed(stream)
            case mplex.StreamReset(stream):
                self._drop_opening(stream, PeerError("peer reset the stream"))
                if (handler := self._handlers.pop(stream, None)) is not None:
                    handler.on_lost()
            case mplex.StreamRefused() | None:
                pass  # the muxer has answered
        return None

    def _on_data(self, stream: StreamId, data: bytes) -> Iterator[None] | None:
        if (handler := self._handlers.get(stream)) is not None:
            return handler.on_message(data)
        if (opening := self._opening.get(stream)) is not None:
            return self._negotiate(stream, opening, data)
        return None

    def _negotiate(self, stream: StreamId, opening: _Opening, data: bytes) -> Iterator[None] | None:
        if not self._up.muxer.sends_on(stream):
            return None  # the peer has reset it already, in the same data: that event comes next
        outcome = opening.negotiator.receive_data(data)
        if answer := opening.negotiator.data_to_send():
            self._write(self._up.muxer.send(stream, answer))
        if outcome is None:
            return None
        opening.timer.cancel()
        del self._opening[stream]
        if not isinstance(outcome, Selected):
            _refuse(opening, PeerError("peer does not speak this protocol", protocol=", ".join(outcome.proposals)))
            self._write(self._up.muxer.reset(stream))
            return None
        agreed = Stream(self, stream, outcome.protocol)
        handler = (opening.handler or self._owner.accepted()[outcome.protocol])(agreed)
        self._handlers[stream] = handler
        if opening.waiter is not None and not opening.waiter.done():
            opening.waiter.set_result(agreed)
        return handler.on_message(outcome.rest) if outcome.rest else None

    def _on_closed(self, stream: StreamId) -> None:
        self._drop_opening(stream, PeerError("peer closed the stream before its protocol was agreed on"))
        if (handler := self._handlers.get(stream)) is not None:
            handler.on_end()
            self._forget_if_gone(stream)

    def _drop_opening(self, stream: StreamId, reason: PeerError) -> None:
        opening = self._opening.pop(stream, None)
        if opening is not None:
            opening.timer.cancel()
            _refuse(opening, reason)
            self._write(self._up.muxer.reset(stream))

    def _timer(self, stream: StreamId) -> asyncio.TimerHandle:
        """Start the timer that drops a stream if its protocol is not agreed on in time: it takes a place that others
        need."""
        reason = PeerError("peer did not agree on a protocol for the stream", limit_s=LIBP2P_NEGOTIATION_S)
        return self._loop.call_later(LIBP2P_NEGOTIATION_S, self._drop_opening, stream, reason)

    def _forget_if_gone(self, stream: StreamId) -> None:
        if stream not in self._up.muxer.streams:
            self._handlers.pop(stream, None)

    def _write(self, data: bytes) -> None:
        if not data or self._is_lost:
            return
        self._transport.write(self._up.channel.send(data))
        if self._transport.get_write_buffer_size() > LIBP2P_UNSENT_BYTES_MAX:
            self.abort(PeerError("peer does not read its messages", limit=LIBP2P_UNSENT_BYTES_MAX))


def _watch_for_silence(sock: socket.socket | None) -> None:
    """Make the system check whether the peer's machine is still there. Without this, an idle connection to a machine
    that is gone would stand for hours."""
    if sock is None or not hasattr(socket, "TCP_KEEPIDLE"):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probes = LIBP2P_SILENCE_S // LIBP2P_PROBE_S - 1
    for option, value in (
        (socket.TCP_KEEPIDLE, LIBP2P_PROBE_S),
        (socket.TCP_KEEPINTVL, LIBP2P_PROBE_S),
        (socket.TCP_KEEPCNT, probes),
        (socket.TCP_USER_TIMEOUT, LIBP2P_SILENCE_S * 1000),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _refuse(opening: _Opening, reason: WeftError) -> None:
    if opening.waiter is not None and not opening.waiter.done():
        opening.waiter.set_exception(reason)
