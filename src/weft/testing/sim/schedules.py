"""What must be true of schedules: a time is fired once by one node, never early, and twice only by two nodes that could
not hear of each other (CON-03)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from weft.core.schedules.cron import MINUTE_US, parse_cron
from weft.model import Batch, Event, NodeId
from weft.model.schedules import NAME, TIME, Schedule
from weft.security.acl import owner_of
from weft.testing.sim.loop import WALL_US
from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Violation
from weft.testing.sim.truth import StreamKey, Truth, is_internal

OWNER: Final = owner_of("key", "sim")
EVERY_MINUTE: Final = parse_cron("* * * * *")
LATE_US_MAX: Final = 45_000_000  # the longest wait for another node, and its start


@dataclass(frozen=True, slots=True)
class Firing:
    """``at_us``: by the clock of its node."""

    node: NodeId
    at_us: int


@dataclass(slots=True)
class ScheduleBook:
    truth: Truth
    fired: defaultdict[tuple[str, int], list[Firing]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.truth.watchers.append(self.durable)

    def durable(self, key: StreamKey, batch: Batch) -> None:
        if not is_internal(key):
            for event in batch:
                if event.headers and NAME in event.headers:
                    self._check(key, event, event.headers[NAME], _us_of(event.headers[TIME]))

    def _check(self, key: StreamKey, event: Event, name: str, time_us: int) -> None:
        firing = Firing(key[0].origin, event.timestamp_us)
        if not EVERY_MINUTE.matches(time_us):
            raise Violation(f"{firing.node} fires {name} for {time_us}, which is no time of it")
        if firing.at_us < time_us:
            raise Violation(f"{firing.node} fires {name} {(time_us - firing.at_us) / 1e6} s early")
        if any(each.node == firing.node for each in self.fired[name, time_us]):
            raise Violation(f"{firing.node} fires {name} for {time_us} twice")
        self.fired[name, time_us].append(firing)

    # --- what is asked of a stretch of time ---

    def check_once(self, name: str, times_us: Iterable[int]) -> None:
        """In calm times: each once, and not late."""
        for time_us in times_us:
            found = self.fired[name, time_us]
            if len(found) != 1:
                raise Violation(f"{name} is fired by {found} for {time_us}, and should be once")
            if found[0].at_us - time_us > LATE_US_MAX:
                raise Violation(f"{name} is fired by {found} for {time_us}, and is late")

    def nodes(self, name: str, time_us: int) -> set[NodeId]:
        return {each.node for each in self.fired[name, time_us]}

    def count(self, name: str, first_us: int, end_us: int) -> int:
        times = [time_us for (each, time_us) in self.fired if each == name and first_us <= time_us < end_us]
        return sum(len(self.fired[name, time_us]) for time_us in times)


def every_minute(topic: str, node: SimNode, catch_up: str = "last") -> Schedule:
    return Schedule("* * * * *", topic, b"tick", OWNER, "sim", node.wall_us, catch_up=catch_up)


def minutes(first_s: float, end_s: float) -> list[int]:
    """The minutes of the wall clock between two moments of the simulation."""
    first_us, end_us = WALL_US + int(first_s * 1e6), WALL_US + int(end_s * 1e6)
    return list(range(-(-first_us // MINUTE_US) * MINUTE_US, end_us, MINUTE_US))


def put(node: SimNode, name: str, schedule: Schedule, done: Callable[[], None] = lambda: None) -> None:
    async def work() -> None:
        await node.machinery.schedules.put(name, schedule, None, replace=False)
        done()

    node.loop.run_on(lambda: node.loop.create_task(work()))


def _us_of(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000
