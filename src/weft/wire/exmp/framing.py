"""Messages on a stream: each has its length before it (EXM-01).

    length:u32 (not counting itself), then the message

A length is judged before a byte of the message is waited for, and so is the type as soon as it is there: a peer
cannot make us keep 16 MiB that could never become a ping.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NoReturn

from weft.errors import UsageError
from weft.wire.exmp.codec import EXCHANGE, HEADER, check_size_untrusted, decode_untrusted
from weft.wire.exmp.messages import BadMessage, ErrorCode, Message, Request, Response

LENGTH: Final = struct.Struct("!I")
EXCHANGE_FRAME: Final = struct.Struct("!IB3xQ")  # the length, and what a request or a response begins with


def frame(message: bytes, bytes_max: int) -> bytes:
    """An encoded message with its length before it; UsageError if it is over the limit."""
    size = len(message)
    if size > bytes_max:
        raise UsageError("message is too long", bytes=size, limit=bytes_max)
    return LENGTH.pack(size) + message


def frame_exchange(message: Request | Response, bytes_max: int) -> bytes:
    """``frame_exchange`` is ``frame(encode(message))`` for messages sent by the hundred thousand; the ids are our own,
    so they are valid."""
    size = EXCHANGE.size + len(message.data)
    if size > bytes_max:
        raise UsageError("message is too long", bytes=size, limit=bytes_max)
    return EXCHANGE_FRAME.pack(size, message.type, message.id) + message.data


class FrameReader:
    """Cuts a stream into messages. The work grows with the bytes, however small the pieces come."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()
        self._at = 0  # what lies before it has been handed out

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        self._drop_read()
        self._buffer += data

    def clear(self) -> None:
        self._buffer.clear()
        self._at = 0

    def next_untrusted(self) -> bytes | None:
        """The next whole message without its prefix, or None until more is fed; raise only BadMessage."""
        buffer = self._buffer
        start = self._at + LENGTH.size
        have = len(buffer) - start
        if have < 0:
            self._drop_read()  # an idle connection keeps no memory
            return None
        size: int = LENGTH.unpack_from(buffer, self._at)[0]
        if not HEADER.size <= size <= self.bytes_max:
            _refuse_length(size, self.bytes_max)
        if have < size:
            if have > 0:
                check_size_untrusted(buffer[start], size)
            return None
        self._at = start + size
        return bytes(buffer[start : self._at])

    def _drop_read(self) -> None:
        # Deleting at the front of a bytearray moves its start and copies nothing (amortised).
        del self._buffer[: self._at]
        self._at = 0


def _refuse_length(size: int, bytes_max: int) -> NoReturn:
    if size > bytes_max:
        raise BadMessage(ErrorCode.PROTOCOL, "message is too long", length=size, limit=bytes_max)
    raise BadMessage(ErrorCode.PROTOCOL, "length is shorter than a header", length=size, need=HEADER.size)


def messages_untrusted(data: bytes, bytes_max: int) -> Iterator[tuple[int, int, Message]]:
    """The messages of a whole capture, each with where its length begins and where it ends itself.

    Raise only BadMessage, also if the capture ends inside a message.
    """
    at = 0
    while at < len(data):
        start = at + LENGTH.size
        try:
            if start > len(data):
                raise BadMessage(ErrorCode.PROTOCOL, "length is cut off", need=LENGTH.size, have=len(data) - at)
            size: int = LENGTH.unpack_from(data, at)[0]
            if not HEADER.size <= size <= bytes_max:
                _refuse_length(size, bytes_max)
            if start + size > len(data):
                raise BadMessage(ErrorCode.PROTOCOL, "message is cut off", need=size, have=len(data) - start)
        except BadMessage as bad:
            raise _moved(bad, at) from None
        try:
            message = decode_untrusted(data[start : start + size])
        except BadMessage as bad:
            raise _moved(bad, start) from None
        yield at, start + size, message
        at = start + size


def _moved(bad: BadMessage, by: int) -> BadMessage:
    """The same error, with the offset counted from the beginning of the capture."""
    at = bad.facts.get("at", 0)
    assert isinstance(at, int), "offsets are numbers"
    return BadMessage(bad.code, bad.what, **{**bad.facts, "at": by + at})
