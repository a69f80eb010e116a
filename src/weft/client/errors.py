"""What can go wrong for a client, sorted by what the caller can do about it. An error that stands for a node's refusal
has the facts that the node sent."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from weft.errors import PeerError, StorageError, UsageError, WeftError
from weft.schema.errors import IncompatibleSchema, SchemaBroken
from weft.wire.mesh.mesh_pb2 import Error, ErrorCode
from weft.wire.rpc import RpcError, StatusCode

FACTS_MAX: Final = 32  # of one refusal; nodes send only a few
FACT_CHARS_MAX: Final = 512
ERROR_METADATA: Final = "weft-error-bin"  # the Error that a call failed with, beside gRPC's status
ERROR_BYTES_MAX: Final = 16 * 1024  # gRPC lets no more metadata through anyway


R = TypeVar("R", bound=Message)


class Backpressure(UsageError):
    """Too much is published and not yet acknowledged. Wait and try again; ``publish`` and ``wait_for_room`` wait by
    themselves."""

    def __init__(self, what: str, *, need: int, **facts: object) -> None:
        super().__init__(what, need=need, **facts)
        self.need = need  # the bytes that were to be added


class Closed(UsageError):
    """The client or the subscription is closed."""


class BadRequest(UsageError):
    """The node refused the call as it is; trying again does not help."""


class NotAllowed(UsageError):
    """This key may not do this with this topic."""


class Unauthenticated(UsageError):
    """The node does not know who is calling: there is no token, or one that it does not know."""


class TooLarge(UsageError):
    """More than the node takes at once."""


class PositionExpired(UsageError):
    """Retention has deleted what was at this position; the facts say what is left."""


class PositionUnknown(UsageError):
    """There is no such stream, epoch or offset; the facts say what is there."""


class OutOfSequence(UsageError):
    """A later batch of this producer came first: two clients have one producer id, or a client runs from a copied
    disk."""


class SequenceReused(UsageError):
    """The node has other events under this producer's sequence: two clients have one producer id, or one used a number
    twice. These events are not in the log; the fact ``kept_at`` says where the others are."""


class RevisionConflict(UsageError):
    """The key is at another revision than the caller expects; the fact ``revision`` names it. Nothing was written."""


class NotOwner(UsageError):
    """Only the node in the fact ``owner`` takes writes to this bucket. Or the bucket has no owner, and then no node can
    promise a revision."""


class CopiesMissing(WeftError):
    """The events are durable where they were published, but not on as many nodes as asked for."""


class DiskFull(StorageError):
    """The node has no room for more."""


class LogCorrupt(StorageError):
    """The node's log is damaged at this place; the facts say which offsets."""


class Busy(PeerError):
    """The node is overloaded."""


class BehindRefused(Busy):
    """The node refused this batch because it refused the one before it. The client sends both again, in order."""


class NodeShuttingDown(PeerError):
    """The node is shutting down."""


class BadNode(PeerError):
    """The node sent something that no correct node sends."""


class Unavailable(PeerError):
    """No node could be reached in time."""


class HistoryAway(PeerError):
    """The node cannot read its archive table at the moment, and only the table has the requested events."""


class PublishInDoubt(PeerError):
    """The events were sent, but no receipt came: they may be in the log or not.

    The client does not send them to another node, because then they might be in the mesh twice.
    """


class NoReply(PeerError):
    """Nobody answered a request in time. It may have been handled all the same."""


class NoServer(PeerError):
    """Nobody serves this topic, as far as the node knows. The request was not sent to anybody, and this is raised at
    once."""


class ServerLost(PeerError):
    """The server, or the way to it, was lost while it had the request: it may have handled it or not."""


class RequestFailed(PeerError):
    """The server could not do it, and says why."""


