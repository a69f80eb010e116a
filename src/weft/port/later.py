"""Events for a later time, and schedules, as services and gateways may use them (CON-03). The callers check rights to
topics.

Waiting events belong to their publishers, and schedules to their makers: nobody else sees or changes them, except
administrators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weft.errors import UsageError
from weft.model import Batch, EventId, Topic
from weft.model.later import AHEAD_S_MAX, Waiting
from weft.model.schedules import Fired, Schedule
from weft.port.node import PublishClient


class NotWaiting(UsageError):
    """There is no such waiting event: it was delivered or cancelled, or it never existed."""


class WaitsElsewhere(UsageError):
    """The event waits at another node."""


@dataclass(frozen=True, slots=True)
class LaterSettings:
    """``weft.node.config`` documents each of these."""

    ahead_s_max: float = AHEAD_S_MAX
    pending_max: int = 1_000_000
    pending_of_key_max: int = 100_000
    schedules_of_key_max: int = 100


class LaterStore(Protocol):
    """All methods are called on the event loop."""

    def publish(
        self, publisher: PublishClient, request: int, owner: str, topic: Topic, partition: int, batch: Batch
    ) -> None:
        """Keep events until their timestamps. The publisher gets a receipt, or is refused, as by ``MeshNode.publish``.
        Raise WeftError if they are not accepted."""

    def now_us(self) -> int:
        """This node's clock, by which events are due."""

    async def waiting(self, owner: str | None, after: EventId | None, bytes_max: int) -> tuple[list[Waiting], bool]:
        """Events of this owner (None: of all owners) that wait here, roughly in the order of their times, as many as
        fit; and whether there are more."""

    async def cancel(self, event: EventId, owner: str | None) -> Waiting:
        """Cancel an event of this owner (None: of any owner). The cancellation is durable when this returns. Raise
        NotWaiting or WaitsElsewhere."""


class NoSchedule(UsageError):
    """The caller has no schedule of that name."""


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it is now. ``next_us`` None: it does not fire; ``stopped`` says why, unless it is paused."""

    name: str
    schedule: Schedule
    next_us: int | None
    fired: Fired | None
    stopped: str


class ScheduleStore(Protocol):
    """All methods are called on the event loop. ``owner`` None: any owner."""

    def now_us(self) -> int: ...

    async def list(self, owner: str | None, after: str, count_max: int) -> list[ScheduleView]:
        """The schedules whose names come after this one, in order."""

    async def find(self, name: str, owner: str | None) -> ScheduleView | None: ...

    async def put(self, name: str, schedule: Schedule, owner: str | None, *, replace: bool) -> int | None:
        """Make or replace a schedule; durable when this returns. Return when it fires first. Raise UsageError."""

    async def remove(self, name: str, owner: str | None) -> None: ...

    async def pause(self, name: str, owner: str | None, author: str, *, paused: bool) -> int | None:
        """Pause or resume a schedule, and return when it fires next. Events that fell into the pause are not published
        later."""
