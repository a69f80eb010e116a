"""Doing what groups decide: it assigns streams to subscriptions, commits positions, and handles what nodes tell each
other about groups, which travels as events on special topics."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from weft.core.beginnings import Beginnings, Search
from weft.core.errors import GroupDropped
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
from weft.core.groups.events import is_withdrawal
from weft.core.groups.hand import Given, Nothing
from weft.core.groups.hearing import Hearing
from weft.core.groups.names import group_of, parse_group, topic_of
from weft.core.history import nothing_archived
from weft.core.messages import (
    Acked,
    Assigned,
    DropDead,
    DropGroup,
    Effect,
    Ended,
    GroupMoved,
    Handled,
    MoveGroup,
    Opened,
    Refused,
    SetGroup,
    Settled,
    StreamKey,
    Subscribe,
    Withdrawn,
)
from weft.core.policy import DEFAULT_POLICY
from weft.core.subscriptions import Subscription, Subscriptions, positions_of
from weft.core.timers import soonest
from weft.core.topics import GROUPS, GROUPS_PREFIX, selects
from weft.errors import UsageError, WeftError
from weft.limits import OFFSET_MAX, READ_BYTES_MAX
from weft.log import Log
from weft.log.errors import DiskFull, EventsLost, PositionAhead, PositionExpired
from weft.membership import NodeState
from weft.model import Batch, Event, NodeId, Pattern, Position, Stream, Topic
from weft.model.dead_letters import DeadLetter, dropped_event, letter_event

ToWrite: TypeAlias = Say | CommitPositions | ForgetPositions | PutAside | MoveGroup | SetGroup | DropGroup | DropDead
RETRY_S: Final = 1.0  # how long to wait after a full disk before the next try
LOOKED_AT_ONCE: Final = 256  # streams looked at for new members in one turn of the loop: a few milliseconds
PLACED_AT_ONCE: Final = 256  # streams of assignments whose places are looked up in one turn: a few milliseconds
MEMBER_STREAMS: Final = 16  # a member counts for this many streams more, because it has a cost of its own
HEARD_AT_ONCE: Final = 500  # events about groups read in one step, in whole batches: a few milliseconds


@dataclass(slots=True)
class Joining:
    """A member that is joining. ``starts``: where it begins in streams without a position, as far as they were looked
    at."""

    request: Subscribe
    subscription: Subscription
    starts: dict[StreamKey, int | Search] = field(default_factory=dict)
    looked: StreamKey | None = None  # the last stream that was looked at


@dataclass(slots=True)
class Assigning:
    """Streams that a member gets, and where it begins in those that were looked up so far."""

    assignment: Assignment
    looked_up: int = 0
    positions: list[Position] = field(default_factory=list)


class GroupWork:
    """The groups of a node, joined to its log and its subscriptions."""

    def __init__(
        self, me: NodeId, log: Log, subscriptions: Subscriptions, settings: GroupSettings, wall_offset_s: float
    ) -> None:
        self.talked = 0  # events about groups that this node has published since its log began
        self._hearing = Hearing(lambda: log.appended, self._read_mark, settings.release_timeout_s)
        self.groups = Groups(me, settings, log.positions, wall_offset_s, self._hearing)
        self._me = me
        self._log = log
        self._subscriptions = subscriptions
        self._wall_offset_s = wall_offset_s
        self._starts: dict[int, dict[StreamKey, int | Search]] = {}  # where members begin in streams without a position
        self._joining: dict[int, Joining] = {}  # by subscription, in turn
        self._assigning: dict[int, Assigning] = {}  # by subscription, in turn
        self._looks_left = LOOKED_AT_ONCE  # for this turn of the loop; a tick begins the next turn
        self._places_left = PLACED_AT_ONCE  # likewise
        self._heard: dict[StreamKey, int] = {}  # how far each stream about groups was read
        self._unheard: dict[StreamKey, None] = {}  # streams about groups with more to read
        self._talk_ends: dict[StreamKey, int] = {}  # how far each stream about groups is durable
        self._synced = log.synced  # everything up to this ticket is durable
        self._moves: deque[tuple[int, int]] = deque()  # tickets of moves that are not durable yet, with their requests
        self._unwritten: deque[ToWrite] = deque()  # effects for which the disk had no room
        self._retry_at_s = 0.0

    def start(self, now_s: float) -> list[Effect]:
        """Load what the log knows about groups."""
        for info in self._log.streams():
            self.groups.stream_known((info.stream, info.epoch), now_s)
        talk = self._log.streams(GROUPS)
        self._count_talk({(info.stream, info.epoch): info.end for info in talk}, now_s)
        self.talked = sum(info.end for info in talk if info.stream.origin == self._me and info.epoch == self._log.epoch)
        told = {group_of(info.stream.topic): None for info in talk}
        for name in dict.fromkeys([*self._log.groups(), *filter(None, told)]):
            self._recall(name, now_s)
        return self.tick(now_s)

    # --- members -------------------------------------------------------------------------------------------------

    def join(self, request: Subscribe, now_s: float) -> list[Effect]:
        """Let a member join. Its start counts only where the group has no position; only ``MoveGroup`` moves a
        position."""
        try:
            self._recall(parse_group(request.group), now_s)
        except UsageError as error:
            return [Ended(request.subscription, error)]
        known = self.groups.knows(request.group)
        now_us = int((now_s + self._wall_offset_s) * 1_000_000)
        archived = self._subscriptions.archived if request.with_history else nothing_archived
        beginnings = Beginnings(self._me, request.start, now_us, has_history=known, archived=archived)
        try:
            subscription = self._subscriptions.add(request, beginnings)
        except UsageError as error:
            return [Ended(request.subscription, error)]
        self._joining[request.subscription] = Joining(request, subscription)
        if self._looks_left <= 0:
            return []  # many members join at once, and those before this one come first
        return [*self._look_on(now_s), *self.perform(self.groups.tick(now_s), now_s)]

    def _look_on(self, now_s: float) -> list[Effect]:
        """Look at the next streams for members that are joining, in turn. Once all streams have been looked at, the
        member has joined."""
        effects: list[Effect] = []
        while self._joining and self._looks_left > 0:
            effects += self._look_for(next(iter(self._joining)), now_s)
        return effects

    def _look_for(self, number: int, now_s: float) -> list[Effect]:
        joining = self._joining.pop(number)
        request, subscription = joining.request, joining.subscription
        self._looks_left -= MEMBER_STREAMS
        if not subscription.beginnings.read_some(LOOKED_AT_ONCE):
            self._looks_left -= LOOKED_AT_ONCE
            self._joining[number] = joining
            return []
        try:
            found, after = self._log.streams_after(request.pattern, joining.looked, LOOKED_AT_ONCE)
            joining.looked = after
            self._looks_left -= len(found) if after is None else LOOKED_AT_ONCE
            for info in found:
                key = (info.stream, info.epoch)
                if selects(request.pattern, key[0].topic) and self.groups.position(request.group, key) is None:
                    live = self._subscriptions.is_live(info, number)
                    joining.starts[key] = subscription.beginnings.at_opening(info, live=live)
            if joining.looked is not None:
                self._joining[number] = joining
                return []
            effects = self.groups.join(
                number,
                request.group,
                request.member,
                request.pattern,
                now_s,
                request.owner,
                window=request.window,
                policy=request.policy,
            )
        except WeftError as error:
            self._subscriptions.close(number)
            return [Ended(number, error)]
        if request.window:
            subscription.ration = MemberRation(self, number)
        self._starts[number] = joining.starts
        return [Opened(number, ()), *self.perform(effects, now_s)]

    def leave(self, subscription: int, now_s: float, *, died: bool = False) -> list[Effect]:
        self._joining.pop(subscription, None)
        self._forget(subscription)
        return self.perform(self.groups.leave(subscription, now_s, died=died), now_s)

    def settled(self, settled: Settled, now_s: float) -> list[Effect]:
        """Take acknowledgements, but only for events that this node has: nobody can have handled any others."""
        acks = []
        for each in settled.acks:
            end = min(each.end, self._end(Position(each.stream, each.epoch, 0)))
            if each.first < end:
                acks.append(Acked(each.stream, each.epoch, each.first, end))
        nacks = [each for each in settled.nacks if each.offset < self._end(Position(each.stream, each.epoch, 0))]
        effects = self.groups.settled(settled.subscription, acks, nacks, settled.generation, now_s)
        return self.perform(effects, now_s)

    def set_policy(self, request: SetGroup, now_s: float) -> list[Effect]:
        try:
            self._recall(parse_group(request.group), now_s)
            effects = self.perform(self.groups.set_policy(request.group, request.policy, now_s), now_s)
        except UsageError as error:
            return [Refused(request.request, error)]
        self._write([request], now_s)
        return [*effects, *self._moved(self._log.synced)]

    def drop_dead(self, request: DropDead, now_s: float) -> list[Effect]:
        """Publish this as an event on the dead letters' topic, so that every node that has the letter learns that it is
        settled."""
        try:
            topic = self.dead_topic(request.group)
        except UsageError as error:
            return [Refused(request.request, error)]
        self._write([Say(topic, tuple(dropped_event(each, 0) for each in request.events)), request], now_s)
        return self._moved(self._log.synced)

    def dead_topic(self, group: str) -> Topic:
        """The topic of a group's dead letters; raise UsageError if this is not a group's name."""
        return (self.groups.policy(parse_group(group)) or DEFAULT_POLICY).topic_of(group)

    def handled(self, handled: Handled, now_s: float) -> list[Effect]:
        """Take a member's positions, but only up to the end of what this node has: nobody can have handled anything
        later."""
        positions = [each for each in handled.positions if each.offset <= self._end(each)]
        effects = self.groups.handled(handled.subscription, positions, handled.generation, now_s)
        return self.perform(effects, now_s)

    def move(self, move: MoveGroup, now_s: float) -> list[Effect]:
        """Move a group. In other nodes' streams, positions may be ahead of the copy here. In our own streams they may
        not."""
        try:
            for each in move.positions:
                if each.stream.origin == self._me and each.offset > self._end(each):
                    raise PositionAhead(f"{each} has not been given yet", latest=self._end(each))
            self._recall(parse_group(move.group), now_s)
            effects = self.perform(self.groups.move(move.group, move.positions, now_s), now_s)
        except UsageError as error:
            return [Refused(move.request, error)]
        self._write([move], now_s)
        return [*effects, *self._moved(self._log.synced)]

    def drop(self, drop: DropGroup, now_s: float) -> list[Effect]:
        try:
            self._recall(parse_group(drop.group), now_s)
            effects = self.perform(self.groups.drop(drop.group, now_s), now_s)
        except UsageError as error:
            return [Refused(drop.request, error)]
        self._write([drop], now_s)
        return [*effects, *self._moved(self._log.synced)]

    def _end(self, position: Position) -> int:
        state = self._log.find(position.stream, position.epoch)
        return 0 if state is None else state.durable

    def close(self, now_s: float) -> list[Effect]:
        """The node stops: all members leave, and the mesh is told the groups' positions."""
        return self.perform(self.groups.close(now_s), now_s)

    # --- the world -----------------------------------------------------------------------------------------------

    def stream_known(self, key: StreamKey, now_s: float) -> list[Effect]:
        return self.perform(self.groups.stream_known(key, now_s), now_s)

    def member_known(self, state: NodeState, now_s: float) -> list[Effect]:
        if state.liveness.gone:
            self._hearing.gone(state.node_id)
        elif state.node_id != self._me:
            self._hearing.lives(state.node_id, state.epoch, state.talked, now_s)
        effects = self.groups.node_lives(state.node_id, state.epoch, not state.liveness.gone, now_s)
        return self.perform(effects, now_s)

    def synced(self, ticket: int, advanced: Mapping[StreamKey, int], now_s: float) -> list[Effect]:
        if ticket > self._synced:
            self._synced = ticket
        talk = {key: end for key, end in advanced.items() if key[0].topic.startswith(GROUPS_PREFIX)}
        if talk:
            self._talked(talk, now_s)
        effects = self._hear(now_s) if self._unheard else []
        self.groups.listened(now_s)
        return [*effects, *self._moved(ticket)] if self._moves else effects

    def _talked(self, talk: Mapping[StreamKey, int], now_s: float) -> None:
        """Take events about groups, our own or those of other nodes, that a sync made durable."""
        for key in talk:
            if key[0].origin != self._me:
                self._unheard[key] = None
            elif talk[key] == self._log.info(*key).end and not self._unwritten:
                self.groups.said(group_of(key[0].topic) or "", now_s)
        self._count_talk(talk, now_s)

    def _count_talk(self, ends: Mapping[StreamKey, int], now_s: float) -> None:
        """Note how much of what other nodes say about groups is durable here."""
        for key, end in ends.items():
            (stream, epoch), known = key, self._talk_ends.get(key, 0)
            if stream.origin != self._me and end > known:
                self._talk_ends[key] = end
                self._hearing.heard(stream.origin, epoch, end - known, now_s)

    def _read_mark(self) -> int:
        return -1 if self._unheard else self._synced

    def _moved(self, ticket: int) -> list[Effect]:
        effects: list[Effect] = []
        while self._moves and self._moves[0][0] <= ticket:
            effects.append(GroupMoved(self._moves.popleft()[1]))
        return effects

    def tick(self, now_s: float) -> list[Effect]:
        if self._unwritten and now_s >= self._retry_at_s:
            unwritten, self._unwritten = self._unwritten, deque()
            self._write(unwritten, now_s)
        self._looks_left, self._places_left = LOOKED_AT_ONCE, PLACED_AT_ONCE
        effects = [*self._look_on(now_s), *self._assign_on(now_s)]
        if self._unheard:
            effects += self._hear(now_s)
            self.groups.listened(now_s)
        return [*effects, *self.perform(self.groups.tick(now_s), now_s), *self._moved(self._log.synced)]

    def has_let_go(self, group: str, key: StreamKey) -> bool:
        """Whether no member here holds a stream, and the log has the position that the group had then."""
        return not self._unwritten and not self.groups.holds(group, key)

    def get_timer(self) -> float | None:
        if self._joining or self._assigning or self._unheard:
            return 0.0
        due_s = self.groups.get_timer()
        return soonest(due_s, self._retry_at_s) if self._unwritten else due_s

    def _hear(self, now_s: float) -> list[Effect]:
        """Read the next events about groups. For a group that is not known yet, read all earlier statements, too."""
        effects: list[Effect] = []
        left = HEARD_AT_ONCE
        while self._unheard and left > 0:
            key = next(iter(self._unheard))
            name = group_of(key[0].topic)
            for batch in self._read_on(key):
                if name is None or self.groups.knows(name):
                    effects += self.perform(self.groups.heard(key, batch, now_s), now_s)
                elif not all(map(is_withdrawal, batch)):
                    self._recall(name, now_s)
                left -= len(batch)
                if left <= 0:
                    break
            else:
                del self._unheard[key]
        return effects

    def _recall(self, name: str, now_s: float) -> None:
        """Read all that was ever said about an unknown group; the last statement of each key counts."""
        if self.groups.knows(name):
            return
        statements: list[Statement] = []
        for info in self._log.streams(Pattern(topic_of(name))):
            key = info.stream, info.epoch
            self._heard.pop(key, None)
            latest: dict[bytes | None, Statement] = {}
            for batch in self._read_on(key):
                for offset, event in enumerate(batch, batch.base_offset):
                    latest.pop(event.key, None)  # keeps the order of the statements: a ledger has to follow its place
                    latest[event.key] = Statement(info.stream.origin, info.epoch, offset, event)
            statements += latest.values()
        effects = self.groups.recall(name, statements, now_s)
        assert not self.perform(effects, now_s), "what is recalled has no members yet"

    def _read_on(self, key: StreamKey) -> Iterator[Batch]:
        """The batches of a stream that were not read yet. Living nodes repeat statements that retention or damage has
        deleted."""
        stream, epoch = key
        info = self._log.info(stream, epoch)
        place = max(self._heard.get(key, 0), info.start)
        while place < info.end:
            try:
                stored = self._log.read(stream, epoch, place, OFFSET_MAX, READ_BYTES_MAX)
            except PositionExpired:
                place = self._log.info(stream, epoch).start
                continue
            except EventsLost as error:
                place = error.loss.end
                continue
            for batch in map(Batch.read_stored, stored):
                place = self._heard[key] = batch.end_offset
                yield batch
            if not stored:
                place = info.end
        self._heard[key] = place

    # --- doing ---------------------------------------------------------------------------------------------------

    def perform(self, effects: Iterable[GroupEffect], now_s: float) -> list[Effect]:
        done: list[Effect] = []
        for effect in effects:
            match effect:
                case Assignment():
                    self._begin_assigning(effect)
                    done += self._assign_on(now_s)
                case CommitPositions() | ForgetPositions() | Say() | PutAside():
                    self._write([effect], now_s)
                case Refusal(number, event, rest):
                    done.append(Withdrawn(number, event.stream, event.epoch, event.offset, rest))
                case Wake(number, streams):
                    subscription = self._subscriptions.get(number)
                    if subscription is not None:
                        self._subscriptions.wake(subscription, streams)
                case Replaced(number):
                    self._subscriptions.close(number)
                    self._forget(number)
                    done.append(Ended(number, UsageError("somebody else joined the group as this member")))
                case Dropped(number, group):
                    self._subscriptions.close(number)
                    self._forget(number)
                    done.append(
                        Ended(number, GroupDropped("the group was dropped: join again to start over", group=group))
                    )
                case _:
                    assert_never(effect)
        return done

    def _begin_assigning(self, assignment: Assignment) -> None:
        subscription = self._subscriptions.get(assignment.subscription)
        assert subscription is not None, "groups know only members that are subscribed"
        self._subscriptions.begin_assigning(subscription, frozenset(assignment.streams))
        self._assigning[assignment.subscription] = Assigning(assignment)

    def _assign_on(self, now_s: float) -> list[Effect]:
        """Look up where members begin in the streams assigned to them, some streams at a time and in turn. Once all
        places of an assignment are known, the member is told."""
        effects: list[Effect] = []
        while self._assigning and self._places_left > 0:
            effects += self._assign_some(next(iter(self._assigning)), now_s)
        return effects

    def _assign_some(self, number: int, now_s: float) -> list[Effect]:
        assigning = self._assigning[number]
        subscription = self._subscriptions.get(number)
        assert subscription is not None, "who ends is assigned nothing"
        streams, first = assigning.assignment.streams, assigning.looked_up
        some = streams[first : first + PLACED_AT_ONCE]
        self._places_left -= MEMBER_STREAMS + len(some)
        try:
            places = {key: self._place(subscription, key, now_s) for key in some}
        except WeftError as error:  # for example a position that has expired
            self._subscriptions.close(number)
            return [Ended(number, error), *self.leave(number, now_s)]
        self._subscriptions.assign_some(subscription, places)
        assigning.looked_up += len(some)
        # While the place is still searched for, only one thing is known: it is not before the beginning.
        begins = {key: self._beginning(key) if isinstance(place, Search) else place for key, place in places.items()}
        assigning.positions += positions_of(begins)
        # The group's position is here from now on, in case the member leaves before it has handled anything.
        group = subscription.group
        begun = [
            Position(*key, place)
            for key, place in places.items()
            if not isinstance(place, Search) and self.groups.position(group, key) is None
        ]
        effects = self.groups.handled(number, begun, 0, now_s)
        if assigning.looked_up < len(streams):
            return self.perform(effects, now_s)
        del self._assigning[number]
        self._subscriptions.end_assigning(subscription)
        assigned = Assigned(number, assigning.assignment.generation, tuple(assigning.positions))
        return [assigned, *self.perform(effects, now_s)]

    def _forget(self, subscription: int) -> None:
        """Forget a member that has left."""
        self._starts.pop(subscription, None)
        self._assigning.pop(subscription, None)

    def _beginning(self, key: StreamKey) -> int:
        info = self._log.info(*key)
        return info.start if info.late_us is None else 0  # the past of the copy may still be fetched

    def _has_expired(self, key: StreamKey, offset: int) -> bool:
        """Whether an offset is before everything that this node has of the stream, or can still fetch."""
        info = self._log.info(*key)
        return offset < info.start and not self._subscriptions.pasts.lacks(info, offset=offset)

    def _place(self, subscription: Subscription, key: StreamKey, now_s: float) -> int | Search:
        """Where a member begins in a stream. In a stream that it reads already, it goes on where it is."""
        stream, epoch = key
        if key in subscription.cursors:
            return subscription.cursors[key]
        state = self._log.state(stream, epoch)
        reads_back = self._subscriptions.reads_back(subscription, key)
        if isinstance(subscription.ration, MemberRation) and not reads_back:
            subscription.ration.expire(key, self._beginning(key), now_s)
        position = self.groups.position(subscription.group, key)
        if position is None:
            start = self._starts[subscription.id].get(key)
            return subscription.beginnings.later(self._log.info(stream, epoch)) if start is None else start
        if position < state.start and not reads_back and self._has_expired(key, position):
            raise PositionExpired(
                f"group {subscription.group} stands at offset {position} of {stream}, which has expired",
                epoch=epoch,
                earliest=state.start,
                latest=state.durable,
            )
        return position

    def _write(self, effects: Iterable[ToWrite], now_s: float) -> None:
        """Write the effects in order. What does not fit now is written once the disk has room."""
        for effect in effects:
            if not self._unwritten:
                try:
                    self._write_one(effect, now_s)
                    continue
                except DiskFull:
                    self._retry_at_s = now_s + RETRY_S
            self._unwritten.append(effect)

    def _write_one(self, effect: ToWrite, now_s: float) -> None:
        match effect:
            case MoveGroup(request) | SetGroup(request) | DropGroup(request) | DropDead(request):
                # Behind everything that this effect asks for.
                self._moves.append((self._log.appended, request))
            case CommitPositions(group, positions):
                self._log.commit(group, positions)
            case ForgetPositions(group):
                self._log.forget_group(group)
            case Say(topic, events):
                self._append(topic, events, now_s)
            case PutAside():
                self._append(effect.topic, (letter_event(self._letter(effect)),), now_s)
            case _:
                assert_never(effect)

    def _append(self, topic: Topic, events: Iterable[Event], now_s: float) -> None:
        now_us = int((now_s + self._wall_offset_s) * 1_000_000)
        stamped = [Event(each.payload, each.timestamp_us or now_us, each.key, each.headers) for each in events]
        self._log.append(Stream(topic, self._me, 0), Batch.from_events(stamped))
        if topic.startswith(GROUPS_PREFIX):
            self.talked += len(stamped)

    def _letter(self, aside: PutAside) -> DeadLetter:
        """Make a dead letter. It has the whole event if that is still there, otherwise only its identity."""
        where = aside.event
        try:
            stored = self._log.read(where.stream, where.epoch, where.offset, where.offset + 1, bytes_max=1)
            found = next(iter(Batch.read_stored(stored[0]).events_from(where.offset)), None) if stored else None
        except (PositionExpired, EventsLost):
            found = None
        event = Event(b"", 0) if found is None else found
        return DeadLetter(where, aside.group, aside.tries, aside.reason, event, 0, is_lost=found is None)


