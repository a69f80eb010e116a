"""What observers get: events, questions that can be answered, and the answers to one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from weft.coaty.observing import Observation
from weft.wire.coaty import EventData, Response

D_co = TypeVar("D_co", bound=EventData, covariant=True)
Q_co = TypeVar("Q_co", covariant=True)
R = TypeVar("R", bound=Response)
R_contra = TypeVar("R_contra", bound=Response, contravariant=True)


@dataclass(frozen=True, slots=True)
class Event(Generic[D_co]):
    """A one-way event, or an answer: its sender and its content."""

    source_id: str  # the agent
    data: D_co


@dataclass(frozen=True, slots=True)
class Question(Generic[Q_co, R_contra]):
    """A Discover, Query, Update or Call of another agent (or of this one). Answer it, more than once if need be."""

    source_id: str
    data: Q_co
    correlation_id: str
    reply: Callable[[R_contra], Awaitable[None]] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class RawEvent:
    """Bytes on a topic outside of Coaty's own."""

    topic: str
    payload: bytes


class Responses(Observation[Event[R]], Generic[R]):
    """The answers to a question, as they come. Leaving it ends the subscription that was made for them (COA-09)."""

    async def first(self, timeout_s: float = 5.0) -> Event[R]:
        """The first answer only; TimeoutError if none comes in time."""
        async with self:
            return await self.next(timeout_s)

    async def within(self, timeout_s: float) -> list[Event[R]]:
        """All answers that come in this time."""
        found: list[Event[R]] = []
        async with self:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    async for event in self:
                        found.append(event)
        return found
