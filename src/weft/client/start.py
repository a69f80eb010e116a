"""Where a subscription begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from weft.client.refs import stream_positions
from weft.errors import UsageError
from weft.model import Position
from weft.wire.mesh.mesh_pb2 import Positions, Start, StreamPosition

Where = Literal["earliest", "latest", "group"] | int | datetime | Sequence[Position]
EDGES: Final = {"earliest": Start.EDGE_EARLIEST, "latest": Start.EDGE_LATEST, "group": Start.EDGE_UNSPECIFIED}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_where(where: Where | None) -> Where:
    """Check ``where``, or raise UsageError. None means the group's own positions, or the latest without any."""
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
    """Make the message for a place. (A plain offset, meant for every stream, was turned into positions before.)"""
    match where:
        case str():
            return Start(edge=EDGES[where])
        case datetime():
            return Start(timestamp_us=timestamp_us_of(where))
        case int():
            raise AssertionError("offsets are looked up before a subscription is opened")
        case _:
            return Start(positions=Positions(positions=stream_positions(where)))


def resumed(start: Start, positions: Sequence[StreamPosition], opened_us: int) -> Start:
    """A start that goes on at these positions. In streams that are new to us, events from before the time at which the
    subscription began are still left out."""
    again = Start(positions=Positions(positions=positions))
    match start.WhichOneof("from"):
        case "timestamp_us":
            again.otherwise_timestamp_us = start.timestamp_us
        case "edge" if start.edge != Start.EDGE_EARLIEST:
            again.otherwise_timestamp_us = opened_us
        case None:  # the default: latest, without a group
            again.otherwise_timestamp_us = opened_us
        case _:
            pass  # from the earliest or from positions: every other stream from its beginning
    return again


def timestamp_us_of(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)
