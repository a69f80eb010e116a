"""The clients of a node: it numbers their streams for the core, and takes the core's decisions back to them."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.core.groups import Groups
from weft.core.messages import (
    AddCredit,
    Assigned,
    ClientEffect,
    Deliver,
    Delivered,
    DropDead,
    DropGroup,
    Ended,
    GroupMoved,
    Handled,
    HeldUp,
    Input,
    LookHistory,
    MoveGroup,
    Opened,
    Publish,
    PublishAll,
    PublishAsOne,
    ReadHistory,
    Receipted,
    Receipts,
    Refused,
    SetGroup,
    Settled,
    Start,
    StreamKey,
    Subscribe,
    Unsubscribe,
    Withdrawn,
)
from weft.core.policy import GroupPolicy
from weft.core.replication import Replication
from weft.errors import UsageError, WeftError
from weft.limits import MIB
from weft.log import Log
from weft.log.errors import EventsLost, Loss, SequenceReused
from weft.membership import NodeState
from weft.model import Batch, EventId, NodeId, Pattern, Position, Topic
from weft.model.batch_few import FEW_MAX
from weft.model.batch_header import extent
from weft.model.later import LATER_PREFIX
from weft.model.traces import SpanRef
from weft.node.hops import Hops
from weft.node.metrics import Metrics
from weft.node.tracing import NodeTracing
from weft.port.errors import Busy, ShuttingDown, code_of
from weft.port.held import HeldBytes, Holding
from weft.port.node import ClientLimits, Part, PublishClient, SubscribeClient, Way
from weft.port.quotas import Quotas
from weft.port.schemas import EventChecks, NoChecks
from weft.wire.mesh.mesh_pb2 import ErrorCode

if TYPE_CHECKING:
    from weft.node.history import NodeHistory

US_PER_S: Final = 1_000_000
ARROW: Final = "weft.model.batch_arrow"
PUBLISHED_AT_ONCE: Final = 256  # batches in one step, each perhaps of a new topic: a few milliseconds
PUBLISHED_BYTES: Final = 2 * MIB  # of batches in one step; the last one may go over it
MOVED_AT_ONCE: Final = 1_000  # positions of a group in one step: a few milliseconds
LOSSES_COUNTED_MAX: Final = 10_000  # damaged stretches that the metric adds up; a log with more needs a repair


class _Delivering(NamedTuple):
    """A batch on its way to subscribers, and what is noted about it for each of them."""

    delivered: Delivered
    key: StreamKey
    first: int  # offset
    end: int  # offset
    now_us: int
    age_s: float
    here_s: float | None


class Clients:
    """``MeshNode`` for the services on one side, the core's effects for clients on the other.

    ``reused`` is told of batches whose sequence was used before, for other events.
    """

    def __init__(
        self,
        node_id: NodeId,
        log: Log,
        groups: Groups,
        limits: ClientLimits,
        feed: Callable[[Input], None],
        addresses: Callable[[], list[str]],
        members: Callable[[], list[NodeState]],
        metrics: Metrics,
        reused: Callable[[SequenceReused], None],
        dead_topic: Callable[[str], Topic],
        hops: Hops,
        replication: Replication,
        tracing: NodeTracing | None = None,
        history: NodeHistory | None = None,
    ) -> None:
        self.node_id = node_id
        self.log = log
        self.history = history
        self.groups = groups
        self.limits = limits
        self.addresses = addresses
        self.members = members
        self.dead_topic = dead_topic
        self.held = HeldBytes(limits.held_bytes_max, limits.caller_bytes_max)
        self.quotas = Quotas(limits.quota)
        self.checks: EventChecks = NoChecks()  # until schemas are read
        self.draining = False
        self.call_streams = 0  # streams of clients that ask or serve
        self._feed = feed
        self._metrics = metrics
        self._reused = reused
        self._hops = hops
        self._replication = replication
        self._tracing = tracing
        self._delivering: _Delivering | None = None  # the batch delivered last
        self._numbers = count(1)
        self._publishers: dict[PublishClient, None] = {}
        self._loop = asyncio.get_running_loop()
        self._publishes: list[Publish] = []  # published in this turn of the loop
        self._requests: dict[int, tuple[PublishClient, int, int]] = {}  # number -> client, its number, bytes
        self._subscribers: dict[int, SubscribeClient] = {}
        self._holdings: dict[int, Holding] = {}  # the holdings of subscribers
        self._moves: dict[int, asyncio.Future[None]] = {}
        self._gone = asyncio.Event()  # set when one more publisher has gone
        self._losses: set[Loss] = set()

    @property
    def streams(self) -> int:
        return len(self._publishers) + len(self._subscribers) + self.call_streams

    @property
    def subscriptions(self) -> int:
        return len(self._subscribers)

    # --- publishers ----------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self.draining:
            raise ShuttingDown("this node is shutting down: go to another one", node=self.node_id)

    def join(self, publisher: PublishClient) -> None:
        self.admit()
        self._publishers[publisher] = None

    def leave(self, publisher: PublishClient) -> None:
        """Forget a publisher. Its batches stay in line for the log; their receipts go nowhere."""
        self._publishers.pop(publisher, None)
        self._gone.set()

    def serves(self, publisher: PublishClient) -> bool:
        return publisher in self._publishers

    def publish(
        self, publisher: PublishClient, request: int, topic: Topic, partition: int, batch: Batch, copies: int
    ) -> None:
        """Batches that come in one turn of the loop are published together: one write and one sync for all of them."""
        number = next(self._numbers)
        self._requests[number] = (publisher, request, batch.size)
        if not self._publishes:
            self._loop.call_soon(self._take_publishes)
        self._publishes.append(Publish(number, topic, partition, batch, copies))

    def begin_trace(self, gateway: str, topic: Topic, events: int) -> SpanRef | None:
        """Begin a trace for events that a gateway is about to publish; None: they are not traced."""
        return None if self._tracing is None else self._tracing.begin(gateway, topic, events)

    def way_of(self, event: EventId) -> Way:
        key = (event.stream, event.epoch)
        sources, acked_by = self._replication.neighbours_of(key, event.offset)
        stored, deliveries = self._hops.stored_at(key, event.offset), self._hops.deliveries(key, event.offset)
        return Way(stored, sources, acked_by, deliveries, self._hops.since_us)

    def publish_as_one(self, publisher: PublishClient, parts: Sequence[Part]) -> None:
        """Publish these parts in one write of their own: each part gets its receipt, or all are refused."""
        publishes = []
        for request, topic, partition, batch in parts:
            number = next(self._numbers)
            self._requests[number] = (publisher, request, batch.size)
            publishes.append(Publish(number, topic, partition, batch))
        self._feed(PublishAsOne(publishes))

    def _take_publishes(self) -> None:
        """Take the batches of this turn, or some of them if there are very many."""
        publishes, self._publishes = self._publishes, []
        if len(publishes) > 1:
            size = 0
            for count, publish in enumerate(publishes):
                if count >= PUBLISHED_AT_ONCE or size >= PUBLISHED_BYTES:
                    publishes, self._publishes = publishes[:count], publishes[count:]
                    self._loop.call_soon(self._take_publishes)
                    break
                size += publish.batch.size
        self._feed(PublishAll(publishes))

    def _receipts(self, receipts: tuple[Receipted, ...]) -> None:
        """Hand out all receipts of one sync, those of each client together."""
        by_publisher: dict[PublishClient, list[tuple[int, Receipted]]] = {}
        for receipted in receipts:
            place = receipted.place
            publisher, request, size = self._requests.pop(receipted.request)
            if not (place.repeated or place.stream.topic.startswith(LATER_PREFIX)):
                self._metrics.published(place.count, size)
            if publisher in self._publishers:
                by_publisher.setdefault(publisher, []).append((request, receipted))
        for publisher, theirs in by_publisher.items():
            publisher.receipts(theirs)

    def count_refusal(self, error: WeftError) -> None:
        self._metrics.refused(ErrorCode.Name(code_of(error)))
        self.count_loss(error)

    def count_loss(self, error: WeftError) -> None:
        """Note for the metrics that a reader, a client or a peer, came to events that are damaged or gone."""
        if isinstance(error, EventsLost) and len(self._losses) < LOSSES_COUNTED_MAX:
            self._losses.add(error.loss)

    @property
    def lost_events(self) -> int:
        """How many events readers have found damaged or gone, each stretch counted once."""
        return sum(loss.end - loss.first for loss in self._losses)

    def _refused(self, number: int, error: WeftError) -> None:
        if isinstance(error, SequenceReused):
            self._reused(error)
        move = self._moves.pop(number, None)
        if move is not None and not move.done():
            move.set_exception(error)
        publisher, request, _ = self._requests.pop(number, (None, 0, 0))
        if publisher is not None and publisher in self._publishers:
            publisher.refused(request, error)

    # --- subscribers ---------------------------------------------------------------------------------------------

    def subscribe(
        self,
        subscriber: SubscribeClient,
        pattern: Pattern,
        start: Start,
        credit_bytes: int,
        group: str,
        member: str,
        holding: Holding,
        owner: str = "",
        *,
        window: int = 0,
        policy: GroupPolicy | None = None,
        with_history: bool = False,
    ) -> int:
        self.admit()
        if len(self._subscribers) >= self.limits.subscriptions_max:
            raise Busy("this node has as many subscriptions as it may", limit=self.limits.subscriptions_max)
        number = next(self._numbers)
        self._subscribers[number] = subscriber
        self._holdings[number] = holding
        reads_back = with_history and self.history is not None
        self._feed(
            Subscribe(number, pattern, start, credit_bytes, group, member, holding, owner, window, policy, reads_back)
        )
        return number

    def tell(self, event: AddCredit | Handled | Settled) -> None:
        self._feed(event)

    def unsubscribe(self, subscription: int, *, died: bool = False) -> None:
        if self._subscribers.pop(subscription, None) is not None:
            del self._holdings[subscription]
            self._feed(Unsubscribe(subscription, died))

    def _deliver(self, effect: Deliver) -> None:
        batches, known = effect.batches, self._subscribers
        numbers = [number for number in effect.subscriptions if number in known]  # the others are gone
        for each in batches:
            self._count_delivered(each, numbers)
        for number in numbers:
            subscriber = known.get(number)
            if subscriber is not None:  # still there: an earlier delivery of this loop may have ended it
                subscriber.deliver(batches)

    def _count_delivered(self, each: Delivered, numbers: Sequence[int]) -> None:
        """Count a delivery. All subscribers that get a batch in one turn get the same object, so its size and age are
        found once."""
        facts = self._delivering
        if facts is None or facts.delivered is not each:
            facts = self._delivering = self._facts_of(each)
        events, times = facts.end - facts.first, len(numbers)
        self._metrics.delivered_after(events, len(each.data), facts.age_s, facts.here_s, times)
        self._hops.delivered(numbers, facts.key, facts.first, facts.end, facts.now_us)

    def _facts_of(self, each: Delivered) -> _Delivering:
        now_us, key = self._hops.now_us(), (each.stream, each.epoch)
        base, count, oldest_us = extent(each.data)
        first, end = max(each.first_offset, base), base + count
        waited_us = self._hops.waited_us(key, first, now_us)
        here_s = None if waited_us is None else max(waited_us, 0) / US_PER_S
        return _Delivering(each, key, first, end, now_us, max(now_us - oldest_us, 0) / US_PER_S, here_s)

    def _ended(self, effect: Ended) -> None:
        subscriber = self._subscribers.pop(effect.subscription, None)
        if subscriber is not None:
            del self._holdings[effect.subscription]
            subscriber.ended(effect.error)
            self._feed(Unsubscribe(effect.subscription))

    # --- groups --------------------------------------------------------------------------------------------------

    async def move_group(self, group: str, positions: tuple[Position, ...]) -> None:
        """Move a group; very many positions go part by part. If the node dies in between, some have moved, and the
        caller gets no answer."""
        if not group:
            raise UsageError("positions are moved for a group: name one")
        for first in range(0, max(len(positions), 1), MOVED_AT_ONCE):
            some = positions[first : first + MOVED_AT_ONCE]
            await self._ask(partial(_move, group=group, positions=some))

    async def set_group(self, group: str, policy: GroupPolicy) -> None:
        await self._ask(lambda number: SetGroup(number, group, policy))

    async def drop_dead(self, group: str, events: tuple[EventId, ...]) -> None:
        await self._ask(lambda number: DropDead(number, group, events))

    async def drop_group(self, group: str) -> None:
        await self._ask(lambda number: DropGroup(number, group))

    async def _ask(self, request: Callable[[int], Input]) -> None:
        """Feed a request to the core; it is durable when this returns."""
        number = next(self._numbers)
        done = self._moves[number] = asyncio.get_running_loop().create_future()
        try:
            self._feed(request(number))
            await done
        finally:
            self._moves.pop(number, None)

    # --- what the core decided -----------------------------------------------------------------------------------

    def perform(self, effect: ClientEffect) -> None:
        match effect:
            case Deliver():
                self._deliver(effect)
            case Receipts(receipts):
                self._receipts(receipts)
            case Refused(request, error):
                self._refused(request, error)
            case GroupMoved(request):
                move = self._moves.get(request)
                if move is not None and not move.done():
                    move.set_result(None)
            case Opened(subscription, positions, more):
                if subscription in self._subscribers:
                    self._subscribers[subscription].opened(positions, more)
            case HeldUp(subscription):
                if subscription in self._holdings:
                    self._holdings[subscription].when_room(partial(self._feed, AddCredit(subscription, 0)))
            case LookHistory():
                assert self.history is not None, "nobody asks for tables otherwise"
                self.history.look(effect)
            case ReadHistory():
                assert self.history is not None, "likewise"
                self.history.read_for(effect)
            case Assigned(subscription, generation, positions):
                if subscription in self._subscribers:
                    self._subscribers[subscription].assigned(generation, positions)
            case Withdrawn(subscription, stream, epoch, offset, rest):
                if subscription in self._subscribers:
                    self._subscribers[subscription].withdrawn(EventId(stream, epoch, offset), rest)
            case Ended():
                self._ended(effect)

    # --- the end -------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take on nothing more. Publishers get the receipts they are owed, then their streams end; subscribers go to
        other nodes."""
        self.draining = True
        for publisher in list(self._publishers):
            publisher.drain()
        goodbye = ShuttingDown("this node is shutting down: go to another one", node=self.node_id)
        for subscription, subscriber in list(self._subscribers.items()):
            subscriber.ended(goodbye)
            self.unsubscribe(subscription)

    async def wait_gone(self) -> None:
        """Wait until every publisher has got the receipts it was owed, and has left."""
        while self._publishers:
            self._gone.clear()
            await self._gone.wait()

    def fail(self, error: WeftError) -> None:
        """The log can keep its promises no longer: everybody who waits gets this error."""
        self.draining = True
        for number in [*self._requests, *self._moves]:
            self._refused(number, error)
        for subscriber in list(self._subscribers.values()):
            subscriber.ended(error)
        self._subscribers.clear()
        self._holdings.clear()

    def admit(self) -> None:
        """Raise the reason why one more client cannot be admitted, if there is one. Arrow, which its batches may need,
        is loaded while the client gets ready."""
        self.check_open()
        if self.streams >= self.limits.streams_max:
            raise Busy("this node has as many clients as it may", limit=self.limits.streams_max)
        _load_arrow_soon()


def _move(number: int, group: str, positions: tuple[Position, ...]) -> MoveGroup:
    return MoveGroup(number, group, positions)


def _load_arrow_soon() -> None:
    """Load Arrow in a thread, if it is not loaded yet, so that the first large batch does not wait for it on the
    loop."""
    if ARROW not in sys.modules:
        threading.Thread(target=load_arrow, name="weft-load-arrow", daemon=True).start()


def load_arrow() -> None:
    """Load Arrow, and everything it loads with its first array of keys. Do not call this in two threads at once: with
    that array, Arrow looks for pandas, and the second thread would not wait for that."""
    import_module(ARROW)
    count = FEW_MAX + 1
    Batch.from_columns([b"x"] * count, 0, [b"k"] * count)
