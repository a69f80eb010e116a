"""Puts incoming bytes, which may be cut anywhere, together into frames.

Most frames are DATA with one whole message for an open stream. There is a fast path for them, because 100,000 a second
have to pass. DATA goes to its stream as it comes. Other frames are short, and go to the connection when they are
complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.wire.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_AND_PREFIX,
    FRAME_HEADER,
    HEADERS,
    MESSAGE_PREFIX,
    NUMBER_MAX,
    PADDED,
    PING,
    PREFACE,
    PRIORITY_BYTES,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    BadHttp2,
    ErrorCode,
    dependency,
)
from weft.wire.http2.headers import BlockReader, OpenBlock
from weft.wire.http2.settings import HEADER_BLOCK_BYTES_MAX
from weft.wire.http2.stream import Stream

if TYPE_CHECKING:
    from weft.wire.http2.connection import Connection

FRAME_BYTES: Final = FRAME_HEADER.size
PREFIX_BYTES: Final = MESSAGE_PREFIX.size
QUICK_BYTES: Final = FRAME_AND_PREFIX.size
FIXED_BYTES: Final = {RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}  # else the connection ends (6.4, 6.7, 6.9)
SMALL_DATA_BYTES: Final = 256  # a shorter piece of a message costs the peer; a longer one pays for itself by its bytes
SMALL_DATA_COST: Final = 0.125  # frames; little, because some honest clients send prefix and content separately

_unpack = FRAME_AND_PREFIX.unpack_from


class Incoming:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        settings = connection.settings
        self._frame_bytes_max = settings.frame_bytes_max
        self._quick_bytes_max = min(settings.message_bytes_max, settings.frame_bytes_max - PREFIX_BYTES)
        self._wants_preface = not connection.is_client
        self._wants_settings = True
        self._reader = BlockReader()
        self._rest = bytearray()  # the beginning of a frame that is not complete yet
        self._rest_needs_bytes = 0  # how long ``_rest`` must be before we look at it again
        self._block: OpenBlock | None = None
        # The DATA frame that is coming in.
        self._data_stream: Stream | None = None
        self._data_left = 0
        self._data_padding = 0
        self._data_ends = False
        self._data_is_small = False

    def receive(self, data: bytes) -> None:
        """Take the bytes that came; raise BadHttp2."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._rest_needs_bytes:
                return
            data = bytes(self._rest)
            self._rest.clear()
        at, end = 0, len(data)
        if self._wants_preface:
            if not self._receive_preface(data):
                return
            at = len(PREFACE)
        if self._data_left:
            at = self._receive_content(data, at, end)
        while not self._data_left:
            at = self._receive_messages(data, at, end)
            if at == end:
                return  # the usual case: no frame was cut
            if self._connection.is_over:
                return  # an owner that got a message has ended the connection
            after = self._receive_frame(data, at, end)
            if after is None:
                self._rest += data[at:]
                return
            at = after

    def _receive_preface(self, data: bytes) -> bool:
        if not PREFACE.startswith(data[: len(PREFACE)]):
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
        if len(data) < len(PREFACE):
            self._rest += data
            return False
        self._wants_preface = False
        return True

    def _receive_messages(self, data: bytes, at: int, end: int) -> int:
        """The fast path: take DATA frames as long as each has one whole message of an open stream. Return where the
        first other frame begins."""
        if self._block is not None:
            return at  # a header block is open: only its CONTINUATION may come now
        connection = self._connection
        find = connection.streams.get
        size_max = self._quick_bytes_max
        room_bytes = connection.window.room_bytes
        if end - at > room_bytes:
            end = at + room_bytes  # the fast path takes nothing that exceeds the window
        received = 0
        while at + QUICK_BYTES <= end:
            word, flags, number, compressed, size = _unpack(data, at)
            content = size + PREFIX_BYTES
            if word != content << 8 or flags or compressed or size > size_max:
                break
            stream = find(number)
            begin = at + QUICK_BYTES
            at_next = begin + size
            if stream is None or not stream.is_between or at_next > end:
                break
            at = at_next
            received += content
            stream.unacked_bytes = unacked = stream.unacked_bytes + content
            if unacked < stream.due_bytes:
                stream.deliver(data[begin:at])
            else:
                stream.check_window()
                stream.deliver(data[begin:at])
                stream.give_window()
        if received:
            connection.count_data(received)
        return at

    def _receive_frame(self, data: bytes, at: int, end: int) -> int | None:
        """Take a frame of any kind. Return where the next one begins, or None if this one is not complete yet."""
        if at + FRAME_BYTES > end:
            self._rest_needs_bytes = FRAME_BYTES
            return None
        word: int
        word, flags, number = FRAME_HEADER.unpack_from(data, at)
        number &= NUMBER_MAX
        size, kind = word >> 8, word & 0xFF
        self._check_frame(kind, size, flags, number)
        at += FRAME_BYTES
        if kind == DATA:
            return self._receive_data(data, at, end, size, flags, number)
        if at + size > end:
            self._rest_needs_bytes = FRAME_BYTES + size
            return None
        payload = data[at : at + size]
        if kind == HEADERS:
            self._receive_headers(payload, flags, number)
        elif kind == CONTINUATION:
            self._receive_continuation(payload, flags, number)
        else:
            self._connection.receive_frame(kind, payload, flags, number)
            self._wants_settings = False
        return at + size

    def _check_frame(self, kind: int, size: int, flags: int, number: int) -> None:
        """Check that this frame may come now, and that its length is allowed; raise BadHttp2."""
        if self._wants_settings and (kind != SETTINGS or flags & ACK):
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS", kind=kind)
        if self._block is not None and (kind != CONTINUATION or number != self._block.stream):
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "a header block was interrupted", kind=kind)
        if size > self._frame_bytes_max or size != FIXED_BYTES.get(kind, size):
            raise BadHttp2(ErrorCode.FRAME_SIZE_ERROR, "a frame has a wrong length", kind=kind, bytes=size)
        if size > HEADER_BLOCK_BYTES_MAX and kind != DATA:
            raise BadHttp2(ErrorCode.ENHANCE_YOUR_CALM, "a frame is too long", bytes=size, limit=HEADER_BLOCK_BYTES_MAX)

    # --- DATA ----------------------------------------------------------------------------------------------------

    def _receive_data(self, data: bytes, at: int, end: int, size: int, flags: int, number: int) -> int | None:
        padding = 0
        if flags & PADDED:
            if not size:
                raise BadHttp2(ErrorCode.FRAME_SIZE_ERROR, "DATA lacks the length of its padding", stream=number)
            if at >= end:
                self._rest_needs_bytes = FRAME_BYTES + 1
                return None
            padding = data[at] + 1  # including the byte that holds its length
            if padding > size:
                raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "padding is longer than its frame", stream=number)
        self._data_ends = bool(flags & END_STREAM)
        self._data_is_small = size < SMALL_DATA_BYTES
        self._data_stream = stream = self._connection.stream_for_data(number, size, size - padding)
        if stream is None:
            self._connection.pay(SMALL_DATA_COST)
        elif size == padding and not self._data_ends:
            self._connection.pay()
        if padding:
            at += 1
            size -= 1
            padding -= 1
        self._data_padding = padding
        self._data_left = size
        return self._receive_content(data, at, end)

    def _receive_content(self, data: bytes, at: int, end: int) -> int:
        """Take a part of the DATA frame that is coming in, or all of it. Return where that part ends."""
        take = min(self._data_left, end - at)
        self._data_left -= take
        stream = self._data_stream
        if stream is not None and not stream.closed:
            if self._data_ends and not self._data_left:
                stream.ended_by_peer = True  # set before the owner answers the last message, as for headers
            content = take - max(0, self._data_padding - self._data_left)  # padding is at the end
            if content > 0:
                stream.receive_content(data, at, at + content)
            if not self._data_left:
                self._finish_data(stream)
        return at + take

    def _finish_data(self, stream: Stream) -> None:
        self._data_stream = None
        if stream.closed:
            return
        if self._data_ends:
            self._connection.receive_end(stream)
            return
        stream.finish_frame()
        stream.give_window()
        if self._data_is_small and stream.is_within_message:
            self._connection.pay(SMALL_DATA_COST)

    # --- headers -------------------------------------------------------------------------------------------------

    def _receive_headers(self, payload: bytes, flags: int, number: int) -> None:
        if not number:
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "HEADERS without a stream")
        first, last = 0, len(payload)
        if flags & (PADDED | WITH_PRIORITY):
            first = (1 if flags & PADDED else 0) + (PRIORITY_BYTES if flags & WITH_PRIORITY else 0)
            if first > last:
                raise BadHttp2(ErrorCode.FRAME_SIZE_ERROR, "HEADERS are cut off", stream=number, bytes=last)
            last -= payload[0] if flags & PADDED else 0
            if first > last:
                raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "padding is longer than its frame", stream=number)
            if flags & WITH_PRIORITY and dependency(payload, first - PRIORITY_BYTES) == number:
                raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself", stream=number)
        block = OpenBlock(number, bool(flags & END_STREAM), payload[first:last])
        if flags & END_HEADERS:
            self._finish_block(block)
        else:
            self._block = block

    def _receive_continuation(self, payload: bytes, flags: int, number: int) -> None:
        self._connection.pay()
        block = self._block
        if block is None:
            raise BadHttp2(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing", stream=number)
        block.add(payload)
        if flags & END_HEADERS:
            self._block = None
            self._finish_block(block)

    def _finish_block(self, block: OpenBlock) -> None:
        headers = self._reader.read_untrusted(block.whole())  # even if nobody wants them: they may change the table
        self._connection.receive_headers(block.stream, headers, block.ends)
