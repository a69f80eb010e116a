"""What a connection tells the application, in the order in which it happened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from weft.wire.exmp.application import Operation, Outcome


class End(StrEnum):
    """How a connection ended. The values are metric labels: append, never rename."""

    BYE_SENT = "bye-sent"
    BYE_RECEIVED = "bye-received"
    ERROR_SENT = "error-sent"  # the peer broke the protocol, or our application gave up
    ERROR_RECEIVED = "error-received"
    TIMEOUT = "timeout"  # no hello or no pong in time; an error with code 0 was sent in farewell
    EOF = "eof"  # the peer closed the stream between two messages, without a word
    TRUNCATED = "truncated"  # the peer closed the stream inside a message


@dataclass(frozen=True, slots=True)
class HandshakeDone:
    """Requests and pings may be sent from now on. ``version`` is the lower of both sides' highest."""

    version: int


class RequestReceived(msgspec.Struct, frozen=True, gc=False):  # a Struct for the reason given in messages.py
    """Process it and call ``send_response``; the next request is handed out after that (EXM-06)."""

    id: int
    operation: Operation


@dataclass(frozen=True, slots=True)
class InvalidRequestReceived:
    """A request whose application data cannot be read. It must be answered in its turn, with a failure."""

    id: int
    reason: str


class ResponseReceived(msgspec.Struct, frozen=True, gc=False):
    """The answer to our request ``id``."""

    id: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class InvalidResponseReceived:
    """Our request ``id`` was answered, but the application data of the answer cannot be read."""

    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class PongReceived:
    """The answer to our ping."""

    round_trip_s: float


@dataclass(frozen=True, slots=True)
class Closed:
    """The last event of every connection, no matter which side ended it: write what ``data_to_send`` has left, then
    close.

    Requests without an answer will get none. ``code`` is that of the error sent or received, otherwise None.
    """

    end: End
    code: int | None = None
    description: str = ""


Event = (
    HandshakeDone
    | RequestReceived
    | InvalidRequestReceived
    | ResponseReceived
    | InvalidResponseReceived
    | PongReceived
    | Closed
)
