"""One group as one node sees it: its own members, what others said, and what follows for every stream.

Inputs only note what is new. ``tick`` decides, all at once: who should have each stream, what each hold becomes, which
free streams to claim; then it tells members and the mesh. The order of what is said matters: positions before the state
that gives their streams away, so that who takes a stream knows where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, assert_never

from weft.core.errors import MemberTaken
from weft.core.groups.effects import CommitPositions, GroupEffect, Refusal, Replaced, Say, Wake
from weft.core.groups.events import (
    GROUP_HELD_MAX,
    GROUP_MEMBERS_MAX,
    LedgerSaid,
    MembersState,
    NodeSaid,
    PlaceSaid,
    PolicySaid,
    ledger_event,
    node_event,
    place_event,
    policy_event,
)
from weft.core.groups.hand import Hand
from weft.core.groups.members import Claimed, Hold, Member, Paused, Served
from weft.core.groups.names import topic_of
from weft.core.groups.owners import GroupMember, Owners, rank
from weft.core.groups.places import GROUP_POSITIONS_MAX, Places
from weft.core.groups.reports import Report, Reports
from weft.core.groups.settings import GroupSettings
from weft.core.groups.settling import Settling
from weft.core.messages import Acked, Nacked, StreamKey
from weft.core.policy import GroupPolicy, PolicyAt, policy_at
from weft.errors import UsageError
from weft.limits import OFFSET_MAX
from weft.model import Epoch, Event, EventId, NodeId, Pattern, Position

GROUP_SAY_EVENTS_MAX: Final = 10_000  # positions said in one batch: 4 MiB at worst
GROUP_START_S: Final = 30.0  # after a start, until it is clear which of the nodes that the log tells of are alive


class Group:
    """``streams`` and ``lives`` are those of ``Groups``, and change without notice; ``touch`` tells of it."""

    def __init__(
        self,
        me: NodeId,
        name: str,
        settings: GroupSettings,
        streams: Mapping[StreamKey, None],
        lives: Mapping[NodeId, Epoch],
        logged: Iterable[Position],
        now_s: float,
        wall_offset_s: float,
    ) -> None:
        self.name = name
        self.places = Places(logged)
        self.settling = Settling(name, self.places, wall_offset_s)
        self.policy_at: PolicyAt | None = None  # None: nobody has said
        self._policy_source: tuple[NodeId, Epoch] | None = None  # who said it last, unless it was this node
        self.reports = Reports(lives)
        self.members: dict[str, Member] = {}
        self._me = me
        self._settings = settings
        self._streams = streams
        self._lives = lives
        self._owners = Owners()
        self._holders: dict[StreamKey, Member] = {}  # a stream is held by at most one member here
        self._said: MembersState = {}  # what the mesh has been told last of the members here
        self._decide_at_s = inf
        self._publish_at_s = inf
        self._adopt_at_s = inf
        self._started_s = now_s + GROUP_START_S
        self._publish(now_s + settings.publish_interval_s)

    # --- inputs --------------------------------------------------------------------------------------------------

    def touch(self, now_s: float) -> None:
        """Something changed that decisions depend on."""
        self._decide_at_s = min(self._decide_at_s, now_s)

    def join(
        self,
        subscription: int,
        name: str,
        pattern: Pattern,
        owner: str,
        now_s: float,
        *,
        window: int = 0,
        policy: GroupPolicy | None = None,
    ) -> list[GroupEffect]:
        """Whoever joins again takes the place that it had; nobody takes the place of somebody else. ``window``: of a
        member that acknowledges by hand. ``policy`` counts if the group has none."""
        earlier = self.members.get(name)
        if any(other not in ("", owner) for other in self._owners_of(name)):
            raise MemberTaken(f"{name} in group {self.name} is somebody else's member: choose another name")
        if earlier is None and len(self.members) >= GROUP_MEMBERS_MAX:
            raise UsageError(f"group {self.name} has too many members at this node", limit=GROUP_MEMBERS_MAX)
        turn = min(max(self.reports.turn(name), earlier.turn if earlier else 0) + 1, OFFSET_MAX)
        effects: list[GroupEffect] = []
        if earlier is not None:
            effects += self.leave(earlier, now_s, died=True)  # nobody comes twice who is still there
            effects.append(Replaced(earlier.subscription))
        hand = Hand(window) if window else None
        self.members[name] = Member(subscription, name, pattern, turn, owner, hand=hand)
        if policy is not None and self.policy_at is None:
            effects += self.set_policy(policy, now_s)
        self.touch(now_s)
        return effects

    def _owners_of(self, name: str) -> set[str]:
        """Whose the living members of this name are. A node of an older version does not say."""
        here = self.members.get(name)
        return {*self.reports.owners(name), *(() if here is None else (here.owner,))}

    def leave(self, member: Member, now_s: float, *, died: bool = False) -> list[GroupEffect]:
        """What it held is free at once. ``died``: it did not say goodbye."""
        effects = self.settling.died(member, now_s) if died else []
        del self.members[member.name]
        for key in member.holds:
            del self._holders[key]
        self.hurry(now_s)
        return effects

    def handled(
        self, member: Member, positions: Iterable[Position], generation: int, now_s: float
    ) -> list[GroupEffect]:
        new = [each for each in positions if self._counts(member, each) and self._advance(each)]
        if new:
            self._publish(now_s + self._settings.publish_interval_s)
        if member.answer(generation):
            self.touch(now_s)
        return [CommitPositions(self.name, tuple(new))] if new else []

    def settled(
        self, member: Member, acks: Iterable[Acked], nacks: Iterable[Nacked], generation: int, now_s: float
    ) -> list[GroupEffect]:
        """A member that acknowledges by hand did so. What is late counts for nothing, but its refusals are answered."""
        nacks = tuple(nacks)
        touched = self.settling.acked(member, [each for each in acks if self._speaks_of(member, each)])
        mine = [each for each in nacks if self._speaks_of(member, each)]
        touched.update((each.stream, each.epoch) for each in mine)
        effects = self.settling.nacked(member, mine, now_s)
        for key in touched:
            effects += self.settling.advanced(key)
        late = [each for each in nacks if each not in mine]
        effects += (Refusal(member.subscription, EventId(each.stream, each.epoch, each.offset), False) for each in late)
        if touched:  # what failed is said at once: counts are to survive this node
            self._publish(now_s if mine else now_s + self._settings.publish_interval_s)
        if member.answer(generation):
            self.touch(now_s)
        return [*effects, self._wake(member)]

    def set_policy(self, policy: GroupPolicy, now_s: float) -> list[GroupEffect]:
        """Said at once: whoever asked for it waits until it is durable."""
        version = self.policy_at.version + 1 if self.policy_at else 1
        self.policy_at, self._policy_source = policy_at(policy, version), None
        self.settling.policy = policy
        self.settling.wake_at_s = now_s
        return [Say(topic_of(self.name), (policy_event(self.policy_at),))]

    def move(self, positions: tuple[Position, ...], now_s: float) -> list[GroupEffect]:
        """Said and written at once: whoever asked for it waits until it is durable."""
        if not self.places.has_room_for({(each.stream, each.epoch) for each in positions}):
            raise UsageError(f"group {self.name} has positions in too many streams", limit=GROUP_POSITIONS_MAX)
        for each in positions:
            self.places.move((each.stream, each.epoch), each.offset)
        self.touch(now_s)
        return [CommitPositions(self.name, positions), *self._say_places()]

    def stream_known(self, key: StreamKey, now_s: float) -> None:
        self._owners.add(key)
        if self._owners.get(key):
            self.touch(now_s)

    def hear_node(self, said: NodeSaid, epoch: Epoch, offset: int, now_s: float) -> bool:
        """Whether there was room for it."""
        if said.node == self._me:  # from an earlier life; whatever it says that is not so any more is taken back
            self._said = said.members
            self.touch(now_s)
            return True
        if not self.reports.has_room_for(said.node):
            return False
        if self.reports.hear(said.node, Report(epoch, offset, said.members)):
            self.touch(now_s)
        return True

    def hear_place(self, said: PlaceSaid, origin: NodeId, epoch: Epoch, now_s: float) -> bool:
        """Whether there was room for it."""
        if not self.places.has_room_for({said.key}):
            return False
        if origin == self._me:
            self.places.recall(said.key, said.place)
            return True
        if self.places.hear(said.key, said.place, origin, epoch) and said.key in self._holders:
            self.touch(now_s)
        if now_s < self._started_s:  # it may have been said by nodes that nobody remembers
            self.adopt(self._started_s)
        return True

    def hear_ledger(self, said: LedgerSaid, now_s: float) -> bool:
        if self.places.hear_ledger(*said) and said.key in self._holders:
            self.settling.wake_at_s = now_s
        return True

    def hear_policy(self, said: PolicySaid, origin: NodeId, epoch: Epoch, now_s: float) -> None:
        """The greatest counts, at every node alike."""
        if self.policy_at is None or self.policy_at <= said.policy:
            self.policy_at = said.policy
            self._policy_source = None if origin == self._me else (origin, epoch)
            self.settling.policy = said.policy.policy
            self.settling.wake_at_s = now_s

    def adopt(self, at_s: float) -> None:
        """A node is gone: at that time, say what it said of positions, unless somebody else did."""
        self._adopt_at_s = min(self._adopt_at_s, at_s)

    def hurry(self, now_s: float) -> None:
        """Nothing can wait any more."""
        self._publish(now_s)
        self.touch(now_s)

    # --- decisions -----------------------------------------------------------------------------------------------

    @property
    def patterns(self) -> frozenset[Pattern]:
        """What those want whom streams were given to last."""
        return self._owners.patterns

    @property
    def due_s(self) -> float:
        return min(self._decide_at_s, self._publish_at_s, self._adopt_at_s, self.settling.wake_at_s)

    def tick(self, now_s: float) -> list[GroupEffect]:
        effects: list[GroupEffect] = []
        decides = self._decide_at_s <= now_s
        if decides:
            self._elect()
            self._step(now_s)
            self._claim(now_s)
            effects += filter(None, (member.assign() for member in self.members.values()))
            self.settling.wake_at_s = min(self.settling.wake_at_s, self._retry_at_s(now_s))
            self._decide_at_s = self._deadline_s(now_s)
        if self._adopt_at_s <= now_s:
            effects += self._adopt(now_s)
        if self.settling.wake_at_s <= now_s:
            effects += (self._wake(each) for each in self.members.values() if each.hand is not None)
            self.settling.wake_at_s = self._retry_at_s(now_s)
        if self._publish_at_s <= now_s:
            effects += self._say_places()
        if decides:
            effects += self._say_members()
        return effects

    def _wake(self, member: Member) -> Wake:
        return Wake(member.subscription, tuple(key for key in self.places.ledgers if key in member.assigned))

    def _retry_at_s(self, now_s: float) -> float:
        held = ((key, each.hand) for key, each in self._holders.items() if each.hand is not None)
        return self.settling.due_again_s(held, now_s) if self.places.ledgers else inf

    def holder(self, key: StreamKey) -> tuple[NodeId, str] | None:
        """Who has a stream; of several the one that will keep it."""
        holders = self.reports.holders(key)
        if own := self._holders.get(key):
            holders.append((self._me, own.name))
        return max(holders, key=lambda each: rank(key, each[1], each[0]), default=None)

    def everybody(self) -> frozenset[GroupMember]:
        """All living members. Of those with the same name, the one that joined last."""
        latest: dict[str, tuple[int, NodeId, Pattern]] = {}
        for name, member in self.members.items():
            latest[name] = member.turn, self._me, member.pattern
        for node, members in self.reports.live():
            for name, state in members.items():
                heard = state.turn, node, state.pattern
                latest[name] = max(latest.get(name, heard), heard)
        return frozenset(GroupMember(node, name, pattern) for name, (_, node, pattern) in latest.items())

    def _elect(self) -> None:
        """A node without members of its own need not know whose each stream is."""
        self._owners.set_members(self.everybody() if self.members else frozenset(), self._streams)

    def _step(self, now_s: float) -> None:
        for member in self.members.values():
            for key, hold in list(member.holds.items()):
                after = self._next(member, key, hold, now_s)
                if after is not None:
                    if member.hand is not None and isinstance(hold, Paused) and isinstance(after, Served):
                        member.hand.drop_stream(key)  # it has let go of all it had
                    member.holds[key] = after
                    continue
                if member.hand is not None:
                    member.hand.drop_stream(key)
                del member.holds[key], self._holders[key]
                self._publish(now_s)

    def _next(self, member: Member, key: StreamKey, hold: Hold, now_s: float) -> Hold | None:
        """What becomes of a hold; None: the stream is let go."""
        version = self.places.version(key)
        rightful = self._is_owner(member, key)
        match hold:
            case Claimed(until_s):
                if not rightful:
                    return None
                return hold if now_s < until_s or self.reports.holders(key) else Served(version)
            case Served(began):
                if rightful and began == version:
                    return hold
                return Paused(began, member.generation + 1, now_s + self._settings.release_timeout_s)
            case Paused():
                if not member.has_let_go(hold, now_s):
                    return hold
                return Served(version) if rightful else None
            case _:
                assert_never(hold)

    def _claim(self, now_s: float) -> None:
        """Want every stream that belongs to a member here and that nobody has."""
        settle_s = self._settings.settle_s if self._lives else 0.0  # alone, there is nobody to listen to
        for key, owner in self._owners.items():
            if owner.node != self._me or key in self._holders or self.reports.holders(key):
                continue
            if len(self._holders) >= GROUP_HELD_MAX:
                return  # the rest has no member, as people see, until more nodes share the work
            member = self._holders[key] = self.members[owner.name]
            member.holds[key] = Claimed(now_s + settle_s) if settle_s else Served(self.places.version(key))

    def _deadline_s(self, now_s: float) -> float:
        """When a hold may change by time alone."""
        holds = (hold for member in self.members.values() for hold in member.holds.values())
        times_s = (hold.until_s for hold in holds if not isinstance(hold, Served))
        return min((each for each in times_s if each > now_s), default=inf)

    def _is_owner(self, member: Member, key: StreamKey) -> bool:
        owner = self._owners.get(key)
        return owner is not None and (owner.node, owner.name) == (self._me, member.name)

    # --- positions and what is said ------------------------------------------------------------------------------

    def serves(self, member: Member, key: StreamKey) -> bool:
        """Whether it is to get events of this stream, and they are those that the group stands at."""
        return member.holds.get(key) == Served(self.places.version(key))

    def _speaks_of(self, member: Member, what: Acked | Nacked) -> bool:
        return self._counts(member, Position(what.stream, what.epoch, 0))

    def _counts(self, member: Member, position: Position) -> bool:
        """A member speaks only of what it has, and not of what it handled before the group was moved."""
        key = position.stream, position.epoch
        match member.holds.get(key):
            case Served(version) | Paused(version):
                return version == self.places.version(key)
            case Claimed() | None:
                return False

    def _advance(self, position: Position) -> bool:
        return self.places.advance((position.stream, position.epoch), position.offset)

    def _adopt(self, now_s: float) -> list[GroupEffect]:
        self._adopt_at_s = inf
        positions = self.places.adopt(self._lives)
        self._publish(now_s)
        effects: list[GroupEffect] = [CommitPositions(self.name, tuple(positions))] if positions else []
        if self.policy_at and self._policy_source and self._lives.get(self._policy_source[0]) != self._policy_source[1]:
            self._policy_source = None
            effects.append(Say(topic_of(self.name), (policy_event(self.policy_at),)))
        return effects

    def _publish(self, at_s: float) -> None:
        if self.places.unsaid:
            self._publish_at_s = min(self._publish_at_s, at_s)

    def _say_places(self) -> list[GroupEffect]:
        self._publish_at_s = inf
        events: list[Event] = []
        for key, place, ledger in self.places.take_unsaid():
            events.append(place_event(key, place))
            if ledger:
                events.append(ledger_event(key, place.version, ledger))
        firsts = range(0, len(events), GROUP_SAY_EVENTS_MAX)
        return [Say(topic_of(self.name), tuple(events[first : first + GROUP_SAY_EVENTS_MAX])) for first in firsts]

    def _say_members(self) -> list[GroupEffect]:
        members = {name: member.state() for name, member in self.members.items()}
        if members == self._said:
            return []
        self._said = members
        return [Say(topic_of(self.name), (node_event(self._me, members),))]
