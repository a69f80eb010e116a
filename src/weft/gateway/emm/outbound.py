"""From the log to datagrams: events of chosen topics are packed, signed and sent, no faster than the pace allows.

Datagrams promise nothing, and neither does this: it begins with events published from now on, and counts and skips what
cannot be sent. The node delivers no more than its credit allows, so little waits here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from structlog.stdlib import BoundLogger

from weft.core.messages import AddCredit, Delivered, Edge
from weft.datagram_node import Instant, Pace
from weft.errors import UsageError, WeftError
from weft.gateway.emm.packing import Packed, Packer, came_as_datagram
from weft.gateway.emm.settings import Out
from weft.limits import DATAGRAM_RATE_PER_S_MIN, MIB
from weft.model import Batch, Event, EventId, Position, Topic, matches
from weft.port.errors import ShuttingDown
from weft.port.held import Holding, Use
from weft.port.node import MeshNode
from weft.wire.udp import Address, is_quic

GATEWAY_EMM_CREDIT_BYTES: Final = 1 * MIB  # of events on their way out to datagrams
EVENTS_AT_ONCE: Final = 64  # packed before others have their turn: a few milliseconds
RETRY_S: Final = 1.0  # after the node ended a subscription

Send = Callable[[Packed, Address], bool]


@dataclass(slots=True)
class OutFigures:
    """Counts since the start; changed in place."""

    sent: int = 0  # datagrams
    unsent: int = 0  # datagrams for which the socket had no room or no route
    no_quic: int = 0  # datagrams that had to go by QUIC, and nobody was connected
    unfit: int = 0  # events that do not fit a packet, or that no key can sign
    echoes: int = 0  # events that came as datagrams, so they do not go out


class Outbound:
    """All rules, with one subscription each. ``targets`` says where events of a rule go at the moment, without targets
    that should use QUIC and are not connected. If one rule demands QUIC for a topic, no other rule sends its events
    unencrypted."""

    def __init__(
        self,
        mesh: MeshNode,
        packer: Packer,
        rules: Sequence[Out],
        targets: Callable[[Out], Sequence[Address]],
        send: Send,
        clock: Callable[[], Instant],
        rate_per_s_max: float,
        logger: BoundLogger,
    ) -> None:
        self.figures = OutFigures()
        self._mesh = mesh
        self._packer = packer
        self._targets = targets
        self._send = send
        self._clock = clock
        self._logger = logger
        self._pace = Pace(min(DATAGRAM_RATE_PER_S_MIN, rate_per_s_max), rate_per_s_max, clock().steady_s)
        self._feeds = [_Feed(self, out) for out in rules]
        self._secret = [out.pattern for out in rules if out.quic]
        self._lanes = (_Lane(), _Lane())  # urgent events, and others
        self._ready: deque[tuple[Packed, Address]] = deque()  # of the event in progress
        self._work: asyncio.Handle | None = None
        self._told = ""  # what was logged last
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Raise Busy or ShuttingDown if the node accepts no more subscribers."""
        for feed in self._feeds:
            feed.open(self._mesh)

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()
        if self._work is not None:
            self._work.cancel()

    def delivered(self, feed: _Feed, batches: Sequence[Delivered]) -> None:
        lane = self._lanes[0 if feed.out.urgent else 1]
        lane.waiting.extend((feed, feed.number, each) for each in batches)
        self._wake(self._loop.time())

    def _wake(self, when_s: float) -> None:
        if self._work is None:
            self._work = self._loop.call_at(when_s, self._on_turn)

    def _on_turn(self) -> None:
        self._work = None
        at = self._clock()
        for _ in range(EVENTS_AT_ONCE):
            while self._ready and self._pace.take(at.steady_s):
                self._sent(*self._ready.popleft())
            if self._ready:
                self._wake(self._pace.ready_s())
                return
            following = self._next()
            if following is None:
                return
            self._pack(*following, at)
        self._wake(self._loop.time())

    def _next(self) -> tuple[Out, Topic, Event] | None:
        for lane in self._lanes:
            while lane.waiting and not lane.events:
                self._take_apart(lane, *lane.waiting.popleft())
            if lane.events:
                return lane.events.popleft()
        return None

    def _take_apart(self, lane: _Lane, feed: _Feed, number: int | None, delivered: Delivered) -> None:
        """The events of a batch that go out; the credit that the batch used is given back to its subscription."""
        events = Batch.read_stored(delivered.data).events_from(delivered.first_offset)
        fresh = [event for event in events if not came_as_datagram(event)]
        self.figures.echoes += len(events) - len(fresh)
        lane.events.extend((feed.out, delivered.stream.topic, event) for event in fresh)
        feed.give_back(number, len(delivered.data))

    def _pack(self, out: Out, topic: Topic, event: Event, at: Instant) -> None:
        targets = self._targets(out)
        if any(matches(pattern, topic) for pattern in self._secret):
            targets = [target for target in targets if is_quic(target)]
        self.figures.no_quic += max((len(out.targets) or int(out.quic)) - len(targets), 0)
        if not targets:
            return
        try:
            packed = self._packer.pack(topic, event, out, at.unix_s)
        except UsageError as error:
            self.figures.unfit += 1
            self._tell(topic, error)
            return
        self._ready.extend((packed, target) for target in targets)

    def _sent(self, packed: Packed, target: Address) -> None:
        taken = self._send(packed, target)
        self.figures.sent += taken
        self.figures.unsent += not taken

    def _tell(self, topic: Topic, error: UsageError) -> None:
        """Log each kind of mistake once in a row: the next ten thousand events have the same."""
        if error.what != self._told:
            self._told = error.what
            self._logger.warning("emm_event_unfit", topic=topic, reason=str(error))

    def ended(self, feed: _Feed, error: WeftError) -> None:
        self._logger.warning("emm_out_interrupted", pattern=feed.out.pattern, reason=str(error))


