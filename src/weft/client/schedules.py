"""Schedules: events that the mesh publishes at recurring times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from weft.client.admin import pages_of
from weft.client.errors import BadNode
from weft.client.nodes import Nodes
from weft.errors import UsageError
from weft.model import Topic, parse_topic
from weft.wire.mesh import mesh_pb2 as pb

CatchUp = Literal["last", "none"]


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule as a node knows it. ``next``: None if it is paused, or ``stopped``, which gives the reason. ``last``:
    when it last fired, at ``last_node``."""

    name: str
    cron: str
    zone: str
    topic: Topic
    payload: bytes
    key: bytes | None
    headers: Mapping[str, str]
    catch_up: str
    paused: bool
    by: str
    next: datetime | None
    last: datetime | None
    last_node: str
    stopped: str


class ScheduleRequests:
    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def list(self, name: str) -> list[ScheduleInfo]:
        request = pb.SchedulesRequest(name=name)
        replies = await pages_of(self._nodes, "/weft.mesh.v1.Mesh/Schedules", request, pb.SchedulesReply)
        return [_read_untrusted(each) for reply in replies for each in reply.schedules]

    async def put(self, schedule: pb.Schedule, replace: bool) -> datetime | None:
        request = pb.PutScheduleRequest(schedule=schedule, replace=replace)
        reply = await self._nodes.call("/weft.mesh.v1.Mesh/PutSchedule", request, pb.PutScheduleReply)
        return _time(reply.next_us)

    async def remove(self, name: str) -> None:
        request = pb.RemoveScheduleRequest(name=name)
        await self._nodes.call("/weft.mesh.v1.Mesh/RemoveSchedule", request, pb.RemoveScheduleReply)

    async def pause(self, name: str, paused: bool) -> datetime | None:
        request = pb.PauseScheduleRequest(name=name, paused=paused)
        reply = await self._nodes.call("/weft.mesh.v1.Mesh/PauseSchedule", request, pb.PauseScheduleReply)
        return _time(reply.next_us)


def _time(at_us: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC) if at_us else None
    except (ValueError, OverflowError, OSError):
        raise BadNode("the node tells a time that cannot be", time_us=at_us) from None


def _read_untrusted(found: pb.Schedule) -> ScheduleInfo:
    try:
        topic = parse_topic(found.topic)
    except UsageError as error:
        raise BadNode(f"the node tells of a schedule that cannot be: {error}") from None
    return ScheduleInfo(
        found.name,
        found.cron,
        found.zone,
        topic,
        found.payload,
        found.key if found.HasField("key") else None,
        dict(found.headers),
        found.catch_up,
        found.paused,
        found.by,
        _time(found.next_us),
        _time(found.last_us),
        found.last_node,
        found.stopped,
    )
