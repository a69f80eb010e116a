"""A simulated mesh for groups: nodes, clients, and a network that delays, repeats, is cut, and keeps the order.

Everything that happens is an entry in one heap, ordered by time and then by when it was planned; chance comes from one
seed. What a node said is durable, as in its log, and reaches every other node that can be reached: in order per origin,
sometimes twice. Clients handle events, answer assignments after a while, and are watched: who works on which stream,
and where work on it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TypeAlias, assert_never

from weft.core.groups import (
    Assignment,
    CommitPositions,
    Dropped,
    ForgetPositions,
    GroupEffect,
    Groups,
    GroupSettings,
    PutAside,
    Refusal,
    Replaced,
    Say,
    Statement,
    Wake,
)
from weft.core.groups.names import group_of
from weft.core.groups.owners import owner_of
from weft.core.messages import StreamKey
from weft.model import Batch, Epoch, Event, NodeId, Pattern, Position, Stream, Topic

Committed: TypeAlias = dict[str, dict[StreamKey, int]]

SETTINGS = GroupSettings()
GROUP = "billing"


@dataclass
class Faults:
    """``notice_s``: how long membership takes to see that a node died, returned, or is cut off."""

    delay_s_max: float = SETTINGS.settle_s / 2
    duplication: float = 0.1
    answer_s_max: float = 1.0
    notice_s: float = 3.0


@dataclass
class Client:
    """A member at work. ``works``: where it is in each stream that it has; it lets go of ``lost`` when it answers."""

    name: str
    pattern: Pattern
    node: NodeId
    works: dict[StreamKey, int] = field(default_factory=dict)
    lost: set[StreamKey] = field(default_factory=set)
    answered: int = 0
    gone: bool = False


@dataclass
class Node:
    """``said``, ``copies`` and ``committed`` are its disk; ``heard``: how much it has of what each origin said."""

    node_id: NodeId
    groups: Groups
    committed: Committed
    epoch: Epoch
    life: int = 0
    up: bool = True
    said: list[tuple[Topic, Batch]] = field(default_factory=list)
    copies: list[tuple[StreamKey, Batch]] = field(default_factory=list)
    heard: dict[tuple[NodeId, Epoch], int] = field(default_factory=dict)
    streams: dict[StreamKey, None] = field(default_factory=dict)
    clients: dict[int, Client] = field(default_factory=dict)
    timer_s: float | None = None


class World:
    def __init__(self, seed: int, faults: Faults | None = None, settings: GroupSettings = SETTINGS) -> None:
        self.chance = Random(seed)  # noqa: S311 - chance from a seed is the point
        self.faults = faults or Faults()
        self.settings = settings
        self.now_s = 0.0
        self.nodes: dict[NodeId, Node] = {}
        self.cut: set[frozenset[NodeId]] = set()
        self.quiet = False  # nobody publishes or handles any more
        self.ends: dict[StreamKey, int] = {}
        self.handled: dict[StreamKey, int] = {}  # the highest that was reported to a node since the last move
        self.starts: list[tuple[StreamKey, int, int]] = []  # stream, where work began, what had been handled by then
        self.overlaps: list[str] = []
        self.assignments: list[tuple[int, Assignment]] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._subscriptions = count(1)

    # --- time ----------------------------------------------------------------------------------------------------

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        heappush(self._heap, (self.now_s + delay_s, next(self._order), action))

    def run(self, duration_s: float) -> None:
        end_s = self.now_s + duration_s
        while self._heap and self._heap[0][0] <= end_s:
            self.now_s, _, action = heappop(self._heap)
            action()
        self.now_s = end_s

    # --- nodes ---------------------------------------------------------------------------------------------------

    def start(self, name: str) -> NodeId:
        node_id = NodeId(name)
        committed: Committed = {}
        node = Node(node_id, Groups(node_id, self.settings, partial(_logged, committed)), committed, Epoch(1))
        self.nodes[node_id] = node
        self._introduce(node)
        return node_id

    def kill(self, node_id: NodeId) -> None:
        node = self.nodes[node_id]
        node.up = False
        node.life += 1
        for client in node.clients.values():
            client.gone = True
        node.clients.clear()
        self.at(self.faults.notice_s, partial(self._notice, node_id))

    def restart(self, node_id: NodeId, *, lost_disk: bool = False) -> None:
        node = self.nodes[node_id]
        assert not node.up
        node.up, node.timer_s = True, None
        if lost_disk:
            node.epoch = Epoch(node.epoch + 1)
            node.said, node.copies, node.heard, node.committed, node.streams = [], [], {}, {}, {}
            for key in self.ends:
                self.at(self.chance.uniform(0, 2), partial(self._known, node_id, key))
        node.groups = Groups(node_id, self.settings, partial(_logged, node.committed))
        for key in node.streams:
            node.groups.stream_known(key, self.now_s)
        self._settle(node, node.groups.recall(GROUP, self._log_of(node), self.now_s))
        self._introduce(node)
        self._settle(node, [])

    def part(self, node_id: NodeId, other_id: NodeId) -> None:
        self.cut.add(frozenset((node_id, other_id)))
        self.at(self.faults.notice_s, partial(self._notice, node_id))
        self.at(self.faults.notice_s, partial(self._notice, other_id))

    def heal(self) -> None:
        self.cut.clear()
        for node_id in self.nodes:
            self._notice(node_id)

    def learn(self, key: StreamKey) -> None:
        """A stream appears, at every node in its own time."""
        self.ends.setdefault(key, 0)
        for node in self.nodes.values():
            self.at(self.chance.uniform(0, 2), partial(self._known, node.node_id, key))

    # --- clients -------------------------------------------------------------------------------------------------

    def join(self, node_id: NodeId, name: str, pattern: str, group: str = GROUP) -> int:
        node, subscription = self.nodes[node_id], next(self._subscriptions)
        client = node.clients[subscription] = Client(name or f"{node_id}#{subscription}", Pattern(pattern), node_id)
        self._settle(node, node.groups.join(subscription, group, name, Pattern(pattern), self.now_s))
        self.at(0.3, partial(self._work, node, subscription, client))
        return subscription

    def leave(self, subscription: int) -> None:
        node = next(each for each in self.nodes.values() if subscription in each.clients)
        node.clients.pop(subscription).gone = True
        self._settle(node, node.groups.leave(subscription, self.now_s))

    def move(self, node_id: NodeId, key: StreamKey, offset: int) -> None:
        node = self.nodes[node_id]
        self.handled[key] = max(offset, self.handled.get(key, 0))
        self._settle(node, node.groups.move(GROUP, [Position(*key, offset)], self.now_s))

    def drop(self, node_id: NodeId) -> None:
        node = self.nodes[node_id]
        self._settle(node, node.groups.drop(GROUP, self.now_s))

    def workers(self, key: StreamKey) -> list[tuple[NodeId, str]]:
        """Who works on a stream at this moment."""
        return [
            (node.node_id, client.name)
            for node in self.nodes.values()
            for client in node.clients.values()
            if key in client.works
        ]

    # --- what should be ------------------------------------------------------------------------------------------

    def live(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.up]

    def check_settled(self) -> None:
        """Everybody agrees; every stream that somebody wants has its rightful worker; positions are the same."""
        live = self.live()
        members = live[0].groups.members(GROUP)
        for node in live:
            assert node.groups.members(GROUP) == members, (node.node_id, members)
        joined = {(node.node_id, client.name) for node in live for client in node.clients.values()}
        assert {(node_id, name) for node_id, name, _ in members} <= joined, (members, joined)
        assert {name for _, name, _ in members} == {name for _, name in joined}, (members, joined)
        for key in self.ends:
            owner = owner_of(key, members)
            expected = [] if owner is None else [(owner.node, owner.name)]
            assert self.workers(key) == expected, key
            assert {node.groups.holder(GROUP, key) for node in live} == {expected[0] if expected else None}, key
            positions = {node.node_id: node.groups.position(GROUP, key) for node in live}
            assert len(set(positions.values())) == 1, (key, positions)

    # -------------------------------------------------------------------------------------------------------------

    def _introduce(self, node: Node) -> None:
        """Everybody sees what is so, at once or within the time that membership takes."""
        for other in self.nodes.values():
            if other is not node and other.up and self._reaches(node.node_id, other.node_id):
                node.groups.node_lives(other.node_id, other.epoch, True, self.now_s)
                self._settle(other, other.groups.node_lives(node.node_id, node.epoch, True, self.now_s))
                self._ship(other.node_id, node.node_id)
                self._ship(node.node_id, other.node_id)
        self._settle(node, [])

    def _notice(self, node_id: NodeId) -> None:
        node = self.nodes[node_id]
        for other in self.nodes.values():
            if other is node or not other.up:
                continue
            alive = node.up and self._reaches(node_id, other.node_id)
            self._settle(other, other.groups.node_lives(node_id, node.epoch, alive, self.now_s))
            if alive:
                self._ship(node_id, other.node_id)

    def _reaches(self, one: NodeId, other: NodeId) -> bool:
        return frozenset((one, other)) not in self.cut

    def _known(self, node_id: NodeId, key: StreamKey) -> None:
        node = self.nodes[node_id]
        node.streams[key] = None
        if node.up:
            self._settle(node, node.groups.stream_known(key, self.now_s))

    def _log_of(self, node: Node) -> list[Statement]:
        """The last that each node said under each key, as far as this one has it."""
        latest: dict[tuple[StreamKey, bytes | None], Statement] = {}
        for key, batch in [*((self._talk(node, topic), batch) for topic, batch in node.said), *node.copies]:
            for offset, event in enumerate(batch, batch.base_offset):
                known = latest.get((key, event.key))
                if known is None or offset > known.offset:
                    latest[key, event.key] = Statement(key[0].origin, key[1], offset, event)
        return list(latest.values())

    def _talk(self, node: Node, topic: Topic) -> StreamKey:
        return Stream(topic, node.node_id, 0), node.epoch

    def _settle(self, node: Node, effects: list[GroupEffect]) -> None:
        """Do what is to be done, and come back when it is time."""
        for effect in effects:
            match effect:
                case Assignment():
                    self._assign(node, effect)
                case CommitPositions(group, positions):
                    node.committed.setdefault(group, {}).update({(p.stream, p.epoch): p.offset for p in positions})
                case Say(topic, events):
                    offset = sum(len(batch) for _, batch in node.said)
                    now_us = int(self.now_s * 1e6)
                    stamped = [Event(each.payload, each.timestamp_us or now_us, each.key) for each in events]
                    node.said.append((topic, Batch.from_events(stamped).with_base_offset(offset)))
                    for other in self.nodes:
                        if other != node.node_id:
                            self._ship(node.node_id, other)
                    if (name := group_of(topic)) is not None:
                        node.groups.said(name, self.now_s)
                case ForgetPositions(group):
                    node.committed.pop(group, None)
                case Replaced(subscription) | Dropped(subscription):
                    node.clients.pop(subscription).gone = True
                case PutAside() | Refusal() | Wake():
                    raise AssertionError("nobody here acknowledges by hand")
                case _:
                    assert_never(effect)
        timer_s = node.groups.get_timer()
        if timer_s is not None and (node.timer_s is None or timer_s < node.timer_s):
            node.timer_s = timer_s
            self.at(max(timer_s - self.now_s, 0.0), partial(self._tick, node, node.life))

    def _tick(self, node: Node, life: int) -> None:
        if node.life == life and node.up:
            node.timer_s = None
            self._settle(node, node.groups.tick(self.now_s))

    def _ship(self, origin: NodeId, target: NodeId) -> None:
        """All that has been said so far is there after a while, unless the way is cut or an end is down by then."""
        end = len(self.nodes[origin].said)
        epoch = self.nodes[origin].epoch
        self.at(self.chance.uniform(0, self.faults.delay_s_max), partial(self._arrive, origin, target, epoch, end))

    def _arrive(self, origin: NodeId, target: NodeId, epoch: Epoch, end: int) -> None:
        source, node = self.nodes[origin], self.nodes[target]
        if not (source.up and node.up and source.epoch == epoch and self._reaches(origin, target)):
            return
        first = node.heard.get((origin, epoch), 0)
        node.heard[origin, epoch] = max(first, end)
        if self.chance.random() < self.faults.duplication:
            first = self.chance.randint(0, first)
        for topic, batch in source.said[first:end]:
            node.copies.append((self._talk(source, topic), batch))
            self._settle(node, node.groups.heard(self._talk(source, topic), batch, self.now_s))

    def _assign(self, node: Node, assignment: Assignment) -> None:
        client = node.clients[assignment.subscription]
        self.assignments.append((assignment.subscription, assignment))
        wanted = set(assignment.streams)
        for key in sorted(wanted - (client.works.keys() - client.lost)):
            others = self.workers(key)
            if others:
                self.overlaps.append(f"{self.now_s:.3f} {key}: {client.name}@{client.node} beside {others}")
            begin = node.groups.position(GROUP, key) or 0
            self.starts.append((key, begin, self.handled.get(key, 0)))
            client.works[key] = begin
        client.lost = client.works.keys() - wanted
        answer = partial(self._answer, node, assignment, client)
        self.at(self.chance.uniform(0, self.faults.answer_s_max), answer)

    def _answer(self, node: Node, assignment: Assignment, client: Client) -> None:
        if not client.gone and assignment.generation > client.answered:
            client.answered = assignment.generation
            positions = self._positions(client)
            for key in client.works.keys() - set(assignment.streams):
                if key in client.lost:
                    del client.works[key]
            self._report(node, assignment.subscription, client, positions)

    def _work(self, node: Node, subscription: int, client: Client) -> None:
        if client.gone or self.quiet:
            return
        for key in client.works:
            self.ends[key] += self.chance.randint(0, 3)
            client.works[key] = min(client.works[key] + self.chance.randint(0, 5), self.ends[key])
        self._report(node, subscription, client, self._positions(client))
        self.at(0.3, partial(self._work, node, subscription, client))

    def _positions(self, client: Client) -> list[Position]:
        return [Position(*key, offset) for key, offset in client.works.items()]

    def _report(self, node: Node, subscription: int, client: Client, positions: list[Position]) -> None:
        effects = node.groups.handled(subscription, positions, client.answered, self.now_s)
        for each in (each for effect in effects if isinstance(effect, CommitPositions) for each in effect.positions):
            key = each.stream, each.epoch
            self.handled[key] = max(self.handled.get(key, 0), each.offset)
        self._settle(node, effects)


def _logged(committed: Committed, group: str) -> list[Position]:
    return [Position(*key, offset) for key, offset in committed.get(group, {}).items()]
