"""How calls fail. A call fails as a whole with a gRPC status. Its trailing metadata (``weft-error-bin``) has the same
``Error`` that streams carry, so that programs need not read the sentence."""

from __future__ import annotations

import asyncio
from typing import Final

from weft.errors import WeftError
from weft.limits import ERROR_TEXT_CHARS_MAX
from weft.port.errors import error_message
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.rpc import RpcError, StatusCode

ERROR_METADATA: Final = "weft-error-bin"

# For calls that fail as a whole. RESOURCE_EXHAUSTED is what gRPC itself says of a message over its limit, so we do not
# use it.
STATUSES: Final = {
    pb.ERROR_UNSPECIFIED: StatusCode.UNKNOWN,
    pb.ERROR_BAD_REQUEST: StatusCode.INVALID_ARGUMENT,
    pb.ERROR_BAD_BATCH: StatusCode.INVALID_ARGUMENT,
    pb.ERROR_NOT_ALLOWED: StatusCode.PERMISSION_DENIED,
    pb.ERROR_UNAUTHENTICATED: StatusCode.UNAUTHENTICATED,
    pb.ERROR_POSITION_EXPIRED: StatusCode.OUT_OF_RANGE,
    pb.ERROR_POSITION_UNKNOWN: StatusCode.NOT_FOUND,
    pb.ERROR_TOO_LARGE: StatusCode.INVALID_ARGUMENT,
    pb.ERROR_BUSY: StatusCode.UNAVAILABLE,
    pb.ERROR_BEHIND_REFUSED: StatusCode.UNAVAILABLE,
    pb.ERROR_DISK_FULL: StatusCode.UNAVAILABLE,
    pb.ERROR_SHUTTING_DOWN: StatusCode.UNAVAILABLE,
    pb.ERROR_OUT_OF_SEQUENCE: StatusCode.FAILED_PRECONDITION,
    pb.ERROR_COPIES: StatusCode.FAILED_PRECONDITION,
    pb.ERROR_CORRUPT: StatusCode.DATA_LOSS,
    pb.ERROR_SEQUENCE_REUSED: StatusCode.ALREADY_EXISTS,
    pb.ERROR_CONFLICT: StatusCode.ABORTED,
    pb.ERROR_NOT_OWNER: StatusCode.FAILED_PRECONDITION,
    pb.ERROR_SCHEMA_BROKEN: StatusCode.INVALID_ARGUMENT,
    pb.ERROR_SCHEMA_INCOMPATIBLE: StatusCode.FAILED_PRECONDITION,
    pb.ERROR_HISTORY_AWAY: StatusCode.UNAVAILABLE,
    pb.ERROR_NO_SERVER: StatusCode.NOT_FOUND,
    pb.ERROR_SERVER_LOST: StatusCode.ABORTED,
    pb.ERROR_NO_REPLY: StatusCode.DEADLINE_EXCEEDED,
    pb.ERROR_SERVER_FAILED: StatusCode.ABORTED,
}


def failure_of(error: WeftError) -> RpcError:
    """What a handler raises so that its call ends with this error."""
    message = error_message(error)
    metadata = ((ERROR_METADATA, message.SerializeToString()),)
    return RpcError(STATUSES[message.code], str(error)[:ERROR_TEXT_CHARS_MAX], metadata)


async def cancelled(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel the tasks that a stream has begun. A task that failed by itself had a bug, which is raised here."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    for outcome in await asyncio.gather(*begun, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
