"""Which way events travel, derived from membership: which nodes want a topic, and the place of each node in every
tree."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from weft.core.messages import TellInterest
from weft.core.settings import INTEREST_OWN_PATTERNS_MAX, InterestSettings
from weft.core.topics import EVERYWHERE, EVERYWHERE_PREFIXES, is_own
from weft.membership import NodeState
from weft.model import NodeId, Pattern, Topic
from weft.model.later import LATER_PREFIX
from weft.routing import (
    SINCE_EVER_US,
    Interest,
    InterestTable,
    Pieces,
    Topology,
    Wishes,
    aggregate,
    begin_alike,
    since_of,
    summarize,
    without_covered,
)

MERGED_PATTERNS_MAX: Final = 384  # a careful merge takes ten milliseconds; ten times as many take ten times as long


class Routes:
    """A view of the mesh. ``me`` is this node."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self._states: dict[NodeId, NodeState] = {}
        self._users = InterestTable()
        self._own = InterestTable()
        self._topology = Topology({})
        self._stale = False  # the topology is older than the states

    # --- what membership says ------------------------------------------------------------------------------------

    def know(self, state: NodeState) -> bool:
        """Take in what a node says; return whether that may change a route."""
        before = self._states.get(state.node_id)
        if state.liveness.gone:
            return self.forget(state.node_id)
        self._states[state.node_id] = state
        version = (state.incarnation, state.version)
        summary = state.interest_summary
        users = [each for each in state.interest if not is_own(each)]
        since_us = dict(zip(state.interest, state.interest_since_us, strict=False))
        self._users.update(state.node_id, version, users, summary, since_us)
        self._own.update(state.node_id, version, (each for each in state.interest if is_own(each)), summary)
        if before is None or before.neighbours != state.neighbours:
            self._stale = True
        return self._stale or before is None or not before.wants_as(state)

    def forget(self, node: NodeId) -> bool:
        if self._states.pop(node, None) is None:
            return False
        self._users.remove(node)
        self._own.remove(node)
        self._stale = True
        return True

    # --- answers -------------------------------------------------------------------------------------------------

    @property
    def topology(self) -> Topology:
        if self._stale:
            self._topology = self._topology.updated(_links(self._states.values()))
            self._stale = False
        return self._topology

    @property
    def states(self) -> dict[NodeId, NodeState]:
        """The states of the living nodes."""
        return self._states

    def origins(self) -> list[NodeId]:
        """All nodes that may have events, including other nodes' plain peers, but without this node."""
        named = {neighbour for state in self._states.values() for neighbour in state.neighbours}
        return sorted((named | self._states.keys()) - {self.me})

    def interested(self, topic: Topic) -> frozenset[NodeId]:
        if topic.startswith(LATER_PREFIX):
            return frozenset()
        return (self._own if is_own(topic) else self._users).who(topic)

    def wants(self, child: NodeId, origin: NodeId, topic: Topic) -> bool:
        """Whether a node in the branch of the origin's tree that begins with this child wants the topic.

        If our view of the tree has the child in another place, only the child's own interest counts. The streams of an
        origin out of reach have no tree, so each node that has them sends them along its own tree.
        """
        return self._has_wish(child, origin, self.interested(topic))

    def since(self, child: NodeId, origin: NodeId, topic: Topic) -> int:
        """The earliest time since which somebody in that branch wants the topic. The mesh's own topics, and buckets,
        are wanted since ever."""
        if is_own(topic) or topic.startswith(EVERYWHERE_PREFIXES):
            return SINCE_EVER_US
        who = self._users.who(topic)
        found = (self._users.since(node, topic) for node in who if self._has_wish(child, origin, {node}))
        return min(found, default=SINCE_EVER_US)

    def _has_wish(self, child: NodeId, origin: NodeId, interested: Set[NodeId]) -> bool:
        root = self.me if self.topology.parent(origin, self.me) is None else origin
        return child in interested or child in self.topology.next_hops(root, self.me, interested)


def _links(states: Iterable[NodeState]) -> dict[NodeId, Iterable[NodeId]]:
    """The links that nodes announce. A plain peer is no member and announces none, so its links are those that others
    announce to it."""
    links: dict[NodeId, Iterable[NodeId]] = {state.node_id: state.neighbours for state in states}
    strangers: dict[NodeId, list[NodeId]] = {}
    for node, neighbours in links.items():
        for neighbour in neighbours:
            if neighbour not in links:
                strangers.setdefault(neighbour, []).append(node)
    return {**links, **strangers}


def told_interest(wishes: Wishes, settings: InterestSettings) -> Pieces[TellInterest]:
    """What a node announces to the mesh: its subscribers' patterns and, separately, the mesh's own topics, so that
    widening one list does not lose the other. If a list is widened, a summary says which topics are really wanted."""
    wanted = {**wishes, **dict.fromkeys(EVERYWHERE, SINCE_EVER_US)}  # every node has these
    summarizes = settings.filter_bytes_max > 0
    mine = {each for each in wanted if is_own(each)}
    own = yield from _told(mine, INTEREST_OWN_PATTERNS_MAX, summarizes)
    users = {pattern: since_us for pattern, since_us in wanted.items() if pattern not in mine}
    yield
    told, widened = yield from _told_wishes(users, settings.patterns_max, summarizes)
    widened = own.widened or widened
    summary = (yield from summarize(wanted, settings.filter_bytes_max)) if widened and summarizes else None
    told.update(dict.fromkeys(own.patterns, SINCE_EVER_US))
    patterns = tuple(sorted(told))
    return TellInterest(patterns, widened, summary, tuple(told[each] for each in patterns))


def _told_wishes(wishes: Wishes, patterns_max: int, summarizes: bool) -> Pieces[tuple[dict[Pattern, int], bool]]:
    """The patterns to announce, each with the time since when it is wanted, and whether they are wider than the
    wishes."""
    if len(wishes) <= MERGED_PATTERNS_MAX:
        exact = without_covered(wishes)
        if len(exact) <= patterns_max:
            return exact, False
    interest = yield from _told(set(wishes), patterns_max, summarizes)
    return (yield from since_of(interest.patterns, wishes)), interest.widened


def _told(patterns: set[Pattern], patterns_max: int, summarizes: bool) -> Pieces[Interest]:
    """At most ``patterns_max`` patterns that cover these. Merging a long list with care would hold up the event loop,
    so with a summary, the list is shortened roughly first. Without a summary, the careful merge is worth its time."""
    if summarizes and len(patterns) > max(MERGED_PATTERNS_MAX, patterns_max):
        cut = yield from begin_alike(patterns, MERGED_PATTERNS_MAX)
        return Interest(aggregate(cut, patterns_max).patterns, widened=True)
    return aggregate(patterns, patterns_max) if patterns else Interest((), False)
