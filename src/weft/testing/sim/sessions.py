"""Clients' connections to nodes, and where each answer goes. What a node says to a client is checked as it is said."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Final, Protocol, TypeAlias

from weft.core import messages as core
from weft.core.policy import GroupPolicy
from weft.errors import WeftError
from weft.model import Batch, EventId, NodeId, Pattern, Position, Receipt, Topic
from weft.port.errors import ShuttingDown
from weft.port.held import Holding, Use
from weft.testing.sim.node import SimNode
from weft.testing.sim.plain_peers import PlainPeer
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import Truth

Answer: TypeAlias = Receipt | WeftError | None  # None: done, for inputs without a receipt
Feed: TypeAlias = core.Opened | core.Deliver | core.Assigned | core.Withdrawn | core.Ended
DELAY_S_MAX: Final = 0.01


@dataclass(frozen=True, slots=True)
class Request:
    """A batch that has no answer yet: whose answer is checked against these payloads."""

    payloads: tuple[bytes, ...]
    on_answer: Callable[[Answer], None]


class SimSession:
    """A client's connection: in order both ways until it breaks; then what is under way is lost.

    To the node it is a PublishClient.
    """

    def __init__(self, desk: Desk, node: SimNode) -> None:
        self.node = node
        self.open = True
        self.feeds: list[SimFeed] = []
        self._desk = desk
        self._life = node.life
        self._arrival_s = {"up": 0.0, "down": 0.0}
        self._requests: dict[int, Request] = {}
        self._sent = 0  # batches that have not arrived at the node
        self._message: list[Callable[[], None]] = []  # the last one that was sent
        self._message_s = -1.0  # when
        self._draining = False
        self._has_joined = False

    @property
    def reaches(self) -> bool:
        """Whether the node at the other end still is the one that the session was opened with."""
        return self.open and self.node.running and self.node.life == self._life

    # --- from the client ---

    def publish(self, topic: Topic, partition: int, batch: Batch, copies: int, request: Request) -> None:
        number = next(self._desk.numbers)
        self._requests[number] = request
        self._sent += 1
        if self._message_s != self._desk.schedule.now_s:
            self._message_s, self._message = self._desk.schedule.now_s, []
            self.send(partial(self._take, self._message))
        self._message.append(partial(self._publish, number, topic, partition, batch, copies))

    def _take(self, message: list[Callable[[], None]]) -> None:
        """What was published at one instant is one message, and comes at one instant."""
        for publish in message:
            publish()

    def _publish(self, number: int, topic: Topic, partition: int, batch: Batch, copies: int) -> None:
        self._sent -= 1
        if self._joined():
            self.node.clients.publish(self, number, topic, partition, batch, copies)

    def _joined(self) -> bool:
        """Let in, when the first batch comes. A node that is shutting down lets nobody in, and accepts no more."""
        if self._draining:
            return False
        if not self._has_joined:
            try:
                self.node.clients.join(self)
            except ShuttingDown:
                self._desk.break_session(self)
                return False
            self._has_joined = True
        return True

    def move_group(self, group: str, positions: tuple[Position, ...], on_answer: Callable[[Answer], None]) -> None:
        self._ask(lambda: self.node.clients.move_group(group, positions), on_answer)

    def drop_group(self, group: str, on_answer: Callable[[Answer], None]) -> None:
        self._ask(lambda: self.node.clients.drop_group(group), on_answer)

    def _ask(self, ask: Callable[[], Coroutine[None, None, None]], on_answer: Callable[[Answer], None]) -> None:
        self.send(lambda: _ignore(self.node.loop.create_task(self._answered(ask, on_answer))))

    async def _answered(
        self, ask: Callable[[], Coroutine[None, None, None]], on_answer: Callable[[Answer], None]
    ) -> None:
        answer: Answer = None
        try:
            await ask()
        except WeftError as error:
            answer = error
        self.answer(partial(on_answer, answer))

    def send(self, action: Callable[[], None]) -> None:
        """Have it done at the node, on its loop."""
        self._later("up", lambda: self.node.loop.run_on(action))

    # --- from the node: PublishClient ---

    def receipts(self, receipts: Sequence[tuple[int, core.Receipted]]) -> None:
        for number, receipted in receipts:
            request = self._requests.pop(number, None)
            if request is None:
                raise Violation(f"{self.node.node_id} gives a receipt for what has its answer: {receipted}")
            self._desk.check_receipt(self.node.node_id, receipted.receipt, request.payloads)
            self.answer(partial(request.on_answer, receipted.receipt))
        self._leave_when_done()

    def refused(self, request: int, error: WeftError) -> None:
        found = self._requests.pop(request, None)
        if found is None:
            raise Violation(f"{self.node.node_id} refuses what has its answer: {error}")
        self.answer(partial(found.on_answer, error))
        self._leave_when_done()

    def drain(self) -> None:
        """What has not arrived is no longer accepted."""
        self._draining = True
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        if self._draining and len(self._requests) <= self._sent:
            self._later("down", partial(self._desk.break_session, self))

    def answer(self, action: Callable[[], None]) -> None:
        """To the client."""
        self._later("down", action)

    def leave(self, *, died: bool = False) -> None:
        """The node forgets it at once; the client may still think otherwise. ``died``: without a goodbye."""
        self.open = False
        if not self.node.running or self.node.life != self._life:
            return
        clients = self.node.clients
        if self._has_joined:
            self.node.loop.run_on(partial(clients.leave, self))
        for feed in self.feeds:
            if feed.number is not None:
                self.node.loop.run_on(partial(clients.unsubscribe, feed.number, died=died))

    def _later(self, way: str, action: Callable[[], None]) -> None:
        now_s = self._desk.schedule.now_s
        arrival_s = max(self._arrival_s[way], now_s + self._desk.chance.random() * DELAY_S_MAX)
        self._arrival_s[way] = arrival_s
        self._desk.schedule.at(arrival_s - now_s, partial(self._arrive, action))

    def _arrive(self, action: Callable[[], None]) -> None:
        if self.reaches:
            action()


class Reader(Protocol):
    """A subscription, as the client's side of it."""

    def said(self, effect: Feed) -> None:
        """The node has said this."""

    def heard(self, effect: Feed) -> None:
        """It has arrived."""


