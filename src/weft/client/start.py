"""Where a subscription begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from weft.client.refs import stream_positions
from weft.errors import UsageError
from weft.model import Position
from weft.wire.mesh.mesh_pb2 import Positions, Start

Where = Literal["earliest", "latest", "group"] | int | datetime | Sequence[Position]
EDGES: Final = {"earliest": Start.EDGE_EARLIEST, "latest": Start.EDGE_LATEST, "group": Start.EDGE_UNSPECIFIED}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_where(where: Where | None) -> Where:
    """``where`` if it is one, or UsageError. None is the group's own positions, and latest without any."""
    match where:
        case None:
            return "group"
        case str():
            if where not in EDGES:
                raise UsageError(f"no such start {where!r}", known=", ".join(EDGES))
        case bool():
            raise UsageError("a start is not a truth value")
        case int():
            if where < 0:
                raise UsageError("offsets count from 0", offset=where)
        case datetime():
            if where.tzinfo is None:
                raise UsageError("a start time needs a time zone", time=where.isoformat())
        case _:
            if not all(isinstance(position, Position) for position in where):
                raise UsageError("a start of several streams is a sequence of Position")
    return where


def start_message(where: Where) -> Start:
    """The message for it; an offset of every stream has been made positions by then."""
    match where:
        case str():
            return Start(edge=EDGES[where])
        case datetime():
            return Start(timestamp_us=timestamp_us_of(where))
        case int():
            raise AssertionError("offsets are looked up before a subscription is opened")
        case _:
            return Start(positions=Positions(positions=stream_positions(where)))


def timestamp_us_of(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)
