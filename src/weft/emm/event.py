"""What applications see: events, refusals, and counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from weft.wire.emm import Verdict
from weft.wire.emm.fields import Value
from weft.wire.reject import BadPacket, Reject
from weft.wire.udp import Address


@dataclass(frozen=True, slots=True)
class Event:
    """An event that arrived, and what is known about its sender."""

    name: str
    values: tuple[Value, ...]  # beside the name: str, int, float, bytes or dict
    node_id: UUID | None
    message_id: int
    timestamp_s: int  # when it was made
    urgent: bool
    verdict: Verdict
    source: Address  # where the packet came from, which need not be where it was made
    ttl: int  # what was left of it on arrival

    @property
    def value(self) -> Value | None:
        """The first value, if there is one."""
        return self.values[0] if self.values else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A datagram that was not taken, and why."""

    data: bytes = field(repr=False)
    source: Address
    error: BadPacket


@dataclass(slots=True)
class Figures:
    """Counts since the start; changed in place."""

    received: int = 0  # datagrams
    published: int = 0  # own events
    delivered: int = 0  # events put up for the application
    forwarded: int = 0  # events sent on by rule
    ended: int = 0  # events whose TTL was used up here
    unsent: int = 0  # packets without room in the outbox, in the socket or in a QUIC frame
    unread: int = 0  # events without room in the application's queue
    rejected: Counter[Reject] = field(default_factory=Counter)
