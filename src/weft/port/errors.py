"""How a node refuses: one table from exception to code, the same for every protocol."""

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
    """This node has as much to do as it may take on; wait and try again."""


class QuotaUsedUp(WeftError):
    """The caller has as much as it may; waiting does not help."""


class ShuttingDown(WeftError):
    """This node is on its way out; go to another one."""


class RevisionConflict(UsageError):
    """The key is at another revision than the caller thinks: read it, and decide again."""


class NotOwner(UsageError):
    """One node owns the bucket, or none does, and this is not the one that can do this."""


class NoServer(WeftError):
    """Nobody serves the topic that was asked on, as far as this node knows."""


class ServerLost(WeftError):
    """The server, or the way to it, was lost with a request in hand: it may have been handled, or not."""


class ServerFailed(WeftError):
    """Whoever was asked could not do it, and says why."""


class NoReply(WeftError):
    """Nobody answered in time."""


class TooLarge(UsageError):
    """More in one message than may be."""


# The first that fits counts, so a class stands before those it derives from.
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
    """What a client is told: the sentence for people, code and facts for programs."""
    facts = {name: str(value)[:ERROR_TEXT_CHARS_MAX] for name, value in error.facts.items()}
    return pb.Error(code=code_of(error), message=error.what[:ERROR_TEXT_CHARS_MAX], facts=facts)
