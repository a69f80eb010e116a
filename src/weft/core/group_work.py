"""What groups decide, done: streams assigned to subscriptions, positions committed, and the talk between nodes, which
travels as events on topics of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

from weft.core.beginnings import Beginnings, Search
from weft.core.groups import (
    Assignment,
    CommitPositions,
    GroupEffect,
    Groups,
    GroupSettings,
    Replaced,
    Say,
)
from weft.core.messages import (
    Assigned,
    Effect,
    Ended,
    GroupMoved,
    Handled,
    MoveGroup,
    Opened,
    Refused,
    StreamKey,
    Subscribe,
)
from weft.core.subscriptions import Subscription, Subscriptions, positions_of
from weft.core.timers import soonest
from weft.core.topics import GROUPS, GROUPS_PREFIX
from weft.errors import UsageError, WeftError
from weft.limits import OFFSET_MAX, READ_BYTES_MAX
from weft.log import Log
from weft.log.errors import DiskFull, EventsLost, PositionAhead, PositionExpired
from weft.membership import NodeState
from weft.model import Batch, Event, NodeId, Position, Stream

ToWrite: TypeAlias = Say | CommitPositions | MoveGroup
RETRY_S: Final = 1.0  # after a full disk, how long to wait before it is tried again


class GroupWork:
    """The groups of a node, joined to its log and its subscriptions."""

    def __init__(
        self, me: NodeId, log: Log, subscriptions: Subscriptions, settings: GroupSettings, wall_offset_s: float
    ) -> None:
        self.groups = Groups(me, settings, log.positions)
        self._me = me
        self._log = log
        self._subscriptions = subscriptions
        self._wall_offset_s = wall_offset_s
        self._starts: dict[int, dict[StreamKey, int | Search]] = {}  # where members begin in streams without a position
        self._heard: dict[StreamKey, int] = {}  # how far the talk about groups has been read
        self._moves: deque[tuple[int, int]] = deque()  # tickets of moves that are not durable yet, and their requests
        self._unwritten: deque[ToWrite] = deque()  # that the disk had no room for
        self._retry_at_s = 0.0

    def start(self, now_s: float) -> list[Effect]:
        """Recall what is in the log."""
        for info in self._log.streams():
            self.groups.stream_known((info.stream, info.epoch), now_s)
        for name in self._log.groups():
            self.groups.recall(name, now_s)
        for info in self._log.streams(GROUPS):
            self._hear((info.stream, info.epoch), now_s)
        return self.tick(now_s)

    # --- members -------------------------------------------------------------------------------------------------

    def join(self, request: Subscribe, now_s: float) -> list[Effect]:
        """An explicit start counts only where the group has no position: groups are moved on purpose."""
        known = self.groups.knows(request.group) or bool(self._log.positions(request.group))
        now_us = int((now_s + self._wall_offset_s) * 1_000_000)
        beginnings = Beginnings(self._me, request.start, now_us, has_history=known)
        subscription = None
        try:
            starts: dict[StreamKey, int | Search] = {}
            for info in self._subscriptions.selected(request.pattern):
                key = (info.stream, info.epoch)
                if self.groups.position(request.group, key) is None:
                    starts[key] = beginnings.at_opening(
                        info, live=self._subscriptions.is_live(info, request.subscription)
                    )
            subscription = self._subscriptions.add(request, beginnings)
            effects = self.groups.join(
                request.subscription, request.group, request.member, request.pattern, now_s, request.owner
            )
        except WeftError as error:
            if subscription is not None:
                self._subscriptions.close(subscription.id)
            return [Ended(request.subscription, error)]
        self._starts[subscription.id] = starts
        return [Opened(subscription.id, ()), *self._perform(effects, now_s), *self.tick(now_s)]

    def leave(self, subscription: int, now_s: float) -> list[Effect]:
        self._starts.pop(subscription, None)
        return self._perform(self.groups.leave(subscription, now_s), now_s)

    def handled(self, handled: Handled, now_s: float) -> list[Effect]:
        """A member cannot have handled what this node has not got: such positions count for nothing."""
        positions = [each for each in handled.positions if each.offset <= self._end(each)]
        effects = self.groups.handled(handled.subscription, positions, handled.generation, now_s)
        return self._perform(effects, now_s)

    def move(self, move: MoveGroup, now_s: float) -> list[Effect]:
        """Positions in other nodes' streams may be ahead of the copy here, those in our own may not."""
        try:
            for each in move.positions:
                if each.stream.origin == self._me and each.offset > self._end(each):
                    raise PositionAhead(f"{each} has not been given yet", latest=self._end(each))
            effects = self._perform(self.groups.move(move.group, move.positions, now_s), now_s)
        except UsageError as error:
            return [Refused(move.request, error)]
        self._write([move], now_s)
        return [*effects, *self._moved(self._log.synced)]

    def _end(self, position: Position) -> int:
        state = self._log.find(position.stream, position.epoch)
        return 0 if state is None else state.durable

    def close(self, now_s: float) -> list[Effect]:
        """The node stops: all members leave, and the mesh is told where the groups stand."""
        return self._perform(self.groups.close(now_s), now_s)

    # --- the world -----------------------------------------------------------------------------------------------

    def stream_known(self, key: StreamKey, now_s: float) -> list[Effect]:
        return self._perform(self.groups.stream_known(key, now_s), now_s)

    def member_known(self, state: NodeState, now_s: float) -> list[Effect]:
        effects = self.groups.node_lives(state.node_id, state.epoch, not state.liveness.gone, now_s)
        return self._perform(effects, now_s)

    def synced(self, ticket: int, advanced: Iterable[StreamKey], now_s: float) -> list[Effect]:
        for key in advanced:
            if key[0].topic.startswith(GROUPS_PREFIX) and key[0].origin != self._me:
                self._hear(key, now_s)
        return self._moved(ticket)

    def _moved(self, ticket: int) -> list[Effect]:
        effects: list[Effect] = []
        while self._moves and self._moves[0][0] <= ticket:
            effects.append(GroupMoved(self._moves.popleft()[1]))
        return effects

    def tick(self, now_s: float) -> list[Effect]:
        if self._unwritten and now_s >= self._retry_at_s:
            unwritten, self._unwritten = self._unwritten, deque()
            self._write(unwritten, now_s)
        return [*self._perform(self.groups.tick(now_s), now_s), *self._moved(self._log.synced)]

    def get_timer(self) -> float | None:
        return soonest(self.groups.get_timer(), self._retry_at_s if self._unwritten else None)

    def _hear(self, key: StreamKey, now_s: float) -> None:
        """Read on in what a node says about a group. What retention or damage took is said anew by whoever lives."""
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
            for data in stored:
                self.groups.heard(key, Batch.read_stored(data), now_s)
            place = Batch.read_stored(stored[-1]).end_offset if stored else info.end
        self._heard[key] = place

    # --- doing ---------------------------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[GroupEffect], now_s: float) -> list[Effect]:
        done: list[Effect] = []
        for effect in effects:
            match effect:
                case Assignment():
                    done += self._assign(effect, now_s)
                case CommitPositions() | Say():
                    self._write([effect], now_s)
                case Replaced(number):
                    self._subscriptions.close(number)
                    self._starts.pop(number, None)
                    done.append(Ended(number, UsageError("somebody else joined the group as this member")))
                case _:
                    assert_never(effect)
        return done

    def _assign(self, assignment: Assignment, now_s: float) -> list[Effect]:
        subscription = self._subscriptions.get(assignment.subscription)
        assert subscription is not None, "groups know only members that are subscribed"
        try:
            places = {key: self._place(subscription, key) for key in assignment.streams}
        except WeftError as error:  # a position that has expired
            self._subscriptions.close(subscription.id)
            return [Ended(subscription.id, error), *self.leave(subscription.id, now_s)]
        self._subscriptions.assign(subscription, places)
        found = {key: place for key, place in places.items() if not isinstance(place, Search)}
        # Where it begins is where the group stands from now on, should it go before it has handled anything.
        begun = [each for each in positions_of(found) if self._is_new(subscription, each)]
        # Where the place is still being looked for, all that is known is that it is not before the beginning.
        begins = {key: found.get(key, self._log.info(*key).start) for key in places}
        positions = positions_of(begins)
        effects = self.groups.handled(subscription.id, begun, 0, now_s)
        return [Assigned(subscription.id, assignment.generation, positions), *self._perform(effects, now_s)]

    def _place(self, subscription: Subscription, key: StreamKey) -> int | Search:
        """Where a member begins in a stream; it goes on where it reads already."""
        stream, epoch = key
        if key in subscription.cursors:
            return subscription.cursors[key]
        position = self.groups.position(subscription.group, key)
        info = self._log.info(stream, epoch)
        if position is None:
            start = self._starts[subscription.id].get(key)
            return subscription.beginnings.later(info) if start is None else start
        if position < info.start:
            raise PositionExpired(
                f"group {subscription.group} stands at offset {position} of {stream}, which has expired",
                epoch=epoch,
                earliest=info.start,
                latest=info.end,
            )
        return position

    def _is_new(self, subscription: Subscription, position: Position) -> bool:
        return self.groups.position(subscription.group, (position.stream, position.epoch)) is None

    def _write(self, effects: Iterable[ToWrite], now_s: float) -> None:
        """In order; what there is no room for now is written once there is."""
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
            case MoveGroup(request):  # behind all that moves it
                self._moves.append((self._log.appended, request))
            case CommitPositions(group, positions):
                self._log.commit(group, positions)
            case Say(topic, events):
                now_us = int((now_s + self._wall_offset_s) * 1_000_000)
                stamped = [Event(each.payload, now_us, each.key, each.headers) for each in events]
                self._log.append(Stream(topic, self._me, 0), Batch.from_events(stamped))
            case _:
                assert_never(effect)
