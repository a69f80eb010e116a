"""One simulated node: membership, broker and log as a real one has them, on a disk and clocks that are not real."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, Protocol, assert_never

from weft import membership
from weft.core import Broker, BrokerSettings
from weft.core import messages as core
from weft.core.plain import PLAIN_EPOCH
from weft.log import Log, MemoryStore, open_store
from weft.log.compaction import compact
from weft.log.errors import DiskFull
from weft.log.memory_store import UNLIMITED
from weft.log.retention import RetentionRule, retain
from weft.membership import Members, NodeState
from weft.model import Epoch, NodeId, Pattern, Stream, matches
from weft.testing.sim.network import Lane, Network
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import StreamKey, Truth
from weft.testing.sim.window import Window

WALL_US: Final = 1_700_000_000_000_000  # the wall clock when a simulation begins
TICK_S_MIN: Final = 0.0001  # a timer in the past is served this late
TICKS_PER_S_MAX: Final = 3000.0
SEGMENT_BYTES: Final = 6000  # small, so that retention and compaction have something to do
MAKING_ROOM_S: Final = 0.2  # as the real storage thread waits on a full disk

MakeBroker = Callable[[NodeId, Log, BrokerSettings, float], Broker]
Deliver = Callable[
    [NodeId, core.Input | membership.MessageReceived], None
]  # what a frame does when it arrives at a node


@dataclass(frozen=True, slots=True)
class Clock:
    """A node's own monotonic clock, and how far its wall clock is off."""

    rate: float
    offset_s: float
    skew_us: int

    def read_s(self, now_s: float) -> float:
        return self.offset_s + self.rate * now_s

    def until_s(self, own_s: float, now_s: float) -> float:
        """How long it takes until this clock shows ``own_s``."""
        return (own_s - self.read_s(now_s)) / self.rate

    def wall_us(self, now_s: float) -> int:
        return WALL_US + int(now_s * 1e6) + self.skew_us


@dataclass(slots=True)
class Disk:
    """``sync_s_max``: how long a sync may take."""

    sync_s_max: float
    store: MemoryStore


class Clients(Protocol):
    """Where a node's answers to clients go."""

    def answer(self, node: NodeId, effect: core.Receipts | core.Refused | core.GroupMoved) -> None: ...

    def feed(self, node: NodeId, effect: core.Opened | core.Deliver | core.Assigned | core.Ended) -> None: ...

    def plain_frame(self, effect: core.SendPlain | core.SendPlainAck) -> None: ...

    def drop_plain(self, node: NodeId, peer: NodeId, reason: str) -> None: ...


