"""How errors reach EXMP clients: a failure with the code that gRPC clients get, in lower case."""

from __future__ import annotations

from functools import lru_cache

from weft.errors import UsageError, WeftError
from weft.limits import ERROR_TEXT_CHARS_MAX
from weft.port.errors import code_of
from weft.wire.exmp import Failure
from weft.wire.mesh.mesh_pb2 import ErrorCode


class BadFields(UsageError):
    """The data of a request is not what its operation takes."""


def failure_of(error: WeftError) -> Failure:
    """``code`` for programs: ``bad_request``, ``not_allowed``, ``position_expired`` ... (docs/exmp.md)."""
    return Failure(str(error)[:ERROR_TEXT_CHARS_MAX], code_name(code_of(error)))


@lru_cache
def code_name(code: ErrorCode) -> str:
    name: str = ErrorCode.Name(code)
    return name.removeprefix("ERROR_").lower()
