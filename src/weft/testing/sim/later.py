"""Clients that publish for later and cancel, and what must be true of it: what was taken is delivered once, never
early, and late only if a fault explains it (CON-03)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from weft.core.messages import Receipted
from weft.errors import WeftError
from weft.model import Batch, Epoch, Event, EventId, NodeId, Topic
from weft.model.later import ID
from weft.port.later import NotWaiting
from weft.security.acl import owner_of
from weft.testing.sim.node import SimNode
from weft.testing.sim.random_client import RandomClient
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import EndOf, StreamKey, Truth, is_internal

OWNER: Final = owner_of("key", "sim")
PUBLISHES: Final = (3, 12)
PAUSE_S_MAX: Final = 3.0
DELAYS_S: Final = (0.0, 0.3, 2.0, 9.0, 25.0)
CANCELLED: Final = 0.25
LATE_US_MAX: Final = 15_000_000  # disks that take seconds for a sync, and a loop that hears late of it


@dataclass(frozen=True, slots=True)
class Promise:
    """An event that a node said waits in its log."""

    payload: bytes
    due_us: int
    node: NodeId
    epoch: Epoch


@dataclass(slots=True)
class LaterBook:
    """What was sent, taken, cancelled and delivered. ``nodes``: all there are."""

    truth: Truth
    nodes: Callable[[], Sequence[SimNode]]
    sent: dict[bytes, int] = field(default_factory=dict)  # payload -> due, by the clock of the node
    promised: dict[EventId, Promise] = field(default_factory=dict)
    cancelled: set[bytes] = field(default_factory=set)
    in_doubt: set[bytes] = field(default_factory=set)  # somebody has asked to cancel them, and got no answer
    delivered: dict[bytes, StreamKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.truth.watchers.append(self.durable)

    # --- what nodes say ---

    def taken(self, promise: Promise, place: EventId) -> None:
        self.promised[place] = promise

    def not_waiting(self, event: EventId, wall_us: int) -> None:
        """A node says that an event no longer waits."""
        promise = self.promised[event]
        known = self.delivered.keys() | self.cancelled | self.in_doubt
        if promise.payload not in known and wall_us < promise.due_us:
            raise Violation(f"{promise.node} says that {event} does not wait, and it is not due yet")

    # --- what becomes durable ---

    def durable(self, key: StreamKey, batch: Batch) -> None:
        """A batch of the origin's own is on its disk."""
        if is_internal(key):
            return
        for event in batch:
            if event.headers and ID in event.headers:
                self._check_delivered(key, event)

    def _check_delivered(self, key: StreamKey, event: Event) -> None:
        payload, due_us = event.payload, self.sent.get(event.payload)
        if due_us is None:
            raise Violation(f"{payload!r} is delivered, and nobody sent it")
        if event.timestamp_us < due_us:
            raise Violation(f"{payload!r} is delivered {(due_us - event.timestamp_us) / 1e6} s early")
        if payload in self.delivered:
            raise Violation(f"{payload!r} is delivered twice, to {self.delivered[payload]} and {key}")
        if payload in self.cancelled:
            raise Violation(f"{payload!r} was cancelled, and is delivered")
        node = next(each for each in self.nodes() if each.node_id == key[0].origin)
        late_us = event.timestamp_us - max(due_us, node.hindered_us)
        if late_us > LATE_US_MAX:
            raise Violation(f"{payload!r} is delivered {late_us / 1e6} s late, and no fault explains it")
        self.delivered[payload] = key

    # --- the end ---

    def lacks(self, end_of: EndOf) -> str:
        running = {node.node_id: node for node in self.nodes() if node.running}
        for event, promise in self.promised.items():
            node = running.get(promise.node)
            is_lost = node is None or node.log.epoch != promise.epoch
            if is_lost or promise.payload in self.delivered or promise.payload in self.cancelled | self.in_doubt:
                continue
            return f"{event} still waits at {promise.node}, and is due at {promise.due_us}"
        return ""


class LaterSession:
    """``PublishClient`` for one event."""

    def __init__(self, client: SimLaterClient, node: SimNode, payload: bytes, due_us: int) -> None:
        self._client = client
        self._node = node
        self._promise = Promise(payload, due_us, node.node_id, node.log.epoch)

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        ((_, receipted),) = receipts
        place = receipted.place
        found = self._client.book.truth.streams[place.stream, place.epoch].payloads
        if found[place.first_offset : place.first_offset + 1] != [self._promise.payload]:
            raise Violation(f"a receipt for {place} that is not durable")
        self._client.book.taken(self._promise, EventId(place.stream, place.epoch, place.first_offset))
        self._node.clients.leave(self)

    def refused(self, request: int, error: WeftError) -> None:
        self._client.refused += 1
        self._node.clients.leave(self)

    def drain(self) -> None:
        """It has its answer first."""


class SimLaterClient(RandomClient):
    """Publishes for later, and cancels some of it."""

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        chance: Random,
        nodes: Sequence[SimNode],
        topics: Sequence[Topic],
        book: LaterBook,
    ) -> None:
        super().__init__(name, schedule, chance, nodes, chance.randint(*PUBLISHES), PAUSE_S_MAX)
        self.book = book
        self.refused = 0
        self._topics = topics

    def act(self, node: SimNode) -> None:
        node.loop.run_on(lambda: self._publish(node))
        if self._chance.random() < CANCELLED:
            self._cancel_one()

    def _publish(self, node: SimNode) -> None:
        payload = f"{self.name} {next(self._numbers)}".encode()
        due_us = node.wall_us + int(self._chance.choice(DELAYS_S) * self._chance.random() * 1e6)
        self.book.sent[payload] = due_us
        session = LaterSession(self, node, payload, due_us)
        batch = Batch.from_events([Event(payload, due_us)])
        try:
            node.clients.join(session)
            node.machinery.later.publish(session, 1, OWNER, self._chance.choice(self._topics), 0, batch)
        except WeftError as error:
            self._schedule.note(self.name, f"is refused by {node.node_id}: {error}")
            node.clients.leave(session)

    def _cancel_one(self) -> None:
        waiting = [
            (event, promise)
            for event, promise in self.book.promised.items()
            if promise.payload not in self.book.delivered and promise.payload.startswith(self.name.encode())
        ]
        if waiting:
            event, promise = self._chance.choice(waiting)
            node = next(each for each in self._nodes if each.node_id == promise.node)
            if node.takes_clients and node.log.epoch == promise.epoch:
                node.loop.run_on(lambda: node.loop.create_task(self._cancel(node, event, promise)))

    async def _cancel(self, node: SimNode, event: EventId, promise: Promise) -> None:
        if promise.payload in self.book.delivered:
            return
        asked_first = promise.payload not in self.book.in_doubt
        self.book.in_doubt.add(promise.payload)
        try:
            await node.machinery.later.cancel(event, OWNER)
        except NotWaiting:
            if asked_first:
                self.book.in_doubt.discard(promise.payload)
                self.book.not_waiting(event, node.wall_us)
        except WeftError as error:
            self._schedule.note(self.name, f"cannot cancel at {node.node_id}: {error}")
        else:
            if promise.payload in self.book.delivered:
                raise Violation(f"{event} is cancelled, and was delivered before")
            self.book.cancelled.add(promise.payload)