class SimNode:
    """Lives, dies and lives again. ``life`` counts; what was planned in one life does not happen in another."""

    def __init__(
        self,
        node_id: NodeId,
        clock: Clock,
        disk: Disk,
        settings: BrokerSettings,
        *,
        schedule: Schedule,
        chance: Random,
        network: Network,
        truth: Truth,
        clients: Clients,
        deliver: Deliver,
        make_broker: MakeBroker,
        member_settings: membership.Settings,
        seeds: list[str],
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.disk = disk
        self.seeds = seeds
        self.life = 0
        self.running = False
        self.incarnation = 0
        self.retired = False  # down for good
        self.on_copies: Callable[[NodeId, tuple[core.Copy, ...]], None] = lambda _peer, _copies: None
        self.window = Window(node_id, settings.window_bytes, settings.ack_timeout_s)
        self.broker: Broker
        self.members: Members
        self.log: Log
        self._settings = settings
        self._member_settings = member_settings
        self._schedule = schedule
        self._chance = chance
        self._network = network
        self._deliver = deliver
        self._truth = truth
        self._clients = clients
        self._make_broker = make_broker
        self._timer_s: float | None = None
        self._ticks_left = 0.0
        self._ticks_s = 0.0
        self._line: deque[Callable[[], None]] = deque()  # steps to take
        self._stepping = False
        self._syncing = False
        self._advanced: dict[StreamKey, int] = {}

    # --- lives ---

    def start(self) -> None:
        """Open the log that the disk has, or begin one; the wall clock mints its epoch, as in a real node."""
        now_s = self._schedule.now_s
        wall_us = self.clock.wall_us(now_s)
        self.life += 1
        self.running = True
        self.disk.store.disk_bytes_max = UNLIMITED  # nobody starts a node without room for it
        self.log = open_store(
            self.disk.store, lambda: Epoch(wall_us // 1000), segment_bytes=SEGMENT_BYTES, disk_reserve_bytes=0
        )
        self._truth.recovered(self.node_id, self.log)
        self._advanced = {}
        self.log.on_synced(self._on_durable)
        # Milliseconds: two lives with one number cannot be told apart, and here a node may be back within a second.
        self.incarnation = max(self.incarnation + 1, wall_us // 1000)
        own = NodeState(self.node_id, self.incarnation, 1, self.log.epoch, addresses=(address_of(self.node_id),))
        self.members = Members(own, self._member_settings, self._chance, self.seeds)
        self.broker = self._make_broker(self.node_id, self.log, self._settings, wall_us / 1e6 - self.own_s)
        self._syncing, self._timer_s = False, None
        self.window.clear()
        self._schedule.note(self.node_id, f"starts, epoch {self.log.epoch}, incarnation {self.incarnation}")
        self.tell_members(membership.Start())
        for effect in self.broker.start(self.own_s):
            self._perform(effect)

    def crash(self) -> None:
        """Kill -9 and a power cut: of what was not synced, some may be left."""
        self._schedule.note(self.node_id, "crashes")
        self._end()
        store = self.disk.store
        store.crash(
            self._chance.randint(0, store.unsynced_writes), self._chance.randint(0, max(0, store.unsettled_marks))
        )

    def stop(self) -> None:
        """An orderly end: members of groups leave, and everything is synced."""
        self._schedule.note(self.node_id, "stops")
        self.disk.store.disk_bytes_max = UNLIMITED
        for effect in self.broker.group_work.close(self.own_s):
            self._perform(effect)
        self._end()
        self.log.close()

    def _end(self) -> None:
        self.running = False
        self._network.gone(self.node_id)

    def lose_disk(self) -> None:
        """While it is down. The next life begins a log of its own."""
        assert not self.running, "a disk is lost with the machine"
        self._schedule.note(self.node_id, f"loses its disk, epoch {self.log.epoch}")
        self._truth.disk_lost(self.node_id, self.log.epoch)
        self.disk.store = MemoryStore()
        self.incarnation = 0

    # --- inputs ---

    @property
    def own_s(self) -> float:
        return self.clock.read_s(self._schedule.now_s)

    @property
    def wall_us(self) -> int:
        return self.clock.wall_us(self._schedule.now_s)

    def tell(self, event: core.Input) -> None:
        """Give the broker an input, and do what it wants done."""
        self._line.append(partial(self._step_broker, event))
        self._run_line()

    def tell_members(self, event: membership.Input) -> None:
        self._line.append(partial(self._step_members, event))
        self._run_line()

    def _run_line(self) -> None:
        """What a step leads to waits until it is done, as in a real node: neither machine is entered twice."""
        if self._stepping:
            return
        self._stepping = True
        while self._line and self.running:
            self._line.popleft()()
        self._line.clear()
        self._stepping = False
        if self.running:
            if self.log.appended != self.log.synced:
                self._sync_soon()
            self._set_timer()

    def _step_broker(self, event: core.Input) -> None:
        self._schedule.note(self.node_id, event)
        for effect in self.broker.step(event, self.own_s):
            self._perform(effect)

    def _step_members(self, event: membership.Input) -> None:
        self._schedule.note(self.node_id, event)
        for effect in self.members.step(event, self.own_s):
            self._perform_member(effect)

    def link_up(self, peer: NodeId, *, plain: bool = False) -> None:
        self.window.forget(peer)
        self.tell(core.LinkUp(peer, plain))
        self.tell_members(membership.LinkUp(peer, gossips=not plain))

    def link_down(self, peer: NodeId) -> None:
        self.window.forget(peer)
        self.tell(core.LinkDown(peer))
        self.tell_members(membership.LinkDown(peer))

    def frames_dropped(self, peer: NodeId) -> None:
        self.window.forget(peer)
        self.tell(core.FramesDropped(peer))

    # --- effects ---

    def _perform(self, effect: core.Effect) -> None:
        me = self.node_id
        match effect:
            case core.Receipts() | core.Refused() | core.GroupMoved():
                self._clients.answer(me, effect)
            case core.Opened() | core.Deliver() | core.Assigned() | core.Ended():
                self._clients.feed(me, effect)
            case core.SendCopies(peer, copies):
                self.window.sent(peer, copies, self.own_s)
                self.on_copies(peer, copies)
                self._send(peer, core.ReceivedCopies(me, copies), copies=len(copies))
            case core.SendAcks(peer, positions):
                self._truth.check_acks(me, positions)
                self._send(peer, core.ReceivedAcks(me, positions))
            case core.SendResume(peer, origins, positions, leave, more):
                self._send(peer, core.ReceivedResume(me, origins, positions, leave, more))
            case core.SendPlain() | core.SendPlainAck():
                self._clients.plain_frame(effect)
            case core.DropLink(peer, reason):
                self._clients.drop_plain(me, peer, reason)
            case core.EventsGone(peer, topic, first, end):
                self._truth.check_gone(me, (Stream(topic, peer, 0), PLAIN_EPOCH), first, end)
            case core.DamageFound(error):
                raise Violation(f"{me} finds damage on a disk that has none: {error}")
            case core.TellInterest(patterns, capped):
                self.tell_members(membership.SetInterest(patterns, capped))
            case _:
                assert_never(effect)

    def _send(self, peer: NodeId, event: core.Input, *, copies: int = 0) -> None:
        self._network.send(self.node_id, peer, Lane.DATA, partial(self._deliver, peer, event), copies=copies)

    def _perform_member(self, effect: membership.Effect) -> None:
        match effect:
            case membership.Send(peer, message):
                lane = Lane.DATA if isinstance(message, membership.Heartbeat) else Lane.CONTROL
                received = membership.MessageReceived(self.node_id, message)
                self._network.send(self.node_id, peer, lane, partial(self._deliver, peer, received))
            case membership.Dial(address):
                self._network.dial(self.node_id, node_at(address))
            case membership.MemberChanged(_, after):
                self.tell(core.MemberKnown(after))
            case membership.MemberForgotten(node_id):
                self.tell(core.MemberForgotten(node_id))
            case membership.HealthChanged() | membership.RoundTrip() | membership.Stopped():
                pass
            case _:
                assert_never(effect)

    def receive(self, event: core.Input | membership.MessageReceived) -> None:
        """A frame of a peer has arrived."""
        match event:
            case membership.MessageReceived():
                self.tell_members(event)
            case _:
                if isinstance(event, core.ReceivedAcks):
                    self.window.acked(event.peer, event.positions, self.own_s)
                elif isinstance(event, core.ReceivedResume):
                    self.window.resumed(event.peer, (*event.origins, *event.leave))
                self.tell(event)

    # --- time ---

    def _set_timer(self) -> None:
        timers_s = [each for each in (self.broker.get_timer(), self.members.get_timer()) if each is not None]
        if timers_s and (self._timer_s is None or min(timers_s) < self._timer_s):
            self._timer_s = timer_s = min(timers_s)
            wait_s = max(TICK_S_MIN, self.clock.until_s(timer_s, self._schedule.now_s) + 1e-9)
            self._schedule.at(wait_s, partial(self._on_timer, self.life, timer_s))

    def _on_timer(self, life: int, planned_s: float) -> None:
        if self.life != life or not self.running or self._timer_s != planned_s:
            return
        self._timer_s = None
        self._count_tick()
        if _is_due(self.members.get_timer(), self.own_s):
            self.tell_members(membership.Tick())
        if _is_due(self.broker.get_timer(), self.own_s):
            self.tell(core.Tick())
        self._set_timer()

    def _count_tick(self) -> None:
        """PL-02: no busy loops. A budget that fills up with time."""
        now_s = self._schedule.now_s
        self._ticks_left = min(TICKS_PER_S_MAX, self._ticks_left + (now_s - self._ticks_s) * TICKS_PER_S_MAX) - 1
        self._ticks_s = now_s
        if self._ticks_left < -TICKS_PER_S_MAX:
            raise Violation(f"the timers of {self.node_id} run in circles")

    # --- the disk ---

    def _sync_soon(self) -> None:
        """A sync makes things durable at some moment, and is heard of at a later one; a crash may come in between."""
        if self._syncing:
            return
        self._syncing = True
        self._schedule.at(self._chance.random() * self.disk.sync_s_max, partial(self._sync, self.life))

    def _sync(self, life: int) -> None:
        if self.life != life or not self.running:
            return
        try:
            ticket = self.log.sync()
        except DiskFull:
            self._schedule.at(MAKING_ROOM_S, partial(self._sync, life))
            return
        if self._chance.random() < 0.2:
            self.log.settle()
        advanced, self._advanced = self._advanced, {}
        wait_s = self._chance.random() * self.disk.sync_s_max
        self._schedule.at(wait_s, partial(self._synced, life, core.Synced(ticket, advanced)))

    def _on_durable(self, advanced: Mapping[StreamKey, int]) -> None:
        self._advanced.update(advanced)
        self._truth.synced(self.node_id, self.log, advanced)

    def _synced(self, life: int, event: core.Synced) -> None:
        if self.life == life and self.running:
            self._syncing = False
            self.tell(event)

    def fill_disk(self) -> None:
        self._schedule.note(self.node_id, "has a full disk")
        self.disk.store.disk_bytes_max = self.disk.store.disk_bytes()

    def make_room(self) -> None:
        self._schedule.note(self.node_id, "has room on its disk")
        self.disk.store.disk_bytes_max = UNLIMITED

    def maintain(self, rules: tuple[RetentionRule, ...], compacted: Pattern) -> None:
        """A round of retention and of compaction."""
        if not self.running:
            return
        self._schedule.note(self.node_id, "tidies its log")
        try:
            self._truth.expired(retain(self.log, rules, self.wall_us))
            self.log.begin_segment()
            for state in list(self.log.states()):
                if matches(compacted, state.stream.topic):
                    compact(self.log, state, self.wall_us)
        except DiskFull:
            return
        if self.log.appended != self.log.synced:
            self._sync_soon()


def _is_due(timer_s: float | None, now_s: float) -> bool:
    return timer_s is not None and timer_s <= now_s


def address_of(node_id: NodeId) -> str:
    return f"{node_id}:7400"


def node_at(address: str) -> NodeId:
    return NodeId(address.removesuffix(":7400"))
