"""The way of one event, as far as a node remembers it (``weft trace``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from weft.model import NodeId


class Moment(NamedTuple):
    """When something happened, in µs since 1970: at ``at_us`` at the latest, and not before ``not_before_us``. The two
    are the same for recent events."""

    at_us: int
    not_before_us: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event was delivered to a subscriber: a member of a group, or a subscriber with this pattern."""

    pattern: str
    group: str
    member: str
    when: Moment


@dataclass(frozen=True, slots=True)
class Way:
    """``stored``: when it was durable here; None: unknown. ``sources``: the peers from which this origin's events
    come now. ``acked_by``: peers that got it from here, and have it durable. Nothing older than ``since_us`` is
    remembered."""

    stored: Moment | None
    sources: tuple[NodeId, ...]
    acked_by: tuple[NodeId, ...]
    deliveries: tuple[Delivery, ...]
    since_us: int