class SimFeed:
    """A client's subscription. To the node it is a SubscribeClient."""

    def __init__(self, session: SimSession, reader: Reader) -> None:
        self.number: int | None = None  # that the node has given it
        self._session = session
        self._reader = reader
        self._holding: Holding
        self._positions: list[Position] = []

    def open(
        self,
        pattern: Pattern,
        start: core.Start,
        credit_bytes: int,
        group: str,
        member: str,
        window: int = 0,
        policy: GroupPolicy | None = None,
    ) -> None:
        self._session.send(partial(self._open, pattern, start, credit_bytes, group, member, window, policy))

    def _open(
        self,
        pattern: Pattern,
        start: core.Start,
        credit_bytes: int,
        group: str,
        member: str,
        window: int,
        policy: GroupPolicy | None,
    ) -> None:
        try:
            clients = self._session.node.clients
            self._holding = clients.held.holding("a simulated client", Use.SUBSCRIBE)
            self.number = clients.subscribe(
                self, pattern, start, credit_bytes, group, member, self._holding, window=window, policy=policy
            )
        except ShuttingDown as error:
            self.ended(error)

    def add_credit(self, size: int) -> None:
        self._session.send(lambda: self._tell(core.AddCredit(self.number or 0, size)))

    def handled(self, positions: tuple[Position, ...], generation: int) -> None:
        self._session.send(lambda: self._tell(core.Handled(self.number or 0, positions, generation)))

    def settled(
        self,
        acks: tuple[core.Acked, ...],
        nacks: tuple[core.Nacked, ...],
        generation: int,
        taken: Callable[[tuple[core.Acked, ...]], None],
    ) -> None:
        """``taken`` is called as it arrives at the node."""

        def arrive() -> None:
            taken(acks)
            self._tell(core.Settled(self.number or 0, acks, nacks, generation))

        self._session.send(arrive)

    def _tell(self, event: core.AddCredit | core.Handled | core.Settled) -> None:
        self._session.node.clients.tell(event)

    # --- from the node ---

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        self._positions.extend(positions)
        if not more:
            self._say(core.Opened(0, tuple(self._positions)))

    def deliver(self, batches: Sequence[core.Delivered]) -> None:
        self._holding.keep(0)  # on its way
        self._say(core.Deliver((0,), tuple(batches)))

    def assigned(self, generation: int, positions: Sequence[Position]) -> None:
        self._say(core.Assigned(0, generation, tuple(positions)))

    def withdrawn(self, event: EventId, rest: bool) -> None:
        self._say(core.Withdrawn(0, event.stream, event.epoch, event.offset, rest))

    def ended(self, error: WeftError) -> None:
        self._say(core.Ended(0, error))

    def _say(self, effect: Feed) -> None:
        if self._session.open:
            self._reader.said(effect)
            self._session.answer(partial(self._reader.heard, effect))


class Desk:
    """Opens clients' sessions, and breaks them."""

    def __init__(self, schedule: Schedule, chance: Random, truth: Truth) -> None:
        self.schedule = schedule
        self.chance = chance
        self.truth = truth
        self.sessions: dict[SimSession, Callable[[], None]] = {}  # what a client does when its session breaks
        self.receipts = 0
        self.numbers = count(1)
        self.plain: dict[NodeId, PlainPeer] = {}

    def connect(self, node: SimNode, on_break: Callable[[], None]) -> SimSession:
        session = SimSession(self, node)
        self.sessions[session] = on_break
        return session

    def subscribe(self, session: SimSession, reader: Reader) -> SimFeed:
        feed = SimFeed(session, reader)
        session.feeds.append(feed)
        return feed

    def node_gone(self, node: SimNode) -> None:
        for session in [each for each in self.sessions if each.node is node]:
            self.break_session(session)

    def break_session(self, session: SimSession) -> None:
        """The node forgets it at once; the client notices a little later."""
        on_break = self.sessions.pop(session, None)
        if on_break is not None:
            session.leave(died=True)
            self.schedule.at(self.chance.random() * 0.2, on_break)

    def close(self, session: SimSession) -> None:
        """Without a word to the client, who knows."""
        self.sessions.pop(session, None)
        session.leave()

    def check_receipt(self, node: NodeId, receipt: Receipt, payloads: tuple[bytes, ...]) -> None:
        if receipt.stream.origin != node:
            raise Violation(f"{node} gives a receipt for {receipt.stream}")
        self.truth.check_receipt(receipt, payloads)
        self.receipts += 1


def _ignore(_: object) -> None:
    """A task that nobody waits for."""
