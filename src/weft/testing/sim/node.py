"""One simulated node: the machinery and the storage of a real one, on a loop, a disk and connections that are not real.

Nothing here decides anything. What the broker is given and what it wants done is watched on its way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random
from threading import Event
from typing import Final, cast

from structlog.stdlib import BoundLogger

from weft import membership
from weft.core import Broker
from weft.core import messages as core
from weft.core.plain import PLAIN_EPOCH
from weft.errors import StorageError
from weft.log import Log, open_store
from weft.log.compaction import compact
from weft.log.errors import DiskFull
from weft.log.retention import RetentionRule, retain
from weft.membership import Members, NodeState
from weft.model import Epoch, NodeId, Pattern, Stream, matches
from weft.node.clients import Clients
from weft.node.figures import NodeFigures
from weft.node.machinery import Machinery, MachinerySettings, Outside
from weft.node.maintenance import BucketTidying, LaterTidying
from weft.node.metrics import Metrics
from weft.node.refusals import Refusals
from weft.node.storage import Storage
from weft.testing.sim.disk import WORN_OUT, Disk, SimStore, SimSyncer
from weft.testing.sim.loop import Clock, SimLoop, new_loop
from weft.testing.sim.network import Host, Network, SimConnection
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import StreamKey, Truth
from weft.testing.sim.window import Window
from weft.wire.mesh.checks import Signature
from weft.wire.mesh.lives import RUN_BYTES, Life

SEGMENT_BYTES: Final = 6000  # small, so that retention and compaction have something to do
DRAIN_S: Final = 2.0
GIVEN_UP_S_MAX: Final = 3.0  # for a link without heartbeats; a farewell takes one second
LAG_S_MAX: Final = 0.002  # of a loop that has nothing better to do


@dataclass(slots=True)
class SimGate:
    """PeerGate: every dialler is who it says it is."""

    network: Network
    host: Host

    def admit_untrusted(self, certificate: bytes | None) -> None:
        return None

    async def dial(self, address: str) -> tuple[SimConnection, None]:
        return await self.network.dial(self.host, node_at(address)), None


@dataclass(frozen=True, slots=True)
class SimNotary:
    """Notary: a signature is the name of the signer and a digest. Liars sign as themselves, as certificates see to."""

    node_id: NodeId
    signs: bool = True

    def sign(self, what: bytes) -> Signature:
        return Signature(blake2b(what, digest_size=16).digest(), self.node_id.encode())

    def is_signed_untrusted(self, by: str, what: bytes, signature: Signature) -> bool:
        return signature == SimNotary(NodeId(by)).sign(what)


@dataclass(frozen=True, slots=True)
class TraceLogger:
    """The node's log lines, in the trace."""

    schedule: Schedule
    name: str

    def info(self, event: str, **facts: object) -> None:
        if self.schedule.trace.enabled:
            self.schedule.note(self.name, f"{event} {facts}")

    warning = error = info


