"""Schedules: events that the mesh publishes at recurring times.

Schedules are entries of a bucket, and so are the times when they last fired. So every node has both, and works out for
itself which node fires a schedule (``weft.core.schedules.firing``). The event, and the entry that says that it was
fired, are one write: after a crash, both are there or neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from heapq import nsmallest
from typing import Final

import msgspec
from structlog.stdlib import BoundLogger

from weft.core.kv import Entry
from weft.core.schedules.cron import Cron, parse_cron
from weft.core.schedules.firing import CatchUp, Fire, Wait, decide, rank
from weft.errors import UsageError, WeftError
from weft.model import Batch, Event, NodeId, Pattern, Topic
from weft.model.key_value import Revision
from weft.model.schedules import (
    FIRED_BUCKET,
    NAME,
    SCHEDULES_BUCKET,
    TIME,
    Fired,
    Schedule,
    read_fired_untrusted,
    read_schedule_untrusted,
    write_fired,
    write_schedule,
)
from weft.node.figures import ScheduleFigures
from weft.node.kv import KeyValues
from weft.port.errors import QuotaUsedUp
from weft.port.kv import Write
from weft.port.later import LaterSettings, NoSchedule, ScheduleView
from weft.port.node import MeshNode
from weft.port.schemas import Payloads
from weft.schema.errors import SchemaBroken

SETTLE_US: Final = 5_000_000  # after a start: to hear which nodes are there, and what was fired meanwhile
ABSENT_US: Final = 20_000_000  # without a look: the machine slept or its clock was set, so wait as after a start
ALARM_S_MAX: Final = 5.0  # then the clock is read again: it may have been set
LATE_US: Final = 1_000_000
SCHEDULES_MAX: Final = 10_000  # of the mesh: every node looks at all of them
STOPPED: Final = "its owner may not publish to the topic, as far as this node knows"

MayPublish = Callable[[str, Topic], bool]  # whether some valid key of an owner has the right


def anybody_may(owner: str, topic: Topic) -> bool:
    """Without keys there are no rights."""
    return True


@dataclass(frozen=True, slots=True)
class Known:
    """A schedule that was read. ``cron`` None: this node cannot read it, because it does not know the zone."""

    revision: Revision
    schedule: Schedule
    cron: Cron | None


class Schedules:
    """``ScheduleStore``. ``alive``: the living nodes of the mesh, including this one."""

    def __init__(
        self,
        node: MeshNode,
        kv: KeyValues,
        settings: LaterSettings,
        alive: Callable[[], Iterable[NodeId]],
        wall_us: Callable[[], int],
        may_publish: MayPublish,
        logger: BoundLogger,
    ) -> None:
        self.now_us = wall_us
        self._node = node
        self._me = node.node_id
        self._kv = kv
        self._settings = settings
        self._alive = alive
        self._may_publish = may_publish
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._able_us = wall_us() + SETTLE_US  # since when this node fires
        self._looked_us: int | None = None  # None: there was nothing to look at
        self._known: dict[str, Known] = {}
        self._firing: dict[str, int] = {}  # by name, the time whose event is on its way into the log
        self._refused: dict[str, int] = {}  # the last time that was not fired because of missing rights
        self._changing = asyncio.Lock()  # a change depends on what there is: one after the other
        self._alarm: asyncio.TimerHandle | None = None
        self._is_due = False  # a look is about to come
        self.fired = 0
        self.late = 0
        self.missed = 0
        self.refusals = 0
        kv.listen(self._heard)

    # --- what the mesh has ----------------------------------------------------------------------------------------

    def _heard(self) -> None:
        """One of the mesh's own buckets has changed, or all of them have been read."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _read(self) -> None:
        """Take over what has changed."""
        found: dict[str, Known] = {}
        for entry in self._entries(SCHEDULES_BUCKET):
            known = self._known.get(entry.key)
            if known is None or known.revision != entry.revision:
                known = self._parsed(entry)
            if known is not None:
                found[entry.key] = known
        self._known = found

    def _entries(self, bucket: str) -> list[Entry]:
        state, now_ms = self._kv.state.get(bucket), self.now_us() // 1000
        return [] if state is None else [each for each in state.entries() if each.key and each.is_live(now_ms)]

    def _parsed(self, entry: Entry) -> Known | None:
        item = self._kv.latest(SCHEDULES_BUCKET, entry.key)
        schedule = None if item is None else read_schedule_untrusted(item.value)
        if schedule is None:
            return None
        try:
            cron = parse_cron(schedule.cron, schedule.zone)
        except UsageError as error:
            self._logger.warning("schedule_unreadable", schedule=entry.key, reason=str(error))
            cron = None
        return Known(entry.revision, schedule, cron)

    def _last(self, name: str) -> Fired | None:
        item = self._kv.latest(FIRED_BUCKET, name)
        return None if item is None else read_fired_untrusted(item.value)

    # --- firing ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._is_due = False
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._kv.is_ready or self._is_draining():
            return
        self._read()
        now_us = self.now_us()
        if self._looked_us is not None and not 0 <= now_us - self._looked_us <= ABSENT_US:
            self._able_us = now_us + SETTLE_US
        self._looked_us = now_us if self._known else None
        if not self._known:
            return
        wait_s = (self._able_us - now_us) / 1e6
        if wait_s <= 0:
            wait_s = self._fire_due(now_us)
        self._alarm = self._loop.call_later(min(wait_s, ALARM_S_MAX), self._look)

    def _fire_due(self, now_us: int) -> float:
        """Fire what is due here; return for how long there is nothing else to do."""
        alive = list(self._alive())
        wait_us = int(ALARM_S_MAX * 1e6)
        for name, known in self._known.items():
            if known.cron is None or known.schedule.paused or name in self._firing:
                continue
            fired = self._last(name)
            before = rank(self._me, name, alive, "" if fired is None else fired.node)
            since_us = self._since_us(name, known, fired)
            match decide(known.cron, since_us, now_us, self._able_us, before, _catch_up(known.schedule)):
                case Wait(until_us):
                    wait_us = min(wait_us, wait_us if until_us is None else until_us - now_us)
                case Fire(at_us, missed):
                    self._fire(name, known.schedule, at_us, missed, now_us)
        return max(wait_us, 0) / 1e6

    def _since_us(self, name: str, known: Known, fired: Fired | None) -> int:
        return max(known.schedule.since_us, 0 if fired is None else fired.at_us, self._refused.get(name, 0))

    def _fire(self, name: str, schedule: Schedule, at_us: int, missed: int, now_us: int) -> None:
        topic = Topic(schedule.topic)
        if not self._may_publish(schedule.owner, topic):
            self._refused[name] = at_us
            self.refusals += 1
            self._logger.warning("schedule_stopped", schedule=name, topic=topic, by=schedule.by, reason=STOPPED)
            return
        self._firing[name] = at_us
        checked = partial(self._fire_checked, name, schedule, at_us, missed, now_us)
        self._node.checks.check(self, topic, Payloads([schedule.payload]), checked, first_only=True)

    def _fire_checked(
        self,
        name: str,
        schedule: Schedule,
        at_us: int,
        missed: int,
        now_us: int,
        broken: Mapping[int, SchemaBroken],
    ) -> None:
        del self._firing[name]
        topic = Topic(schedule.topic)
        for error in broken.values():
            self._refused[name] = at_us
            self.refusals += 1
            self._logger.warning("schedule_stopped", schedule=name, topic=topic, by=schedule.by, reason=str(error))
            return
        headers = {**schedule.headers, NAME: name, TIME: _iso(at_us)}
        batch = Batch.from_events([Event(schedule.payload, now_us, schedule.key, headers)])
        mark = write_fired(Fired(at_us, self._me))
        try:
            done = self._kv.write_with(FIRED_BUCKET, name, mark, schedule.by, topic, batch)
        except WeftError as error:  # it is tried again
            self._logger.warning("schedule_not_fired", schedule=name, reason=str(error))
            return
        self._firing[name] = at_us
        done.add_done_callback(lambda done: self._told(name, at_us, missed, done))

    def _told(self, name: str, at_us: int, missed: int, done: asyncio.Future[None]) -> None:
        self._firing.pop(name, None)
        if done.cancelled():
            return
        if (error := done.exception()) is not None:  # the log had no room: it is tried again
            self._logger.warning("schedule_not_fired", schedule=name, reason=str(error))
            return
        self.fired += 1
        self.missed += missed
        self.late += self.now_us() - at_us > LATE_US
        self._heard()

    def _is_draining(self) -> bool:
        try:
            self._node.check_open()
        except WeftError:
            return True
        return False

    # --- for callers ----------------------------------------------------------------------------------------------

    async def list(self, owner: str | None, after: str, count_max: int) -> list[ScheduleView]:
        await self._opened()
        names = (name for name, each in self._known.items() if name > after and owner in (None, each.schedule.owner))
        return [self._view(name, self._known[name]) for name in nsmallest(count_max, names)]

    async def find(self, name: str, owner: str | None) -> ScheduleView | None:
        await self._opened()
        known = self._known.get(name)
        return None if known is None or owner not in (None, known.schedule.owner) else self._view(name, known)

    def _view(self, name: str, known: Known) -> ScheduleView:
        schedule, fired = known.schedule, self._last(name)
        stopped = ""
        if known.cron is None:
            stopped = "this node cannot read its cron expression or its time zone"
        elif not self._may_publish(schedule.owner, Topic(schedule.topic)):
            stopped = STOPPED
        is_off = known.cron is None or schedule.paused or bool(stopped)
        next_us = (
            None if is_off or known.cron is None else self._next_us(known.cron, self._since_us(name, known, fired))
        )
        return ScheduleView(name, schedule, next_us, fired, stopped)

    def _next_us(self, cron: Cron, since_us: int) -> int | None:
        return cron.next_after(max(since_us, self.now_us()))

    async def put(self, name: str, schedule: Schedule, owner: str | None, *, replace: bool) -> int | None:
        async with self._changing:
            await self._opened()
            known = self._known.get(name)
            if known is not None and (not replace or owner not in (None, known.schedule.owner)):
                raise UsageError("there is a schedule of that name already", name=name)
            if known is None:
                self._check_room(name, schedule.owner)
            await self._write(name, schedule)
        cron = parse_cron(schedule.cron, schedule.zone)
        return None if schedule.paused else self._next_us(cron, schedule.since_us)

    def _check_room(self, name: str, owner: str) -> None:
        have = sum(each.schedule.owner == owner for each in self._known.values())
        limit = self._settings.schedules_of_key_max
        if have >= limit:
            raise QuotaUsedUp(
                "as many schedules as a key may have: later.schedules_of_key_max", name=name, have=have, limit=limit
            )
        if len(self._known) >= SCHEDULES_MAX:
            raise QuotaUsedUp("the mesh has as many schedules as it may", name=name, limit=SCHEDULES_MAX)

    async def remove(self, name: str, owner: str | None) -> None:
        async with self._changing:
            known = await self._of(name, owner)
            by = known.schedule.by
            await self._kv.write(Write(SCHEDULES_BUCKET, name, None, by))
            await self._kv.write(Write(FIRED_BUCKET, name, None, by))

    async def pause(self, name: str, owner: str | None, author: str, *, paused: bool) -> int | None:
        async with self._changing:
            known = await self._of(name, owner)
            schedule = known.schedule
            changed = msgspec.structs.replace(schedule, paused=paused, since_us=self.now_us())
            await self._write(name, changed)
        return None if paused or known.cron is None else self._next_us(known.cron, changed.since_us)

    async def _of(self, name: str, owner: str | None) -> Known:
        await self._opened()
        known = self._known.get(name)
        if known is None or owner not in (None, known.schedule.owner):
            raise NoSchedule("there is no schedule of that name for you", name=name)
        return known

    async def _write(self, name: str, schedule: Schedule) -> None:
        await self._kv.write(Write(SCHEDULES_BUCKET, name, write_schedule(schedule), schedule.by))
        self._read()
        self._heard()

    async def _opened(self) -> None:
        """Wait until this node has read all schedules in its log."""
        await self._kv.items(SCHEDULES_BUCKET, Pattern(">"), "", 1)
        self._read()

    def figures(self) -> ScheduleFigures:
        return ScheduleFigures(len(self._known), self.fired, self.late, self.missed, self.refusals)


def _catch_up(schedule: Schedule) -> CatchUp:
    return CatchUp.NONE if schedule.catch_up == CatchUp.NONE else CatchUp.LAST


def _iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
