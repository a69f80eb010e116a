"""MPLEX 6.7.0: many streams over one connection. Bytes in, events out; what to send is returned.

A message is ``uvarint(number << 3 | flag) uvarint(length) data``. Each side numbers the streams it opens itself, so a
stream is known by its number and by the side that opened it, which the flag tells. There is no flow control: a side
that reads a stream too slowly has to reset it.

Yamux would have the same methods; ``data_to_send`` is there for what a multiplexer answers by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.limits import MPLEX_MESSAGE_BYTES_MAX
from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame

MPLEX_STREAMS_MAX: Final = 1024  # open at a time, either side's; a Coaty peer has about five
MPLEX_MESSAGES_AT_ONCE: Final = 4096  # that come together: the reference sends one; 8 MiB of empty ones took seconds
MPLEX_STREAM_NUMBER_MAX: Final = (1 << 28) - 1  # the reference shifts ids in 32 signed bits
PROTOCOL = "/mplex/6.7.0"


class Flag(IntEnum):
    """Odd: sent by the side that did not open the stream."""

    NEW = 0
    MESSAGE_RECEIVER = 1
    MESSAGE_INITIATOR = 2
    CLOSE_RECEIVER = 3
    CLOSE_INITIATOR = 4
    RESET_RECEIVER = 5
    RESET_INITIATOR = 6


class StreamId(NamedTuple):
    """A tuple, because one is made for every message."""

    number: int
    ours: bool  # opened by this side


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The peer opened a stream."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class StreamData:
    """One message of the peer, as it was sent: never joined, never split (the liveliness protocol counts on it)."""

    stream: StreamId
    data: bytes


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """The peer sends no more on this stream; we still may."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class StreamReset:
    """The peer gave the stream up, both ways."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class StreamRefused:
    """The peer opened one stream too many; it was reset at once."""

    stream: StreamId


Event = StreamOpened | StreamData | StreamClosed | StreamReset | StreamRefused


class State(Enum):
    """A stream has two halves, and each side closes its own. A stream that is gone is forgotten."""

    OPEN = auto()
    PEER_CLOSED = auto()
    WE_CLOSED = auto()
    GONE = auto()


class Input(Enum):
    WE_CLOSE = auto()
    PEER_CLOSES = auto()


# A reset makes a stream be gone from any state. Pairs that are absent: we close what we have closed (nothing to say),
# the peer closes what it has closed (refused like anything it sends there).
TRANSITIONS = {
    (State.OPEN, Input.WE_CLOSE): State.WE_CLOSED,
    (State.OPEN, Input.PEER_CLOSES): State.PEER_CLOSED,
    (State.PEER_CLOSED, Input.WE_CLOSE): State.GONE,
    (State.WE_CLOSED, Input.PEER_CLOSES): State.GONE,
}


class Mplex:
    """The streams of one connection. After BadFrame the connection is lost: it is no longer known where messages
    begin."""

    def __init__(self) -> None:
        self._streams: dict[StreamId, State] = {}
        self._next_number = 0
        self._buffer = bytearray()
        self._out = bytearray()

    # --- what this side does: each returns the bytes to send -----------------------------------------------------

    def open_stream(self) -> tuple[StreamId, bytes]:
        if len(self._streams) >= MPLEX_STREAMS_MAX:
            raise UsageError("too many open streams on this connection", limit=MPLEX_STREAMS_MAX)
        if self._next_number > MPLEX_STREAM_NUMBER_MAX:
            raise UsageError("this connection has used up its stream numbers", limit=MPLEX_STREAM_NUMBER_MAX)
        stream = StreamId(self._next_number, ours=True)
        self._next_number += 1
        self._streams[stream] = State.OPEN
        self._put(stream.number, Flag.NEW, str(stream.number).encode())  # the stream's name; its number by custom
        return stream, self.data_to_send()

    def send(self, stream: StreamId, data: bytes) -> bytes:
        """``data`` as one message, or as several if it is longer than a message may be."""
        if not self.sends_on(stream):
            raise UsageError("stream is not open for sending", stream=stream)
        flag = Flag.MESSAGE_INITIATOR if stream.ours else Flag.MESSAGE_RECEIVER
        for at in range(0, len(data), MPLEX_MESSAGE_BYTES_MAX):
            self._put(stream.number, flag, data[at : at + MPLEX_MESSAGE_BYTES_MAX])
        return self.data_to_send()

    def close(self, stream: StreamId) -> bytes:
        """Say that we send no more. Does nothing on a stream that is closed or was reset."""
        if self.sends_on(stream):
            self._put(stream.number, Flag.CLOSE_INITIATOR if stream.ours else Flag.CLOSE_RECEIVER)
            self._step(stream, Input.WE_CLOSE)
        return self.data_to_send()

    def reset(self, stream: StreamId) -> bytes:
        """Give the stream up, both ways. What the peer still sends on it will be ignored."""
        if self._streams.pop(stream, None) is not None:
            self._put_reset(stream)
        return self.data_to_send()

    def data_to_send(self) -> bytes:
        """What has to go out next: fetch it after ``receive_data``."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def sends_on(self, stream: StreamId) -> bool:
        """Whether we may still send on it. The peer may have reset a stream whose events are not all handled yet."""
        return self._streams.get(stream) in (State.OPEN, State.PEER_CLOSED)

    @property
    def streams(self) -> frozenset[StreamId]:
        """The streams that are open, if only by half."""
        return frozenset(self._streams)

    # --- what the peer does --------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[Event]:
        """The events of all messages that are now complete; raise only BadFrame. ``data`` arrived in one piece."""
        self._buffer += data
        events: list[Event] = []
        at = count = 0
        while (head := self._head_untrusted(at)) is not None:
            header, start, end = head
            if end > len(self._buffer):
                break
            count += 1
            if count > MPLEX_MESSAGES_AT_ONCE:
                raise BadFrame("too many messages at once", limit=MPLEX_MESSAGES_AT_ONCE)
            event = self._on_message(header >> 3, header & 7, start, end)
            if event is not None:
                events.append(event)
            at = end
        del self._buffer[:at]
        return events

    def _head_untrusted(self, at: int) -> tuple[int, int, int] | None:
        """Header, start and end of the data of the message at ``at``; None if its head is incomplete."""
        have = len(self._buffer)
        first = varint.read_partial_untrusted(self._buffer, at, have)
        if first is None:
            return None
        header, length_at = first
        second = varint.read_partial_untrusted(self._buffer, length_at, have)
        if second is None:
            return None
        length, start = second
        if length > MPLEX_MESSAGE_BYTES_MAX:
            raise BadFrame("message is too long", stream=header >> 3, need=length, limit=MPLEX_MESSAGE_BYTES_MAX)
        return header, start, start + length

    def _on_message(self, number: int, flag: int, start: int, end: int) -> Event | None:
        if flag == Flag.NEW:
            return self._on_new(StreamId(number, ours=False))
        if flag > Flag.RESET_INITIATOR:
            raise BadFrame("unknown kind of message", stream=number, flag=flag)
        stream = StreamId(number, ours=flag % 2 == 1)
        state = self._streams.get(stream)
        if state is None:
            return None  # late: we have reset the stream, and the peer did not know yet
        if flag in (Flag.RESET_RECEIVER, Flag.RESET_INITIATOR):
            del self._streams[stream]
            return StreamReset(stream)
        if state is State.PEER_CLOSED:
            raise BadFrame("peer sends after closing its half of the stream", stream=number, flag=flag)
        if flag in (Flag.CLOSE_RECEIVER, Flag.CLOSE_INITIATOR):
            self._step(stream, Input.PEER_CLOSES)
            return StreamClosed(stream)
        return StreamData(stream, bytes(memoryview(self._buffer)[start:end])) if end > start else None

    def _on_new(self, stream: StreamId) -> Event:
        # A number may come again once its stream is gone; while it is open a second one could not be told apart.
        if stream in self._streams:
            raise BadFrame("peer opens a stream that is open", stream=stream.number)
        if len(self._streams) >= MPLEX_STREAMS_MAX:
            self._put_reset(stream)
            return StreamRefused(stream)
        self._streams[stream] = State.OPEN
        return StreamOpened(stream)

    def _step(self, stream: StreamId, happened: Input) -> None:
        state = TRANSITIONS[self._streams[stream], happened]
        if state is State.GONE:
            del self._streams[stream]
        else:
            self._streams[stream] = state

    def _put(self, number: int, flag: Flag, data: bytes = b"") -> None:
        self._out += varint.encode(number << 3 | flag) + varint.prefixed(data)

    def _put_reset(self, stream: StreamId) -> None:
        self._put(stream.number, Flag.RESET_INITIATOR if stream.ours else Flag.RESET_RECEIVER)
