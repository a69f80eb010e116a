"""All groups of a node, as the broker uses them.

A group ends in one of two ways. Either somebody **drops** it: its next era begins, every node learns that, and
statements of earlier eras no longer count. Or nobody uses it for a long time: then each node **forgets** it by itself,
and withdraws what it said. A node that knows of a later use keeps the group, and repeats those withdrawn statements
that still count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from typing import Final, NamedTuple, assert_never

from weft.core.groups.effects import Dropped, ForgetPositions, GroupEffect, Say
from weft.core.groups.events import (
    BadGroupEvent,
    DropSaid,
    GroupSubject,
    LedgerSaid,
    NodeSaid,
    Place,
    PlaceSaid,
    PolicySaid,
    Said,
    Subject,
    WithdrawalSaid,
    drop_event,
    read_untrusted,
    subject_untrusted,
    withdrawal,
)
from weft.core.groups.group import Group
from weft.core.groups.hearing import Hearing, hears_at_once
from weft.core.groups.leavings import Leavings
from weft.core.groups.ledger import WINDOW_MAX
from weft.core.groups.members import Member
from weft.core.groups.names import group_of, parse_group, parse_member, topic_of, unnamed
from weft.core.groups.owners import GroupMember, WorkShare
from weft.core.groups.settings import GroupSettings
from weft.core.groups.settling import Settling
from weft.core.messages import Acked, Nacked, StreamKey
from weft.core.policy import GroupPolicy
from weft.core.timers import soonest
from weft.core.topics import GROUPS, Selection
from weft.errors import UsageError
from weft.limits import OFFSET_MAX
from weft.model import Batch, Epoch, Event, NodeId, Pattern, Position, Topic, covers

GROUPS_MAX: Final = 4096  # known to one node: users choose the names freely, and each group is a topic
GRAVES_MAX: Final = 65_536  # dropped groups that are remembered as dropped: about 20 MB
WITHDRAWALS_AT_ONCE: Final = 500  # written in one step: a few milliseconds
TICKED_AT_ONCE: Final = 64  # groups in one tick: a few milliseconds
WORKED_AT_ONCE: Final = 500  # streams that are elected for, given, taken or claimed in one tick: a few milliseconds
ALARMS_SPARE: Final = 64  # entries that may be out of date before the heap is rebuilt
CLOSING_TICKS_MAX: Final = 10_000  # until all is announced: a few ticks per group, one per thousand streams


class Grave(NamedTuple):
    """A dropped group, remembered because some nodes may not have heard of the drop. ``says``: this node's own stream
    has the drop."""

    era: int
    at_s: float
    says: bool


class Statement(NamedTuple):
    """The last thing that a node has said under one key of a group's topic."""

    origin: NodeId
    epoch: Epoch
    offset: int
    event: Event


