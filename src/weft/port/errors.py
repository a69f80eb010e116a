"""How a node refuses: one table from exceptions to codes, the same for every protocol."""

from __future__ import annotations

from typing import Final

from weft.core.errors import CopiesMissing, MemberTaken, TopicReserved
from weft.core.kv import ClockBehind, Overfull
from weft.errors import PeerError, StorageError, UsageError, WeftError
from weft.limits import ERROR_TEXT_CHARS_MAX
from weft.log.errors import (
    DiskFull,
    EventsLost,
    OutOfSequence,
    PositionAhead,
    PositionExpired,
    SequenceReused,
    StoreCorrupt,
    UnknownStream,
)
from weft.model import BadBatch
from weft.port.history import HistoryAway, HistoryDamaged
from weft.schema.errors import IncompatibleSchema, SchemaBroken
from weft.security import NotAllowed, Unauthenticated
from weft.wire.mesh import mesh_pb2 as pb


class Busy(WeftError):
    """This node is overloaded; wait and try again."""


class BehindRefused(WeftError):
    """The batch before this one was refused, and this one must not overtake it: send both again, in order."""


class QuotaUsedUp(WeftError):
    """The caller has used up its quota; waiting does not help."""


class ShuttingDown(WeftError):
    """This node is shutting down; go to another one."""


class RevisionConflict(UsageError):
    """The key is at another revision than the caller expects: read it, and decide again."""


class NotOwner(UsageError):
    """This node cannot do it: the bucket belongs to another node, or has no owner."""


class NoServer(WeftError):
    """Nobody serves this topic, as far as this node knows."""


class ServerLost(WeftError):
    """The server, or the way to it, was lost while it had a request: it may have handled it or not."""


class ServerFailed(WeftError):
    """The server could not do it, and says why."""


class NoReply(WeftError):
    """Nobody answered in time."""


class TooLarge(UsageError):
    """One message has more than is allowed."""


# The first match counts, so a class stands before its base classes.
CODES: Final[tuple[tuple[type[WeftError], pb.ErrorCode], ...]] = (
    (BadBatch, pb.ERROR_BAD_BATCH),
    (TooLarge, pb.ERROR_TOO_LARGE),
    (TopicReserved, pb.ERROR_NOT_ALLOWED),
    (MemberTaken, pb.ERROR_NOT_ALLOWED),
    (NotAllowed, pb.ERROR_NOT_ALLOWED),
    (QuotaUsedUp, pb.ERROR_NOT_ALLOWED),
    (Unauthenticated, pb.ERROR_UNAUTHENTICATED),
    (PositionExpired, pb.ERROR_POSITION_EXPIRED),
    (PositionAhead, pb.ERROR_POSITION_UNKNOWN),
    (UnknownStream, pb.ERROR_POSITION_UNKNOWN),
    (OutOfSequence, pb.ERROR_OUT_OF_SEQUENCE),
    (SequenceReused, pb.ERROR_SEQUENCE_REUSED),
    (CopiesMissing, pb.ERROR_COPIES),
    (Busy, pb.ERROR_BUSY),
    (BehindRefused, pb.ERROR_BEHIND_REFUSED),
    (ClockBehind, pb.ERROR_BUSY),
    (Overfull, pb.ERROR_NOT_ALLOWED),
    (RevisionConflict, pb.ERROR_CONFLICT),
    (NotOwner, pb.ERROR_NOT_OWNER),
    (SchemaBroken, pb.ERROR_SCHEMA_BROKEN),
    (IncompatibleSchema, pb.ERROR_SCHEMA_INCOMPATIBLE),
    (NoServer, pb.ERROR_NO_SERVER),
    (ServerLost, pb.ERROR_SERVER_LOST),
    (NoReply, pb.ERROR_NO_REPLY),
    (ServerFailed, pb.ERROR_SERVER_FAILED),
    (ShuttingDown, pb.ERROR_SHUTTING_DOWN),
    (DiskFull, pb.ERROR_DISK_FULL),
    (EventsLost, pb.ERROR_CORRUPT),
    (StoreCorrupt, pb.ERROR_CORRUPT),
    (HistoryAway, pb.ERROR_HISTORY_AWAY),
    (HistoryDamaged, pb.ERROR_CORRUPT),
    (UsageError, pb.ERROR_BAD_REQUEST),
    (PeerError, pb.ERROR_BAD_REQUEST),
    (StorageError, pb.ERROR_SHUTTING_DOWN),  # a node whose log fails stops
)


def code_of(error: WeftError) -> pb.ErrorCode:
    return next((code for kind, code in CODES if isinstance(error, kind)), pb.ERROR_UNSPECIFIED)


def error_message(error: WeftError) -> pb.Error:
    """What a client is told: the sentence is for people, code and facts are for programs."""
    facts = {name: str(value)[:ERROR_TEXT_CHARS_MAX] for name, value in error.facts.items()}
    return pb.Error(code=code_of(error), message=error.what[:ERROR_TEXT_CHARS_MAX], facts=facts)
