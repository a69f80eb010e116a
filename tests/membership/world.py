"""A simulated mesh for membership: virtual clock, one seed, links that lose, repeat, reorder and break.

Everything that happens is an entry in one heap, ordered by time and then by when it was planned, and every choice is
drawn from the seed: the same seed gives the same run, to the last message.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TypeAlias

from weft.limits import GOSSIP_BYTES_MAX, GOSSIP_DIGESTS_MAX, GOSSIP_STATES_MAX
from weft.membership import (
    Dial,
    Effect,
    Gossip,
    Input,
    LinkDown,
    LinkUp,
    Liveness,
    Members,
    Message,
    MessageReceived,
    NodeState,
    Send,
    Settings,
    Start,
    Stopped,
    Tick,
    size_of,
)
from weft.model import Epoch, NodeId

Edge: TypeAlias = tuple[NodeId, NodeId]
REDIAL_S = 1.0


@dataclass
class Faults:
    """``silent``: how often a broken link says nothing, instead of telling both ends within a second."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_s_max: float = 0.02
    silent: float = 0.0


@dataclass
class Node:
    members: Members
    life: int  # which of the node's lives this is; what was planned for another one does not happen
    running: bool = True
    timer_s: float | None = None
    linked: set[NodeId] = field(default_factory=set)


@dataclass
class Traffic:
    messages: int = 0
    bytes: int = 0
    bytes_max: int = 0


