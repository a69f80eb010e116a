"""One message to bytes and back. How messages follow each other on a stream is framing.py's matter.

Unused bytes are written as zero and ignored on reading; a body has exactly the size its type demands, but for the one
that a ping should not have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, assert_never

from weft.errors import UsageError
from weft.wire.exmp.messages import (
    REQUEST_ID_MAX,
    BadMessage,
    Bye,
    Error,
    ErrorCode,
    Hello,
    Message,
    MessageType,
    Ping,
    Pong,
    Request,
    Response,
)

# Every message begins with its header, type:u8 unused:u24, so the layouts below include it.
HEADER: Final = struct.Struct("!B3x")
HELLO: Final = struct.Struct("!B3xB3x")  # header, version:u8 unused:u24
ERROR: Final = struct.Struct("!B3xB3xH")  # header, code:u8 unused:u24, length:u16 of the description that follows
EXCHANGE: Final = struct.Struct("!B3xQ")  # header, id:u64, then JSON: a request or a response

STRING_BYTES_MAX: Final = 0xFFFF
ERROR_BYTES_MAX: Final = ERROR.size + STRING_BYTES_MAX
PING_BYTES_MAX: Final = ERROR_BYTES_MAX  # nobody reads this body, so it may be no longer than a description
EXCHANGES: Final[dict[int, type[Request] | type[Response]]] = {
    MessageType.REQUEST: Request,
    MessageType.RESPONSE: Response,
}
FRAME_BYTES_MAX: Final = 0xFFFF_FFFF  # JSON has no bound of its own; the framing has


def encode(message: Message) -> bytes:
    """The message without its length prefix; UsageError if a field does not fit."""
    match message:
        case Request() | Response():
            _check_range("id", message.id, 1, REQUEST_ID_MAX)  # EXM-05: never zero
            return EXCHANGE.pack(message.type, message.id) + message.data
        case Hello():
            _check_range("version", message.version, 0, 0xFF)
            return HELLO.pack(MessageType.HELLO, message.version)
        case Error():
            _check_range("code", message.code, 0, 0xFF)
            description = _encode_text(message.description)
            return ERROR.pack(MessageType.ERROR, message.code, len(description)) + description
        case Ping(body):
            return HEADER.pack(MessageType.PING) + body
        case Bye() | Pong():
            return HEADER.pack(message.type)
        case _:
            assert_never(message)


def _check_range(name: str, value: int, first: int, last: int) -> None:
    if not first <= value <= last:
        raise UsageError(f"{name} is out of range", value=value, first=first, last=last)


def _encode_text(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError("description is not Unicode text", at=error.start) from error
    if len(data) > STRING_BYTES_MAX:
        raise UsageError("description is too long", bytes=len(data), limit=STRING_BYTES_MAX)
    return data


def decode_untrusted(data: bytes) -> Message:
    """Read one message without its length prefix; raise only BadMessage, whatever the bytes."""
    size = len(data)
    if size >= EXCHANGE.size and data[0] in EXCHANGES:  # almost all of them, so they do not go by way of the table
        kind, request_id = EXCHANGE.unpack_from(data)
        if request_id:
            return EXCHANGES[kind](request_id, data[EXCHANGE.size :])
    if size < HEADER.size:
        raise BadMessage(ErrorCode.PROTOCOL, "shorter than a header", need=HEADER.size, have=size)
    kind = data[0]
    check_size_untrusted(kind, size)
    return FORMATS[kind].decode_untrusted(data)


def check_size_untrusted(kind: int, size: int) -> None:
    """Refuse a type that does not exist, and a size that no message of this type has. Needs no byte of the body."""
    form = FORMATS.get(kind)
    if form is None:
        raise BadMessage(ErrorCode.PROTOCOL, "unknown message type", at=0, type=kind)
    if size < form.bytes_min:
        raise BadMessage(ErrorCode.PROTOCOL, f"{name_of(kind)} is cut off", need=form.bytes_min, have=size)
    if size > form.bytes_max:
        raise BadMessage(ErrorCode.PROTOCOL, f"{name_of(kind)} has leftover bytes", need=form.bytes_max, have=size)


def name_of(kind: int) -> str:
    return MessageType(kind).name.lower()


def _decode_id_untrusted(data: bytes) -> int:
    request_id: int = EXCHANGE.unpack_from(data)[1]
    if request_id == 0:  # EXM-05
        raise BadMessage(ErrorCode.INVALID_REQUEST_ID, f"the id of a {name_of(data[0])} is zero", at=HEADER.size)
    return request_id


def _decode_error_untrusted(data: bytes) -> Error:
    _, code, length = ERROR.unpack_from(data)
    if ERROR.size + length != len(data):
        raise BadMessage(
            ErrorCode.PROTOCOL,
            "description does not end with the message",
            at=ERROR.size - 2,
            need=length,
            have=len(data) - ERROR.size,
        )
    try:
        return Error(code, data[ERROR.size :].decode())
    except UnicodeDecodeError as error:
        at = ERROR.size + error.start
        raise BadMessage(ErrorCode.PROTOCOL, "description is not UTF-8", at=at) from error


class Format(NamedTuple):
    """The bytes a message of one type may have, header included, and how to read it once their number is right."""

    bytes_min: int
    bytes_max: int
    decode_untrusted: Callable[[bytes], Message]


FORMATS: Final[dict[int, Format]] = {
    MessageType.HELLO: Format(HELLO.size, HELLO.size, lambda data: Hello(HELLO.unpack(data)[1])),
    MessageType.BYE: Format(HEADER.size, HEADER.size, lambda _: Bye()),
    MessageType.PING: Format(HEADER.size, PING_BYTES_MAX, lambda data: Ping(data[HEADER.size :])),
    MessageType.PONG: Format(HEADER.size, HEADER.size, lambda _: Pong()),
    MessageType.ERROR: Format(ERROR.size, ERROR_BYTES_MAX, _decode_error_untrusted),
    MessageType.REQUEST: Format(
        EXCHANGE.size, FRAME_BYTES_MAX, lambda data: Request(_decode_id_untrusted(data), data[EXCHANGE.size :])
    ),
    MessageType.RESPONSE: Format(
        EXCHANGE.size, FRAME_BYTES_MAX, lambda data: Response(_decode_id_untrusted(data), data[EXCHANGE.size :])
    ),
}
