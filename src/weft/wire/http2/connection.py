"""One HTTP/2 connection without I/O, either end (RFC 9113), as far as gRPC needs it: no push, no priorities.

``receive_data`` takes the bytes that came and calls the owners of streams; ``data_to_send`` returns the bytes to send.
``Connection`` keeps the open streams, those that ended recently, and the settings of both sides. ``Incoming`` cuts the
bytes into frames and calls the connection with each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from weft.wire.http2.budget import Budget
from weft.wire.http2.frames import (
    ACK,
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    GOAWAY_HEAD,
    HEADERS,
    NUMBER_MAX,
    PING,
    PREFACE,
    PRIORITY,
    PRIORITY_BYTES,
    PUSH_PROMISE,
    RST_STREAM,
    SETTING,
    SETTINGS,
    U32,
    WINDOW_UPDATE,
    BadHttp2,
    BadStream,
    ErrorCode,
    Setting,
    code_name,
    dependency,
    frame,
)
from weft.wire.http2.headers import (
    EMPTY_TABLE,
    Headers,
    check_request,
    check_response,
    check_trailers,
    content_length,
    encode_block,
)
from weft.wire.http2.incoming import FIXED_BYTES, Incoming
from weft.wire.http2.outgoing import FRAME_BYTES_MAX, Outgoing
from weft.wire.http2.settings import (
    CLOSED_STREAMS_KEPT,
    HEADER_LIST_BYTES_MAX,
    Http2Settings,
    PeerSettings,
)
from weft.wire.http2.stream import Stream, StreamOwner
from weft.wire.http2.window import ReceiveWindow

FIRST_FINAL_STATUS: Final = 200  # lower ones are interim: the real answer is still to come
REASON_BYTES_MAX: Final = 256
SETTINGS_BYTES_PER_FRAME: Final = 36  # six settings cost as much as a frame
STREAMS_PER_FRAME: Final = 32  # SETTINGS or GOAWAY make us look at all streams: 32 of them cost as much as a frame


class GoneAway(NamedTuple):
    """The peer takes no streams after ``last``."""

    last: int
    code: int
    reason: str


class ConnectionOwner(Protocol):
    """The user of a connection: the connection calls it when something happens."""

    def on_stream(self, stream: Stream) -> StreamOwner:
        """For a server: the client opened a stream. Its headers follow."""

    def on_settings(self) -> None:
        """The peer sent SETTINGS: what it allows us."""

    def on_pong(self, payload: bytes) -> None: ...

    def on_gone_away(self, gone: GoneAway) -> None: ...


class Connection:
    def __init__(self, owner: ConnectionOwner, is_client: bool, settings: Http2Settings, now_s: float) -> None:
        self.is_client = is_client
        self.settings = settings
        self.streams: dict[int, Stream] = {}
        self.assembling_bytes = 0  # received so far of all messages that are not complete yet
        self.gone_away: GoneAway | None = None
        self._owner = owner
        self._now_s = now_s
        self._budget = Budget(settings, now_s)
        self.out = Outgoing(self._budget)
        self.window = ReceiveWindow()
        self._peer = PeerSettings()
        self._empties_table = False  # our next header block has to say that we use no table
        self._next_id = 1
        self._last_peer_id = 0
        self._last_taken_id = 0  # the last of the peer's streams that was not refused
        self._closed: dict[int, bool] = {}  # streams that are over, oldest first; True if we reset the stream
        self.is_over = False  # whatever still comes in is ignored
        self._refuses_streams = False
        self._incoming = Incoming(self)
        self._begin()

    def _begin(self) -> None:
        if self.is_client:
            self.out.write(PREFACE)
        settings = self.settings
        values = {
            Setting.INITIAL_WINDOW_SIZE: settings.first_window_bytes,
            Setting.MAX_FRAME_SIZE: settings.frame_bytes_max,
            Setting.MAX_HEADER_LIST_SIZE: HEADER_LIST_BYTES_MAX,
        }
        values |= {Setting.ENABLE_PUSH: 0} if self.is_client else {Setting.MAX_CONCURRENT_STREAMS: settings.streams_max}
        self.out.write(frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*each) for each in sorted(values.items()))))
        if self.is_client:
            self.widen()

    # --- streams -------------------------------------------------------------------------------------------------

    @property
    def peer_streams_max(self) -> int:
        """How many streams the peer allows to be open at a time."""
        return self._peer.streams_max

    @property
    def has_numbers(self) -> bool:
        """For a client: whether there are numbers left for new streams. No number is used twice (5.1.1)."""
        return self._next_id <= NUMBER_MAX

    def open_stream(self, owner: StreamOwner, headers: Headers) -> Stream:
        """For a client: open a stream with a request. The caller must check ``peer_streams_max``, ``has_numbers`` and
        ``gone_away`` first."""
        assert self.is_client, "servers do not push"
        assert self.has_numbers, "a new connection is needed"
        block = encode_block(headers)
        stream = self._new_stream(self._next_id, owner)
        self._next_id += 2
        self._write_block(stream.id, block, 0)
        return stream

    def _new_stream(self, number: int, owner: StreamOwner | None) -> Stream:
        stream = Stream(self, number, self._peer.first_window_bytes, self.settings.first_window_bytes)
        self.streams[number] = stream
        stream.owner = self._owner.on_stream(stream) if owner is None else owner
        stream.deliver = stream.owner.on_message
        return stream

    def write_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        self._write_block(stream.id, encode_block(headers), END_STREAM if end else 0)
        if end:
            self.our_end(stream)

    def _write_block(self, number: int, block: bytes, flags: int) -> None:
        if self._empties_table:
            self._empties_table = False
            block = EMPTY_TABLE + block
        size = self.out.frame_bytes_max
        kind = HEADERS
        while len(block) > size:
            self.out.write(frame(kind, flags, number, block[:size]))
            block, kind, flags = block[size:], CONTINUATION, 0
        self.out.write(frame(kind, flags | END_HEADERS, number, block))

    def our_end(self, stream: Stream) -> None:
        stream.ended_by_us = True
        stream.is_sending = False
        if stream.ended_by_peer:
            self.forget(stream)
        elif not self.is_client:
            # The answer is complete, so the rest of the request is not needed (8.1).
            stream.reset(ErrorCode.NO_ERROR)

    def forget(self, stream: Stream, reset_by_us: bool = False) -> None:
        """Remove a stream that is over in both directions."""
        if stream.closed:
            return
        stream.close()
        del self.streams[stream.id]
        self.out.forget(stream)
        self._remember_closed(stream.id, reset_by_us)
        self._drop(stream.unacked_bytes)
        if stream.held:
            self.release(stream)

    def _remember_closed(self, number: int, reset_by_us: bool) -> None:
        self._closed[number] = reset_by_us
        if len(self._closed) > CLOSED_STREAMS_KEPT:
            del self._closed[next(iter(self._closed))]

    # --- windows for what we receive -----------------------------------------------------------------------------

    def widen(self) -> None:
        """We know the peer now: grow the connection's window to what the settings allow."""
        if more := self.window.widen(self.settings.connection_window_bytes):
            self._write_window_update(more)
        self.give_window()

    def hold(self, stream: Stream) -> None:
        """On a server, what comes for this stream from now on uses up the connection's window until ``release``.

        This does not apply to a client. It asked for everything that comes, and may read its streams in any order, so a
        stream that it does not read must not stop the others.
        """
        if not self.is_client:
            self.window.hold(stream)

    def release(self, stream: Stream) -> None:
        self.window.release(stream)
        self.give_window()

    def _drop(self, size: int) -> None:
        if more := self.window.drop(size):
            self._write_window_update(more)

    def give_window(self) -> None:
        """Tell the peer that it may send more on the connection, if it is time."""
        if more := self.window.take_due():
            self._write_window_update(more)

    def _write_window_update(self, more: int) -> None:
        self.out.write(frame(WINDOW_UPDATE, 0, 0, U32.pack(more)))

    # --- out -----------------------------------------------------------------------------------------------------

    def data_to_send(self) -> list[bytes | memoryview]:
        """The next pieces for the transport, in order; call again until there are none, or the transport is full."""
        return self.out.take()

    def transport_full(self, full: bool) -> None:
        """Note whether the transport is full. While it is, it gets only small answers."""
        self.out.transport_full(full)

    def ping(self, payload: bytes) -> None:
        assert len(payload) == FIXED_BYTES[PING], "of PING"
        self.out.write(frame(PING, 0, 0, payload))

    def announce_end(self) -> None:
        """For a server: ask the peer to open no more streams. Those that are on their way are still accepted (6.8)."""
        if not self._refuses_streams:  # otherwise GOAWAY was sent already, and its stream number must not grow again
            self.out.write(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(NUMBER_MAX, ErrorCode.NO_ERROR)))

    def refuse_streams(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: str = "") -> None:
        """Refuse new streams from now on; open streams go on."""
        self._refuses_streams = True
        text = reason.encode(errors="replace")[:REASON_BYTES_MAX]
        self.out.write(frame(GOAWAY, 0, 0, GOAWAY_HEAD.pack(self._last_taken_id, code) + text))

    def lost(self, reason: str) -> None:
        """The connection is lost, and all its streams end."""
        self.is_over = True
        self._reset_all(list(self.streams.values()), ErrorCode.CONNECT_ERROR, reason)

    def _reset_all(self, streams: list[Stream], code: ErrorCode, reason: str) -> None:
        """End streams as if the peer had reset them. An owner that learns of it may close other streams of the list."""
        for stream in streams:
            if not stream.closed:
                self.forget(stream)
                stream.owner.on_reset(code, reason)

    # --- in ------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now_s: float) -> None:
        """Take the bytes that came; they may be cut anywhere.

        Raise BadHttp2 when the connection has to end. By then ``data_to_send`` has a GOAWAY with the reason, and
        whatever comes later is ignored.
        """
        if self.is_over:
            return
        self._now_s = now_s
        try:
            self._incoming.receive(data)
        except BadHttp2 as error:
            self.is_over = True
            self.out.end()
            self.refuse_streams(error.code, str(error))
            raise

    def pay(self, frames: float = 1.0) -> None:
        """Charge the peer for frames that carry no message; raise BadHttp2 if there are too many."""
        self._budget.pay(frames, self._now_s)

    # --- DATA ----------------------------------------------------------------------------------------------------

    def stream_for_data(self, number: int, size: int, content: int) -> Stream | None:
        """Return the stream for the DATA of a frame, or None if the DATA is to be dropped. In both cases all ``size``
        bytes count against the windows, including padding."""
        stream = self.streams.get(number)
        if stream is None:
            self._check_not_idle(number, "DATA")
            self.count_data(size)
            self._drop(size)
            if not self._is_late(number):
                self.pay()
                self._write_reset(number, ErrorCode.STREAM_CLOSED)
            return None
        stream.unacked_bytes += size
        stream.check_window()
        self.count_data(size)
        try:
            stream.expect_content(content)
        except BadStream as error:
            self._end_badly(stream, error)
            return None
        return stream

    def count_data(self, size: int) -> None:
        """Count bytes of DATA against the connection's window."""
        self._budget.data_bytes += size
        if self.window.count(size):
            self.give_window()

    def receive_end(self, stream: Stream) -> None:
        try:
            stream.receive_end()
        except BadStream as error:
            self._end_badly(stream, error)
            return
        stream.owner.on_end()
        if stream.closed:
            return
        if stream.ended_by_us:
            self.forget(stream)
        elif self.is_client:
            stream.reset(ErrorCode.NO_ERROR)  # the server has answered, so it needs no more of the request

    def refuse_message(self, stream: Stream, compressed: bool, size: int) -> None:
        """End the stream because of a message that is compressed or too large."""
        self.pay(self.settings.reset_cost)
        stream.owner.on_refused(compressed, size)
        stream.reset()

    def refuse_assembly(self, stream: Stream) -> None:
        """End the stream because all incomplete messages of the connection together take too much memory."""
        self.pay(self.settings.reset_cost)
        stream.owner.on_crowded(self.assembling_bytes)
        stream.reset()

    def _end_badly(self, stream: Stream, error: BadStream) -> None:
        """End a stream on which the peer broke the rules."""
        self.pay(self.settings.reset_cost)
        stream.reset(error.code)
        stream.owner.on_reset(error.code, str(error))

    # --- streams that are not there ------------------------------------------------------------------------------

    def _is_idle(self, number: int) -> bool:
        if self.is_client:
            return number >= self._next_id or not number & 1
        return number > self._last_peer_id or not number & 1

    def _check_not_idle(self, number: int, what: str) -> None:
        if not number or self._is_idle(number):
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, f"{what} on a stream that was never opened", stream=number)

    def _is_late(self, number: int) -> bool:
        """Whether the peer may have sent a frame before it learned that the stream is over (5.1).

        Streams that ended long ago are no longer remembered. For those, a client assumes that the peer is honest,
        because the client may have given up many streams at once. A server does not assume it, because a client opens
        streams in order (5.1.1).
        """
        return self._closed.get(number, self.is_client)

    def _write_reset(self, number: int, code: ErrorCode) -> None:
        self.out.write(frame(RST_STREAM, 0, number, U32.pack(code)))

    # --- headers -------------------------------------------------------------------------------------------------

    def receive_headers(self, number: int, headers: Headers, ends: bool) -> None:
        """Take a complete header block."""
        stream = self.streams.get(number)
        if stream is None:
            stream = self._open_for(number, headers, ends)
            if stream is None:
                return
        else:
            try:
                if not self._take_headers(stream, headers, ends):
                    return
            except BadStream as error:
                self._end_badly(stream, error)
                return
        if not stream.closed:
            # Set before the owner answers: with both sides ended, the stream is complete, and need not be reset.
            stream.ended_by_peer = ends
            stream.owner.on_headers(headers, ends)
        if stream.closed:
            return
        if ends:
            self.receive_end(stream)
        else:
            stream.finish_frame()

    def _open_for(self, number: int, headers: Headers, ends: bool) -> Stream | None:
        """Open a stream for a client's request. Return None if the stream is over already, or is refused."""
        if self.is_client or not self._is_idle(number):
            self._check_not_idle(number, "HEADERS")
            self.pay()
            if self._is_late(number):
                return None
            code = ErrorCode.STREAM_CLOSED if number in self._closed else ErrorCode.PROTOCOL_ERROR
            raise BadHttp2(code, "HEADERS on a stream that is over", stream=number)
        if not number & 1:
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "a client opened a stream with an even number", stream=number)
        self._last_peer_id = number
        try:
            if self._refuses_streams or len(self.streams) >= self.settings.streams_max:
                raise BadStream(ErrorCode.REFUSED_STREAM, "no more streams", limit=self.settings.streams_max)
            check_request(headers)
            announced_bytes = _announced(headers, ends)
        except BadStream as error:
            self.pay(self.settings.reset_cost)
            self._remember_closed(number, reset_by_us=True)
            self._write_reset(number, error.code)
            return None
        self._last_taken_id = number
        stream = self._new_stream(number, None)
        stream.has_headers = True
        stream.announced_bytes = announced_bytes
        return stream

    def _take_headers(self, stream: Stream, headers: Headers, ends: bool) -> bool:
        """Take headers on an open stream. Return False if they can be ignored. Raise BadStream if they are out of
        place."""
        if stream.ended_by_peer:
            raise BadStream(ErrorCode.STREAM_CLOSED, "HEADERS after the end", stream=stream.id)
        if stream.has_headers:
            if not ends:
                raise BadStream(ErrorCode.PROTOCOL_ERROR, "HEADERS within a stream", stream=stream.id)
            check_trailers(headers)
            if stream.announced_bytes:
                raise BadStream(ErrorCode.PROTOCOL_ERROR, "less DATA than content-length", stream=stream.id)
            return True
        if check_response(headers) < FIRST_FINAL_STATUS:
            if ends:
                raise BadStream(ErrorCode.PROTOCOL_ERROR, "the answer ends before it begins", stream=stream.id)
            self.pay()
            return False
        stream.announced_bytes = _announced(headers, ends)
        stream.has_headers = True
        return True

    # --- other frames --------------------------------------------------------------------------------------------

    def receive_frame(self, kind: int, payload: bytes, flags: int, number: int) -> None:
        """Take a complete frame that is neither DATA nor headers."""
        receive = RECEIVERS.get(kind)
        if receive is None:
            self.pay()  # an unknown kind of frame is ignored (5.5)
        else:
            receive(self, payload, flags, number)

    def _receive_priority(self, payload: bytes, flags: int, number: int) -> None:
        """Check the frame, as the RFC demands, and ignore it."""
        self.pay()
        if not number:
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(payload) != PRIORITY_BYTES:
            self._refuse_priority(number, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY has a wrong length")
        elif dependency(payload, 0) == number:
            self._refuse_priority(number, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _refuse_priority(self, number: int, code: ErrorCode, what: str) -> None:
        """Refuse a bad PRIORITY. It may name any stream; if that is idle, the connection ends, because an idle stream
        cannot be reset (6.4)."""
        stream = self.streams.get(number)
        if stream is not None:
            self._end_badly(stream, BadStream(code, what, stream=number))
        elif self._is_idle(number):
            raise BadHttp2(code, what, stream=number)
        else:
            self._write_reset(number, code)

    def _receive_push(self, payload: bytes, flags: int, number: int) -> None:
        raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which is not allowed")

    def _receive_reset(self, payload: bytes, flags: int, number: int) -> None:
        stream = self.streams.get(number)
        if stream is None:
            self._check_not_idle(number, "RST_STREAM")
            self.pay()
            return
        self.pay(1.0 if self.is_client else self.settings.reset_cost)
        (code,) = U32.unpack(payload)
        self.forget(stream)
        stream.owner.on_reset(code, f"the peer reset the stream: {code_name(code)}")

    def _receive_settings(self, payload: bytes, flags: int, number: int) -> None:
        self.pay(1.0 + len(payload) / SETTINGS_BYTES_PER_FRAME)
        if number:
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream", stream=number)
        if len(payload) % SETTING.size or (flags & ACK and payload):
            raise BadHttp2(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS are malformed", bytes=len(payload))
        if flags & ACK:
            return
        before, peer = self._peer, self._peer.updated_untrusted(payload, by_server=self.is_client)
        self._peer = peer
        self.out.frame_bytes_max = min(peer.frame_bytes_max, FRAME_BYTES_MAX)
        self._empties_table |= peer.shrinks_table
        # Acknowledge the settings before sending DATA that relies on them: otherwise gRPC's C core resets the stream.
        self.out.write(frame(SETTINGS, ACK, 0))
        if change := peer.first_window_bytes - before.first_window_bytes:
            self._change_windows(change)
        self._owner.on_settings()

    def _change_windows(self, change: int) -> None:
        """Change the windows of open streams by the same amount (6.9.2)."""
        woken = 0
        for stream in self.streams.values():
            stream.send_window += change
            if stream.send_window > NUMBER_MAX:
                raise BadHttp2(ErrorCode.FLOW_CONTROL_ERROR, "a window is out of range", stream=stream.id)
            if stream.waiting_bytes:
                self.out.queue(stream)
                woken += 1
        self.pay(len(self.streams) / STREAMS_PER_FRAME + woken)

    def _receive_ping(self, payload: bytes, flags: int, number: int) -> None:
        self.pay()
        if number:
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "PING on a stream", stream=number)
        if flags & ACK:
            self._owner.on_pong(payload)
        else:
            self.out.write(frame(PING, ACK, 0, payload))

    def _receive_goaway(self, payload: bytes, flags: int, number: int) -> None:
        self.pay(1.0 + len(self.streams) / STREAMS_PER_FRAME)
        if number or len(payload) < GOAWAY_HEAD.size:
            code = ErrorCode.PROTOCOL_ERROR if number else ErrorCode.FRAME_SIZE_ERROR
            raise BadHttp2(code, "GOAWAY is malformed", bytes=len(payload))
        last, code_sent = GOAWAY_HEAD.unpack_from(payload)
        last &= NUMBER_MAX
        if self.gone_away is not None:
            last = min(last, self.gone_away.last)  # a stream that was refused stays refused
        reason = payload[GOAWAY_HEAD.size :][:REASON_BYTES_MAX].decode(errors="replace")
        self.gone_away = GoneAway(last, code_sent, reason)
        if self.is_client:
            refused = [stream for stream in self.streams.values() if stream.id > last]
            self._reset_all(refused, ErrorCode.REFUSED_STREAM, "the server is going away")
        self._owner.on_gone_away(self.gone_away)

    def _receive_window_update(self, payload: bytes, flags: int, number: int) -> None:
        self.pay()
        more = U32.unpack(payload)[0] & NUMBER_MAX
        if not number:
            self.out.window += more
            if not more or self.out.window > NUMBER_MAX:
                code = ErrorCode.FLOW_CONTROL_ERROR if more else ErrorCode.PROTOCOL_ERROR
                raise BadHttp2(code, "WINDOW_UPDATE is out of range", value=more)
            return
        stream = self.streams.get(number)
        if stream is None:
            self._check_not_idle(number, "WINDOW_UPDATE")
            return
        stream.send_window += more
        if not more or stream.send_window > NUMBER_MAX:
            code = ErrorCode.FLOW_CONTROL_ERROR if more else ErrorCode.PROTOCOL_ERROR
            self._end_badly(stream, BadStream(code, "WINDOW_UPDATE is out of range", stream=number, value=more))
        elif stream.waiting_bytes:
            self.out.queue(stream)


def _announced(headers: Headers, ends: bool) -> int | None:
    """Return the content-length. Raise BadStream if it is not valid, or announces content on a stream that ends."""
    announced_bytes = content_length(headers)
    if ends and announced_bytes:
        raise BadStream(ErrorCode.PROTOCOL_ERROR, "less DATA than content-length")
    return announced_bytes


# Frames of kinds that are not in this table are ignored.
RECEIVERS: Final[dict[int, Callable[[Connection, bytes, int, int], None]]] = {
    PRIORITY: Connection._receive_priority,
    RST_STREAM: Connection._receive_reset,
    SETTINGS: Connection._receive_settings,
    PUSH_PROMISE: Connection._receive_push,
    PING: Connection._receive_ping,
    GOAWAY: Connection._receive_goaway,
    WINDOW_UPDATE: Connection._receive_window_update,
}