class SimNode:
    """Lives, dies and lives again. ``life`` counts; what was planned in one life does not happen in another.

    ``on_gone`` hears when a life has ended.
    """

    def __init__(
        self,
        node_id: NodeId,
        clock: Clock,
        disk: Disk,
        settings: MachinerySettings,
        *,
        schedule: Schedule,
        chance: Random,
        network: Network,
        truth: Truth,
        on_gone: Callable[[SimNode], None],
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.disk = disk
        self._lag_s_max = LAG_S_MAX
        self.life = 0
        self.running = False
        self.stopping = False  # in order: it still runs
        self.failed = False  # as a node does whose disk is worn out: it still runs, but promises nothing
        self.incarnation = 0
        self.retired = False  # down for good
        self.health_lost = 0  # times that heartbeats were missed
        self.dropped = 0  # times that an outbox threw something away
        self.begun = 0  # copies that began in the middle
        self.pasts = 0  # pieces of the past of copies that came
        self.failures = 0  # times that a disk was worn out
        self.hindered_us = 0  # by its wall clock: until then it could not do what was due
        self.on_copies: Callable[[NodeId, tuple[core.Copy, ...]], None] = lambda _peer, _copies: None
        self.window = Window(node_id, settings.broker.window_bytes, settings.broker.ack_timeout_s)
        self.log: Log
        self.loop: SimLoop
        self.host: Host
        self.machinery: Machinery
        self._links_lost: Counter[NodeId] = Counter()
        self._storage: Storage
        self._buckets: BucketTidying
        self._later: LaterTidying
        self._settings = settings
        self._schedule = schedule
        self._chance = chance
        self._network = network
        self._truth = truth
        self._on_gone = on_gone

    @property
    def takes_clients(self) -> bool:
        return self.running and not self.stopping and not self.failed

    @property
    def broker(self) -> Broker:
        return self.machinery.broker

    @property
    def members(self) -> Members:
        return self.machinery.members

    @property
    def clients(self) -> Clients:
        return self.machinery.clients

    @property
    def peers(self) -> set[NodeId]:
        """That it has links with."""
        return {view.peer for view in self.machinery.links.links() if view.connected and view.peer is not None}

    # --- lives ---

    def start(self) -> None:
        """Open the log that the disk has, or begin one; the wall clock mints its epoch, as in a real node."""
        wall_us = self.wall_us
        self.life += 1
        self.running, self.stopping, self.failed = True, False, False
        self.hindered_us = wall_us
        self.disk.store.mend()
        self.log = open_store(
            self.disk.store, lambda: Epoch(wall_us // 1000), segment_bytes=SEGMENT_BYTES, disk_reserve_bytes=0
        )
        self._truth.recovered(self.node_id, self.log)
        self.log.on_synced(self._on_durable)
        # Milliseconds: two lives with one number cannot be told apart, and here a node may be back within a second.
        self.incarnation = max(self.incarnation + 1, wall_us // 1000)
        self.window.clear()
        self._schedule.tell(self.node_id, f"starts, epoch {self.log.epoch}, incarnation {self.incarnation}")
        self.loop = new_loop(self.node_id, self._schedule, self.clock, self._chance, self._lag_s_max)
        self.loop.run_on(self._start)

    def _start(self) -> None:
        metrics, logger = Metrics(NodeFigures), cast(BoundLogger, TraceLogger(self._schedule, self.node_id))
        syncer = partial(SimSyncer, self.loop, self._chance, self.disk)
        feed = self._feed
        self._storage = Storage(self.log, feed, self._fail, metrics.synced, self.disk.inline, self.loop.time, syncer)
        address = address_of(self.node_id)
        own = NodeState(self.node_id, self.incarnation, 1, self.log.epoch, addresses=(address,))
        self.host = Host(self.node_id, self.loop, {})
        self.machinery = machinery = Machinery(
            own,
            self._settings,
            Outside(
                self.loop.time,
                self.wall_us / 1e6 - self.loop.time(),
                lambda: self.wall_us,
                self._chance,
                SimGate(self._network, self.host),
                SimNotary(self.node_id),
                Life(self.wall_us // 1000, self._chance.randbytes(RUN_BYTES)),
            ),
            self._storage,
            metrics,
            Refusals(logger),
            logger,
            self._fail,
        )
        self._buckets = BucketTidying(self.log, self._settings.kv, machinery.kv.forget, logger)
        self._later = LaterTidying(self.log, self.node_id, machinery.later.tidied)
        self._watch(machinery)
        self.host.handlers = machinery.links.handlers()
        self._storage.start()
        machinery.start()
        self.loop.create_task(machinery.links.start())

    def _feed(self, event: core.Synced) -> None:
        self.machinery.synced(event)

    def crash(self) -> None:
        """Kill -9 and a power cut: of what was not synced, some may be left."""
        self._schedule.tell(self.node_id, "crashes")
        self._end()
        store = self.disk.store
        store.crash(
            self._chance.randint(0, store.unsynced_writes), self._chance.randint(0, max(0, store.unsettled_marks))
        )

    def stop(self) -> None:
        """An orderly end: what is owed is let out, everybody is told, and everything is synced. It takes a while."""
        if self.stopping or self.failed:
            return
        self._schedule.tell(self.node_id, "stops")
        self.stopping = True
        self.disk.store.make_room()
        self.loop.run_on(lambda: self.loop.create_task(self._stop()))

    async def _stop(self) -> None:
        """As ``weft.node.runtime`` does."""
        await self.machinery.drain(DRAIN_S)
        await self.machinery.leave()
        self.machinery.engine.stop()
        try:
            await self._storage.close()
        except StorageError as error:
            # The disk may have been replaced, or filled up again, while the node was stopping.
            if str(error) != WORN_OUT and not isinstance(error, DiskFull):
                raise
            self.loop.plan(0.0, self._give_up)  # what was not synced is lost with the process
        else:
            self.loop.plan(0.0, self._stopped)

    def _stopped(self) -> None:
        self._schedule.tell(self.node_id, "has stopped")
        self._end()

    def _end(self) -> None:
        self.running = self.stopping = self.failed = False
        self.machinery.engine.stop()
        self._network.gone(self.host)
        self._on_gone(self)
        self.loop.die()

    def _fail(self, error: StorageError) -> None:
        """The node says that it cannot go on. With a disk that is worn out it must; else it is a defect."""
        if str(error) != WORN_OUT:
            self._schedule.fail(error.__cause__ or Violation(f"{self.node_id} fails: {error}"))
            return
        if not self.failed:
            self._schedule.tell(self.node_id, "fails: its disk is worn out")
            self.failed = True
            self.failures += 1
            self.machinery.fail(error)
            self.loop.plan(self._chance.random(), self._give_up)

    def _give_up(self) -> None:
        """The process ends; somebody puts in a disk that has what the old one had."""
        self.crash()

    def set_lag(self, lag_s_max: float) -> None:
        """How long its threads and its loop wait for each other, from now on."""
        self._lag_s_max = lag_s_max
        if self.running:
            self.loop.lag_s_max = lag_s_max

    def lose_disk(self) -> None:
        """While it is down. The next life begins a log of its own."""
        assert not self.running, "a disk is lost with the machine"
        self._schedule.tell(self.node_id, f"loses its disk, epoch {self.log.epoch}")
        self._truth.disk_lost(self.node_id, self.log.epoch)
        self.disk.store = SimStore()
        self.incarnation = 0

    @property
    def wall_us(self) -> int:
        return self.clock.wall_us(self._schedule.now_s)

    # --- the broker and membership, watched ---

    def _watch(self, machinery: Machinery) -> None:
        broker_step, members_step = machinery.broker.step, machinery.members.step

        def step_broker(event: core.Input, now_s: float) -> list[core.Effect]:
            self._schedule.note(self.node_id, event)
            self._note_input(event, now_s)
            effects = broker_step(event, now_s)
            for effect in effects:
                self._check(effect, now_s)
            return effects

        def step_members(event: membership.Input, now_s: float) -> list[membership.Effect]:
            self._schedule.note(self.node_id, event)
            effects = members_step(event, now_s)
            self._watch_health(effects)
            for effect in effects:
                if isinstance(effect, membership.MemberChanged):
                    self._truth.check_member(self.node_id, effect.after)
            return effects

        machinery.broker.step = step_broker  # type: ignore[method-assign]
        machinery.members.step = step_members  # type: ignore[method-assign]

    def _note_input(self, event: core.Input, now_s: float) -> None:
        match event:
            case core.LinkUp(peer):
                self.window.forget(peer)
            case core.LinkDown(peer):
                self.window.forget(peer)
                self._links_lost[peer] += 1
            case core.FramesDropped(peer):
                self.window.forget(peer)
                self.dropped += 1
            case core.ReceivedAcks(peer, positions):
                self.window.acked(peer, positions, now_s)
            case core.ReceivedResume(peer, origins, _, leave):
                self.window.resumed(peer, (*origins, *leave))
            case core.ReceivedCopies(_, copies):
                self.on_copies(self.node_id, copies)
            case core.ReceivedBegins(_, begins):
                self.begun += len(begins)
            case core.ReceivedPast():
                self.pasts += 1
            case _:
                pass

    def _check(self, effect: core.Effect, now_s: float) -> None:
        me = self.node_id
        match effect:
            case core.SendCopies(peer) | core.DropLink(peer) if peer in self._truth.liars:
                pass  # its acks are lies, and so may be anything that it is found out with
            case core.SendCopies(peer, copies):
                self.window.sent(peer, copies, now_s)
            case core.SendAcks(_, positions):
                self._truth.check_acks(me, self.log, positions)
            case core.DropLink(peer, reason):
                # Nobody here does anything wrong. But a node that has no room, or lacks an event, has no other way to
                # have a plain peer send it again.
                if not reason.startswith(("no room", "events are missing")):
                    raise Violation(f"{me} drops its link to {peer}, which does nothing wrong: {reason}")
            case core.EventsGone(peer, topic, first, end):
                self._truth.check_gone(me, (Stream(topic, peer, 0), PLAIN_EPOCH), first, end)
            case core.DamageFound(error):
                raise Violation(f"{me} finds damage on a disk that has none: {error}")
            case _:
                pass

    def _watch_health(self, effects: Iterable[membership.Effect]) -> None:
        """PL-03: a link without heartbeats is given up. A plain peer's stays: it may not know of heartbeats."""
        for effect in effects:
            if isinstance(effect, membership.HealthChanged) and effect.after is membership.Health.UNHEALTHY:
                peer = effect.peer
                self.health_lost += 1
                if peer not in self.broker.replication.plain:
                    self.loop.plan(GIVEN_UP_S_MAX, partial(self._check_given_up, peer, self._links_lost[peer]))

    def _check_given_up(self, peer: NodeId, lost_before: int) -> None:
        if self._links_lost[peer] == lost_before and not self.stopping and not self.failed:
            raise Violation(f"{self.node_id} missed the heartbeats of {peer}, and keeps the link")

    # --- the disk ---

    def _on_durable(self, advanced: Mapping[StreamKey, int]) -> None:
        self._truth.synced(self.node_id, self.log, advanced)

    def fill_disk(self) -> None:
        self._schedule.tell(self.node_id, "has a full disk")
        self.disk.store.fill()

    def refuse_syncs(self) -> None:
        self._schedule.tell(self.node_id, "has a disk that is full when it is synced")
        self.disk.store.refuses = True

    def wear_out_disk(self) -> None:
        self._schedule.tell(self.node_id, "has a disk that no longer syncs")
        self.disk.store.worn_out = True

    def make_room(self) -> None:
        self._schedule.tell(self.node_id, "has room on its disk")
        self.hindered_us = self.wall_us
        self.disk.store.make_room()

    def maintain(self, rules: tuple[RetentionRule, ...], compacted: Pattern) -> None:
        """A round of retention and of compaction, as a real node's thread has them."""
        if not self.running or self.failed or self.log.closed:
            return
        self._schedule.note(self.node_id, "tidies its log")
        try:
            self._truth.expired(retain(self.log, rules, self.wall_us))
            self.log.begin_segment()
            for state in list(self.log.states()):
                if matches(compacted, state.stream.topic):
                    compact(self.log, state, self.wall_us)
            self._buckets.round(self.wall_us // 1000, Event())
            self._truth.expired(self._later.round())
        except DiskFull:
            return
        self._storage.wake_thread()


def address_of(node_id: NodeId) -> str:
    return f"{node_id}:7400"


def node_at(address: str) -> NodeId:
    return NodeId(address.removesuffix(":7400"))
