"""Calls that fail as a whole."""

from __future__ import annotations

from weft.errors import UsageError
from weft.transport.clients.failing import ERROR_METADATA, STATUSES, failure_of
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.rpc import StatusCode


def test_every_code_has_a_status() -> None:
    assert set(STATUSES) == set(pb.ErrorCode.values())


def test_a_failure_says_it_to_people_and_to_programs() -> None:
    failure = failure_of(UsageError("no such partition", partition=9, limit=3))
    assert (failure.status, failure.details) == (
        StatusCode.INVALID_ARGUMENT,
        "no such partition (partition 9, limit 3)",
    )
    ((name, data),) = failure.metadata
    assert name == ERROR_METADATA and isinstance(data, bytes)
    error = pb.Error.FromString(data)
    assert (error.code, error.message, dict(error.facts)) == (
        pb.ERROR_BAD_REQUEST,
        "no such partition",
        {"partition": "9", "limit": "3"},
    )
