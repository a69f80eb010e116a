"""One HTTP/2 connection on its transport: it reads, writes, ends in order, and notices a dead peer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Protocol, cast

from weft.errors import PeerError
from weft.transport.http2.tls import end_writing
from weft.wire.http2 import BadHttp2, Connection, ErrorCode, GoneAway, Http2Settings, Stream, StreamOwner, code_name

JOIN_BYTES_MAX: Final = 64 << 10  # up to this size together, pieces are joined: that is cheaper than writing a list
WRITE_BUFFER_BYTES: Final = 1 << 20  # in the transport; with more, streams wait
UNREAD_ANSWERS_BYTES_MAX: Final = 1 << 20  # written while the transport is full; with more, we end the connection
PIECE_BYTES: Final = 16 << 10  # processed between two looks at the clock: 350 of the shortest calls
RECEIVE_S: Final = 0.005  # in one turn of the loop, for the input of all connections; each may take one piece anyway
WRITE_S: Final = 0.005  # the same for large writes, which TLS encrypts; small ones leave in any case
LINGER_S: Final = 2.0  # how long we wait after our last byte for the peer to read it and hang up
LINGERS_MAX: Final = 15  # how many times we wait so long, as long as the peer goes on reading
PING: Final = b"weftping"
DRAIN_PING: Final = b"weftlast"
# How clients of other protocols begin.
NOT_HTTP2: Final = {
    b"\x15\x03": "the peer speaks TLS, and this side does not",
    b"\x16\x03": "the peer speaks TLS, and this side does not",
    b"HT": "the peer speaks HTTP/1, not HTTP/2",
}
CLOSED_SILENTLY: Final = "the peer closed the connection and said nothing"


class TurnTime:
    """The time that all connections have together in one turn of the loop. It begins when the first of them asks."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop whose turn it is
        self._end_s = 0.0

    def is_over(self, loop: asyncio.AbstractEventLoop) -> bool:
        now_s = time.monotonic()
        if self._loop is not loop:
            self._loop, self._end_s = loop, now_s + self._limit_s
            loop.call_soon(self._next)
        return now_s > self._end_s

    def _next(self) -> None:
        self._loop = None


# All connections of a loop share these.
RECEIVING: Final = TurnTime(RECEIVE_S)
WRITING: Final = TurnTime(WRITE_S)


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """``keepalive_s``: a peer that was silent for so long gets a ping; 0 means never."""

    http2: Http2Settings
    keepalive_s: float = 0.0
    keepalive_timeout_s: float = 10.0


class EndpointOwner(Protocol):
    """The owner of an endpoint."""

    def made(self, endpoint: Endpoint) -> None:
        """The connection is made. Nothing was sent or received yet."""

    def settled(self, endpoint: Endpoint) -> None:
        """The peer sent its SETTINGS, for the first time or again."""

    def stream_opened(self, endpoint: Endpoint, stream: Stream) -> StreamOwner: ...

    def gone_away(self, endpoint: Endpoint, gone: GoneAway) -> None: ...

    def lost(self, endpoint: Endpoint, reason: str) -> None:
        """The socket is closed. This is the last call."""


