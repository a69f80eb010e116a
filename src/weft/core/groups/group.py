"""One group as one node sees it: its own members, what other nodes said, and what follows for every stream.

Inputs only note what is new. ``tick`` decides who should have each stream, some streams at a time. Once all owners are
known, it decides what becomes of each hold and which free streams to claim, and then tells members and the mesh. The
order of announcements matters: a position is announced before the stream is given away, so that the next holder of the
stream knows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final, assert_never

from weft.core.errors import MemberTaken
from weft.core.groups.claims import Claims
from weft.core.groups.effects import (
    CommitPositions,
    Dropped,
    ForgetPositions,
    GroupEffect,
    Refusal,
    Replaced,
    Say,
    Wake,
)
from weft.core.groups.events import (
    GROUP_HELD_MAX,
    GROUP_MEMBERS_MAX,
    GroupSubject,
    LedgerOf,
    LedgerSaid,
    MembersState,
    NodeSaid,
    PlaceSaid,
    PolicySaid,
    Subject,
    ledger_event,
    node_event,
    place_event,
    policy_event,
)
from weft.core.groups.hand import Hand
from weft.core.groups.hearing import Hearing
from weft.core.groups.members import Claimed, Hold, Member, Paused, Served
from weft.core.groups.names import topic_of
from weft.core.groups.owners import GroupMember, Owners, WorkShare, rank
from weft.core.groups.places import GROUP_POSITIONS_MAX, NO_EPOCH, Places
from weft.core.groups.reports import Report, Reports
from weft.core.groups.settings import GroupSettings
from weft.core.groups.settling import Settling
from weft.core.messages import Acked, Nacked, StreamKey
from weft.core.policy import GroupPolicy, PolicyAt, policy_at
from weft.errors import UsageError
from weft.limits import MIB, OFFSET_MAX
from weft.model import Epoch, Event, EventId, NodeId, Pattern, Position
from weft.routing import Pieces

GROUP_SAY_EVENTS_MAX: Final = 500  # positions announced in one batch, which is one tick: a few milliseconds
GROUP_SAY_BYTES_MAX: Final = 1 * MIB  # ledgers in one such batch; the ledger that exceeds this is still sent whole
LOOKS: Final = 4  # a node with members repeats its state this many times within ``expire_after_s``
GROUP_START_S: Final = 30.0  # how long after a start it takes until it is clear which of the nodes in the log are alive


class Group:
    """``streams`` and ``lives`` belong to ``Groups``, which changes them; it calls ``touch`` when a change matters
    here."""

    def __init__(
        self,
        me: NodeId,
        name: str,
        settings: GroupSettings,
        streams: Mapping[StreamKey, None],
        lives: Mapping[NodeId, Epoch],
        hearing: Hearing,
        logged: Iterable[Position],
        now_s: float,
        era: int = 0,
        wall_offset_s: float = 0.0,
    ) -> None:
        self.name = name
        self.era = era
        self.used_s = now_s  # when a member last joined, left, handled or moved something, as far as this node knows
        self.says_drop = False  # this node's own stream has the event that begins this era, or an earlier one
        self.places = Places(logged)
        self.settling = Settling(name, self.places, wall_offset_s)
        self.policy_at: PolicyAt | None = None  # None: no node has announced one
        self._policy_source: tuple[NodeId, Epoch] | None = None  # the last to announce it, unless it was this node
        self._says_policy = False  # this node's own stream has a policy of this era
        self.reports = Reports(lives)
        self.members: dict[str, Member] = {}
        self._me = me
        self._settings = settings
        self._streams = streams
        self._lives = lives
        self._owners = Owners()
        self._holders: dict[StreamKey, Member] = {}  # each stream is held by at most one member here
        self._claims = Claims(settings, hearing)  # holds that are not served yet
        self._paused: dict[StreamKey, None] = {}  # streams that their members were told to release
        self._doubtful: dict[StreamKey, None] = {}  # held streams that may belong to another member now, or were moved
        self._to_look_at: deque[StreamKey] = deque()  # held streams, for the decision in progress
        self._to_claim: deque[StreamKey] = deque()  # free streams, for the decision in progress
        self._is_deciding = False  # a decision is in progress, and goes on in the next tick
        self._is_touched = False  # something changed since it began
        self._free: dict[StreamKey, None] = {}  # streams that no member here holds, but that may belong to one
        self._has_decided = False  # a decision was made since the mesh was last told of the members here
        self._said: MembersState | None = {}  # what the mesh was last told of the members here; None: unknown
        self._saying: Pieces[Event] | None = None  # the next such statement, while it is being written
        self._speaks = False  # this node's own stream has something about its members
        self._wall_offset_s = wall_offset_s
        self._look_at_s = now_s + settings.expire_after_s / LOOKS  # when to check whether the group is still used
        self._decide_at_s = inf
        self._say_at_s = inf
        self._publish_at_s = inf
        self._adopt_at_s = inf
        self._started_s = now_s + GROUP_START_S
        self._publish(now_s + settings.publish_interval_s)

    # --- inputs --------------------------------------------------------------------------------------------------

    def touch(self, now_s: float) -> None:
        """Note that something changed on which decisions depend."""
        self._is_touched = True
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
        """Let a member join. A member that joins again takes its old place; nobody can take the place of another
        owner's member. ``window``: for a member that acknowledges by hand, how many events it may have in hand.
        ``policy`` counts if the group has none yet."""
        earlier = self.members.get(name)
        if any(other not in ("", owner) for other in self._owners_of(name)):
            raise MemberTaken(f"{name} in group {self.name} is somebody else's member: choose another name")
        if earlier is None and len(self.members) >= GROUP_MEMBERS_MAX:
            raise UsageError(f"group {self.name} has too many members at this node", limit=GROUP_MEMBERS_MAX)
        turn = min(max(self.reports.turn(name), earlier.turn if earlier else 0) + 1, OFFSET_MAX)
        effects: list[GroupEffect] = []
        if earlier is not None:
            effects += self.leave(earlier, now_s, died=True)  # a member joins twice if it has lost its first connection
            effects.append(Replaced(earlier.subscription))
        hand = Hand(window) if window else None
        self.members[name] = Member(subscription, name, pattern, turn, owner, hand=hand)
        if policy is not None and self.policy_at is None:
            effects += self.set_policy(policy, now_s)
        self.used_s = now_s
        self.touch(now_s)
        return effects

    def _owners_of(self, name: str) -> set[str]:
        """The owners of the living members of this name. Nodes of older versions do not announce owners."""
        here = self.members.get(name)
        return {*self.reports.owners(name), *(() if here is None else (here.owner,))}

    def leave(self, member: Member, now_s: float, *, died: bool = False) -> list[GroupEffect]:
        """Remove a member; what it held is free at once. ``died``: it left without a goodbye."""
        effects = self.settling.died(member, now_s) if died else []
        del self.members[member.name]
        for key in member.holds:
            self._release(key)
        self.used_s = now_s
        self.hurry(now_s)
        return effects

    def handled(
        self, member: Member, positions: Iterable[Position], generation: int, now_s: float
    ) -> list[GroupEffect]:
        new = [each for each in positions if self._counts(member, each) and self._advance(each)]
        if new:
            self.used_s = now_s
            self._publish(now_s + self._settings.publish_interval_s)
        if member.answer(generation):
            self.touch(now_s)
        return [CommitPositions(self.name, tuple(new))] if new else []

    def settled(
        self, member: Member, acks: Iterable[Acked], nacks: Iterable[Nacked], generation: int, now_s: float
    ) -> list[GroupEffect]:
        """Take what a member that acknowledges by hand has settled. Late settlements have no effect, but late refusals
        are answered."""
        mine: list[Nacked] = []
        late: list[Nacked] = []
        for each in nacks:
            (mine if self._speaks_of(member, each) else late).append(each)
        touched = self.settling.acked(member, [each for each in acks if self._speaks_of(member, each)])
        touched.update((each.stream, each.epoch) for each in mine)
        effects = self.settling.nacked(member, mine, now_s)
        for key in touched:
            effects += self.settling.advanced(key)
        effects += (Refusal(member.subscription, EventId(each.stream, each.epoch, each.offset), False) for each in late)
        if touched:
            self.used_s = now_s  # failures are announced at once, so that their counts are not lost with this node
            self._publish(now_s if mine else now_s + self._settings.publish_interval_s)
        if member.answer(generation):
            self.touch(now_s)
        return [*effects, self._wake(member)]

    def set_policy(self, policy: GroupPolicy, now_s: float) -> list[GroupEffect]:
        """Announce a policy at once: the caller waits until it is durable."""
        version = self.policy_at.version + 1 if self.policy_at else 1
        self.policy_at = policy_at(policy, version, self.era)
        self.settling.policy = policy
        self.settling.wake_at_s = self.used_s = now_s
        return [self._say_policy(self.policy_at)]

    def _say_policy(self, policy: PolicyAt) -> Say:
        self._policy_source, self._says_policy = None, True
        return Say(topic_of(self.name), (policy_event(policy, self._used_us),))

    def move(self, positions: tuple[Position, ...], now_s: float) -> list[GroupEffect]:
        """Announce and write positions at once: the caller waits until they are durable."""
        if not self.places.has_room_for({(each.stream, each.epoch) for each in positions}):
            raise UsageError(f"group {self.name} has positions in too many streams", limit=GROUP_POSITIONS_MAX)
        for each in positions:
            self.places.move((each.stream, each.epoch), each.offset)
            self._doubt((each.stream, each.epoch))
        self.used_s = now_s
        self.touch(now_s)
        effects: list[GroupEffect] = [CommitPositions(self.name, positions)]
        while self.places.unsaid:
            effects += self._say_places(now_s)
        return effects

    def stream_known(self, key: StreamKey, now_s: float) -> None:
        if self._owners.add(key):
            self._free[key] = None
            self.touch(now_s)

    def hear_node(self, said: NodeSaid, epoch: Epoch, offset: int, now_s: float) -> bool:
        """Take what a node says about its members; return whether there was room for it."""
        if said.node == self._me:  # said in an earlier life; the next statement replaces it if it is no longer true
            self._said, self._speaks = said.members, True
            self.touch(now_s)
            return True
        if not self.reports.has_room_for(said.node):
            return False
        if self.reports.hear(said.node, Report(epoch, offset, said.members)):
            self.touch(now_s)
        return True

    def hear_place(self, said: PlaceSaid, origin: NodeId, epoch: Epoch, now_s: float) -> bool:
        """Take a position from another node; return whether there was room for it."""
        if not self.places.has_room_for({said.key}):
            return False
        if origin == self._me:
            self.places.recall(said.key, said.place)
            return True
        if self.places.hear(said.key, said.place, origin, epoch) and self._doubt(said.key):
            self.touch(now_s)
        if now_s < self._started_s:  # the position may come from a node that nobody remembers
            self.adopt(self._started_s)
        return True

    def hear_ledger(self, said: LedgerSaid, origin: NodeId, now_s: float) -> None:
        if origin == self._me:
            self.places.ledgers_said[said.key] = None
        if self.places.hear_ledger(said.key, said.version, said.ledger) and said.key in self._holders:
            self.settling.wake_at_s = now_s

    def hear_policy(self, said: PolicySaid, origin: NodeId, epoch: Epoch, now_s: float) -> None:
        """Take a policy from another node. Every node keeps the greatest one, so all agree."""
        self._says_policy = self._says_policy or origin == self._me
        if self.policy_at is None or self.policy_at <= said.policy:
            self.policy_at = said.policy
            self._policy_source = None if origin == self._me else (origin, epoch)
            self.settling.policy = said.policy.policy
            self.settling.wake_at_s = now_s

    def unsure(self, now_s: float) -> None:
        """Announce the members here again, even if there are none: this node has withdrawn what it once said about
        them, and others may still remember the group."""
        self._said = None
        self.touch(now_s)

    def withdrawn(self, what: Subject, origin: NodeId, epoch: Epoch, offset: int, adopt_at_s: float) -> None:
        """Another node withdraws a statement, because it has forgotten the group or because the statement is out of
        date. If the statement still counts here, this node repeats it."""
        match what:
            case str():
                self.reports.hear(what, Report(epoch, offset, {}))
                self.touch(adopt_at_s)
            case LedgerOf(key):
                if key in self.places.ledgers:
                    self.places.note(key)
                    self._publish(adopt_at_s)
            case GroupSubject.POLICY:
                if self._policy_source and self._policy_source[0] == origin:
                    self._policy_source = origin, NO_EPOCH
                    self.adopt(adopt_at_s)
            case GroupSubject.DROP:
                pass  # every statement names its era, which implies the drop
            case _:
                if self.places.disown(what, origin):
                    self.adopt(adopt_at_s)

    def begin_era(self, era: int, now_s: float) -> list[GroupEffect]:
        """Begin an era: all earlier ones are over, and the group has no members, no positions and no failures."""
        assert era > self.era, "eras only begin once"
        gone = [Dropped(member.subscription, self.name) for member in self.members.values()]
        self.era, self.used_s = era, now_s
        self.members.clear()
        self._holders, self._free = {}, {}
        self._claims.clear()
        self._paused.clear()
        self._to_look_at.clear()
        self._to_claim.clear()
        self._has_decided = self._is_deciding = False
        self.reports.clear()
        self.places, self._owners = Places(()), Owners()
        self.settling.begin_again(self.places)
        self.policy_at, self._policy_source, self._says_policy = None, None, False
        self._said, self._saying, self._speaks, self.says_drop = {}, None, False, False
        self._decide_at_s = self._say_at_s = self._publish_at_s = self._adopt_at_s = inf
        return [*gone, ForgetPositions(self.name)]

    def end(self) -> list[dict[StreamKey, Any]]:
        """End this group or its era. Return what was known of streams, so that it can be freed bit by bit."""
        return [*self.places.end(), self._owners.end(), self._holders, self._free]

    def spoken(self) -> dict[Subject, None]:
        """Every subject about which this node's own stream has a statement of this group."""
        subjects: dict[Subject, None] = dict.fromkeys(self.places.said)
        subjects.update((LedgerOf(key), None) for key in self.places.ledgers_said)
        if self._speaks:
            subjects[self._me] = None
        if self._says_policy:
            subjects[GroupSubject.POLICY] = None
        if self.says_drop:
            subjects[GroupSubject.DROP] = None
        return subjects

    def adopt(self, at_s: float) -> None:
        """A node is gone: plan to repeat its positions at that time, unless another node has done so by then."""
        self._adopt_at_s = min(self._adopt_at_s, at_s)

    def is_durable(self, now_s: float) -> None:
        """Note that all that this node has said about the group is durable."""
        self._decide_at_s = min(self._decide_at_s, self._claims.durable(now_s))

    def look_at_claims(self, now_s: float) -> None:
        """Note that this node has heard more: some claims may have waited for that."""
        if self._claims.were_heard(now_s):
            self.touch(now_s)

    @property
    def has_claims(self) -> bool:
        return bool(self._claims)

    def hurry(self, now_s: float) -> None:
        """Publish and decide without delay, because the node stops or a member has left."""
        self._publish(now_s)
        self.touch(now_s)

    # --- decisions -----------------------------------------------------------------------------------------------

    @property
    def patterns(self) -> frozenset[Pattern]:
        """The patterns of the members among which streams were last shared out."""
        return self._owners.patterns

    @property
    def due_s(self) -> float:
        times_s = self._decide_at_s, self._say_at_s, self._publish_at_s, self._adopt_at_s, self._look_at_s
        return min(*times_s, self.settling.wake_at_s)

    def used_at(self, used_s: float, now_s: float) -> None:
        """Other nodes, or an earlier life of this one, say that the group was last used at that time."""
        self.used_s = used_s
        self._look_later(now_s)

    def _look_later(self, now_s: float) -> None:
        expire_after_s = self._settings.expire_after_s
        self._look_at_s = min(now_s + expire_after_s / LOOKS, self.used_s + expire_after_s)

    def has_expired(self, now_s: float) -> bool:
        """Whether nobody has used the group for so long that it can be forgotten."""
        return now_s >= self._look_at_s and not self._in_use and now_s >= self.used_s + self._settings.expire_after_s

    @property
    def _in_use(self) -> bool:
        return bool(self.members) or self.reports.has_members

    def _look(self, now_s: float) -> list[GroupEffect]:
        """Repeat that there are members here, so that a node that was away for long does not take the group for
        unused."""
        if self._in_use:
            self.used_s = now_s
        self._look_later(now_s)
        return self._say_members(now_s, again=bool(self.members))

    def tick(self, now_s: float, share: WorkShare) -> list[GroupEffect]:
        """Do what is due. ``share``: how many elections and decisions may be made; the next tick makes the rest."""
        effects: list[GroupEffect] = []
        if self._decide_at_s <= now_s and self._elect(share):
            effects += self._decide(now_s, share)
        if self._adopt_at_s <= now_s:
            effects += self._adopt(now_s)
        if self.settling.wake_at_s <= now_s:
            effects += (self._wake(each) for each in self.members.values() if each.hand is not None)
            self.settling.wake_at_s = self._retry_at_s(now_s)
        if self._publish_at_s <= now_s:
            effects += self._say_places(now_s)
        if self._saying is not None:
            effects += self._say_on(now_s)
        elif self._has_decided and not self._is_deciding and self._publish_at_s > now_s:
            self._has_decided = False
            effects += self._say_members(now_s)
        if self._look_at_s <= now_s:
            effects += self._look(now_s)
        return effects

    def _wake(self, member: Member) -> Wake:
        return Wake(member.subscription, tuple(key for key in self.places.ledgers if key in member.assigned))

    def _retry_at_s(self, now_s: float) -> float:
        held = ((key, each.hand) for key, each in self._holders.items() if each.hand is not None)
        return self.settling.due_again_s(held, now_s) if self.places.ledgers else inf

    def holder(self, key: StreamKey) -> tuple[NodeId, str] | None:
        """The member that has a stream. If several claim to have it, return the one that will keep it."""
        holders = self.reports.holders(key)
        if own := self._holders.get(key):
            holders.append((self._me, own.name))
        return max(holders, key=lambda each: rank(key, each[1], each[0]), default=None)

    def holds(self, key: StreamKey) -> bool:
        return key in self._holders

    def everybody(self) -> frozenset[GroupMember]:
        """All living members. Of several with the same name, only the one that joined last."""
        latest: dict[str, tuple[int, NodeId, Pattern]] = {}
        for name, member in self.members.items():
            latest[name] = member.turn, self._me, member.pattern
        for node, members in self.reports.live():
            for name, state in members.items():
                heard = state.turn, node, state.pattern
                latest[name] = max(latest.get(name, heard), heard)
        return frozenset(GroupMember(node, name, pattern) for name, (_, node, pattern) in latest.items())

    def _elect(self, share: WorkShare) -> bool:
        """Work on elections; return whether every stream's owner is known. A node without members need not know the
        owners."""
        self._owners.set_members(self.everybody() if self.members else frozenset(), self._streams)
        is_settled, changed = self._owners.work(share)
        for key in changed:
            if not self._doubt(key):
                self._free[key] = None
        return is_settled

    def _decide(self, now_s: float, share: WorkShare) -> list[GroupEffect]:
        """Go on with a decision, or begin one. A decision settles first what becomes of held streams, then which free
        streams to claim. There may be ten thousand of each, so it takes several ticks. Members and the mesh are told
        when it is complete."""
        if not self._is_deciding:
            self._is_deciding, self._is_touched = True, False
            self._to_look_at.extend(dict.fromkeys((*self._doubtful, *self._claims, *self._paused)))
            self._doubtful.clear()
        while self._to_look_at and share.left > 0:
            self._step(self._to_look_at.popleft(), now_s)
            share.left -= 1
        if not self._to_look_at:
            self._claim(now_s, share)
        self._has_decided, self._is_deciding = True, bool(self._to_look_at or self._to_claim)
        self.settling.wake_at_s = min(self.settling.wake_at_s, self._retry_at_s(now_s))
        if self._is_deciding:
            self._decide_at_s = now_s
            return []
        self._decide_at_s = now_s if self._is_touched else self._deadline_s(now_s)
        return [each for member in self.members.values() if (each := member.assign()) is not None]

    def _step(self, key: StreamKey, now_s: float) -> None:
        member = self._holders.get(key)
        if member is None:
            return  # it has left meanwhile
        hold = member.holds[key]
        after = self._next(member, key, hold, now_s)
        if after == hold:
            return
        if member.hand is not None and (after is None or (isinstance(hold, Paused) and isinstance(after, Served))):
            self._empty_hand(member.hand, key, now_s)  # it has released everything it had
        member.hold(key, after)
        if after is None:
            self._release(key)
            self._publish(now_s)
            return
        self._claims.drop(key)
        self._paused.pop(key, None)
        if isinstance(after, Paused):
            self._paused[key] = None

    def _release(self, key: StreamKey) -> None:
        """Note that no member here holds the stream any longer."""
        del self._holders[key]
        self._claims.drop(key)
        self._paused.pop(key, None)
        self._free[key] = None
        if self._is_deciding:
            self._to_claim.append(key)

    def _doubt(self, key: StreamKey) -> bool:
        """Have the next decision check the hold on a stream; return whether a member here has one."""
        if key in self._holders:
            self._doubtful[key] = None
        return key in self._holders

    def _empty_hand(self, hand: Hand, key: StreamKey, now_s: float) -> None:
        """Remove a stream from a member's hand. That makes room for other streams too, so wake what waits for room."""
        hand.drop_stream(key)
        self.settling.wake_at_s = now_s

    def _next(self, member: Member, key: StreamKey, hold: Hold, now_s: float) -> Hold | None:
        """What becomes of a hold; None: the stream is released."""
        version = self.places.version(key)
        rightful = self._is_owner(member, key)
        match hold:
            case Claimed():
                if not rightful:
                    return None
                waits = self.reports.holders(key) or not self._claims.may_be_served(key, now_s)
                return hold if waits else Served(version)
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

    def _claim(self, now_s: float, share: WorkShare) -> None:
        """Claim some of the streams that belong to a member here and that nobody holds."""
        if not self._to_claim:
            self._to_claim.extend(self._free)
        listens = bool(self._lives and self._settings.settle_s)  # without other nodes there is nobody to listen to
        while self._to_claim and share.left > 0:
            share.left -= 1
            key = self._to_claim.popleft()
            if len(self._holders) >= GROUP_HELD_MAX:
                self._to_claim.clear()
                return  # the other streams visibly have no member until more nodes share the work
            owner = self._owners.get(key)
            if owner is None or owner.node != self._me or key in self._holders:
                self._free.pop(key, None)  # the stream is added again if its owner changes or it is released
                continue
            if self.reports.holders(key):
                continue
            self._free.pop(key, None)
            member = self._holders[key] = self.members[owner.name]
            if listens:
                self._claims.add(key, now_s)
            member.hold(key, Claimed() if listens else Served(self.places.version(key)))

    def _deadline_s(self, now_s: float) -> float:
        """The next time at which a hold may change without any news."""
        holds = (self._holders[key].holds[key] for key in self._paused)
        times_s = (hold.until_s for hold in holds if isinstance(hold, Paused))
        return min(self._claims.deadline_s(now_s), min((each for each in times_s if each > now_s), default=inf))

    def _is_owner(self, member: Member, key: StreamKey) -> bool:
        owner = self._owners.get(key)
        return owner is not None and (owner.node, owner.name) == (self._me, member.name)

    # --- positions and what is said ------------------------------------------------------------------------------

    def serves(self, member: Member, key: StreamKey) -> bool:
        """Whether the member gets events of this stream, from the position that the group has now."""
        return member.holds.get(key) == Served(self.places.version(key))

    def _speaks_of(self, member: Member, what: Acked | Nacked) -> bool:
        return self._counts(member, Position(what.stream, what.epoch, 0))

    def _counts(self, member: Member, position: Position) -> bool:
        """Whether the position counts. It does not if the member does not have the stream, or if the group was moved
        since the member began to read it."""
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
            effects.append(self._say_policy(self.policy_at))
        return effects

    def _publish(self, at_s: float) -> None:
        if self.places.unsaid:
            self._publish_at_s = min(self._publish_at_s, at_s)

    def _say_places(self, now_s: float) -> list[GroupEffect]:
        """Say as many positions as fit into a batch; the next tick says more."""
        stamp_us = self._used_us
        events: list[Event] = []
        bytes_left = GROUP_SAY_BYTES_MAX
        for key, place, ledger in self.places.take_unsaid(GROUP_SAY_EVENTS_MAX):
            events.append(place_event(key, place, self.era, stamp_us))
            if ledger:
                events.append(ledger_event(key, place.version, ledger, self.era, stamp_us))
                bytes_left -= len(events[-1].payload)
            if bytes_left <= 0:
                break
        self._publish_at_s = inf
        self._publish(now_s)
        return [Say(topic_of(self.name), tuple(events))] if events else []

    def _say_members(self, now_s: float, *, again: bool = False) -> list[GroupEffect]:
        if self._saying is not None:
            return []  # one statement at a time: the next one follows when this one is written
        members = {name: member.state() for name, member in self.members.items()}
        if members == self._said and not again and not self._claims.unsaid:
            return []
        self._said = members
        self._claims.close()
        self._saying = node_event(self._me, members, self.era, self._used_us)
        return self._say_on(now_s)

    def _say_on(self, now_s: float) -> list[GroupEffect]:
        """Go on writing the statement about all members here. They may hold ten thousand streams, so it takes several
        ticks."""
        assert self._saying is not None, "it was begun"
        self._say_at_s = now_s
        try:
            next(self._saying)
        except StopIteration as end:
            event: Event = end.value
        else:
            return []
        self._saying = None
        self._say_at_s = now_s if self._has_decided else inf  # there may be something new by now
        self._speaks = True
        self._claims.said()
        return [Say(topic_of(self.name), (event,))]

    @property
    def _used_us(self) -> int:
        """When the group was last used. Statements carry this time, because repeating what others said does not count
        as use."""
        return max(int((self.used_s + self._wall_offset_s) * 1_000_000), 0)
