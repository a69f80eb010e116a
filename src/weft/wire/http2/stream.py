"""One stream: gRPC messages in both directions, each within its window.

A message is a prefix of five bytes (compressed, length) and its content. DATA frames may cut it anywhere. The stream
puts incoming messages together, and keeps outgoing ones until the windows and the transport have room. The connection
parses frames and calls the stream, which calls its owner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Final, Protocol

from weft.wire.http2.frames import (
    DATA,
    END_STREAM,
    FRAME_AND_PREFIX,
    FRAME_HEADER,
    MESSAGE_PREFIX,
    RST_STREAM,
    U32,
    WINDOW_UPDATE,
    BadHttp2,
    BadStream,
    ErrorCode,
    frame,
)
from weft.wire.http2.headers import Headers

if TYPE_CHECKING:
    from weft.wire.http2.connection import Connection

FRAME_BYTES: Final = FRAME_HEADER.size
PREFIX_BYTES: Final = MESSAGE_PREFIX.size
COPY_BYTES_MAX: Final = 4096  # smaller messages are joined with their prefix, larger ones are not copied

_pack = FRAME_AND_PREFIX.pack


class StreamOwner(Protocol):
    """The user of a stream. It is called while bytes are read or written, so it must return quickly."""

    def on_headers(self, headers: Headers, ended: bool) -> None:
        """The peer sent a request, a response or trailers. ``ended``: nothing follows."""

    def on_message(self, message: bytes) -> None: ...

    def on_end(self) -> None:
        """The peer has sent everything."""

    def on_reset(self, code: int, reason: str) -> None:
        """The stream is over, in both directions. This is the last call."""

    def on_refused(self, compressed: bool, size: int) -> None:
        """A message is refused, because it is compressed or too large. Send a status; the stream is reset after
        that."""

    def on_crowded(self, size: int) -> None:
        """The same, for a message that has no room because the connection has too many other incomplete messages."""

    def on_room(self) -> None:
        """Some of the ``waiting_bytes`` were sent. If nothing waits any longer, the stream may be over."""


class Stream:
    """Made by the connection. ``deliver`` gets the messages. It is the owner's ``on_message``, until the owner sets
    another function."""

    __slots__ = (
        "_connection",
        "_held_from",
        "_need_bytes",
        "_out",
        "_partial",
        "_pending",
        "_prefix",
        "_trailers",
        "announced_bytes",
        "closed",
        "deliver",
        "due_bytes",
        "ended_by_peer",
        "ended_by_us",
        "has_headers",
        "held",
        "id",
        "is_between",
        "is_sending",
        "is_wide",
        "owner",
        "send_window",
        "unacked_bytes",
        "waiting_bytes",
        "window_bytes",
    )

    owner: StreamOwner
    deliver: Callable[[bytes], None]

    def __init__(self, connection: Connection, number: int, send_window: int, window_bytes: int) -> None:
        self._connection = connection
        self._out = connection.out
        self.id = number
        self.send_window = send_window  # may become negative (RFC 9113, 6.9.2)
        self.window_bytes = window_bytes  # how much the peer may send before it gets a WINDOW_UPDATE
        self.due_bytes = window_bytes // 2  # after this many bytes we send one
        self.unacked_bytes = 0  # received since the last one
        self.is_wide = connection.is_client  # a client asked for the answer, so it gives the full window at once
        self.held = False
        self._held_from = 0  # the value of ``unacked_bytes`` when the stream was held
        self.has_headers = False
        self.announced_bytes: int | None = None  # what is missing of the content-length, if the peer sent one
        self.ended_by_peer = False
        self.ended_by_us = False
        self.closed = False
        self.is_between = False  # the next byte of DATA begins a message, so the fast path may take it
        self._prefix = b""
        self._partial: BytesIO | None = None  # a message that is not whole yet
        self._need_bytes = 0  # what this message still lacks; 0: no message has begun
        self.is_sending = True  # ``send`` accepts messages: not after the end, nor after some were dropped
        self._pending: deque[bytes | memoryview] = deque()
        self.waiting_bytes = 0
        self._trailers: Headers | None = None  # set by ``end``, and sent after everything that waits; may be empty

    # --- sending -------------------------------------------------------------------------------------------------

    def send_headers(self, headers: Headers, end: bool = False) -> None:
        """Send headers. Like all methods that follow, this does nothing on a stream that is over."""
        if not self.closed and not self.ended_by_us and self._trailers is None:
            assert not self._pending, "headers come before messages"
            self._connection.write_headers(self, headers, end)

    def send(self, message: bytes | memoryview, head: bytes = b"") -> None:
        """Send one message. This never blocks: what finds no room is kept, and counts in ``waiting_bytes``.

        A message may have two parts: a ``head`` of its own, and ``message``, which is not copied, so that other streams
        can send the same bytes.
        """
        if not self.is_sending:
            return
        if head:
            self._send_later(head, message)
            return
        out = self._out
        size = len(message) + PREFIX_BYTES
        if (
            size <= self.send_window
            and size <= out.window
            and size <= out.frame_bytes_max
            and out.out_bytes < out.room_bytes
            and not self._pending
        ):
            self.send_window -= size
            out.window -= size
            head = _pack(size << 8, 0, self.id, 0, size - PREFIX_BYTES)
            if size <= COPY_BYTES_MAX:
                out.pieces.append(head + message)  # this is ``write``, inlined because every small message comes here
                out.out_bytes += FRAME_BYTES + size
            else:
                out.write(head)
                out.write(message)
            out.budget.messages += 1
            return
        self._send_later(b"", message)

    def _send_later(self, head: bytes, message: bytes | memoryview) -> None:
        size = len(head) + len(message)
        self._pending += (MESSAGE_PREFIX.pack(0, size) + head, message)
        self.waiting_bytes += size + PREFIX_BYTES
        self._out.waiting_bytes += size + PREFIX_BYTES
        self._out.queue(self)

    def end(self, trailers: Headers = ()) -> None:
        """End our side: send the trailers after everything that waits, and nothing more."""
        if self._trailers is not None or self.closed or self.ended_by_us:
            return
        self.is_sending = False
        self._trailers = trailers
        if not self._pending:
            self._write_end()

    def reset(self, code: ErrorCode = ErrorCode.CANCEL) -> None:
        """End the stream in both directions, and tell the peer."""
        if not self.closed:
            self._out.write(frame(RST_STREAM, 0, self.id, U32.pack(code)))
            self._connection.forget(self, reset_by_us=True)

    @property
    def has_sent_part(self) -> bool:
        """Whether a part of the first waiting message was already sent, so that ending now would cut it."""
        pending = self._pending  # for each message a prefix and a content
        return bool(pending) and (len(pending) % 2 == 1 or isinstance(pending[0], memoryview))

    def drop_waiting(self) -> None:
        """Give up what was not sent yet. This may cut a message, so no other message may follow. If ``end`` was called
        before, the end is sent now."""
        if self._pending:
            self.is_sending = False
        self._pending.clear()
        self._out.waiting_bytes -= self.waiting_bytes
        self.waiting_bytes = 0
        self._out.forget(self)
        if self._trailers is not None and not self.ended_by_us and not self.closed:
            self._write_end()

    def write_some(self, bytes_max: int) -> bool:
        """Take a turn: write as much as the windows allow, at most this much. Return whether more could be sent at
        once."""
        out = self._out
        room = min(self.send_window, out.window, self.waiting_bytes, bytes_max)
        has_written = room > 0
        while room > 0:
            size = min(room, out.frame_bytes_max)
            last = size == self.waiting_bytes and self._trailers is not None and not self._trailers
            out.write(FRAME_HEADER.pack(size << 8 | DATA, END_STREAM if last else 0, self.id))
            self._write_pending(size)
            self.send_window -= size
            out.window -= size
            self.waiting_bytes -= size
            out.waiting_bytes -= size
            room -= size
            if last:
                self._connection.our_end(self)
        if not self.waiting_bytes and self._trailers is not None and not self.ended_by_us:
            self._write_end()
        if has_written:
            self.owner.on_room()
        return bool(self.waiting_bytes) and self.send_window > 0

    def _write_pending(self, size: int) -> None:
        pending, write = self._pending, self._out.write
        while size:
            piece = pending[0]
            if len(piece) <= size:
                write(pending.popleft())
                size -= len(piece)
                self._out.budget.messages += 0.5  # a message is two pieces: prefix and content
            else:
                view = memoryview(piece)
                write(view[:size])
                pending[0] = view[size:]
                size = 0
        while pending and not len(pending[0]):  # an empty message has an empty content
            pending.popleft()

    def _write_end(self) -> None:
        if self._trailers:
            self._connection.write_headers(self, self._trailers, True)
        else:
            self._out.write(frame(DATA, END_STREAM, self.id))
            self._connection.our_end(self)

    # --- receiving -----------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """The owner can take no more for now: give the peer no more window until ``release``."""
        if not self.held and not self.closed:
            self.held = True
            self._held_from = self.unacked_bytes
            self._connection.hold(self)

    def release(self) -> None:
        if self.held:
            self._connection.release(self)
            self.held = False
            self.give_window()

    @property
    def held_bytes(self) -> int:
        """How many bytes came since ``hold``."""
        return self.unacked_bytes - self._held_from

    def widen(self) -> None:
        """The request is welcome: give its sender the full window. Before that, it may send only one small window."""
        if self.is_wide or self.closed:
            return
        self.is_wide = True
        self._connection.widen()
        more = self._connection.settings.stream_window_bytes - self.window_bytes
        if more > 0 and not self.ended_by_peer:
            self.window_bytes += more
            self.due_bytes = self.window_bytes // 2
            self._out.write(frame(WINDOW_UPDATE, 0, self.id, U32.pack(more)))
        self.give_window()

    def give_window(self) -> None:
        """Send a WINDOW_UPDATE, if half of the window is used, and the owner does not hold the stream."""
        if self.unacked_bytes < self.due_bytes or not self.is_wide:
            return
        if not (self.held or self.ended_by_peer or self.closed):
            self._out.write(frame(WINDOW_UPDATE, 0, self.id, U32.pack(self.unacked_bytes)))
            self.unacked_bytes = 0

    def check_window(self) -> None:
        if self.unacked_bytes > self.window_bytes:
            raise BadHttp2(
                ErrorCode.FLOW_CONTROL_ERROR,
                "the peer sent more than the window of a stream",
                stream=self.id,
                limit=self.window_bytes,
            )

    def expect_content(self, size: int) -> None:
        """A DATA frame with this much content is coming; raise BadStream if it is not allowed here."""
        if self.ended_by_peer or not self.has_headers:
            code = ErrorCode.STREAM_CLOSED if self.ended_by_peer else ErrorCode.PROTOCOL_ERROR
            raise BadStream(code, "DATA out of place", stream=self.id)
        if self.announced_bytes is not None:
            self.announced_bytes -= size
            if self.announced_bytes < 0:
                raise BadStream(ErrorCode.PROTOCOL_ERROR, "more DATA than content-length", stream=self.id)
        self.is_between = False

    def receive_content(self, data: bytes, at: int, end: int) -> None:
        """Take a piece of DATA. It may begin and end anywhere, and may have parts of several messages."""
        message_bytes_max = self._connection.settings.message_bytes_max
        while at < end and not self.closed:
            if not self._need_bytes:
                at = self._receive_prefix(data, at, end, message_bytes_max)
                continue
            take = min(self._need_bytes, end - at)
            if take == self._need_bytes and self._partial is None:  # the usual case: everything is here
                self._need_bytes = 0
                self.deliver(data[at : at + take])
            else:
                self._assemble(memoryview(data)[at : at + take])
            at += take

    def finish_frame(self) -> None:
        """A DATA frame was read. If it did not end within a message, the next one may take the fast path."""
        self.is_between = not self.is_within_message and self.announced_bytes is None

    @property
    def is_within_message(self) -> bool:
        return bool(self._need_bytes or self._prefix)

    def _receive_prefix(self, data: bytes, at: int, end: int, message_bytes_max: int) -> int:
        """Read the prefix of a message, or what has come of it. Return where the rest of the data begins."""
        take = min(PREFIX_BYTES - len(self._prefix), end - at)
        self._prefix += data[at : at + take]
        if len(self._prefix) < PREFIX_BYTES:
            return at + take
        compressed, size = MESSAGE_PREFIX.unpack(self._prefix)
        self._prefix = b""
        if compressed or size > message_bytes_max:
            self._connection.refuse_message(self, bool(compressed), size)
        elif size:
            self._need_bytes = size
        else:
            self.deliver(b"")
        return at + take

    def _assemble(self, piece: memoryview) -> None:
        """Add a part of a message. It is copied at once, so that the buffer it came in can be reused: new memory is
        expensive."""
        connection = self._connection
        if self._partial is None:
            self._partial = BytesIO()
        self._partial.write(piece)
        self._need_bytes -= len(piece)
        connection.assembling_bytes += len(piece)
        if not self._need_bytes:
            message = self._partial.getvalue()
            self._partial = None
            connection.assembling_bytes -= len(message)
            self.deliver(message)
        elif connection.assembling_bytes > connection.settings.assembly_bytes_max:
            connection.refuse_assembly(self)

    def receive_end(self) -> None:
        """The peer's side ended (END_STREAM); raise BadStream if it ended within a message."""
        self.ended_by_peer = True
        self.is_between = False
        if self.is_within_message or self.announced_bytes:
            raise BadStream(ErrorCode.PROTOCOL_ERROR, "the stream ended within a message", stream=self.id)

    def close(self) -> None:
        """For the connection: it has removed this stream, and nothing more comes or goes."""
        self.closed = True
        self.is_sending = False
        self.is_between = False
        self.drop_waiting()
        if self._partial is not None:
            self._connection.assembling_bytes -= self._partial.tell()
            self._partial = None
