"""Schedules, as services may use them (CON-03). The callers check the right to publish to the topic.

A schedule belongs to its maker. The owner can see and change it, and so can administrators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weft.errors import UsageError
from weft.model.schedules import Fired, Schedule


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

    async def list(self, owner: str | None) -> list[ScheduleView]: ...

    async def put(self, name: str, schedule: Schedule, owner: str | None, *, replace: bool) -> int | None:
        """Durable when this returns. Return when it fires first. Raise UsageError."""

    async def remove(self, name: str, owner: str | None) -> None: ...

    async def pause(self, name: str, owner: str | None, author: str, *, paused: bool) -> int | None:
        """Return when it fires next. What was not fired meanwhile is not made up for."""
