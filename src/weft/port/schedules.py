"""Schedules, as services may use them (CON-03). The right to publish to the topic is asked by whoever calls.

A schedule belongs to who made it: its owner sees and changes it, and so do those who administer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weft.errors import UsageError
from weft.model.schedules import Fired, Schedule


class NoSchedule(UsageError):
    """There is no schedule of that name for the caller."""


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it is now. ``next_us``: None if it does not fire; ``stopped`` says why, unless it is paused."""

    name: str
    schedule: Schedule
    next_us: int | None
    fired: Fired | None
    stopped: str


class ScheduleStore(Protocol):
    """Everything is called on the event loop. ``owner`` None: whoever's it is."""

    def now_us(self) -> int: ...

    async def list(self, owner: str | None) -> list[ScheduleView]: ...

    async def put(self, name: str, schedule: Schedule, owner: str | None, *, replace: bool) -> int | None:
        """Durable when it returns; when it fires first. Raise UsageError."""

    async def remove(self, name: str, owner: str | None) -> None: ...

    async def pause(self, name: str, owner: str | None, author: str, *, paused: bool) -> int | None:
        """When it fires next. What was not fired meanwhile is not made up for."""
