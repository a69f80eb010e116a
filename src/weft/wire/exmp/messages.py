"""The seven messages as values, the numbers they have on the wire, and the one error of this room."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

import msgspec

from weft.errors import PeerError

VERSION: Final = 1  # the highest version we speak; versions count from 1
DEFAULT_PORT: Final = 5040  # EXM-01, as the reference
DEFAULT_TLS_PORT: Final = 5041
REQUEST_ID_MAX: Final = (1 << 64) - 1


class MessageType(IntEnum):
    """The first byte of a message (EXM-01)."""

    HELLO = 0
    BYE = 1
    PING = 2
    PONG = 3
    ERROR = 4
    REQUEST = 5
    RESPONSE = 6


class ErrorCode(IntEnum):
    """The code of an ``error`` message (EXM-08). An ``error`` always ends the connection, whatever its code."""

    INTERNAL = 0  # the system's or the network's fault: we send it when the peer falls silent
    PROTOCOL = 1  # a malformed message, or one that must not come now
    UNAVAILABLE = 2
    INVALID_REQUEST_ID = 3  # zero, used before, or no request waits for this response
    INVALID_REQUEST = 4  # JSON that is no request: no object, or one without an ``op`` that is a string


class BadMessage(PeerError):
    """Bytes or a message that the protocol does not allow; ``code`` is that of the ``error`` in answer, which ends it.

    ``at`` (where given) is the offset of the offending byte.
    """

    def __init__(self, code: ErrorCode, what: str, **facts: object) -> None:
        super().__init__(what, **facts)
        self.code = code


class UnfitData(BadMessage):
    """The mild error: a request whose ``data`` cannot be used, or JSON that is not a response. Only this exchange
    fails: the request is answered with a failure, and the connection goes on (EXM-08).
    """


@dataclass(frozen=True, slots=True)
class Hello:
    type: ClassVar = MessageType.HELLO
    version: int


@dataclass(frozen=True, slots=True)
class Bye:
    type: ClassVar = MessageType.BYE


@dataclass(frozen=True, slots=True)
class Ping:
    """``body``: a ping has none. A ping with a body is ignored, as by the reference: no pong and no error."""

    type: ClassVar = MessageType.PING
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Pong:
    type: ClassVar = MessageType.PONG


@dataclass(frozen=True, slots=True)
class Error:
    """``code`` is a plain number: a peer may know codes that we do not, and the connection ends all the same."""

    type: ClassVar = MessageType.ERROR
    code: int
    description: str


# Requests and responses are made by the hundred thousand a second. A Struct costs a quarter of a frozen dataclass to
# make, and unlike tuples two of different types are never equal. Made of JSON or bytes, they hold no cycles: gc=False.
class Request(msgspec.Struct, frozen=True, gc=False):
    """``data`` is JSON text that was not checked yet (see application.py)."""

    type: ClassVar = MessageType.REQUEST
    id: int
    data: bytes


class Response(msgspec.Struct, frozen=True, gc=False):
    """Answers the request of the same id; ``data`` as in a request."""

    type: ClassVar = MessageType.RESPONSE
    id: int
    data: bytes


Message = Hello | Bye | Ping | Pong | Error | Request | Response
