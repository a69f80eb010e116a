"""How requests of EXMP clients end: failures have the code that gRPC clients get, in lower case; successes and failures
are counted for the node's metrics (docs/metrics.md)."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Final

from weft.errors import UsageError, WeftError
from weft.limits import ERROR_TEXT_CHARS_MAX
from weft.port.errors import code_of
from weft.wire.exmp import End, Failure, Outcome, Success
from weft.wire.mesh.mesh_pb2 import ErrorCode

SUCCESS: Final = "success"
NO_CODE: Final = "failure"  # of a failure without a code; a node's failures have one
# Names of operations that are not ours, because a client must not be able to make labels.
OTHER: Final = "other"  # there is no such operation
UNREADABLE: Final = "unreadable"  # there is an operation, but its data cannot be read


class BadFields(UsageError):
    """The data of a request is not what its operation takes."""


def failure_of(error: WeftError) -> Failure:
    """``code`` for programs: ``bad_request``, ``not_allowed``, ``position_expired`` ... (docs/exmp.md)."""
    return Failure(str(error)[:ERROR_TEXT_CHARS_MAX], code_name(code_of(error)))


@lru_cache
def code_name(code: ErrorCode) -> str:
    name: str = ErrorCode.Name(code)
    return name.removeprefix("ERROR_").lower()


class RequestCounts:
    """Of all connections since the start; changed in place, and read by the metrics."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()  # operation, and success or the code of the failure
        self.ends: Counter[End] = Counter()  # of connections

    def answered(self, operation: str, outcome: Outcome) -> None:
        said = SUCCESS if isinstance(outcome, Success) else outcome.code or NO_CODE
        self.requests[operation, said] += 1
