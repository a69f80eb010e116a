"""What the broker has to do for groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.core.messages import StreamKey
from weft.model import Event, Position, Topic


@dataclass(frozen=True, slots=True)
class Assignment:
    """All streams that this member has from now on.

    In those that it had before it goes on where it is. In the others it begins at the group's position, or where it
    asked to begin if there is none.
    """

    subscription: int
    generation: int
    streams: tuple[StreamKey, ...]


@dataclass(frozen=True, slots=True)
class CommitPositions:
    """Write these to the log as the group's positions."""

    group: str
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Say:
    """Append these to this node's own stream of the topic, in this order; their timestamps are the broker's to give."""

    topic: Topic
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Replaced:
    """Somebody else joined this node as the same member; this subscription has to end."""

    subscription: int


GroupEffect: TypeAlias = Assignment | CommitPositions | Say | Replaced
