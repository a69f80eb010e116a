"""All groups of a node: what the broker talks to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from math import inf
from typing import Final

from weft.core.groups.effects import GroupEffect
from weft.core.groups.events import BadGroupEvent, LedgerSaid, NodeSaid, PolicySaid, read_untrusted
from weft.core.groups.group import Group
from weft.core.groups.ledger import WINDOW_MAX
from weft.core.groups.members import Member
from weft.core.groups.names import group_of, parse_group, parse_member, unnamed
from weft.core.groups.owners import GroupMember
from weft.core.groups.settings import GroupSettings
from weft.core.groups.settling import Settling
from weft.core.messages import Acked, Nacked, StreamKey
from weft.core.policy import GroupPolicy
from weft.core.topics import GROUPS, Selection
from weft.errors import UsageError
from weft.model import Batch, Epoch, Event, NodeId, Pattern, Position, Topic, covers

GROUPS_MAX: Final = 4096  # known to one node: groups are named by people, and each is a topic


class Groups:
    """``positions``: what the node's log has of a group.

    Inputs return what has to be done at once. Everything that can wait for the next input to come is decided in
    ``tick``, when ``get_timer`` says so: often at once.
    """

    def __init__(
        self,
        me: NodeId,
        settings: GroupSettings,
        positions: Callable[[str], Iterable[Position]],
        wall_offset_s: float = 0.0,
    ) -> None:
        self.refused = 0  # events of others that were bad, or that there was no room for
        self._me = me
        self._settings = settings
        self._positions = positions
        self._wall_offset_s = wall_offset_s
        self._groups: dict[str, Group] = {}
        self._due: dict[str, float] = {}  # of those that have something to do at some time, when
        self._alarms: list[tuple[float, str]] = []  # a heap of the same; what is not so any more is passed over
        self._wanting: Selection[str] = Selection()  # groups by what their members want
        self._patterns: dict[str, frozenset[Pattern]] = {}  # what is in there, by group
        self._subscriptions: dict[int, tuple[Group, Member]] = {}
        self._streams: dict[StreamKey, None] = {}
        self._lives: dict[NodeId, Epoch] = {}  # of the other nodes
        self.dead_topics: frozenset[Topic] = frozenset()  # that groups have chosen for their dead letters

    # --- members -------------------------------------------------------------------------------------------------

    def join(
        self,
        subscription: int,
        group: str,
        member: str,
        pattern: Pattern,
        now_s: float,
        owner: str = "",
        *,
        window: int = 0,
        policy: GroupPolicy | None = None,
    ) -> list[GroupEffect]:
        """An empty ``member`` is given a name of its own. Raise UsageError for what cannot be."""
        assert subscription not in self._subscriptions, "a subscription joins once"
        parse_group(group)
        name = parse_member(member) if member else unnamed(self._me, subscription)
        if covers(GROUPS, pattern):
            raise UsageError(
                "what is said about groups is not shared by a group: subscribe without one", pattern=pattern
            )
        found = self._get(group, now_s)
        if found is None:
            raise UsageError("too many groups", group=group, limit=GROUPS_MAX)
        earlier = found.members.get(name)
        if not 0 <= window <= WINDOW_MAX:
            raise UsageError("the window is out of range", window=window, limit=WINDOW_MAX)
        effects = found.join(subscription, name, pattern, owner, now_s, window=window, policy=policy)
        if earlier is not None:
            del self._subscriptions[earlier.subscription]
        self._note_dead_topics()
        self._subscriptions[subscription] = found, found.members[name]
        self._wait(found)
        return effects

    def leave(self, subscription: int, now_s: float, *, died: bool = False) -> list[GroupEffect]:
        """Its streams are free at once. One that was replaced, or was in no group, is ignored. ``died``: without a
        goodbye; what it had in hand counts as tried."""
        if found := self._subscriptions.pop(subscription, None):
            group, member = found
            effects = group.leave(member, now_s, died=died)
            self._wait(group)
            return effects
        return []

    def settled(
        self, subscription: int, acks: Iterable[Acked], nacks: Iterable[Nacked], generation: int, now_s: float
    ) -> list[GroupEffect]:
        """What a member did with single events; what is late is ignored."""
        if found := self._subscriptions.get(subscription):
            group, member = found
            effects = group.settled(member, acks, nacks, generation, now_s)
            self._wait(group)
            return effects
        return []

    def hand(self, subscription: int, key: StreamKey) -> tuple[Settling, Member] | None:
        """Of a member that acknowledges by hand, where it is served this stream."""
        found = self._subscriptions.get(subscription)
        if found is None:
            return None
        group, member = found
        return (group.settling, member) if member.hand is not None and group.serves(member, key) else None

    def set_policy(self, group: str, policy: GroupPolicy, now_s: float) -> list[GroupEffect]:
        found = self._get(parse_group(group), now_s)
        if found is None:
            raise UsageError("too many groups", group=group, limit=GROUPS_MAX)
        effects = found.set_policy(policy, now_s)
        self._note_dead_topics()
        self._wait(found)
        return effects

    def handled(
        self, subscription: int, positions: Iterable[Position], generation: int, now_s: float
    ) -> list[GroupEffect]:
        """Positions of streams that it does not hold are ignored: they are late."""
        if found := self._subscriptions.get(subscription):
            group, member = found
            effects = group.handled(member, positions, generation, now_s)
            self._wait(group)
            return effects
        return []

    def move(self, group: str, positions: Iterable[Position], now_s: float) -> list[GroupEffect]:
        """Put a group elsewhere. Members that have these streams lose them and get them back, wherever they are."""
        found = self._get(parse_group(group), now_s)
        if found is None:
            raise UsageError("too many groups", group=group, limit=GROUPS_MAX)
        effects = found.move(tuple(positions), now_s)
        self._wait(found)
        return effects

    def close(self, now_s: float) -> list[GroupEffect]:
        """All members leave, and the mesh is told: the last effects before the node stops."""
        for subscription in list(self._subscriptions):
            self.leave(subscription, now_s)
        for group in self._groups.values():
            group.hurry(now_s)
            self._wait(group)
        return self.tick(now_s)

    # --- the world -----------------------------------------------------------------------------------------------

    def recall(self, group: str, now_s: float) -> None:
        """The log has positions of this group, from an earlier life of this node."""
        if (found := self._get(group, now_s)) is not None:
            self._wait(found)

    def stream_known(self, key: StreamKey, now_s: float) -> list[GroupEffect]:
        """A stream is in this node's log, from now on or since it was opened."""
        if key not in self._streams:
            self._streams[key] = None
            for name in self._wanting.match(key[0].topic):
                group = self._groups[name]
                group.stream_known(key, now_s)
                self._wait(group)
        return []

    def heard(self, key: StreamKey, batch: Batch, now_s: float) -> list[GroupEffect]:
        """Events about a group: of other nodes, and of all of them, this one included, when the log is opened."""
        stream, epoch = key
        name = group_of(stream.topic)
        group = None if name is None else self._get(name, now_s)
        if group is None:
            self.refused += len(batch)
            return []
        for offset, event in enumerate(batch, batch.base_offset):
            if not self._hear_untrusted(group, event, stream.origin, epoch, offset, now_s):
                self.refused += 1
        self._wait(group)
        return []

    def node_lives(self, node: NodeId, epoch: Epoch, alive: bool, now_s: float) -> list[GroupEffect]:
        """What membership says of another node: ``alive`` also if it is only suspected."""
        if node == self._me:
            return []
        before, after = self._lives.get(node), epoch if alive else None
        if before == after:
            return []
        if after is None:
            del self._lives[node]
        else:
            self._lives[node] = after
        # Those that are left take turns in saying what it said: usually, the first knows it all.
        turn = 1 + sum(other < self._me for other in self._lives if other != node)
        for group in self._groups.values():
            if node in group.reports:
                group.touch(now_s)
            if before is not None:
                group.adopt(now_s + turn * self._settings.publish_interval_s)
            self._wait(group)
        return []

    def tick(self, now_s: float) -> list[GroupEffect]:
        effects: list[GroupEffect] = []
        due: list[str] = []
        while (first_s := self.get_timer()) is not None and first_s <= now_s:
            name = heappop(self._alarms)[1]
            del self._due[name]
            due.append(name)
        for name in due:
            group = self._groups[name]
            effects += group.tick(now_s)
            self._wait(group)
            self._index(group)
        return effects

    def get_timer(self) -> float | None:
        """When ``tick`` is due; None: not before something happens."""
        while self._alarms and self._due.get(self._alarms[0][1]) != self._alarms[0][0]:
            heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    # --- questions -----------------------------------------------------------------------------------------------

    def knows(self, group: str) -> bool:
        return group in self._groups

    def names(self) -> list[str]:
        return sorted(self._groups)

    def position(self, group: str, key: StreamKey) -> int | None:
        found = self._groups.get(group)
        place = found.places.get(key) if found else None
        return place.offset if place else None

    def positions(self, group: str) -> list[Position]:
        """Where a group stands, as far as it is known here; a stream may occur in several epochs."""
        found = self._groups.get(group)
        return sorted(found.places.positions()) if found else []

    def policy(self, group: str) -> GroupPolicy | None:
        """What was said about events that fail; None: nothing was, and the default holds."""
        found = self._groups.get(group)
        return found.settling.policy if found and found.policy_at else None

    def failures(self, group: str) -> tuple[int, int]:
        """Events given out again, and dead letters made, since this node started."""
        found = self._groups.get(group)
        return (found.settling.redelivered, found.settling.dead) if found else (0, 0)

    def holder(self, group: str, key: StreamKey) -> tuple[NodeId, str] | None:
        """The node and the member that have a stream."""
        found = self._groups.get(group)
        return found.holder(key) if found else None

    def members(self, group: str) -> list[GroupMember]:
        found = self._groups.get(group)
        return sorted(found.everybody()) if found else []

    # ---------------------------------------------------------------------------------------------------------------

    def _get(self, name: str, now_s: float) -> Group | None:
        """The group of this name, if there is room for it."""
        group = self._groups.get(name)
        if group is None and len(self._groups) < GROUPS_MAX:
            logged = self._positions(name)
            group = Group(
                self._me, name, self._settings, self._streams, self._lives, logged, now_s, self._wall_offset_s
            )
            self._groups[name] = group
        return group

    def _wait(self, group: Group) -> None:
        """Note whether a group waits for its time. A node may know thousands that do not."""
        due_s = group.due_s
        if due_s == inf:
            self._due.pop(group.name, None)
        elif self._due.get(group.name) != due_s:
            self._due[group.name] = due_s
            heappush(self._alarms, (due_s, group.name))

    def _note_dead_topics(self) -> None:
        policies = ((group.name, group.settling.policy) for group in self._groups.values())
        found = frozenset(policy.topic_of(name) for name, policy in policies if policy.dead_letter)
        if found != self.dead_topics:
            self.dead_topics = found

    def _index(self, group: Group) -> None:
        """Note what the members of a group want: new streams are told to groups that want them, and to no others."""
        before, after = self._patterns.get(group.name, frozenset()), group.patterns
        if before is after:
            return
        for pattern in before - after:
            self._wanting.remove(pattern, group.name)
        for pattern in after - before:
            self._wanting.add(pattern, group.name)
        self._patterns[group.name] = after

    def _hear_untrusted(
        self, group: Group, event: Event, origin: NodeId, epoch: Epoch, offset: int, now_s: float
    ) -> bool:
        """Whether it was taken in: a node speaks of positions and of its own members."""
        try:
            said = read_untrusted(event)
        except BadGroupEvent:
            return False
        if isinstance(said, NodeSaid):
            return said.node == origin and group.hear_node(said, epoch, offset, now_s)
        if isinstance(said, LedgerSaid):
            return group.hear_ledger(said, now_s)
        if isinstance(said, PolicySaid):
            group.hear_policy(said, origin, epoch, now_s)
            self._note_dead_topics()
            return True
        return group.hear_place(said, origin, epoch, now_s)
