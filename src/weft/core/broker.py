"""The core of a node: inputs in, effects out. It owns the log and decides; the runtime acts.

A ``Synced`` step makes events durable. Only then, or in later steps, do receipts, deliveries, copies to peers and
acknowledgements for them come out. So nobody is ever told of something that could still be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Final, assert_never

from weft.core.beginnings import Beginnings
from weft.core.call_messages import (
    Answer,
    Ask,
    CancelCall,
    ReceivedCall,
    Serve,
    ServerGone,
    StopServing,
    TookReplies,
)
from weft.core.calls import Calls
from weft.core.group_work import GroupWork
from weft.core.history import nothing_archived
from weft.core.messages import (
    AddCredit,
    BucketsFound,
    DropDead,
    DropGroup,
    Effect,
    Ended,
    FramesDropped,
    Handled,
    HistoryFound,
    HistoryRead,
    Input,
    LinkDown,
    LinkUp,
    MemberForgotten,
    MemberKnown,
    MoveGroup,
    Publish,
    PublishAll,
    PublishAsOne,
    Receipted,
    ReceivedAcks,
    ReceivedBegins,
    ReceivedCopies,
    ReceivedPast,
    ReceivedPastRequest,
    ReceivedPlain,
    ReceivedPlainAck,
    ReceivedResume,
    Refused,
    SetGroup,
    Settled,
    StreamKey,
    Subscribe,
    Synced,
    TellInterest,
    Tick,
    Unsubscribe,
)
from weft.core.receipts import Owed, OwedReceipts
from weft.core.replication import Replication
from weft.core.routes import Routes, told_interest
from weft.core.settings import BrokerSettings
from weft.core.subscriptions import Subscriptions
from weft.core.timers import soonest
from weft.core.topics import EVERYWHERE_PREFIXES, selects
from weft.errors import UsageError, WeftError
from weft.limits import COPIES_MAX
from weft.log import Appended, Log
from weft.log.errors import SequenceReused
from weft.model import NodeId, Pattern, Stream, Topic
from weft.model.key_value import KV_PREFIX
from weft.routing import SINCE_EVER_US, Pieces, finished

NOTHING_DUE: Final = (None,) * 7  # the usual case, recognised by one comparison
OWN_STREAMS_KEPT: Final = 16_384  # cached, because many events use the same stream; about 3 MiB
ROUTES_DELAY_S: Final = 0.01  # changes of the mesh within this time are handled together
INTEREST_DELAY_S: Final = 0.02  # subscriptions within this time are announced together
INTEREST_PATTERN_S: Final = 0.0001  # pause per pattern: 10,000 cost 80 ms here and 17 KB to every node, once a second
TOLD_AT_ONCE: Final = 128  # patterns that are sorted out in one step: a millisecond or two


class Broker:
    """``wall_offset_s``: how far the wall clock, in seconds since 1970, is ahead of ``now_s``."""

    def __init__(self, me: NodeId, log: Log, settings: BrokerSettings, wall_offset_s: float) -> None:
        self.me = me
        self.log = log
        self.routes = Routes(me)
        floors: dict[StreamKey, int] = {}
        self.replication = Replication(me, log, self.routes, settings, floors, self._is_wanted_here)
        self.subscriptions = Subscriptions(me, log, floors, self.replication.pasts, settings.archived)
        self.group_work = GroupWork(me, log, self.subscriptions, settings.groups, wall_offset_s)
        self.calls = Calls(me, self.routes)
        self._own_stream = lru_cache(OWN_STREAMS_KEPT)(partial(_own_stream, me))
        self._copies_of = lru_cache(OWN_STREAMS_KEPT)(settings.copies_of)  # by topic: some need more copies
        self._settings = settings
        self._wall_offset_s = wall_offset_s
        self._owed = OwedReceipts(self.replication.copies_at)
        self._known: set[StreamKey] = {(info.stream, info.epoch) for info in log.streams()}
        self._routes_due_s: float | None = None  # when to handle changes of the mesh; None: there are none
        self._interest_due_s: float | None = None
        self._interest_told: TellInterest | None = None
        self._telling: Pieces[TellInterest] | None = None  # set while the announcement is being worked out
        self._wished: dict[Pattern, int] = {}
        self._interest_told_s = float("-inf")
        self._dead_topics = self.group_work.groups.dead_topics  # as they were when interest was last worked out
        self._interest_pause_s = INTEREST_DELAY_S
        # In this turn of the loop, which a tick begins. Hundreds of steps may take so long that the work is due again
        # in the same turn.
        self._has_followed = False  # the changes of the mesh were handled
        self._has_told = False  # the interest was announced

    def start(self, now_s: float) -> list[Effect]:
        """Take what the log knows about groups, and announce what this node wants of the mesh. Call it before any
        step."""
        effects = self.group_work.start(now_s)
        self._interest_due_s = now_s
        has_buckets = any(stream.topic.startswith(KV_PREFIX) for stream, _ in self._known)
        return [*effects, *([BucketsFound()] if has_buckets else []), *self._settle(now_s)]

    # --- inputs and time -----------------------------------------------------------------------------------------

    def get_timer(self) -> float | None:
        """When to call ``step`` with a ``Tick``; None: not until something else happens. Ask after every step."""
        replication = self.replication
        if self.subscriptions.busy or replication.busy or replication.has_errands or self._telling is not None:
            return 0.0
        due_s = (
            self._routes_due_s,
            replication.orphans_due_s,
            self._interest_due_s,
            self._owed.get_timer(),
            replication.get_timer(),
            self.group_work.get_timer(),
            self.calls.get_timer(),
        )
        return soonest(*due_s) if due_s != NOTHING_DUE else None

    def step(self, event: Input, now_s: float) -> list[Effect]:
        effects = self._step(event, now_s)
        effects += self._settle(now_s)
        ended = [each.subscription for each in effects if type(each) is Ended]
        return [*effects, *self._ended(ended, now_s)] if ended else effects

    def _ended(self, ended: list[int], now_s: float) -> list[Effect]:
        """Clean up after subscriptions that this node ended: their streams are free for other members, and their
        patterns are no longer wanted."""
        self._interest_changed(now_s)
        return [effect for number in ended for effect in self.group_work.leave(number, now_s)]

    def _step(self, event: Input, now_s: float) -> list[Effect]:
        match event:
            case PublishAll(publishes):
                return self._publish(publishes, now_s)
            case PublishAsOne(publishes):
                return self._publish_as_one(publishes)
            case Synced():
                return self._synced(event, now_s)
            case Subscribe() | AddCredit() | Handled() | Settled() | Unsubscribe():
                return self._from_subscriber(event, now_s)
            case HistoryFound():
                return self.subscriptions.history_found(event)
            case HistoryRead():
                return self.subscriptions.history_read(event, now_s)
            case MoveGroup() | SetGroup() | DropGroup() | DropDead():
                return self._from_operator(event, now_s)
            case LinkUp() | LinkDown() | MemberKnown() | MemberForgotten():
                return self._mesh_changed(event, now_s)
            case ReceivedCopies() | ReceivedAcks() | ReceivedResume() | FramesDropped():
                return self._from_peer(event, now_s)
            case ReceivedBegins():
                return self.replication.received_begins(event, now_s)
            case ReceivedPastRequest():
                return self.replication.pasts.requested(event)
            case ReceivedPast():
                self.replication.pasts.received(event, now_s)
                return []
            case ReceivedPlain():
                return self.replication.received_plain(event, now_s, self._now_us(now_s))
            case ReceivedPlainAck():
                return self.replication.received_plain_ack(event)
            case Tick():
                return self._tick(now_s)
            case Serve() | StopServing() | ServerGone():
                self._interest_changed(now_s)
                return [*self.calls.step(event, now_s)]
            case Ask() | CancelCall() | TookReplies() | Answer() | ReceivedCall():
                return [*self.calls.step(event, now_s)]
            case _:
                assert_never(event)

    def _settle(self, now_s: float) -> list[Effect]:
        """End a step: send what can be sent now, and announce what is due."""
        effects: list[Effect] = []
        replication = self.replication
        routes_due_s = self._routes_due_s
        if replication.orphans_due_s is not None:
            routes_due_s = soonest(routes_due_s, replication.orphans_due_s)
        if routes_due_s is not None and routes_due_s <= now_s and not self._has_followed:
            self._routes_due_s = None
            self._has_followed = True
            replication.follow_routes(now_s)
            effects += self.calls.mesh_changed()
        if replication.has_errands:
            effects += replication.run_errands()
        if self.subscriptions.busy:
            effects += self.subscriptions.pump(now_s)
        if replication.may_pump:
            effects += replication.pump(now_s)
            self.subscriptions.advanced(replication.take_given_up())
        if self.group_work.groups.dead_topics is not self._dead_topics:
            self._dead_topics = self.group_work.groups.dead_topics
            self._interest_changed(now_s)
        due_s = self._interest_due_s
        if due_s is not None and due_s <= now_s and self._telling is None and not self._has_told:
            effects += self._tell_interest(now_s)
        return effects

    def _tick(self, now_s: float) -> list[Effect]:
        self._has_followed = self._has_told = False
        self.subscriptions.begin_turn()
        self.replication.begin_turn()
        told = self._tell_on() if self._telling is not None else []
        expired = [*self.replication.expire(now_s), *self._owed.expire(now_s), *self.calls.tick(now_s)]
        return [*told, *expired, *self.group_work.tick(now_s)]

    def _now_us(self, now_s: float) -> int:
        return int((now_s + self._wall_offset_s) * 1_000_000)

    # --- publishing ----------------------------------------------------------------------------------------------

    def _publish(self, publishes: Sequence[Publish], now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        own, log = self._own_stream, self.log
        wanted = [(own(each.topic, each.partition), each.batch) for each in publishes if each.copies <= COPIES_MAX]
        if len(wanted) < len(publishes):
            refused = [each for each in publishes if each.copies > COPIES_MAX]
            effects += (Refused(each.request, _too_many_copies(each.copies)) for each in refused)
            publishes = [each for each in publishes if each.copies <= COPIES_MAX]
        outcomes = log.append_all(wanted)
        copies_of = self._copies_of
        alone: list[Receipted] = []
        for publish, outcome in zip(publishes, outcomes, strict=True):
            if type(outcome) is Appended:
                copies = max(publish.copies, copies_of(publish.topic))
                if copies <= 1:
                    alone.append(Receipted(publish.request, outcome, 1))
                else:
                    self._owed.add(Owed(publish.request, outcome, copies, now_s + self._settings.copies_timeout_s))
                    self._copied_later(outcome, copies)
            elif isinstance(outcome, SequenceReused):
                # The receipt says where the first batch is, and that has to be durable by then.
                self._owed.refuse(Refused(publish.request, outcome), log.appended)
            else:
                assert isinstance(outcome, WeftError), "one or the other"
                effects.append(Refused(publish.request, outcome))
        if alone:
            self._owed.add_alone(alone, log.appended)
        # Batches that were sent again may have been durable for long: then no sync will follow for them.
        return [*effects, *self._owed.synced(log.synced)] if log.appended == log.synced else effects

    def _publish_as_one(self, publishes: Sequence[Publish]) -> list[Effect]:
        """Publish all of them or none. Their receipts are for this node alone; the topics decide how many copies are
        made."""
        try:
            outcomes = self.log.append_as_one(
                [(self._own_stream(each.topic, each.partition), each.batch) for each in publishes]
            )
        except WeftError as error:
            return [Refused(each.request, error) for each in publishes]
        pairs = list(zip(publishes, outcomes, strict=True))
        self._owed.add_alone([Receipted(publish.request, outcome, 1) for publish, outcome in pairs], self.log.appended)
        for publish, outcome in pairs:
            self._copied_later(outcome, self._copies_of(publish.topic))
        return []

    def _copied_later(self, outcome: Appended, copies: int) -> None:
        if copies > 1:
            self.replication.keep_copies((outcome.stream, outcome.epoch), copies)

    def _synced(self, synced: Synced, now_s: float) -> list[Effect]:
        """Give the receipts first. Then wake everybody who waits for the events."""
        effects = self._owed.synced(synced.ticket)
        for key in synced.advanced:
            if key not in self._known:
                effects += self._stream_known(key, now_s)
        if self.subscriptions:
            self.subscriptions.advanced(synced.advanced)
        effects += self.replication.synced(synced.advanced, now_s)
        effects += self.group_work.synced(synced.ticket, synced.advanced, now_s)
        return effects

    def _stream_known(self, key: StreamKey, now_s: float) -> list[Effect]:
        self._known.add(key)
        stream, epoch = key
        info = self.log.info(stream, epoch)
        effects = self.subscriptions.stream_known(info)
        self.replication.stream_known(info)
        if stream.topic.startswith(KV_PREFIX):
            effects.append(BucketsFound())
        return [*effects, *self.group_work.stream_known(key, now_s)]

    # --- subscribers ---------------------------------------------------------------------------------------------

    def _from_subscriber(
        self, event: Subscribe | AddCredit | Handled | Settled | Unsubscribe, now_s: float
    ) -> list[Effect]:
        match event:
            case Subscribe():
                return self._subscribe(event, now_s)
            case AddCredit(number, credit_bytes):
                subscription = self.subscriptions.get(number)
                if subscription is not None:
                    self.subscriptions.add_credit(subscription, credit_bytes)
                return []
            case Handled():
                return self.group_work.handled(event, now_s)
            case Settled():
                return self.group_work.settled(event, now_s)
            case Unsubscribe(number, died):
                effects = self.group_work.leave(number, now_s, died=died)
                self.subscriptions.close(number)
                self._interest_changed(now_s)
                return effects
            case _:
                assert_never(event)

    def _from_operator(self, event: MoveGroup | SetGroup | DropGroup | DropDead, now_s: float) -> list[Effect]:
        match event:
            case MoveGroup():
                return self.group_work.move(event, now_s)
            case SetGroup():
                return self.group_work.set_policy(event, now_s)
            case DropDead():
                return self.group_work.drop_dead(event, now_s)
            case DropGroup():
                return self.group_work.drop(event, now_s)
            case _:
                assert_never(event)

    def _subscribe(self, request: Subscribe, now_s: float) -> list[Effect]:
        if request.group:
            effects = self.group_work.join(request, now_s)
        else:
            archived = self.subscriptions.archived if request.with_history else nothing_archived
            beginnings = Beginnings(self.me, request.start, self._now_us(now_s), archived=archived)
            effects = self.subscriptions.open(request, beginnings)
        self._interest_changed(now_s)
        return effects

    def _interest_changed(self, now_s: float) -> None:
        if self._interest_due_s is None:
            self._interest_due_s = max(now_s, self._interest_told_s + self._interest_pause_s)

    def _tell_interest(self, now_s: float) -> list[Effect]:
        self._interest_due_s = None
        self._has_told = True
        wishes = self._wishes()
        self._interest_pause_s = max(INTEREST_DELAY_S, len(wishes) * INTEREST_PATTERN_S)
        self._interest_told_s = now_s
        self._telling = told_interest(wishes, self._settings.interest)
        if len(wishes) <= TOLD_AT_ONCE:
            return self._told(finished(self._telling))
        return self._tell_on()

    def _tell_on(self) -> list[Effect]:
        """Work out the next piece of the announcement to the mesh, one in each turn of the loop."""
        assert self._telling is not None, "it was begun"
        try:
            next(self._telling)
        except StopIteration as end:
            return self._told(end.value)
        return []

    def _told(self, tell: TellInterest) -> list[Effect]:
        self._telling = None
        if tell == self._interest_told:
            return []
        self._interest_told = tell
        return [tell]

    def _wishes(self) -> dict[Pattern, int]:
        """What this node wants, and since when. A pattern keeps its earliest time as long as it is wanted, so that
        nothing has to be announced when subscribers come and go."""
        plain = self._settings.plain_patterns if self.replication.plain else ()
        dead = map(Pattern, self.group_work.groups.dead_topics)
        serving = dict.fromkeys(self.calls.patterns(), SINCE_EVER_US)  # announced like interest, but without events
        wishes = {**serving, **self.subscriptions.wishes(), **dict.fromkeys((*plain, *dead), SINCE_EVER_US)}
        if not self._settings.late_copies:
            wishes = dict.fromkeys(wishes, SINCE_EVER_US)
        for pattern, since_us in wishes.items():
            before_us = self._wished.get(pattern, SINCE_EVER_US)
            if since_us > before_us > SINCE_EVER_US:
                wishes[pattern] = before_us
        self._wished = wishes
        return wishes

    def _is_wanted_here(self, topic: Topic) -> bool:
        if topic.startswith(EVERYWHERE_PREFIXES) or self.subscriptions.wants(topic):
            return True
        if topic in self.group_work.groups.dead_topics:
            return True
        return bool(self.replication.plain) and any(selects(each, topic) for each in self._settings.plain_patterns)

    # --- the mesh ------------------------------------------------------------------------------------------------

    def _mesh_changed(self, event: LinkUp | LinkDown | MemberKnown | MemberForgotten, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        changed = True
        match event:
            case LinkUp(peer, plain=True):
                effects += self.replication.plain_link_up(peer)
                self._interest_changed(now_s)
            case LinkUp(peer, calls=calls, past=past):
                self.replication.link_up(peer, now_s, past=past)
                if calls:
                    self.calls.link_up(peer)
                self._keep_copies()
            case LinkDown(peer):
                self.replication.link_down(peer)
                effects += self.calls.link_down(peer)
                self._keep_copies()
                self._interest_changed(now_s)  # a plain peer cannot say what it wants, so we do
            case MemberKnown(state):
                changed = self.routes.know(state)
                effects += self.group_work.member_known(state, now_s)
            case MemberForgotten(node):
                changed = self.routes.forget(node)
            case _:
                assert_never(event)
        if changed and self._routes_due_s is None:
            self._routes_due_s = now_s + ROUTES_DELAY_S
        return effects

    def _keep_copies(self) -> None:
        for key, copies in self._owed.wanted_copies().items():
            self.replication.keep_copies(key, copies)

    def _from_peer(
        self, event: ReceivedCopies | ReceivedAcks | ReceivedResume | FramesDropped, now_s: float
    ) -> list[Effect]:
        match event:
            case ReceivedCopies():
                return self.replication.received_copies(event, now_s)
            case ReceivedAcks():
                advanced, effects = self.replication.received_acks(event, now_s)
                return [*effects, *self._copied(advanced)]
            case ReceivedResume():
                return self.replication.received_resume(event)
            case FramesDropped(peer):
                return self.replication.frames_dropped(peer, now_s)
            case _:
                assert_never(event)

    def _copied(self, keys: Iterable[StreamKey]) -> list[Effect]:
        return [effect for key in keys for effect in self._owed.copied(key)]


def _own_stream(me: NodeId, topic: Topic, partition: int) -> Stream:
    return Stream(topic, me, partition)


def _too_many_copies(copies: int) -> UsageError:
    return UsageError("too many copies asked for", copies=copies, limit=COPIES_MAX)