class MemberRation:
    """Asks a member's group how much the member may have next."""

    def __init__(self, work: GroupWork, subscription: int) -> None:
        self._work = work
        self._subscription = subscription

    def next_run(self, key: StreamKey, cursor: int, end: int, now_s: float) -> Given:
        found = self._work.groups.hand(self._subscription, key)
        if found is None:
            return Nothing.LATER  # the member is about to lose the stream
        settling, member = found
        return settling.next_run(member, key, cursor, end, now_s)

    def postpone(self, key: StreamKey, first: int, events: int) -> bool:
        found = self._work.groups.hand(self._subscription, key)
        assert found is not None, "it was asked for what is next, right before"
        settling, member = found
        return settling.postpone(member, key, first, events)

    def take(self, key: StreamKey, first: int, end: int) -> None:
        found = self._work.groups.hand(self._subscription, key)
        assert found is not None, "it was asked for what is next, right before"
        settling, member = found
        settling.take(member, key, first, end)

    def gone(self, key: StreamKey, first: int, end: int, now_s: float) -> None:
        found = self._work.groups.hand(self._subscription, key)
        if found is not None and first < end:
            settling, member = found
            self._work.perform(settling.gone(member, key, first, end), now_s)

    def expire(self, key: StreamKey, start: int, now_s: float) -> None:
        """Note that retention has cut a stream up to here."""
        found = self._work.groups.hand(self._subscription, key)
        if found is not None:
            settling, member = found
            self._work.perform(settling.expired(member, key, start), now_s)