class World:
    def __init__(self, seed: int, settings: Settings, faults: Faults | None = None) -> None:
        self.seed = seed
        self.chance = Random(seed)  # noqa: S311 - chance from a seed is the point
        self.settings = settings
        self.faults = faults or Faults()
        self.now_s = 0.0
        self.nodes: dict[NodeId, Node] = {}
        self.edges: dict[Edge, bool] = {}  # that somebody dialled -> whether it is up
        self.cut: set[Edge] = set()
        self.traffic = Traffic()
        self.traces = False  # it costs as much as all the rest
        self.trace = 0  # a checksum over all inputs of all nodes
        self.on_effect: Callable[[NodeId, Effect], None] = lambda _node, _effect: None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    # --- time ---

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        heappush(self._heap, (self.now_s + delay_s, next(self._order), action))

    def run(self, duration_s: float) -> None:
        end_s = self.now_s + duration_s
        while self._heap and self._heap[0][0] <= end_s:
            self.now_s, _, action = heappop(self._heap)
            action()
        self.now_s = end_s

    def run_until(self, holds: Callable[[], bool], limit_s: float, step_s: float = 1.0) -> float:
        """How long it took; an assertion names the seed if it took too long."""
        begin_s = self.now_s
        while not holds():
            assert self.now_s - begin_s < limit_s, f"seed {self.seed}: not after {limit_s:.0f} s; {self.describe()}"
            self.run(step_s)
        return self.now_s - begin_s

    # --- nodes ---

    def start(self, name: str, seeds: Iterable[str] = (), *, incarnation: int | None = None, epoch: int = 1) -> NodeId:
        """Start a node, or start it again. Its address is ``name:1``. By default it remembers its incarnation."""
        node_id = NodeId(name)
        before = self.nodes.get(node_id)
        if incarnation is None:
            incarnation = 1 if before is None else before.members.own.incarnation + 1
        own = NodeState(node_id, incarnation, 1, Epoch(epoch), addresses=(f"{name}:1",))
        chance = Random(self.chance.getrandbits(32))  # noqa: S311
        members = Members(own, self.settings, chance, list(seeds))
        self.nodes[node_id] = Node(members, life=0 if before is None else before.life + 1)
        self.tell(node_id, Start())
        return node_id

    def crash(self, node_id: NodeId) -> None:
        self.nodes[node_id].running = False
        for edge in [edge for edge, up in self.edges.items() if up and node_id in edge]:
            self.drop_link(edge)

    def tell(self, node_id: NodeId, event: Input) -> None:
        """Give a node an input, and do what it wants done."""
        node = self.nodes[node_id]
        if not node.running:
            return
        if self.traces:
            self.trace = zlib.crc32(f"{self.now_s} {node_id} {event}".encode(), self.trace)
        for effect in node.members.step(event, self.now_s):
            self.on_effect(node_id, effect)
            match effect:
                case Send(peer, message):
                    self._send(node_id, peer, message)
                case Dial(address):
                    self._dial(node_id, NodeId(address.removesuffix(":1")))
                case Stopped():
                    self.crash(node_id)
                case _:
                    pass
        self._set_timer(node_id, node)

    def _set_timer(self, node_id: NodeId, node: Node) -> None:
        timer_s = node.members.get_timer()
        if timer_s is not None and (node.timer_s is None or timer_s < node.timer_s):
            node.timer_s = timer_s
            life = node.life
            self.at(max(0.0, timer_s - self.now_s), lambda: self._on_timer(node_id, life, timer_s))

    def _on_timer(self, node_id: NodeId, life: int, planned_s: float) -> None:
        node = self.nodes[node_id]
        if node.life != life or node.timer_s != planned_s:
            return
        node.timer_s = None
        timer_s = node.members.get_timer()
        if timer_s is not None and timer_s <= self.now_s:
            self.tell(node_id, Tick())
        else:
            self._set_timer(node_id, node)

    # --- links ---

    def _send(self, source: NodeId, target: NodeId, message: Message) -> None:
        size = size_of(message)
        self.traffic.messages += 1
        self.traffic.bytes += size
        if isinstance(message, Gossip):
            self.traffic.bytes_max = max(size, self.traffic.bytes_max)
            assert size <= GOSSIP_BYTES_MAX, f"seed {self.seed}: {size} bytes in one message"
            assert len(message.digests) <= GOSSIP_DIGESTS_MAX, f"seed {self.seed}: too many digests"
            assert len(message.states) <= GOSSIP_STATES_MAX, f"seed {self.seed}: too many states"
        if not self.edges.get(edge_of(source, target)) or edge_of(source, target) in self.cut:
            return
        arrive = partial(self._arrive, source, target, self.nodes[target].life, message)
        copies = 2 if self.chance.random() < self.faults.duplication else 1
        for _ in range(copies):
            if self.chance.random() >= self.faults.loss:
                self.at(0.001 + self.chance.random() * self.faults.delay_s_max, arrive)

    def _arrive(self, source: NodeId, target: NodeId, life: int, message: Message) -> None:
        if self.nodes[target].life == life:
            self.tell(target, MessageReceived(source, message))

    def _dial(self, source: NodeId, target: NodeId) -> None:
        edge = edge_of(source, target)
        if edge not in self.edges:
            self.edges[edge] = False
            self.at(0.01, lambda: self._connect(edge))

    def _connect(self, edge: Edge) -> None:
        """PL-01 keeps dialling; here once a second."""
        if self.edges[edge]:
            return
        if edge in self.cut or not all(node in self.nodes and self.nodes[node].running for node in edge):
            self.at(REDIAL_S * (0.5 + self.chance.random()), lambda: self._connect(edge))
            return
        self.edges[edge] = True
        for one, other in (edge, edge[::-1]):
            self._link_down(one, other, self.nodes[one].life)  # if the old connection broke silently
            self.nodes[one].linked.add(other)
            self.tell(one, LinkUp(other))

    def drop_link(self, edge: Edge) -> None:
        """The connection is lost. Either end hears of that soon, or not before there is a new one."""
        self.edges[edge] = False
        self.at(REDIAL_S * (0.5 + self.chance.random()), lambda: self._connect(edge))
        if self.chance.random() >= self.faults.silent:
            for one, other in (edge, edge[::-1]):
                self.at(self.chance.random(), partial(self._broken, edge, one, other, self.nodes[one].life))

    def _broken(self, edge: Edge, one: NodeId, other: NodeId, life: int) -> None:
        if not self.edges[edge]:
            self._link_down(one, other, life)

    def _link_down(self, one: NodeId, other: NodeId, life: int) -> None:
        node = self.nodes[one]
        if node.life == life and other in node.linked:
            node.linked.discard(other)
            self.tell(one, LinkDown(other))

    def cut_edges(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self.cut.add(edge)
            if self.edges.get(edge):
                self.drop_link(edge)

    # --- what there is to see ---

    @property
    def running(self) -> list[NodeId]:
        return [node_id for node_id, node in self.nodes.items() if node.running]

    def view(self, node_id: NodeId) -> dict[NodeId, NodeState]:
        """Who that node takes for a live member, and what it knows of them."""
        return {key: state for key, state in self.nodes[node_id].members.states.items() if not state.liveness.gone}

    def agrees(self) -> bool:
        """Everybody knows of all running nodes exactly what they say of themselves, and takes no other for alive."""
        truth = {node_id: self.nodes[node_id].members.own for node_id in self.running}
        return all(self.view(node_id) == truth for node_id in self.running)

    def liveness(self, observer: NodeId, subject: NodeId) -> Liveness | None:
        state = self.nodes[observer].members.states.get(subject)
        return None if state is None else state.liveness

    def connected(self, nodes: Iterable[NodeId]) -> bool:
        """Whether these nodes would form one mesh over the edges that somebody dials, if none were cut."""
        left = set(nodes)
        found = [min(left)] if left else []
        left.difference_update(found)
        while found:
            node_id = found.pop()
            near = {one if other == node_id else other for one, other in self.edges if node_id in (one, other)}
            found += near & left
            left -= near
        return not left

    def describe(self) -> str:
        """The differences, for whoever has to find out."""
        truth = {node_id: self.nodes[node_id].members.own.digest for node_id in self.running}
        lines = [f"at {self.now_s:.1f} s, {len(truth)} running"]
        for node_id in self.running:
            digests = {key: state.digest for key, state in self.view(node_id).items()}
            if digests != truth:
                wrong = [
                    digests.get(key, key)
                    for key in sorted(truth.keys() | digests.keys())
                    if digests.get(key) != truth.get(key)
                ]
                lines.append(f"{node_id} differs in {wrong[:5]}")
        return "; ".join(lines[:6])


def edge_of(one: NodeId, other: NodeId) -> Edge:
    return (one, other) if one < other else (other, one)