@dataclass(slots=True)
class _Lane:
    """What waits to go out. It is little, because the subscriptions' credit is small."""

    waiting: deque[tuple[_Feed, int | None, Delivered]] = field(default_factory=deque)  # and by which subscription
    events: deque[tuple[Out, Topic, Event]] = field(default_factory=deque)  # of the batch in progress


class _Feed:
    """The subscription of one rule: a subscriber of the node."""

    def __init__(self, owner: Outbound, out: Out) -> None:
        self.out = out
        self._owner = owner
        self._mesh: MeshNode | None = None
        self.number: int | None = None  # of the subscription; None while there is none
        self._holding: Holding | None = None
        self._retry: asyncio.TimerHandle | None = None

    def open(self, mesh: MeshNode) -> None:
        self._mesh = mesh
        self._holding = mesh.held.holding("the EMM gateway's outbound rules", Use.SUBSCRIBE)
        self.number = mesh.subscribe(
            self, self.out.pattern, Edge.LATEST, GATEWAY_EMM_CREDIT_BYTES, "", "", self._holding
        )

    def close(self) -> None:
        mesh, self._mesh = self._mesh, None
        if self._retry is not None:
            self._retry.cancel()
        if mesh is not None and self.number is not None:
            mesh.unsubscribe(self.number)
        self._let_go()

    def give_back(self, number: int | None, size: int) -> None:
        """Give back credit of this subscription, unless it is over: another one has credit of its own."""
        if self._mesh is not None and number is not None and number == self.number:
            assert self._holding is not None, "open"
            self._holding.give_back(size)
            self._mesh.tell(AddCredit(number, size))

    def _let_go(self) -> None:
        if self._holding is not None:
            self._holding.close()
            self._holding = None

    # --- SubscribeClient of the node ----------------------------------------------------------------------------------

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        pass

    def deliver(self, batches: Sequence[Delivered]) -> None:
        if self._mesh is not None:
            self._owner.delivered(self, batches)

    def assigned(self, generation: int, positions: Sequence[Position]) -> None:
        raise AssertionError("no group was asked for")

    def withdrawn(self, event: EventId, rest: bool) -> None:
        raise AssertionError("no group was asked for")

    def ended(self, error: WeftError) -> None:
        """The node gave up, for example because events were lost: begin again with new ones."""
        self.number = None
        self._let_go()
        if self._mesh is not None and not isinstance(error, ShuttingDown):
            self._owner.ended(self, error)
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._reopen)

    def _reopen(self) -> None:
        self._retry = None
        if self._mesh is None:
            return
        try:
            self.open(self._mesh)
        except WeftError as error:
            self.ended(error)