CLASSES: Final[dict[int, type[WeftError]]] = {
    ErrorCode.ERROR_BAD_REQUEST: BadRequest,
    ErrorCode.ERROR_BAD_BATCH: BadRequest,
    ErrorCode.ERROR_NOT_ALLOWED: NotAllowed,
    ErrorCode.ERROR_UNAUTHENTICATED: Unauthenticated,
    ErrorCode.ERROR_POSITION_EXPIRED: PositionExpired,
    ErrorCode.ERROR_POSITION_UNKNOWN: PositionUnknown,
    ErrorCode.ERROR_TOO_LARGE: TooLarge,
    ErrorCode.ERROR_BUSY: Busy,
    ErrorCode.ERROR_BEHIND_REFUSED: BehindRefused,
    ErrorCode.ERROR_DISK_FULL: DiskFull,
    ErrorCode.ERROR_SHUTTING_DOWN: NodeShuttingDown,
    ErrorCode.ERROR_OUT_OF_SEQUENCE: OutOfSequence,
    ErrorCode.ERROR_SEQUENCE_REUSED: SequenceReused,
    ErrorCode.ERROR_COPIES: CopiesMissing,
    ErrorCode.ERROR_CORRUPT: LogCorrupt,
    ErrorCode.ERROR_CONFLICT: RevisionConflict,
    ErrorCode.ERROR_NOT_OWNER: NotOwner,
    ErrorCode.ERROR_SCHEMA_BROKEN: SchemaBroken,
    ErrorCode.ERROR_SCHEMA_INCOMPATIBLE: IncompatibleSchema,
    ErrorCode.ERROR_HISTORY_AWAY: HistoryAway,
    ErrorCode.ERROR_NO_SERVER: NoServer,
    ErrorCode.ERROR_SERVER_LOST: ServerLost,
    ErrorCode.ERROR_NO_REPLY: NoReply,
    ErrorCode.ERROR_SERVER_FAILED: RequestFailed,
}

STATUS_CLASSES: Final[dict[StatusCode, type[WeftError]]] = {
    StatusCode.INVALID_ARGUMENT: BadRequest,
    StatusCode.UNIMPLEMENTED: BadRequest,
    StatusCode.PERMISSION_DENIED: NotAllowed,
    StatusCode.UNAUTHENTICATED: Unauthenticated,
    StatusCode.RESOURCE_EXHAUSTED: TooLarge,  # gRPC's own answer to a frame over its limit
}

# Worth another try, here or elsewhere. Any other error is raised to the caller.
RETRYABLE: Final = (Unavailable, Busy, NodeShuttingDown, DiskFull, HistoryAway)


def is_retryable(error: BaseException) -> bool:
    return isinstance(error, RETRYABLE)


def error_of(error: Error, **where: object) -> WeftError:
    """Turn a node's refusal into an exception. Its text is bounded, and an unknown code becomes a bad request."""
    facts: dict[str, object] = {
        str(name)[:64]: str(error.facts[name])[:FACT_CHARS_MAX] for name in sorted(error.facts)[:FACTS_MAX]
    }
    kind = CLASSES.get(error.code, BadRequest)
    return kind(error.message[:FACT_CHARS_MAX] or "refused without a reason", **{**where, **facts})


def error_of_call(failure: RpcError, **where: object) -> WeftError:
    """Turn the end of a call into an exception, from the node's own error if there is one, else from gRPC's status.

    Unless the caller clearly made a mistake, the exception is one after which another node may be tried.
    """
    for name, value in failure.metadata:
        if name == ERROR_METADATA and isinstance(value, bytes) and len(value) <= ERROR_BYTES_MAX:
            with suppress(DecodeError):
                return error_of(Error.FromString(value), **where)
    status = failure.status
    kind = STATUS_CLASSES.get(status, Unavailable)
    details = failure.details[:FACT_CHARS_MAX] or status.name
    return kind(f"call failed: {details}", status=status.name, **where)


def parsed_untrusted(kind: type[R], data: bytes, address: str) -> R:
    """A message of a node; raise only BadNode."""
    try:
        message: R = kind.FromString(data)
    except DecodeError as error:
        raise BadNode(f"the node sent no {kind.DESCRIPTOR.name}: {error}", node=address) from None
    return message