class Groups:
    """``positions`` returns the positions that the node's log has for a group.

    Inputs return what has to be done at once. ``tick`` decides everything else when ``get_timer`` says so, which is
    often at once. ``hearing`` knows whether this node is up to date with the others.
    """

    def __init__(
        self,
        me: NodeId,
        settings: GroupSettings,
        positions: Callable[[str], Iterable[Position]],
        wall_offset_s: float = 0.0,
        hearing: Hearing | None = None,
    ) -> None:
        self.refused = 0  # statements that were bad, or for which there was no room
        self._me = me
        self._settings = settings
        self._positions = positions
        self._wall_offset_s = wall_offset_s
        self._groups: dict[str, Group] = {}
        self._graves: dict[str, Grave] = {}  # the oldest one first
        self._withdrawals: dict[str, dict[Subject, None]] = {}  # by group: what this node still has to withdraw
        self._leavings = Leavings()
        self._due: dict[str, float] = {}  # by group: when it has something to do
        self._alarms: list[tuple[float, str]] = []  # a heap of the same times; entries that are out of date are skipped
        self._wanting: Selection[str] = Selection()  # groups by the patterns of their members
        self._patterns: dict[str, frozenset[Pattern]] = {}  # the patterns in ``_wanting``, by group
        self._subscriptions: dict[int, tuple[Group, Member]] = {}
        self._streams: dict[StreamKey, None] = {}
        self._lives: dict[NodeId, Epoch] = {}  # the epochs of the other living nodes' logs
        self._hearing = hearing or hears_at_once()
        self._claiming: dict[str, None] = {}  # groups with streams that are claimed and not served yet
        self.dead_topics: frozenset[Topic] = frozenset()  # topics that groups have chosen for their dead letters
        self._dead_topics: dict[str, Topic] = {}  # the same by group

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
        """Let a member join; if ``member`` is empty, it gets a name. Raise UsageError if the names are not valid."""
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
        self._note_dead_topic(group)
        self._subscriptions[subscription] = found, found.members[name]
        self._wait(found)
        return self._spoke(effects)

    def leave(self, subscription: int, now_s: float, *, died: bool = False) -> list[GroupEffect]:
        """Remove a member; its streams are free at once. A subscription without a group, or one whose member was
        replaced, is ignored. ``died``: the member left without a goodbye, so what it had in hand counts as tried."""
        if found := self._subscriptions.pop(subscription, None):
            group, member = found
            effects = group.leave(member, now_s, died=died)
            self._wait(group)
            return effects
        return []

    def settled(
        self, subscription: int, acks: Iterable[Acked], nacks: Iterable[Nacked], generation: int, now_s: float
    ) -> list[GroupEffect]:
        """Take what a member did with single events. Late acknowledgements are ignored."""
        if found := self._subscriptions.get(subscription):
            group, member = found
            effects = group.settled(member, acks, nacks, generation, now_s)
            self._wait(group)
            return effects
        return []

    def hand(self, subscription: int, key: StreamKey) -> tuple[Settling, Member] | None:
        """Return the settling and the member, if the member acknowledges by hand and is served this stream."""
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
        self._note_dead_topic(group)
        self._wait(found)
        return self._spoke(effects)

    def handled(
        self, subscription: int, positions: Iterable[Position], generation: int, now_s: float
    ) -> list[GroupEffect]:
        """Take a member's positions. Positions in streams that it does not hold are late, and ignored."""
        if found := self._subscriptions.get(subscription):
            group, member = found
            effects = group.handled(member, positions, generation, now_s)
            self._wait(group)
            return effects
        return []

    def move(self, group: str, positions: Iterable[Position], now_s: float) -> list[GroupEffect]:
        """Move a group. Members that have these streams, at any node, lose them and get them back at the new
        positions."""
        found = self._get(parse_group(group), now_s)
        if found is None:
            raise UsageError("too many groups", group=group, limit=GROUPS_MAX)
        effects = found.move(tuple(positions), now_s)
        self._wait(found)
        return self._spoke(effects)

    def drop(self, group: str, now_s: float) -> list[GroupEffect]:
        """End a group everywhere: its members are told, and a group of the same name is a new one."""
        found = self._groups.get(parse_group(group))
        if found is None:
            raise UsageError(f"there is no group {group}")
        if len(self._graves) >= GRAVES_MAX:
            raise UsageError("too many groups were dropped lately", group=group, limit=GRAVES_MAX)
        if found.era >= OFFSET_MAX:  # only a node that lies about eras gets a group this far
            raise UsageError(f"group {group} has no era left to begin: use another name", era=found.era)
        era = found.era + 1
        effects = self._bury(found, era, now_s, says=True)
        return [*effects, *self._spoke([Say(topic_of(group), (drop_event(era),))])]

    def close(self, now_s: float) -> list[GroupEffect]:
        """The node stops: all members leave, and the mesh is told with these last effects."""
        for subscription in list(self._subscriptions):
            self.leave(subscription, now_s)
        for group in self._groups.values():
            group.hurry(now_s)
            self._wait(group)
        effects = self.tick(now_s)
        for _ in range(CLOSING_TICKS_MAX):
            first_s = self._first_alarm()
            if first_s is None or first_s > now_s:
                break
            effects += self.tick(now_s)
        return effects

    # --- the world -----------------------------------------------------------------------------------------------

    def recall(self, name: str, statements: Iterable[Statement], now_s: float) -> list[GroupEffect]:
        """Take in all that the log has about a group that this node does not know: it may be from an earlier life of
        the node, or from before the group was forgotten."""
        read = [(each, said) for each in statements if (said := self._read_untrusted(each)) is not None]
        grave = self._graves.get(name)
        era = max((_era_of(said) for _, said in read), default=0)
        era = max(era, grave.era if grave else 0)
        stamps_s = [self._stamp_s(each.event, now_s) for each, said in read if not isinstance(said, WithdrawalSaid)]
        current = [(each, said) for each, said in read if _counts(said, era)]
        own = {subject_untrusted(each.event): said for each, said in read if each.origin == self._me}
        effects: list[GroupEffect] = []
        # Positions in the log belong to this era if this node has said anything in it: before it does, it forgets older
        # ones.
        logged = list(self._positions(name))
        if era and not any(_era_of(said) == era for said in own.values()):
            effects += [ForgetPositions(name)] if logged else []
            logged.clear()
        says = own.get(GroupSubject.DROP) == DropSaid(era)
        self._withdraw(name, {what: None for what, said in own.items() if _is_over(said, era)})
        if not current and not logged:
            if era:
                self._graves[name] = Grave(era, max(stamps_s, default=now_s), says)
            return effects
        self._graves.pop(name, None)
        group = self._get(name, now_s, era, logged)
        if group is None:
            self.refused += len(current)
            return effects
        group.says_drop = says
        for each, said in current:
            self._hear(group, said, each, now_s)
        if own and not isinstance(own.get(self._me), NodeSaid):
            group.unsure(now_s)
        group.used_at(max(stamps_s, default=now_s), now_s)
        self._wait(group)
        return effects

    def stream_known(self, key: StreamKey, now_s: float) -> list[GroupEffect]:
        """Note a stream that this node's log has, because it was there when the log was opened or because it is new."""
        if key not in self._streams:
            self._streams[key] = None
            for name in self._wanting.match(key[0].topic):
                group = self._groups[name]
                group.stream_known(key, now_s)
                self._wait(group)
        return []

    def heard(self, key: StreamKey, batch: Batch, now_s: float) -> list[GroupEffect]:
        """Take in events about a group. They come from other nodes or, when the log is opened, from all nodes including
        this one."""
        stream, epoch = key
        name = group_of(stream.topic)
        effects: list[GroupEffect] = []
        for offset, event in enumerate(batch, batch.base_offset):
            statement = Statement(stream.origin, epoch, offset, event)
            said = None if name is None else self._read_untrusted(statement)
            if name is None:
                self.refused += 1
            elif said is not None:
                effects += self._take(name, said, statement, now_s)
        if group := self._groups.get(name or ""):
            self._wait(group)
        return self._spoke(effects)

    def said(self, name: str, now_s: float) -> None:
        """Note that all that this node has said about a group is durable, and on its way to the others."""
        if name in self._claiming:
            group = self._groups[name]
            group.is_durable(now_s)
            self._wait(group)

    def listened(self, now_s: float) -> None:
        """Note that this node has read more of what arrived."""
        for name in list(self._claiming):
            group = self._groups[name]
            group.look_at_claims(now_s)
            self._wait(group)

    def node_lives(self, node: NodeId, epoch: Epoch, alive: bool, now_s: float) -> list[GroupEffect]:
        """Take what membership says about another node. ``alive`` is true also if the node is only suspected."""
        if node == self._me:
            return []
        before, after = self._lives.get(node), epoch if alive else None
        if before == after:
            return []
        if after is None:
            del self._lives[node]
        else:
            self._lives[node] = after
        # Only a node that was known before leaves something to adopt. New nodes do not, and may come by the thousand.
        at_s = inf if before is None else now_s + self._turn(without=node) * self._settings.publish_interval_s
        for group in self._groups.values():
            if node in group.reports:
                group.touch(now_s)
            group.adopt(at_s)
            self._wait(group)
        return []

    def tick(self, now_s: float) -> list[GroupEffect]:
        effects: list[GroupEffect] = []
        due: list[str] = []
        while len(due) < TICKED_AT_ONCE and (first_s := self._first_alarm()) is not None and first_s <= now_s:
            name = heappop(self._alarms)[1]
            del self._due[name]
            due.append(name)
        share = WorkShare(WORKED_AT_ONCE)
        for name in due:
            group = self._groups[name]
            if share.left <= 0:
                self._wait(group)  # it is due in the next tick
                continue
            if group.has_expired(now_s):
                effects.append(ForgetPositions(name))
                self._remove(group)
                continue
            effects += group.tick(now_s, share)
            self._wait(group)
            self._index(group)
        self._spoke(effects)
        while (over_s := self._first_grave()) is not None and over_s <= now_s:
            name, grave = next(iter(self._graves.items()))
            del self._graves[name]
            self._withdraw(name, {GroupSubject.DROP: None} if grave.says else {})
        self._leavings.free_some()
        return [*effects, *self._say_withdrawals()]

    def get_timer(self) -> float | None:
        """When ``tick`` is due; None: not until something happens."""
        if self._withdrawals or self._leavings:
            return 0.0
        due_s = self._first_alarm() if self._alarms else None
        return soonest(due_s, self._first_grave()) if self._graves else due_s

    def _first_alarm(self) -> float | None:
        while self._alarms and self._due.get(self._alarms[0][1]) != self._alarms[0][0]:
            heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def _first_grave(self) -> float | None:
        """When the oldest grave may be forgotten."""
        grave = next(iter(self._graves.values()), None)
        return None if grave is None else grave.at_s + self._settings.expire_after_s

    # --- questions -----------------------------------------------------------------------------------------------

    def knows(self, group: str) -> bool:
        return group in self._groups

    def remembers(self, group: str) -> bool:
        """Whether the group exists, or was dropped not long ago."""
        return group in self._groups or group in self._graves

    def names(self) -> list[str]:
        return sorted(self._groups)

    def position(self, group: str, key: StreamKey) -> int | None:
        found = self._groups.get(group)
        place = found.places.get(key) if found else None
        return place.offset if place else None

    def positions(self, group: str) -> list[Position]:
        """A group's positions as far as this node knows them, in order. A stream occurs once for each of its epochs."""
        return sorted(Position(*key, place.offset) for key, place in self._places(group).items())

    def streams(self, group: str) -> list[StreamKey]:
        """The streams in which the group has positions, in no order. There may be a hundred thousand, so the caller
        should pause now and then while it goes through them."""
        return list(self._places(group))

    def _places(self, group: str) -> Mapping[StreamKey, Place]:
        found = self._groups.get(group)
        return found.places.all if found else {}

    def policy(self, group: str) -> GroupPolicy | None:
        """The group's policy for events that fail; None if nobody has set one, so that the default applies."""
        found = self._groups.get(group)
        return found.settling.policy if found and found.policy_at else None

    def failures(self, group: str) -> tuple[int, int]:
        """How many events were given out again and how many dead letters were made, since this node started."""
        found = self._groups.get(group)
        return (found.settling.redelivered, found.settling.dead) if found else (0, 0)

    def holder(self, group: str, key: StreamKey) -> tuple[NodeId, str] | None:
        """The node and the member that have a stream."""
        found = self._groups.get(group)
        return found.holder(key) if found else None

    def holds(self, group: str, key: StreamKey) -> bool:
        """Whether a member here has a stream, wants it, or still has to release it."""
        found = self._groups.get(group)
        return found is not None and found.holds(key)

    def members(self, group: str) -> list[GroupMember]:
        found = self._groups.get(group)
        return sorted(found.everybody()) if found else []

    # ---------------------------------------------------------------------------------------------------------------

    def _get(self, name: str, now_s: float, era: int = 0, logged: Iterable[Position] | None = None) -> Group | None:
        """Return the group of this name; make one if there is room."""
        group = self._groups.get(name)
        if group is None and len(self._groups) < GROUPS_MAX:
            grave = self._graves.pop(name, None)
            era = max(era, grave.era if grave else 0)
            if logged is None:  # when an era begins, the log has no positions of it yet
                logged = () if era else self._positions(name)
            world = self._streams, self._lives, self._hearing
            group = Group(self._me, name, self._settings, *world, logged, now_s, era, self._wall_offset_s)
            group.says_drop = grave is not None and grave.says
            self._groups[name] = group
        return group

    # --- ends ----------------------------------------------------------------------------------------------------

    def _bury(self, group: Group, era: int, now_s: float, *, says: bool) -> list[GroupEffect]:
        """Note that a group was dropped. ``says``: it was dropped at this node, so this node tells the mesh."""
        effects = self._begin_era(group, era, now_s)  # also withdraws what was said, which may take a while
        self._remove(group)
        self._graves[group.name] = Grave(era, now_s, says)
        return effects

    def _begin_era(self, group: Group, era: int, now_s: float) -> list[GroupEffect]:
        self._withdraw(group.name, group.spoken())
        self._leavings.take(group.end())
        effects = group.begin_era(era, now_s)
        for effect in effects:
            if isinstance(effect, Dropped):
                del self._subscriptions[effect.subscription]
        self._note_dead_topic(group.name)
        return effects

    def _remove(self, group: Group) -> None:
        """Forget a group."""
        self._withdraw(group.name, group.spoken())
        self._leavings.take(group.end())
        del self._groups[group.name]
        self._due.pop(group.name, None)
        self._claiming.pop(group.name, None)
        for pattern in self._patterns.pop(group.name, frozenset()):
            self._wanting.remove(pattern, group.name)
        self._note_dead_topic(group.name)

    def _withdraw(self, name: str, found: dict[Subject, None]) -> None:
        if name in self._withdrawals:
            self._withdrawals[name].update(found)
        elif found:
            self._withdrawals[name] = found

    def _say_withdrawals(self) -> list[GroupEffect]:
        """Withdraw some statements, and leave the rest for later: a group may have had positions in a hundred thousand
        streams."""
        if not self._withdrawals:
            return []
        name, left = next(iter(self._withdrawals.items()))
        some = list(islice(left, WITHDRAWALS_AT_ONCE))
        for subject in some:
            del left[subject]
        if not left:
            del self._withdrawals[name]
        return [Say(topic_of(name), tuple(map(withdrawal, some)))]

    def _spoke(self, effects: list[GroupEffect]) -> list[GroupEffect]:
        """Return the effects. What they announce is said again, so it is no longer to be withdrawn."""
        for effect in effects if self._withdrawals else ():
            left = self._withdrawals.get(group_of(effect.topic) or "") if isinstance(effect, Say) else None
            if left is not None and isinstance(effect, Say):
                for event in effect.events:
                    left.pop(subject_untrusted(event), None)
        self._withdrawals = {name: left for name, left in self._withdrawals.items() if left}
        return effects

    def _wait(self, group: Group) -> None:
        """Note when a group is due, if it waits for a time. A node may know thousands of groups that do not."""
        if group.has_claims:
            self._claiming[group.name] = None
        else:
            self._claiming.pop(group.name, None)
        due_s = group.due_s
        if due_s == inf:
            self._due.pop(group.name, None)
        elif self._due.get(group.name) != due_s:
            self._due[group.name] = due_s
            heappush(self._alarms, (due_s, group.name))
            if len(self._alarms) > 2 * len(self._due) + ALARMS_SPARE:  # a group in use changes its time every second
                self._alarms = [(each_s, name) for name, each_s in self._due.items()]
                heapify(self._alarms)

    def _note_dead_topic(self, name: str) -> None:
        """Note where the group's dead letters go, because it may have changed its policy, or may be gone."""
        group = self._groups.get(name)
        policy = None if group is None else group.settling.policy
        after = policy.topic_of(name) if policy is not None and policy.dead_letter else None
        if after == self._dead_topics.get(name):
            return
        if after is None:
            del self._dead_topics[name]
        else:
            self._dead_topics[name] = after
        found = frozenset(self._dead_topics.values())
        if found != self.dead_topics:
            self.dead_topics = found

    def _index(self, group: Group) -> None:
        """Note what the members of a group want, because a new stream is reported only to the groups that want it."""
        before, after = self._patterns.get(group.name, frozenset()), group.patterns
        if before is after:
            return
        for pattern in before - after:
            self._wanting.remove(pattern, group.name)
        for pattern in after - before:
            self._wanting.add(pattern, group.name)
        self._patterns[group.name] = after

    # --- hearing -------------------------------------------------------------------------------------------------

    def _read_untrusted(self, statement: Statement) -> Said | None:
        """Read a statement. Return None if it is bad, or if its node may not say it: a node speaks only about its own
        members."""
        try:
            said = read_untrusted(statement.event)
        except BadGroupEvent:
            said = None
        speaks_of = said.node if isinstance(said, NodeSaid) else said.what if isinstance(said, WithdrawalSaid) else None
        if isinstance(speaks_of, str) and speaks_of != statement.origin:
            said = None
        self.refused += said is None
        return said

    def _take(self, name: str, said: Said, statement: Statement, now_s: float) -> list[GroupEffect]:
        """Take one statement at the moment it comes."""
        group, grave = self._groups.get(name), self._graves.get(name)
        known = group.era if group else grave.era if grave else 0
        era = _era_of(said)
        if isinstance(said, WithdrawalSaid):
            if group is not None and statement.origin != self._me:
                at_s = now_s + self._turn() * self._settings.publish_interval_s
                group.withdrawn(said.what, *statement[:3], at_s)
            return []
        if era < known and not (isinstance(said, NodeSaid) and not said.members):
            return []  # the statement is late: its era is over
        if isinstance(said, DropSaid):
            return self._take_drop(name, era, known, now_s)
        effects = self._begin_era(group, era, now_s) if group is not None and era > group.era else []
        if group is None and known and era < known:
            return []  # a node without members is nothing new
        is_new = group is None
        group = self._get(name, now_s, era)
        if group is not None and is_new:
            group.used_at(self._stamp_s(statement.event, now_s), now_s)
        if group is None or not self._hear(group, said, statement, now_s):
            self.refused += 1
        return effects

    def _take_drop(self, name: str, era: int, known: int, now_s: float) -> list[GroupEffect]:
        group = self._groups.get(name)
        if era == known:
            return []
        if group is not None:
            return self._bury(group, era, now_s, says=False)
        if len(self._graves) >= GRAVES_MAX:
            self.refused += 1
            return []
        if name in self._graves and self._graves.pop(name).says:
            self._withdraw(name, {GroupSubject.DROP: None})
        self._graves[name] = Grave(era, now_s, says=False)
        return []

    def _hear(self, group: Group, said: Said, statement: Statement, now_s: float) -> bool:
        """Take a statement that counts in the group's era; return whether there was room for it."""
        origin, epoch, offset, event = statement
        group.used_s = max(group.used_s, self._stamp_s(event, now_s))
        match said:
            case NodeSaid():
                return group.hear_node(said, epoch, offset, now_s)
            case PlaceSaid():
                return group.hear_place(said, origin, epoch, now_s)
            case LedgerSaid():
                group.hear_ledger(said, origin, now_s)
            case PolicySaid():
                group.hear_policy(said, origin, epoch, now_s)
                self._note_dead_topic(group.name)
            case DropSaid() | WithdrawalSaid():
                pass
            case _:
                assert_never(said)
        return True

    def _stamp_s(self, event: Event, now_s: float) -> float:
        """When an event was published, but not later than now, because clocks of other nodes may be ahead."""
        return min(event.timestamp_us / 1_000_000 - self._wall_offset_s, now_s)

    def _turn(self, without: NodeId | None = None) -> int:
        """How many turns this node waits before it repeats what others said. Usually, the first node in order repeats
        everything."""
        return 1 + sum(other < self._me for other in self._lives if other != without)


def _era_of(said: Said) -> int:
    return 0 if isinstance(said, WithdrawalSaid) else said.era


def _counts(said: Said, era: int) -> bool:
    """Whether the statement makes the group exist in this era. A statement without members does so only in the first
    era, because it names no era."""
    match said:
        case NodeSaid() | PlaceSaid() | LedgerSaid() | PolicySaid():
            return said.era == era
        case DropSaid() | WithdrawalSaid():
            return False


def _is_over(said: Said, era: int) -> bool:
    """Whether the node that said this has to withdraw it."""
    return not isinstance(said, WithdrawalSaid) and not _counts(said, era) and said != DropSaid(era)
