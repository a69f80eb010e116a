"""What applications see: events, neighbours, and counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from weft.datagram_node import Change, Relationship
from weft.wire.emm_compact import Format, Heartbeat, Join, Packet, Priority, Triple
from weft.wire.reject import Reject
from weft.wire.udp import Address


@dataclass(frozen=True, slots=True)
class Event:
    """A notification that some member of the mesh made. A group key vouches for it: for membership, not for a name."""

    message: bytes
    format: Format
    priority: Priority
    urgent: bool
    triple: Triple
    source: Address  # the neighbour it came from, which need not be where it was made
    ttl: int  # what was left of it on arrival

    @property
    def text(self) -> str:
        """The message as UTF-8, with marks where it is none."""
        return self.message.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that its sender signed, on its way to the handler with its name."""

    packet: Packet = field(repr=False)
    source: Address


@dataclass(frozen=True, slots=True)
class About:
    """What a neighbour told of itself: how it joined, if it did, and its last heartbeat, if there was one."""

    join: Join | None = None
    heartbeat: Heartbeat | None = None


Neighbour = Relationship[About]
NeighbourChange = Change[About]


@dataclass(slots=True)
class Figures:
    """Counts since the start; changed in place."""

    received: int = 0  # datagrams
    published: int = 0  # own events
    delivered: int = 0  # events put up for the application
    relayed: int = 0  # events sent on to neighbours
    ended: int = 0  # events whose TTL was used up here
    unsent: int = 0  # datagrams without room in the outbox
    unread: int = 0  # events without room in the application's queue
    forgotten: int = 0  # seen events that the cache had no room for, as of the last heartbeat: they could come twice
    rejected: Counter[Reject] = field(default_factory=Counter)  # ``replay`` counts what came another way before, too
