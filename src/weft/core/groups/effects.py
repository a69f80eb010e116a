"""What the broker has to do for groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.core.messages import StreamKey
from weft.model import Event, EventId, Position, Topic


@dataclass(frozen=True, slots=True)
class Assignment:
    """All streams that a member has from now on.

    In streams that it had before, it goes on where it is. In the others it begins at the group's position. If the group
    has no position there, the member begins where it asked to begin.
    """

    subscription: int
    generation: int
    streams: tuple[StreamKey, ...]


@dataclass(frozen=True, slots=True)
class CommitPositions:
    """Write these positions to the log as the group's own."""

    group: str
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Say:
    """Append these events to this node's own stream of the topic, in this order. The broker replaces a timestamp of
    0."""

    topic: Topic
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another client joined this node as the same member, so this subscription has to end."""

    subscription: int


@dataclass(frozen=True, slots=True)
class PutAside:
    """Make a dead letter of this event, before anything says that the event is done."""

    group: str
    topic: Topic
    event: EventId
    tries: int
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A member refused an event, and the group has noted that. ``rest``: the later events of the stream that the member
    already has come again, after this one."""

    subscription: int
    event: EventId
    rest: bool


@dataclass(frozen=True, slots=True)
class Wake:
    """The member may get more events now: in these streams, and in those where it was held back."""

    subscription: int
    streams: tuple[StreamKey, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """The group was dropped; this subscription, a member of it, has to end."""

    subscription: int
    group: str


@dataclass(frozen=True, slots=True)
class ForgetPositions:
    """Delete all positions of the group from the log."""

    group: str


GroupEffect: TypeAlias = (
    Assignment | CommitPositions | ForgetPositions | Say | Replaced | Dropped | PutAside | Refusal | Wake
)
