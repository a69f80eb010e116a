"""Which node fires a schedule, and when (CON-03). Every node decides by itself, from what it knows.

The node that fired last comes first as long as it lives; a digest orders the other nodes, differently for each
schedule. The first node fires in time. Each further node waits a little longer, and fires only if it has not heard by
then that the time was fired. So each time is fired once, as long as nodes hear of each other within that pause. When
the first node dies, the next one fires, a little late. Nodes that start at the same moment and find a time that is past
wait for each other in the same way. In a split mesh, each part fires once, because no part can know whether the other
still runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final, TypeAlias

from weft.core.schedules.cron import Cron
from weft.model import NodeId

BACKUP_US: Final = 5_000_000  # how long the next node waits for news of the one before it
BACKUP_US_MAX: Final = 30_000_000  # less than the minute to the next time
GRACE_US: Final = 60_000_000  # a time missed by less than this is fired even with CatchUp.NONE, because nodes restart
MISSED_MAX: Final = 1000  # missed times are counted up to here


class CatchUp(StrEnum):
    """What happens with times at which no node ran."""

    LAST = "last"  # the last of them is fired, once, when a node runs again
    NONE = "none"  # they are not fired


@dataclass(frozen=True, slots=True)
class Fire:
    """Fire now. ``missed``: how many scheduled times before this one were not fired by any node."""

    at_us: int
    missed: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at that time; None: the schedule never fires again."""

    until_us: int | None


Decision: TypeAlias = Fire | Wait


def rank(me: NodeId, name: str, alive: Iterable[NodeId], last: str) -> int:
    """How many nodes come before this one for a schedule. ``last``: the node that fired last."""
    mine = _order(me, name, last)
    return sum(_order(node, name, last) < mine for node in alive if node != me)


def _order(node: NodeId, name: str, last: str) -> tuple[bool, bytes]:
    return node != last, blake2b(f"{name}\n{node}".encode(), digest_size=8).digest()


def decide(cron: Cron, since_us: int, now_us: int, able_us: int, before: int, catch_up: CatchUp) -> Decision:
    """Decide whether to fire now or wait. ``since_us``: the last time that was fired, or when the schedule was made or
    resumed. ``able_us``: since when this node could have fired; others may have started at the same moment. ``before``:
    this node's rank."""
    first_us = cron.next_after(since_us)
    if first_us is None or first_us > now_us:
        return Wait(None if first_us is None else max(first_us, able_us) + _pause_us(before))
    last_us = cron.last_before(now_us, since_us)
    assert last_us is not None, "there is one: the first"
    turn_us = max(last_us, able_us) + _pause_us(before)
    if now_us < turn_us:
        return Wait(turn_us)
    if catch_up is CatchUp.NONE and now_us > last_us + _pause_us(before) + GRACE_US:
        return Wait(_plus(cron.next_after(now_us), _pause_us(before)))
    return Fire(last_us, _count(cron, first_us, last_us))


def _pause_us(before: int) -> int:
    return min(before * BACKUP_US, BACKUP_US_MAX)


def _plus(at_us: int | None, more_us: int) -> int | None:
    return None if at_us is None else at_us + more_us


def _count(cron: Cron, first_us: int, last_us: int) -> int:
    """Count the times from the first up to but not including the last."""
    found, at_us = 0, first_us
    while at_us < last_us and found < MISSED_MAX:
        following = cron.next_after(at_us)
        assert following is not None, "the last one comes after it"
        found, at_us = found + 1, following
    return found
