"""Simulated links: frames arrive late and in order, until the connection breaks and what is under way is lost.

A connection has two streams, as a peer link has. Events travel in order on one. On the other, gossip may also be lost,
repeated and overtaken: membership has to live with worse than gRPC does to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random
from typing import Final, Protocol, TypeAlias

from weft.model import NodeId
from weft.testing.sim.schedule import Schedule

Edge: TypeAlias = tuple[NodeId, NodeId]
BACKOFF_S: Final = 0.2  # before the first new dial; doubled up to BACKOFF_S_MAX
BACKOFF_S_MAX: Final = 2.0
QUEUE_FRAMES_MAX: Final = 32  # of copies under way on one connection; more are thrown away, and the sender is told
BACKLOG_S_MAX: Final = 1.0  # of a link that is called well
DROP_NOTICE_S: Final = 0.3


class Lane(Enum):
    DATA = "data"
    CONTROL = "control"


@dataclass(slots=True)
class Conditions:
    """What the network does to frames, at the moment. ``silent``: how often a break is noticed late."""

    delay_s_max: float = 0.01
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    silent: float = 0.0


class Ends(Protocol):
    """What the network tells nodes."""

    def is_running(self, node: NodeId) -> bool: ...

    def link_up(self, node: NodeId, peer: NodeId) -> None: ...

    def link_down(self, node: NodeId, peer: NodeId) -> None: ...

    def frames_dropped(self, node: NodeId, peer: NodeId) -> None: ...


@dataclass(slots=True)
class SimLink:
    """An edge that somebody dials. ``connection`` counts; an odd one stands, an even one is none."""

    edge: Edge
    connection: int = 0
    is_cut: bool = False
    slow_s: float = 0.0  # that each frame of events takes on the line
    dials: int = 0
    believed: dict[NodeId, int] = field(default_factory=dict)  # which connection each end takes for standing
    arrival_s: dict[tuple[NodeId, Lane], float] = field(default_factory=dict)  # of the last frame, by its sender
    queued: dict[NodeId, int] = field(default_factory=dict)  # copies under way, by their sender
    dropping: set[NodeId] = field(default_factory=set)  # senders that are about to hear that frames were dropped

    @property
    def stands(self) -> bool:
        return self.connection % 2 == 1

    def backlog_s(self, now_s: float) -> float:
        """How long frames take that are under way."""
        return max(self.arrival_s.values(), default=now_s) - now_s

    def is_well(self, now_s: float) -> bool:
        """It stands, both ends know, and nothing waits in it."""
        known = all(self.believed.get(node) == self.connection for node in self.edge)
        return self.stands and known and self.backlog_s(now_s) < BACKLOG_S_MAX


class Network:
    def __init__(self, schedule: Schedule, chance: Random, ends: Ends) -> None:
        self.links: dict[Edge, SimLink] = {}
        self.conditions = Conditions()
        self._schedule = schedule
        self._chance = chance
        self._ends = ends

    # --- connections ---

    def dial(self, source: NodeId, target: NodeId) -> None:
        """Keep a link between the two from now on."""
        edge = edge_of(source, target)
        if edge not in self.links:
            self.links[edge] = SimLink(edge)
            self._dial_soon(self.links[edge])

    def _dial_soon(self, link: SimLink) -> None:
        wait_s = min(BACKOFF_S * 2**link.dials, BACKOFF_S_MAX) * (0.5 + self._chance.random())
        link.dials = min(link.dials + 1, 8)
        self._schedule.at(wait_s, partial(self._connect, link))

    def _connect(self, link: SimLink) -> None:
        if link.stands:
            return
        if link.is_cut or not all(map(self._ends.is_running, link.edge)):
            self._dial_soon(link)
            return
        link.connection += 1
        link.dials = 0
        link.arrival_s.clear()
        link.queued.clear()
        accepting, dialling = link.edge if self._chance.random() < 0.5 else link.edge[::-1]
        # The one that accepts is up first; what it sends comes behind its answer, which makes the other's link stand.
        answer_s = self._delay_s()
        for lane in Lane:
            link.arrival_s[(accepting, lane)] = self._schedule.now_s + answer_s
        self._schedule.note("network", f"{accepting}-{dialling} connects")
        self._up(link, accepting, link.connection)
        self._schedule.at(answer_s, partial(self._up, link, dialling, link.connection))

    def _up(self, link: SimLink, node: NodeId, connection: int) -> None:
        if link.connection == connection:
            self._down(link, node)  # if the old connection broke silently
            link.believed[node] = connection
            self._ends.link_up(node, other_end(link.edge, node))

    def _down(self, link: SimLink, node: NodeId) -> None:
        if link.believed.pop(node, None) is not None and self._ends.is_running(node):
            self._ends.link_down(node, other_end(link.edge, node))

    def break_link(self, link: SimLink) -> None:
        """What is under way is lost. Either end notices at once, soon, or, if the break is silent, after seconds."""
        if not link.stands:
            return
        link.connection += 1
        self._schedule.note("network", f"{'-'.join(link.edge)} breaks")
        self._dial_soon(link)
        for node in link.edge:
            wait_s = self._chance.random() * (3.0 if self._chance.random() < self.conditions.silent else 0.1)
            self._schedule.at(wait_s, partial(self._notice, link, node, link.connection - 1))

    def _notice(self, link: SimLink, node: NodeId, connection: int) -> None:
        if link.believed.get(node) == connection:
            self._down(link, node)

    def gone(self, node: NodeId) -> None:
        """The process has ended: its connections break, and it does not notice anything any more."""
        for link in self.links.values():
            if node in link.edge:
                self.break_link(link)
                link.believed.pop(node, None)

    def cut(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self.links[edge].is_cut = True
            self.break_link(self.links[edge])

    def heal(self) -> None:
        self.conditions = Conditions()
        for link in self.links.values():
            link.is_cut = False
            link.slow_s = 0.0
            if link.backlog_s(self._schedule.now_s) > BACKLOG_S_MAX:
                self.break_link(link)

    # --- frames ---

    def send(self, source: NodeId, target: NodeId, lane: Lane, arrive: Callable[[], None], *, copies: int = 0) -> None:
        """``copies``: of events in the frame. Only such frames are thrown away when the queue is full (PL-02)."""
        link = self.links.get(edge_of(source, target))
        if link is None or link.believed.get(source) != link.connection:
            return  # the sender has no link, or does not know yet that it is broken
        if lane is Lane.CONTROL:
            self._send_control(link, source, arrive)
            return
        if copies:
            if link.queued.get(source, 0) >= QUEUE_FRAMES_MAX:
                self._drop(link, source)
                return
            link.queued[source] = link.queued.get(source, 0) + 1
        key = (source, lane)
        begin_s = max(self._schedule.now_s, link.arrival_s.get(key, 0.0)) if link.slow_s else self._schedule.now_s
        arrival_s = max(begin_s + self._delay_s() + link.slow_s, link.arrival_s.get(key, 0.0))
        link.arrival_s[key] = arrival_s
        deliver = partial(self._arrive, link, source, link.connection, arrive, bool(copies))
        self._schedule.at(arrival_s - self._schedule.now_s, deliver)

    def _send_control(self, link: SimLink, source: NodeId, arrive: Callable[[], None]) -> None:
        conditions = self.conditions
        for _ in range(2 if self._chance.random() < conditions.duplication else 1):
            if self._chance.random() < conditions.loss:
                continue
            key = (source, Lane.CONTROL)
            arrival_s = self._schedule.now_s + self._delay_s()
            if self._chance.random() >= conditions.reordering:
                arrival_s = link.arrival_s[key] = max(arrival_s, link.arrival_s.get(key, 0.0))
            deliver = partial(self._arrive, link, source, link.connection, arrive, False)
            self._schedule.at(arrival_s - self._schedule.now_s, deliver)

    def _arrive(
        self, link: SimLink, source: NodeId, connection: int, arrive: Callable[[], None], was_queued: bool
    ) -> None:
        if link.connection != connection:
            return
        if was_queued:
            link.queued[source] -= 1
        if link.believed.get(other_end(link.edge, source)) == connection:
            arrive()

    def _drop(self, link: SimLink, source: NodeId) -> None:
        """Throw a frame away; the sender hears of it once, however many follow."""
        if source not in link.dropping:
            self._schedule.note("network", f"{source} drops frames to {other_end(link.edge, source)}")
            link.dropping.add(source)
            self._schedule.at(DROP_NOTICE_S, partial(self._tell_dropped, link, source, link.connection))

    def _tell_dropped(self, link: SimLink, source: NodeId, connection: int) -> None:
        link.dropping.discard(source)
        if link.believed.get(source) == connection:
            self._ends.frames_dropped(source, other_end(link.edge, source))

    def _delay_s(self) -> float:
        return 0.0005 + self._chance.random() * self.conditions.delay_s_max


def edge_of(one: NodeId, other: NodeId) -> Edge:
    return (one, other) if one < other else (other, one)


def other_end(edge: Edge, node: NodeId) -> NodeId:
    return edge[1] if edge[0] == node else edge[0]
