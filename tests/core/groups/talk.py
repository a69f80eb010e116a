"""Short ways to write what stories about groups are made of."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.groups import Assignment, GroupEffect, Groups, GroupSettings, Say
from weft.core.groups.events import MemberState, Place, Said, node_event, place_event, read_untrusted
from weft.core.groups.names import group_of, topic_of
from weft.core.groups.owners import GroupMember, owner_of
from weft.core.messages import StreamKey
from weft.model import Batch, Epoch, Event, NodeId, Pattern, Position, Stream, Topic
from weft.routing import finished

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
ONE = Epoch(1)
ALL = Pattern("plant.>")
DAY_S = 86_400.0
SETTINGS = GroupSettings(publish_interval_s=1.0, release_timeout_s=10.0, settle_s=0.25)


def stream(topic: str, origin: NodeId = A, epoch: Epoch = ONE) -> StreamKey:
    return Stream(Topic(topic), origin, 0), epoch


T = stream("plant.t")


def at(key: StreamKey, offset: int) -> Position:
    return Position(*key, offset)


class SyncedAtOnce(Groups):
    """What it says is durable the moment it is said."""

    def tick(self, now_s: float) -> list[GroupEffect]:
        effects = super().tick(now_s)
        for effect in effects:
            if isinstance(effect, Say):
                self.said(group_of(effect.topic) or "", now_s)
        return effects


def make(*streams: StreamKey, logged: Iterable[Position] = (), lives: Iterable[NodeId] = ()) -> Groups:
    """The groups of node a, which has these streams and has heard of these nodes."""
    positions = list(logged)
    groups = SyncedAtOnce(A, SETTINGS, lambda group: positions)
    for key in streams:
        groups.stream_known(key, 0.0)
    for node in lives:
        groups.node_lives(node, ONE, True, 0.0)
    return groups


def hear(
    groups: Groups, origin: NodeId, *events: Event, offset: int, now_s: float, epoch: Epoch = ONE, group: str = "g"
) -> None:
    batch = Batch.from_events(events).with_base_offset(offset)
    groups.heard((Stream(topic_of(group), origin, 0), epoch), batch, now_s)


def state(node: NodeId, **members: MemberState) -> Event:
    return finished(node_event(node, members))


def member(*held: StreamKey, pattern: Pattern = ALL, turn: int = 1, owner: str = "") -> MemberState:
    return MemberState(pattern, turn, frozenset(held), owner)


def place(key: StreamKey, version: int, offset: int) -> Event:
    return place_event(key, Place(version, offset))


def assignments(effects: Iterable[GroupEffect]) -> list[tuple[int, int, tuple[StreamKey, ...]]]:
    return [(e.subscription, e.generation, e.streams) for e in effects if isinstance(e, Assignment)]


def said(effects: Iterable[GroupEffect]) -> list[Said]:
    """What the mesh is told, in order."""
    return [read_untrusted(event) for effect in effects if isinstance(effect, Say) for event in effect.events]


def name_that_wins(key: StreamKey, node: NodeId, rival: str, rival_node: NodeId) -> str:
    """A name for a member at a node that should have a stream rather than the rival."""
    names = (f"m{number}" for number in range(1000))
    other = GroupMember(rival_node, rival, ALL)
    return next(name for name in names if owner_of(key, [GroupMember(node, name, ALL), other]) != other)


def name_that_loses(key: StreamKey, node: NodeId, rival: str, rival_node: NodeId) -> str:
    names = (f"m{number}" for number in range(1000))
    other = GroupMember(rival_node, rival, ALL)
    return next(name for name in names if owner_of(key, [GroupMember(node, name, ALL), other]) == other)


def is_quiet(groups: Groups) -> bool:
    """Whether nothing is to be done, but to see some day whether the groups are still used."""
    timer_s = groups.get_timer()
    return timer_s is None or timer_s > DAY_S
