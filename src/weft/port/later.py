"""Events for a later time, as services and gateways may use them (CON-03). The callers check rights to topics.

Waiting events belong to their publishers: nobody else sees or cancels them, except administrators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weft.errors import UsageError
from weft.model import Batch, EventId, Topic
from weft.model.later import AHEAD_S_MAX, Waiting
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
        """Events that wait here, of this owner or of all, roughly in the order of their times; as many as fit, and
        whether there are more."""

    async def cancel(self, event: EventId, owner: str | None) -> Waiting:
        """Cancel an event; when this returns, it is durable that the event will not be delivered. ``owner`` None: any
        owner. Raise NotWaiting or WaitsElsewhere."""
