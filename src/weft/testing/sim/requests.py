"""Clients that ask and serve, and what must be true of requests: each is handed out once at most, its replies come to
its asker and in order, and nobody hears "nobody serves this" while there was a server to be had (CON-04)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from weft.core.call_messages import Question, Reply
from weft.errors import WeftError
from weft.model import Pattern, Topic, matches, parse_pattern, parse_topic
from weft.port.errors import NoServer
from weft.testing.sim.node import SimNode
from weft.testing.sim.random_client import RandomClient
from weft.testing.sim.schedule import Schedule, Violation

TOPICS: Final = tuple(map(parse_topic, ("ask.sum", "ask.price")))
PATTERNS: Final = tuple(map(parse_pattern, ("ask.*", "ask.sum", "ask.price")))
ASKS: Final = (5, 25)
PAUSE_S_MAX: Final = 3.0
TIMEOUT_S: Final = 4.0
WORK_S_MAX: Final = 0.5
REPLIES_MAX: Final = 4
HEARD_S_MAX: Final = 10.0  # beyond its time-out, until an asker learns of its end: clocks drift, loops lag


@dataclass(slots=True)
class AskedOnce:
    """A request. ``payload`` is like no other."""

    payload: bytes
    topic: Topic
    asker: str
    node: SimNode
    life: int
    asked_s: float
    timeout_s: float
    servers: frozenset[str]  # that this very node knew for the topic when it was asked
    replies: int = 0
    ended: str = ""  # how

    @property
    def can_end(self) -> bool:
        """Its node has died otherwise, and the asker with it."""
        return self.node.running and self.node.life == self.life


@dataclass(slots=True)
class RequestBook:
    """What was asked, what servers were handed, and what askers heard."""

    asked: dict[bytes, AskedOnce] = field(default_factory=dict)
    handed: dict[bytes, str] = field(default_factory=dict)  # to whom
    here: dict[tuple[str, int], dict[str, Pattern]] = field(default_factory=dict)  # servers by node and life
    at_rest: bool = False  # all faults are over, and everybody knows everybody

    # --- servers ---

    def serves(self, node: SimNode, server: str, pattern: Pattern | None) -> None:
        servers = self.here.setdefault((node.node_id, node.life), {})
        if pattern is None:
            servers.pop(server, None)
        else:
            servers[server] = pattern

    def known_at(self, node: SimNode, topic: Topic) -> frozenset[str]:
        servers = self.here.get((node.node_id, node.life), {})
        return frozenset(name for name, pattern in servers.items() if matches(pattern, topic))

    def check_handed(self, server: str, payload: bytes, topic: Topic) -> None:
        asked = self.asked.get(payload)
        if asked is None or asked.topic != topic:
            raise Violation(f"{server} is handed {payload!r} on {topic}, and nobody asked that")
        if payload in self.handed:
            raise Violation(f"{server} is handed {payload!r}, which {self.handed[payload]} had before")
        self.handed[payload] = server

    # --- askers ---

    def check_reply(self, asker: str, asked: AskedOnce, reply: Reply) -> None:
        if asked.ended:
            raise Violation(f"{asker} hears of {asked.payload!r} after its end: {reply}")
        expected = b"%s %d" % (asked.payload, asked.replies)
        if reply.payload != expected or asked.asker != asker:
            raise Violation(f"{asker} waits for {expected!r} and gets {reply.payload!r}")
        if asked.payload not in self.handed:
            raise Violation(f"{asker} gets a reply to {asked.payload!r}, which nobody was handed")
        asked.replies += 1
        if reply.last:
            asked.ended = "answered"

    def check_failure(self, asker: str, asked: AskedOnce, error: WeftError) -> None:
        if asked.ended:
            raise Violation(f"{asker} hears of {asked.payload!r} after its end: {error}")
        asked.ended = type(error).__name__
        if isinstance(error, NoServer):
            if asked.payload in self.handed:
                raise Violation(f"{asker} hears that nobody serves {asked.payload!r}, which was handed out")
            there = asked.servers & self.known_at(asked.node, asked.topic)
            if there and not asked.node.stopping:  # else its servers get no more
                raise Violation(f"{asker} hears that nobody serves {asked.topic}, and {sorted(there)} did so there")
        if self.at_rest:
            raise Violation(f"in a mesh at rest, {asker} hears of {asked.payload!r}: {error}")

    # --- the end ---

    def waiting(self, now_s: float) -> str:
        """Who has not heard of the end of a request; empty if everybody has."""
        for asked in self.asked.values():
            if not asked.ended and asked.can_end:
                if now_s - asked.asked_s > asked.timeout_s + HEARD_S_MAX:
                    raise Violation(f"{asked.asker} has heard nothing of {asked.payload!r} since {asked.asked_s:.3f}")
                return f"{asked.asker} waits for an answer to {asked.payload!r}"
        return ""


class SimServer:
    """Serves at one node after the other. Some requests it answers, some it is lost with."""

    def __init__(
        self, name: str, schedule: Schedule, chance: Random, nodes: Sequence[SimNode], book: RequestBook
    ) -> None:
        self.name = name
        self.reliable = False  # in the end: then it stays where it is, and answers everything
        self._schedule = schedule
        self._chance = chance
        self._nodes = nodes
        self._book = book
        self.pattern = chance.choice(PATTERNS)
        self._slots = chance.choice([1, 1, 3])
        self.node: SimNode | None = None
        self._life = 0
        self._sessions = 0

    @property
    def serves(self) -> bool:
        return self.node is not None and self.node.running and self.node.life == self._life

    @property
    def _here(self) -> str:
        """Who leaves and comes back was not there throughout."""
        return f"{self.name}, time {self._sessions}"

    def run(self) -> None:
        """Be somewhere, as far as possible."""
        if not self.serves:
            running = [node for node in self._nodes if node.takes_clients]
            if running:
                self._join(self._chance.choice(running))
        elif not self.reliable and self._chance.random() < 0.1:
            self._leave()
        self._schedule.at(self._chance.uniform(0.1, 1.0), self.run)

    def _join(self, node: SimNode) -> None:
        def join() -> None:
            self.node, self._life = node, node.life  # requests may come at once
            self._sessions += 1
            try:
                node.machinery.calls.join(self)
                node.machinery.calls.serve(self, 1, self.pattern, self._slots)
            except WeftError as error:
                self._schedule.note(self.name, f"is refused by {node.node_id}: {error}")
                self.node = None
                return
            self._book.serves(node, self._here, self.pattern)

        node.loop.run_on(join)

    def _leave(self) -> None:
        node = self.node
        assert node is not None, "it serves"
        self._book.serves(node, self._here, None)
        self.node = None
        node.loop.run_on(partial(node.machinery.calls.leave, self))

    # --- CallClient ---

    def replied(self, number: int, reply: Reply) -> None:
        raise Violation(f"{self.name} asks nothing and gets a reply")

    def failed(self, number: int, error: WeftError) -> None:
        raise Violation(f"{self.name} asks nothing and is refused: {error}")

    def handed(self, server: int, handle: int, question: Question) -> None:
        node, session = self.node, self._sessions
        assert node is not None, "it has joined"
        try:
            self._book.check_handed(self.name, question.payload, question.topic)
        except Violation as violation:
            self._schedule.fail(violation)
        replies = self._chance.choice([1, 1, REPLIES_MAX])
        for index in range(replies):
            reply = Reply(b"%s %d" % (question.payload, index), last=index == replies - 1)
            node.loop.plan(WORK_S_MAX * (index + self._chance.random()), partial(self._answer, session, handle, reply))

    def _answer(self, session: int, handle: int, reply: Reply) -> None:
        node = self.node
        if node is not None and self.serves and session == self._sessions:
            node.loop.run_on(partial(node.machinery.calls.answer, self, handle, reply))

    def over(self, handle: int) -> None:
        pass

    def took(self, handle: int, count: int) -> None:
        pass

    def ended(self, error: WeftError) -> None:
        node = self.node
        if node is not None:
            self._book.serves(node, self._here, None)
        self.node = None


class SimAsker(RandomClient):
    """Asks."""

    def __init__(
        self, name: str, schedule: Schedule, chance: Random, nodes: Sequence[SimNode], book: RequestBook
    ) -> None:
        asks, pause_s_max = chance.randint(*ASKS), chance.choice([0.05, 0.5, PAUSE_S_MAX])
        super().__init__(name, schedule, chance, nodes, asks, pause_s_max)
        self._book = book

    def act(self, node: SimNode) -> None:
        self.ask(node, self._chance.choice(TOPICS))

    def ask(self, node: SimNode, topic: Topic, timeout_s: float = TIMEOUT_S) -> AskedOnce:
        payload = f"{self.name} {next(self._numbers)}".encode()
        servers = self._book.known_at(node, topic)
        asked = AskedOnce(payload, topic, self.name, node, node.life, self._schedule.now_s, timeout_s, servers)
        self._book.asked[payload] = asked
        question = Question(topic, payload, {}, timeout_s)
        node.loop.run_on(lambda: _OneCall(self.name, self._schedule, self._book, asked).ask(node, question))
        return asked


class _OneCall:
    """A client with one request. To the node it is a CallClient."""

    def __init__(self, name: str, schedule: Schedule, book: RequestBook, asked: AskedOnce) -> None:
        self._name = name
        self._schedule = schedule
        self._book = book
        self._asked = asked

    def ask(self, node: SimNode, question: Question) -> None:
        try:
            node.machinery.calls.join(self)
        except WeftError as error:
            self._asked.ended = str(error)
            return
        node.machinery.calls.ask(self, 1, question)

    def replied(self, number: int, reply: Reply) -> None:
        self._check(lambda: self._book.check_reply(self._name, self._asked, reply))
        if reply.last:
            self._leave()

    def failed(self, number: int, error: WeftError) -> None:
        self._check(lambda: self._book.check_failure(self._name, self._asked, error))
        self._leave()

    def _leave(self) -> None:
        node = self._asked.node
        node.loop.plan(0.0, lambda: node.loop.run_on(partial(node.machinery.calls.leave, self)))

    def _check(self, check: Callable[[], None]) -> None:
        try:
            check()
        except Violation as violation:
            self._schedule.fail(violation)

    def handed(self, server: int, handle: int, question: Question) -> None:
        self._schedule.fail(Violation(f"{self._name} serves nothing and is handed {question}"))

    def over(self, handle: int) -> None:
        pass

    def took(self, handle: int, count: int) -> None:
        pass

    def ended(self, error: WeftError) -> None:
        self._asked.ended = self._asked.ended or str(error)
