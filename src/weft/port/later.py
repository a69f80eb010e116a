"""Events for a later time, as services and gateways may use them (CON-03). Rights to topics are asked by whoever calls.

Waiting events belong to who published them: others neither see nor cancel them, but for those who administer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weft.errors import UsageError
from weft.model import Batch, EventId, Topic
from weft.model.later import AHEAD_S_MAX, Waiting
from weft.port.node import PublishClient


class NotWaiting(UsageError):
    """There is no such waiting event: it was delivered, or cancelled, or never was."""


class WaitsElsewhere(UsageError):
    """The event waits at another node."""


@dataclass(frozen=True, slots=True)
class LaterSettings:
    """``weft.node.config`` documents each."""

    ahead_s_max: float = AHEAD_S_MAX
    pending_max: int = 1_000_000
    pending_of_key_max: int = 100_000
    schedules_of_key_max: int = 100


class LaterStore(Protocol):
    """Everything is called on the event loop."""

    def publish(
        self, publisher: PublishClient, request: int, owner: str, topic: Topic, partition: int, batch: Batch
    ) -> None:
        """Keep events until the times that are their timestamps. The publisher gets a receipt, or is refused, as by
        ``MeshNode.publish``. Raise WeftError if they are not taken."""

    def now_us(self) -> int:
        """This node's clock, by which events are due."""

    async def waiting(self, owner: str | None, after: EventId | None, bytes_max: int) -> tuple[list[Waiting], bool]:
        """Events that wait here, of this owner or of all, about in the order in which they are due; as many as there is
        room for, and whether there are more."""

    async def cancel(self, event: EventId, owner: str | None) -> Waiting:
        """Durable when it returns: the event will not be delivered. ``owner`` None: whoever's it is. Raise NotWaiting
        or WaitsElsewhere."""
