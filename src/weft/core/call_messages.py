"""Inputs and effects of the machine for requests and replies (``calls``).

A call is one request with all its replies. The asker's node gives it a number; together with that node's name, the
number is unique in the mesh. Nothing of a call is ever written to a disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from weft.limits import MIB
from weft.model import NodeId, Pattern, Topic

CALL_PAYLOAD_BYTES_MAX: Final = 1 * MIB  # of a request or a reply, which is held in memory; for more, publish events
CALL_TIMEOUT_S_MAX: Final = 86_400.0  # of a call with all its replies
CALL_ERROR_CHARS_MAX: Final = 1024  # of the message that a failed handler answers with
CALL_HOPS_MAX: Final = 64  # nodes that a frame passes: it could go in circles where views of the mesh differ
CALL_WINDOW: Final = 16  # replies of one call that were sent and not taken yet
CALL_SLOTS_MAX: Final = 4096  # requests that one server may have in hand at once


class CallKey(NamedTuple):
    origin: NodeId
    number: int


@dataclass(frozen=True, slots=True)
class Question:
    """A request. ``timeout_s``: how long the call may take, with all its replies. ``durable``: the server also
    publishes the reply."""

    topic: Topic
    payload: bytes
    headers: Mapping[str, str]
    timeout_s: float
    durable: bool = False

    @property
    def size(self) -> int:
        return len(self.payload) + sum(len(name) + len(value) for name, value in self.headers.items())


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. ``last``: no more replies follow. ``failed``: the handler has failed, and this text says why. ``event``:
    which event holds a durable reply."""

    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    last: bool = True
    failed: bool = False
    event: str = ""


class CallFault(Enum):
    """Why a call has no reply. A request that certainly reached no server may be given to another server."""

    NO_SERVER = "no-server"  # nobody serves the topic
    BUSY = "busy"  # those that serve it have no room for more
    UNREACHABLE = "unreachable"  # the way to a server is broken
    LOST = "lost"  # the server, or the way to it, was lost while it had the request: it may have been handled
    TIMED_OUT = "timed-out"


RETRIED: Final = frozenset({CallFault.NO_SERVER, CallFault.BUSY, CallFault.UNREACHABLE})


# --- between nodes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    fault: CallFault
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody waits for replies any longer."""


@dataclass(frozen=True, slots=True)
class Took:
    """The asker has taken this many more replies."""

    count: int


CallBody: TypeAlias = Question | Reply | Refusal | Cancel | Took


@dataclass(frozen=True, slots=True)
class CallFrame:
    """What one node sends to another, over the nodes in between. ``slots``: how many requests the server's node can
    handle at once. ``index``: the number of the reply within its call, so that a missing reply is noticed."""

    source: NodeId
    target: NodeId
    number: int
    body: CallBody
    hops: int = 0
    slots: int = 0
    index: int = 0


# --- inputs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """``probe``: only find out whether somebody serves the topic."""

    number: int
    question: Question
    probe: bool = False


@dataclass(frozen=True, slots=True)
class CancelCall:
    number: int


@dataclass(frozen=True, slots=True)
class TookReplies:
    number: int
    count: int


@dataclass(frozen=True, slots=True)
class Serve:
    """A client of this node serves topics, with at most this many requests at once."""

    server: int
    pattern: Pattern
    slots: int


@dataclass(frozen=True, slots=True)
class StopServing:
    """The server takes no more requests, but still answers those it has."""

    server: int


@dataclass(frozen=True, slots=True)
class ServerGone:
    server: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply to the request that this server got under this number."""

    server: int
    handle: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    peer: NodeId
    frame: CallFrame


CallInput: TypeAlias = Ask | CancelCall | TookReplies | Serve | StopServing | ServerGone | Answer | ReceivedCall

# --- effects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replied:
    """A reply for the asker of this number."""

    number: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call of this asker has failed, and nothing more comes."""

    number: int
    fault: CallFault
    detail: str


@dataclass(frozen=True, slots=True)
class Handed:
    """A request for this server."""

    server: int
    handle: int
    question: Question


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Nobody waits for replies to that request any longer."""

    server: int
    handle: int


@dataclass(frozen=True, slots=True)
class HandedTook:
    """The asker has taken this many replies to that request."""

    server: int
    handle: int
    count: int


@dataclass(frozen=True, slots=True)
class SendCall:
    peer: NodeId
    frame: CallFrame


CallEffect: TypeAlias = Replied | CallFailed | Handed | HandedOver | HandedTook
