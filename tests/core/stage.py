"""A stage for stories: several nodes' cores with logs in memory, joined by links that lose nothing while they stand.

Gossip is instant: every node is told at once what any node says. What happens in which order is the story's to say;
``run`` goes on until nobody has anything left to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from weft.core import Broker, BrokerSettings
from weft.core.messages import (
    UNBOUNDED,
    AddCredit,
    Assigned,
    BucketsFound,
    DamageFound,
    Deliver,
    Delivered,
    DropLink,
    Edge,
    Effect,
    Ended,
    EventsGone,
    GroupMoved,
    Handled,
    HeldUp,
    Holder,
    Input,
    LinkDown,
    LinkUp,
    LookHistory,
    MemberKnown,
    Opened,
    PeerRefused,
    PlainEvent,
    Publish,
    PublishAll,
    ReadHistory,
    Receipted,
    Receipts,
    ReceivedAcks,
    ReceivedBegins,
    ReceivedCopies,
    ReceivedPast,
    ReceivedPastRequest,
    ReceivedResume,
    Refused,
    SendAcks,
    SendBegins,
    SendCopies,
    SendPast,
    SendPastRequest,
    SendPlain,
    SendPlainAck,
    SendResume,
    Start,
    StreamKey,
    Subscribe,
    Synced,
    TellInterest,
    Tick,
    Unsubscribe,
    Withdrawn,
)
from weft.core.policy import GroupPolicy
from weft.errors import StorageError, WeftError
from weft.log import Log, MemoryStore, keys, open_store
from weft.log.rebuild import Rebuild
from weft.log.recovery import read_promises
from weft.log.store import Delete, Space, Store
from weft.log.survey import Survey
from weft.membership import Liveness, NodeState
from weft.model import Batch, Epoch, NodeId, Position, Stream, parse_pattern, parse_topic

ToPeer = SendCopies | SendAcks | SendResume | SendBegins | SendPastRequest | SendPast
CREDIT = 1 << 20
STEPS_MAX = 100_000


@dataclass
class Reader:
    """A subscriber that takes what it gets."""

    number: int
    batches: list[tuple[StreamKey, int, bytes]] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    opened: tuple[Position, ...] | None = None
    assigned: list[Assigned] = field(default_factory=list)
    withdrawn: list[Withdrawn] = field(default_factory=list)
    error: WeftError | None = None

    @property
    def texts(self) -> list[str]:
        """The payloads, in the order in which they came."""
        return [text for _, text in self.events]

    @property
    def events(self) -> list[tuple[str, str]]:
        """Where each event is, and its payload."""
        found = []
        for (stream, epoch), first, data in self.batches:
            batch = Batch.read_stored(data)
            at = max(first, batch.base_offset)
            found += [
                (f"{stream}:e{epoch}:{at + place}", event.payload.decode())
                for place, event in enumerate(batch.events_from(at))
            ]
        return found


class Actor:
    """One node on the stage."""

    def __init__(self, stage: Stage, name: str, epoch: int, settings: BrokerSettings) -> None:
        self.stage = stage
        self.id = NodeId(name)
        self.store = MemoryStore()
        self.settings = settings
        self.state = NodeState(self.id, incarnation=1, version=1, epoch=Epoch(epoch))
        self.receipts: dict[int, Receipted] = {}
        self.refused: dict[int, WeftError] = {}
        self.moved: list[int] = []
        self.readers: dict[int, Reader] = {}
        self.sent: list[Effect] = []
        self.plain: list[PlainEvent] = []  # what plain peers got
        self.plain_acks: list[tuple[str, int]] = []
        self.damage: list[StorageError] = []
        self.held_up: list[int] = []
        self.asked_tables: list[LookHistory | ReadHistory] = []
        self.gone: list[EventsGone] = []
        self.peer_refused: list[PeerRefused] = []
        self.requests = 0
        self.open(epoch)

    def open(self, epoch: int) -> None:
        self.log: Log = open_store(self.store, lambda: Epoch(epoch), disk_reserve_bytes=0)
        self.advanced: dict[StreamKey, int] = {}
        self.log.on_synced(self.advanced.update)
        self.broker = Broker(self.id, self.log, self.settings, wall_offset_s=0.0)
        self.inbox: deque[Input] = deque()
        self.perform(self.broker.start(self.stage.now_s))

    # --- what a story does ---

    def publish(self, topic: str, *texts: str, copies: int = 0, at_us: int | None = None) -> int:
        self.requests += 1
        now_us = int(self.stage.now_s * 1e6) if at_us is None else at_us
        batch = Batch.from_columns([text.encode() for text in texts], now_us)
        self.step(PublishAll([Publish(self.requests, parse_topic(topic), 0, batch, copies)]))
        return self.requests

    def subscribe(
        self,
        pattern: str,
        start: Start = Edge.EARLIEST,
        *,
        group: str = "",
        member: str = "",
        credit: int = CREDIT,
        holder: Holder = UNBOUNDED,
        window: int = 0,
        policy: GroupPolicy | None = None,
        with_history: bool = False,
    ) -> Reader:
        self.requests += 1
        reader = self.readers[self.requests] = Reader(self.requests)
        self.step(
            Subscribe(
                *(reader.number, parse_pattern(pattern), start, credit, group, member, holder, "", window, policy),
                with_history=with_history,
            )
        )
        return reader

    def unsubscribe(self, reader: Reader) -> None:
        del self.readers[reader.number]
        self.step(Unsubscribe(reader.number))

    def handled(self, reader: Reader) -> None:
        """It has handled all it got, and let go of what it lost."""
        ends: dict[StreamKey, int] = {}
        for key, _, data in reader.batches:
            ends[key] = max(ends.get(key, 0), Batch.read_stored(data).end_offset)
        generation = reader.assigned[-1].generation if reader.assigned else 0
        positions = tuple(Position(stream, epoch, end) for (stream, epoch), end in ends.items())
        self.step(Handled(reader.number, positions, generation))

    def step(self, event: Input) -> None:
        self.perform(self.broker.step(event, self.stage.now_s))

    def sync(self) -> None:
        ticket = self.log.sync()
        advanced = dict(self.advanced)
        self.advanced.clear()
        self.step(Synced(ticket, advanced))

    # --- what the runtime does ---

    def perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Receipts(receipts):
                self.receipts.update((each.request, each) for each in receipts)
            case Refused(request, error):
                self.refused[request] = error
            case BucketsFound():
                pass
            case GroupMoved(request):
                self.moved.append(request)
            case Opened(number, positions):
                self.readers[number].opened = (*(self.readers[number].opened or ()), *positions)
            case Deliver(numbers, batches):
                for number in numbers:
                    reader = self.readers[number]
                    reader.delivered += batches
                    reader.batches += (((each.stream, each.epoch), each.first_offset, each.data) for each in batches)
                    self.inbox.append(AddCredit(number, sum(len(each.data) for each in batches)))
            case HeldUp(number):
                self.held_up.append(number)
            case LookHistory() | ReadHistory():
                self.asked_tables.append(effect)
            case Assigned(number):
                self.readers[number].assigned.append(effect)
            case Withdrawn(number):
                self.readers[number].withdrawn.append(effect)
            case Ended(number, error):
                self.readers[number].error = error
            case TellInterest(patterns, capped, summary, since_us):
                self.say(
                    interest=patterns, interest_capped=capped, interest_summary=summary, interest_since_us=since_us
                )
            case (
                SendCopies(peer)
                | SendAcks(peer)
                | SendResume(peer)
                | SendBegins(peer)
                | SendPastRequest(peer)
                | SendPast(peer)
            ):
                self.sent.append(effect)
                self.stage.send(self.id, peer, effect)
            case SendPlain(_, events):
                self.plain += events
            case SendPlainAck(_, topic, offset):
                self.plain_acks.append((topic, offset))
            case DropLink(peer, reason):
                self.stage.dropped.append((self.id, peer, reason))
            case DamageFound(error):
                self.damage.append(error)
            case EventsGone():
                self.gone.append(effect)
            case PeerRefused():
                self.peer_refused.append(effect)
            case _:
                raise AssertionError(f"nobody asks or serves here: {effect}")

    def say(self, **changes: object) -> None:
        talked = self.broker.group_work.talked if hasattr(self, "broker") else 0
        self.state = replace(self.state, version=self.state.version + 1, talked=talked, **changes)  # type: ignore[arg-type]
        self.stage.gossip(self.state)


def repair(store: Store, epoch: Epoch) -> None:
    """What ``weft log repair`` does."""
    survey = Survey(store, read_promises(store))
    found = survey.found()
    survey.read_tables()
    Rebuild(survey, found, store).run(lambda: epoch)


class Stage:
    def __init__(self, *names: str, settings: BrokerSettings | None = None) -> None:
        self.now_s = 1000.0
        self.old: set[NodeId] = set()  # nodes that do not know of copies that begin in the middle
        self.links: set[frozenset[NodeId]] = set()
        self.actors: dict[NodeId, Actor] = {}
        self.dropped: list[tuple[NodeId, NodeId, str]] = []
        self._flying: deque[tuple[NodeId, NodeId, Input]] = deque()
        for name in names:
            self.actors[NodeId(name)] = Actor(self, name, 7, settings or BrokerSettings())
        for actor in self.actors.values():
            self.gossip(actor.state)

    def __getitem__(self, name: str) -> Actor:
        return self.actors[NodeId(name)]

    # --- the mesh ---

    def link(self, *pairs: str) -> None:
        """Links as ``"a-b"``."""
        for pair in pairs:
            one, other = map(NodeId, pair.split("-"))
            self.links.add(frozenset((one, other)))
            past = one not in self.old and other not in self.old
            self.actors[one].step(LinkUp(other, past=past))
            self.actors[other].step(LinkUp(one, past=past))
        self._tell_neighbours()

    def cut(self, *pairs: str) -> None:
        for pair in pairs:
            ends = frozenset(map(NodeId, pair.split("-")))
            self.links.discard(ends)
            self._flying = deque(each for each in self._flying if {each[0], each[1]} != ends)
            for one in ends:
                (other,) = ends - {one}
                if one in self.actors:
                    self.actors[one].step(LinkDown(other))
        self._tell_neighbours()

    def kill(self, name: str) -> None:
        """Without warning: what was not synced is lost."""
        node = NodeId(name)
        for ends in [each for each in self.links if node in each]:
            self.cut("-".join(sorted(ends)))
        dead = self.actors.pop(node)
        dead.store.crash()
        for actor in self.actors.values():
            actor.step(MemberKnown(replace(dead.state, liveness=Liveness.DEAD)))
        self._dead = dead

    def damage(self, stream: Stream, offset: int) -> None:
        """On the disk of the node that was killed: the batch that begins at this offset is gone."""
        store, (state,) = self._dead.store, [each for each in self._dead.log.states() if each.stream == stream]
        (key,) = [
            key
            for key, _ in store.scan(Space.BATCHES, b"", b"\xff" * 32)
            if keys.BATCH_KEY.unpack(key)[1:] == (state.id, offset)
        ]
        store.write([Delete(Space.BATCHES, key)])

    def restart(self, *, epoch: int | None = None, repaired: bool = False) -> Actor:
        """The node that was killed; with an epoch, on an empty disk, or on its own that was repaired."""
        actor = self._dead
        if repaired:
            assert epoch is not None, "a repair begins another epoch"
            repair(actor.store, Epoch(epoch))
        elif epoch is not None:
            actor.store = MemoryStore()
        actor.readers, actor.requests = {}, actor.requests + 1000
        actor.state = NodeState(actor.id, actor.state.incarnation + 1, 1, Epoch(epoch or actor.state.epoch))
        self.actors[actor.id] = actor
        actor.open(actor.state.epoch)
        for each in self.actors.values():
            self.gossip(each.state)
        return actor

    def gossip(self, state: NodeState) -> None:
        for actor in self.actors.values():
            if hasattr(actor, "broker"):
                actor.step(MemberKnown(state))

    def _tell_neighbours(self) -> None:
        for actor in self.actors.values():
            neighbours = sorted(other for ends in self.links if actor.id in ends for other in ends - {actor.id})
            actor.say(neighbours=tuple(neighbours))

    def send(self, source: NodeId, target: NodeId, effect: ToPeer) -> None:
        if frozenset((source, target)) not in self.links:
            return
        match effect:
            case SendCopies(_, copies):
                self._flying.append((source, target, ReceivedCopies(source, copies)))
            case SendAcks(_, positions, differing):
                self._flying.append((source, target, ReceivedAcks(source, positions, differing)))
            case SendResume(_, origins, positions, leave, more, begins):
                self._flying.append((source, target, ReceivedResume(source, origins, positions, leave, more, begins)))
            case SendBegins(_, begun):
                self._flying.append((source, target, ReceivedBegins(source, begun)))
            case SendPastRequest(_, request):
                self._flying.append((source, target, ReceivedPastRequest(source, request)))
            case SendPast(_, past):
                self._flying.append((source, target, ReceivedPast(source, past)))

    # --- time ---

    def run(self, seconds: float = 5.0, until: Callable[[], bool] = lambda: False) -> None:
        """Until nobody has anything to do within so many seconds, or ``until`` says so."""
        end_s = self.now_s + seconds
        for _ in range(STEPS_MAX):
            if until():
                return
            if self._turn():
                continue
            timers = [t for actor in self.actors.values() if (t := actor.broker.get_timer()) is not None]
            if not timers or min(timers) > end_s:
                self.now_s = end_s
                return
            self.now_s = max(self.now_s, min(timers))
            for actor in list(self.actors.values()):
                timer = actor.broker.get_timer()
                if timer is not None and timer <= self.now_s:
                    actor.step(Tick())
        raise AssertionError("the stage does not come to rest")

    def _turn(self) -> bool:
        if self._flying:
            _, target, event = self._flying.popleft()
            self.actors[target].step(event)
            return True
        for actor in list(self.actors.values()):
            if actor.inbox:
                actor.step(actor.inbox.popleft())
                return True
            if actor.log.appended != actor.log.synced:
                actor.sync()
                return True
        return False