class Endpoint(asyncio.Protocol):
    """``failure`` is why the connection ended, if the peer is to blame."""

    def __init__(self, owner: EndpointOwner, is_client: bool, settings: EndpointSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self.http2 = Connection(self, is_client, settings.http2, self._loop.time())
        self._out = self.http2.out
        self.is_ending = False  # nothing more is read or written, but the socket may still be open
        self._is_lost = False
        self.failure = ""
        self._reason = ""  # of the end, no matter who is to blame
        self._owner = owner
        self._settings = settings
        self._transport: asyncio.Transport
        self._flushing = False  # a flush is about to happen
        self._receiving = False  # the peer's bytes are being taken in
        self._later = bytearray()  # bytes that wait for their turn
        self._is_full = False
        self._unread_answers_bytes = 0  # written while the transport was full
        self._ends_when_idle = False
        self._is_draining = False
        self._heard = False
        self._pinged_s: float | None = None  # when the unanswered ping was sent; None: there is none
        self._first = b""  # bytes of the peer
        self._timer: asyncio.TimerHandle | None = None  # for pings, then for the end

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def takes_streams(self) -> bool:
        """For a client: whether a new stream can be opened."""
        return not self.is_ending and self.http2.gone_away is None and self.http2.has_numbers

    # --- what the transport calls --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is one in all but name
        if self._is_lost:  # given up before it began
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        if self._settings.keepalive_s:
            self._timer = self._loop.call_later(self._settings.keepalive_s, self._look)
        self._owner.made(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        if self.is_ending:
            return
        self._heard = True
        if not self._first:
            self._first = data[:2]
        if self._later:
            self._later += data
        else:
            self._receive(data)

    def _receive(self, data: bytes, *, is_last: bool = False) -> None:
        """``is_last``: nothing more comes, so everything is taken at once."""
        flushing, self._flushing = self._flushing, True  # code that writes meanwhile need not ask for it
        self._receiving = True
        try:
            if len(data) <= PIECE_BYTES or is_last:
                self.http2.receive_data(data, self._loop.time())
            else:
                self._receive_in_time(data)
        except BadHttp2 as error:
            self._end(NOT_HTTP2.get(self._first, str(error)), is_failure=True)
        finally:
            self._receiving = False
            self._flushing = flushing
            if not flushing and (self._out.pieces or self._out.turns or self._ends_when_idle):
                self.flush()

    def _receive_in_time(self, data: bytes) -> None:
        """Take in as much as the time allows, because a quarter of a megabyte may open thousands of streams. The rest
        waits for a later turn of the loop, and nothing more is read meanwhile."""
        now_s = self._loop.time()
        for at in range(0, len(data), PIECE_BYTES):
            if at and RECEIVING.is_over(self._loop):
                if not self.is_ending and not self._transport.is_closing():
                    self._later += data[at:]
                    self._transport.pause_reading()
                    self._loop.call_soon(self._receive_later)
                return
            self.http2.receive_data(data[at : at + PIECE_BYTES], now_s)

    def _receive_later(self) -> None:
        data = bytes(self._later)
        self._later.clear()
        if not self._transport.is_closing():
            self._transport.resume_reading()  # even while this is ending: the peer may hang up, and we have to notice
        if data and not self.is_ending:
            self._receive(data)

    def _receive_all(self) -> None:
        """Take in what is left when the peer ends."""
        data = bytes(self._later)
        self._later.clear()
        if data:
            self._receive(data, is_last=True)

    def pause_writing(self) -> None:
        self._is_full = True
        self._unread_answers_bytes = 0
        self.http2.transport_full(True)

    def resume_writing(self) -> None:
        self._is_full = False
        self.http2.transport_full(False)
        self.flush()

    def eof_received(self) -> bool:
        """The peer sends nothing more. A gRPC peer does not read after that either, so the transport may close."""
        self._receive_all()
        if not self.is_ending:
            self._stop(self._why_lost(None))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is lost. Calling this again does nothing: if connecting is cancelled, our own code calls it,
        because not every event loop does."""
        if self._is_lost:
            return
        self._is_lost = True
        reason = self._reason or self._why_lost(exc)
        if isinstance(exc, PeerError):  # from TLS
            self.failure = self.failure or reason
        self.is_ending = True
        if self._timer is not None:
            self._timer.cancel()
        self.http2.lost(reason)
        self._owner.lost(self, reason)

    def _why_lost(self, error: Exception | None) -> str:
        gone = self.http2.gone_away
        if gone is not None and (gone.code or gone.reason):
            return f"the peer ended the connection: {gone.reason or code_name(gone.code)}"
        if error is None:
            return NOT_HTTP2.get(self._first, "the peer closed the connection" if self._first else CLOSED_SILENTLY)
        if isinstance(error, PeerError):
            return str(error)
        return f"the connection broke: {(isinstance(error, OSError) and error.strerror) or error}"

    # --- what the connection calls -------------------------------------------------------------------------------

    def on_stream(self, stream: Stream) -> StreamOwner:
        return self._owner.stream_opened(self, stream)

    def on_settings(self) -> None:
        self._owner.settled(self)

    def on_pong(self, payload: bytes) -> None:
        if self._is_draining and payload == DRAIN_PING:
            self.http2.refuse_streams()  # the peer has read our announcement, so no more streams are on their way
            self._ends_when_idle = True

    def on_gone_away(self, gone: GoneAway) -> None:
        self._owner.gone_away(self, gone)

    # --- writing -------------------------------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Send everything that is written in this turn of the loop together."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush_now(self) -> None:
        """Send at once what is written. Within ``data_received``, it is sent together with the other answers."""
        if not self._receiving:
            self.flush()

    def flush(self) -> None:
        self._flushing = False
        if self.is_ending:
            return
        out = self._out
        if out.turns or out.out_bytes > JOIN_BYTES_MAX or self._is_full:
            self._write_in_time()
        elif out.pieces:  # the usual case: little to write, and no stream waits for its turn
            pieces = out.take_written()
            if not self._transport.is_closing():
                self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._ends_when_idle and not self.http2.streams:
            self.close()

    def _write_in_time(self) -> None:
        """Write as much as the time allows: a hundred connections with a megabyte each would keep others waiting."""
        out = self._out
        while out.pieces or out.turns:
            if (out.turns or out.out_bytes > JOIN_BYTES_MAX) and WRITING.is_over(self._loop):
                self.flush_soon()
                return
            if not self._write_some():
                return

    def _write_out(self) -> None:
        """Write everything, before the connection ends."""
        out = self._out
        while (out.pieces or out.turns) and self._write_some():
            pass

    def _write_some(self) -> bool:
        """Write the next pieces; return whether there may be more."""
        transport = self._transport
        pieces = self._out.take()
        if not pieces or transport.is_closing():
            return False
        if self._is_full:
            self._unread_answers_bytes += sum(map(len, pieces))
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif sum(map(len, pieces)) <= JOIN_BYTES_MAX:
            transport.write(b"".join(pieces))
        else:
            transport.writelines(pieces)
        if self._is_full and self._unread_answers_bytes > UNREAD_ANSWERS_BYTES_MAX:
            self.abort(
                f"the peer does not read its answers ({self._unread_answers_bytes} bytes of answers wait,"
                f" limit {UNREAD_ANSWERS_BYTES_MAX})"
            )
        return True

    # --- ending --------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """For a server: ask the peer to open no more streams. When all open streams, and those on their way, have
        ended, the connection ends."""
        if not self._is_draining and not self.is_ending:
            self._is_draining = True
            self.http2.announce_end()
            self.http2.ping(DRAIN_PING)
            self.flush_soon()

    def end_when_idle(self) -> None:
        """End the connection when the last stream has ended."""
        self._ends_when_idle = True
        self.flush_soon()

    def close(self, reason: str = "this side closed the connection") -> None:
        """End the connection now, in order: what was written is still sent. Open streams are lost."""
        if not self.is_ending:
            self.http2.refuse_streams()
            self._end(reason, is_failure=False)

    def drop(self, reason: str) -> None:
        """Do the same because the peer has broken a rule, and tell it why."""
        if not self.is_ending:
            self.http2.refuse_streams(ErrorCode.NO_ERROR, reason)
            self._end(reason, is_failure=True)

    def abort(self, reason: str) -> None:
        """End the connection at once, without telling the peer."""
        if not self.is_ending:
            self.failure = reason
            self._stop(reason)
        self._transport.abort()

    def _end(self, reason: str, is_failure: bool) -> None:
        """Write everything, including GOAWAY, and give the peer time to read it. If the socket were closed at once, the
        system could drop what is still on its way."""
        if self.is_ending:
            return
        if is_failure:
            self.failure = reason
        self._write_out()
        if self.is_ending:
            return  # aborted while writing, because the peer reads nothing
        self._stop(reason)
        end_writing(self._transport)

    def _stop(self, reason: str) -> None:
        """End all streams now, and the rest of the connection soon."""
        self.is_ending = True
        self._reason = reason
        self.http2.lost(reason)
        if self._timer is not None:
            self._timer.cancel()
        self._linger(LINGERS_MAX, 0)

    def _linger(self, left: int, waited_bytes: int) -> None:
        waiting = self._transport.get_write_buffer_size()
        if left == LINGERS_MAX or (left and 0 < waiting < waited_bytes):
            self._timer = self._loop.call_later(LINGER_S, self._linger, left - 1, waiting)
        else:
            self._transport.abort()

    # --- is the peer still there? --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Ping a silent peer, and hang up if it stays silent."""
        settings, now_s = self._settings, self._loop.time()
        wait_s = settings.keepalive_s
        if self._heard:
            self._heard = False
            self._pinged_s = None
        elif self._pinged_s is None:
            self._pinged_s = now_s
            self.http2.ping(PING)
            self.flush_soon()
            wait_s = min(wait_s, settings.keepalive_timeout_s)
        elif (left_s := self._pinged_s + settings.keepalive_timeout_s - now_s) > 0:
            wait_s = min(wait_s, left_s)
        else:
            self.abort(f"the peer does not answer pings (limit {settings.keepalive_timeout_s:g} s)")
            return
        self._timer = self._loop.call_later(wait_s, self._look)
