"""Clients' connections to nodes, and where each answer goes. What a node says to a client is checked as it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Protocol, TypeAlias, assert_never

from weft.core import messages as core
from weft.errors import WeftError
from weft.model import NodeId, Receipt
from weft.testing.sim.node import SimNode
from weft.testing.sim.plain_peers import PlainPeer
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import Truth

Answer: TypeAlias = Receipt | WeftError | None  # None: done, for what has no receipt
Feed: TypeAlias = core.Opened | core.Deliver | core.Assigned | core.Ended
DELAY_S_MAX = 0.01


class SimSession:
    """In order both ways until it breaks; then what is under way is lost."""

    def __init__(self, schedule: Schedule, chance: Random, node: SimNode) -> None:
        self.node = node
        self.open = True
        self._life = node.life
        self._schedule = schedule
        self._chance = chance
        self._arrival_s = {"up": 0.0, "down": 0.0}

    @property
    def reaches(self) -> bool:
        """Whether the node at the other end still is the one that the session was opened with."""
        return self.open and self.node.running and self.node.life == self._life

    def send(self, event: core.Input) -> None:
        """To the node."""
        self._later("up", partial(self.node.tell, event))

    def answer(self, action: Callable[[], None]) -> None:
        """To the client."""
        self._later("down", action)

    def _later(self, way: str, action: Callable[[], None]) -> None:
        now_s = self._schedule.now_s
        arrival_s = max(self._arrival_s[way], now_s + self._chance.random() * DELAY_S_MAX)
        self._arrival_s[way] = arrival_s
        self._schedule.at(arrival_s - now_s, partial(self._arrive, action))

    def _arrive(self, action: Callable[[], None]) -> None:
        if self.reaches:
            action()


class Reader(Protocol):
    """A subscription, as the client's side of it."""

    def said(self, effect: Feed) -> None:
        """The node has said this."""

    def heard(self, effect: Feed) -> None:
        """It has arrived."""


@dataclass(frozen=True, slots=True)
class Request:
    session: SimSession
    payloads: tuple[bytes, ...]  # of a batch; none if it is not about one
    on_answer: Callable[[Answer], None]


class Desk:
    """Numbers requests and subscriptions, and finds whom an answer is for."""

    def __init__(self, schedule: Schedule, chance: Random, truth: Truth) -> None:
        self.schedule = schedule
        self.chance = chance
        self.truth = truth
        self.sessions: dict[SimSession, Callable[[], None]] = {}  # what a client does when its session breaks
        self.receipts = 0
        self._requests: dict[int, Request] = {}
        self._readers: dict[int, tuple[SimSession, Reader]] = {}
        self._numbers = count(1)
        self.plain: dict[NodeId, PlainPeer] = {}

    # --- connections ---

    def connect(self, node: SimNode, on_break: Callable[[], None]) -> SimSession:
        session = SimSession(self.schedule, self.chance, node)
        self.sessions[session] = on_break
        return session

    def node_gone(self, node: SimNode) -> None:
        for session in [each for each in self.sessions if each.node is node]:
            self.break_session(session)

    def break_session(self, session: SimSession) -> None:
        """The node forgets its subscriptions at once; the client notices a little later."""
        on_break = self.sessions.pop(session, None)
        if on_break is None:
            return
        readers = [number for number, (owner, _) in self._readers.items() if owner is session]
        self.close(session)
        for number in readers:
            session.node.tell(core.Unsubscribe(number))
        self.schedule.at(self.chance.random() * 0.2, on_break)

    def close(self, session: SimSession) -> None:
        """Without a word to the client, who knows."""
        session.open = False
        self.sessions.pop(session, None)
        self._requests = {number: each for number, each in self._requests.items() if each.session is not session}
        self._readers = {number: each for number, each in self._readers.items() if each[0] is not session}

    # --- from clients ---

    def ask(self, request: Request, make: Callable[[int], core.Input]) -> None:
        number = next(self._numbers)
        self._requests[number] = request
        request.session.send(make(number))

    def subscribe(self, session: SimSession, reader: Reader, make: Callable[[int], core.Subscribe]) -> int:
        number = next(self._numbers)
        self._readers[number] = (session, reader)
        session.send(make(number))
        return number

    # --- from nodes ---

    def answer(self, node: NodeId, effect: core.Receipts | core.Refused | core.GroupMoved) -> None:
        match effect:
            case core.Receipts(receipts):
                for each in receipts:
                    self._receipt(node, each)
            case core.Refused(number, error):
                request = self._requests.pop(number, None)
                if request is not None:
                    request.session.answer(partial(request.on_answer, error))
            case core.GroupMoved(number):
                request = self._requests.pop(number, None)
                if request is not None:
                    request.session.answer(partial(request.on_answer, None))
            case _:
                assert_never(effect)

    def _receipt(self, node: NodeId, receipted: core.Receipted) -> None:
        request = self._requests.pop(receipted.request, None)
        if request is None:
            return  # of a session that is closed
        receipt = receipted.receipt
        if receipt.stream.origin != node:
            raise Violation(f"{node} gives a receipt for {receipt.stream}")
        self.truth.check_receipt(receipt, request.payloads)
        self.receipts += 1
        request.session.answer(partial(request.on_answer, receipt))

    def plain_frame(self, effect: core.SendPlain | core.SendPlainAck) -> None:
        self.plain[effect.peer].receive(effect)

    def drop_plain(self, node: NodeId, peer: NodeId, reason: str) -> None:
        """Nobody here does anything wrong. But a node that has no room, or lacks an event, has no other way to have it
        sent again."""
        if peer not in self.plain or not reason.startswith(("no room", "events are missing")):
            raise Violation(f"{node} drops its link to {peer}, which does nothing wrong: {reason}")
        self.schedule.at(0.0, self.plain[peer].disconnect)

    def feed(self, node: NodeId, effect: Feed) -> None:
        found = self._readers.get(effect.subscription)
        if found is None:
            return  # of a session that is closed
        session, reader = found
        reader.said(effect)
        session.answer(partial(reader.heard, effect))
