"""Delivery to the subscribers of this node. Each has a cursor in every stream that it selected, and is served from the
log as far as its credit goes. So nothing is queued, and a slow subscriber holds up nobody."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, MutableMapping, Set
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from weft.core.beginnings import Beginnings, Search
from weft.core.groups.hand import Given, Nothing
from weft.core.history import Archived, HistoryCursor
from weft.core.messages import (
    Deliver,
    Delivered,
    Effect,
    Ended,
    FromPositions,
    HeldUp,
    HistoryFound,
    HistoryRead,
    Holder,
    LookHistory,
    Opened,
    ReadHistory,
    StreamKey,
    Subscribe,
)
from weft.core.past import Pasts
from weft.core.reading import LINK_READ_BYTES_MAX
from weft.core.topics import Selection, selects
from weft.errors import UsageError, WeftError
from weft.limits import KIB, MIB, OFFSET_MAX
from weft.log import Log, StreamInfo
from weft.log.errors import EventsLost, PositionExpired
from weft.model import Batch, Epoch, NodeId, Pattern, Position, Stream, Topic
from weft.model.batch_header import HEADER_BYTES, end_offset
from weft.routing import SINCE_EVER_US

PUMP_BYTES_MAX: Final = 2 * MIB  # given to one subscriber in one step; others have their turn in between
TURN_BYTES_MAX: Final = 8 * MIB  # given to all subscribers in one turn of the loop: a few milliseconds
TURN_STREAMS_MAX: Final = 128  # looked at for all subscribers in one turn: a few milliseconds
SHARE_COST: Final = 0.25  # taking what was read for another subscriber costs this share of looking at a stream
POSITIONS_AT_ONCE: Final = 2_048  # named by a subscription's start, and taken in one step: a few milliseconds
TOLD_MAX: Final = 1024  # gaps that groups were told of; if one is forgotten, its group is told again
SHARED_BYTES_MIN: Final = 64 * KIB  # larger batches are shared with subscribers that still hold them


@dataclass(slots=True)
class Turn:
    """How much may still be done in this turn of the loop. One turn may have hundreds of steps, so a bound for each
    step would not be enough."""

    bytes_left: int = TURN_BYTES_MAX
    streams_left: float = TURN_STREAMS_MAX

    @property
    def is_over(self) -> bool:
        return self.bytes_left <= 0 or self.streams_left <= 0


class Ration(Protocol):
    """What a group member that acknowledges event by event may have next."""

    def next_run(self, key: StreamKey, cursor: int, end: int, now_s: float) -> Given: ...

    def postpone(self, key: StreamKey, first: int, events: int) -> bool:
        """Ask what to do with a stored batch of so many events that does not fit; return whether it waits until it
        fits."""

    def take(self, key: StreamKey, first: int, end: int) -> None:
        """Note that these events are given to the member."""

    def gone(self, key: StreamKey, first: int, end: int, now_s: float) -> None:
        """Note that these events are gone for good."""


@dataclass(slots=True)
class Subscription:
    """One subscriber. A member of a group reads only the streams in ``cursors``; other subscribers read all that they
    selected."""

    id: int
    pattern: Pattern
    group: str
    member: str
    credit_bytes: int
    beginnings: Beginnings
    holder: Holder
    cursors: dict[StreamKey, int] = field(default_factory=dict)
    searches: dict[StreamKey, Search] = field(default_factory=dict)
    is_opening: bool = False
    is_assigned: bool = True  # a member gets nothing while it is being told which streams it now has
    looked: StreamKey | None = None  # while the subscription is opened: the last stream looked at
    behind: OrderedDict[StreamKey, None] = field(default_factory=OrderedDict)  # streams with more to read, in turn
    ration: Ration | None = None
    held_back: dict[StreamKey, None] = field(default_factory=dict)  # streams with more than the ration allows now
    history: HistoryCursor | None = None  # its reading in archive tables; None: it reads only the log

    def position(self, key: StreamKey, place: int | Search) -> None:
        self.drop(key)
        if isinstance(place, Search):
            self.searches[key] = place
        else:
            self.cursors[key] = place
        self.behind[key] = None

    def reads(self, key: StreamKey) -> bool:
        return key in self.cursors or key in self.searches

    def drop(self, key: StreamKey) -> None:
        self.cursors.pop(key, None)
        self.searches.pop(key, None)
        self.behind.pop(key, None)
        self.held_back.pop(key, None)
        if self.history is not None:
            self.history.drop(key)


class Portion(NamedTuple):
    """Everything in a stream from one place on, for every subscriber at that place."""

    key: StreamKey
    first: int
    end: int
    bytes: int
    numbers: list[int]  # the subscriptions that get it in this step
    deliver: Deliver


class Subscriptions:
    """All subscribers of this node."""

    def __init__(
        self, me: NodeId, log: Log, floors: MutableMapping[StreamKey, int], pasts: Pasts, archived: Archived
    ) -> None:
        self.pasts = pasts
        self.archived = archived
        self._me = me
        self._log = log
        self._floors = floors
        self._all: dict[int, Subscription] = {}
        self._selection: Selection[int] = Selection()
        self._ready: OrderedDict[int, None] = OrderedDict()  # subscriptions that may have something to read, in turn
        self._turn = Turn()
        self._told: dict[tuple[str, Stream, Epoch, int], None] = {}  # losses that groups were told of
        self._asked: list[Effect] = []  # requests to archive tables that this step makes
        # What was read in this step: subscribers at the same place get the same objects.
        self._shared: dict[tuple[StreamKey, int, int], list[Delivered]] = {}
        self._portions: dict[tuple[StreamKey, int], Portion | None] = {}  # None: ``_pump`` has to do it
        self._portion: Portion | None = None  # the last portion
        # Large batches that somebody still holds, by place and header: later subscribers get the same objects.
        self._large: WeakValueDictionary[tuple[StreamKey, int, bytes], Delivered] = WeakValueDictionary()

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def get(self, subscription: int) -> Subscription | None:
        return self._all.get(subscription)

    def wishes(self) -> dict[Pattern, int]:
        """What is wanted here, and since when. Groups may begin anywhere, so they want everything."""
        found: dict[Pattern, int] = {}
        for each in self._all.values():
            since_us = SINCE_EVER_US if each.group else each.beginnings.since_us
            before_us = found.get(each.pattern)
            if before_us is None or since_us < before_us:
                found[each.pattern] = since_us
        return found

    def wants(self, topic: Topic) -> bool:
        return bool(self._selection.match(topic))

    # --- coming and going ----------------------------------------------------------------------------------------

    def open(self, request: Subscribe, beginnings: Beginnings) -> list[Effect]:
        """Open a subscription without a group. ``pump`` then says where it begins, some streams at a time, or that it
        cannot begin."""
        subscription = self.add(request, beginnings)
        subscription.is_opening = True
        if subscription.history is not None and beginnings.looks_back:
            subscription.history.is_looking = True
            return [LookHistory(subscription.id, subscription.pattern, beginnings.looks_since_us)]
        self._ready[subscription.id] = None
        return []

    def history_found(self, found: HistoryFound) -> list[Effect]:
        """Take where a subscription's streams begin in archive tables. If that failed, a subscription that names all
        its positions can go on; others end."""
        subscription = self._all.get(found.subscription)
        if subscription is None or subscription.history is None or not subscription.history.is_looking:
            return []
        if found.error is not None and not isinstance(subscription.beginnings.start, FromPositions):
            return self._end(subscription, found.error)
        subscription.history.failure = found.error
        wanted = [each for each in found.places if selects(subscription.pattern, each.stream.topic)]
        subscription.history.found(wanted, found.more)
        if not subscription.history.is_looking:
            self._ready[subscription.id] = None
        return []

    def _open_some(self, subscription: Subscription, turn: Turn) -> list[Effect]:
        """Open the next streams that the subscription selects. Streams that became known meanwhile may have their
        places already."""
        pattern, looked_max = subscription.pattern, max(int(turn.streams_left), 1)
        history = subscription.history
        if history is not None and history.unseen is not None:
            return self._open_archived(subscription, history, turn)
        if not subscription.beginnings.read_some(
            POSITIONS_AT_ONCE, self._log, () if history is None else history.places
        ):
            turn.streams_left = 0
            return []
        found, last = self._log.streams_after(pattern, subscription.looked, looked_max)
        turn.streams_left -= looked_max if last is not None else len(found)
        begun: dict[StreamKey, int] = {}
        for info in found:
            key = (info.stream, info.epoch)
            if not selects(pattern, info.stream.topic) or subscription.reads(key):
                continue
            place = subscription.beginnings.at_opening(info, live=self.is_live(info, subscription.id))
            place = self._in_history(subscription, info, place)
            subscription.position(key, place)
            if isinstance(place, int):
                begun[key] = place
        subscription.looked, subscription.is_opening = last, last is not None
        if last is None and history is not None and history.places:
            subscription.is_opening = True
            history.unseen = iter(list(history.places.values()))
        return [Opened(subscription.id, positions_of(begun), more=subscription.is_opening)]

    def _in_history(self, subscription: Subscription, info: StreamInfo, place: int | Search) -> int | Search:
        """Return the same place, or an earlier one in the archive table. If a copy begins in the middle, other nodes
        are asked for its past first: the table is only for what no log has."""
        key, history = (info.stream, info.epoch), subscription.history
        if history is None or info.start == 0 or not subscription.beginnings.looks_back:
            return place
        if subscription.beginnings.named_at(key) is not None or not self.archived(info.stream.topic):
            return place
        begin = history.begin_of(key)
        if begin is None:
            return place
        return replace(place, archived=begin) if isinstance(place, Search) else min(place, begin)

    def _open_archived(self, subscription: Subscription, history: HistoryCursor, turn: Turn) -> list[Effect]:
        """Open the next streams that only the archive table has."""
        found = history.next_unseen(max(int(turn.streams_left), 1))
        turn.streams_left -= len(found)
        begun: dict[StreamKey, int] = {}
        for each in found:
            key = (each.stream, each.epoch)
            named = subscription.beginnings.named_at(key)
            begin = each.begin if named is None else named
            if begin is not None and self._log.find(*key) is None and not subscription.reads(key):
                subscription.position(key, begin)
                begun[key] = begin
        subscription.is_opening = history.unseen is not None
        return [Opened(subscription.id, positions_of(begun), more=subscription.is_opening)]

    def add(self, request: Subscribe, beginnings: Beginnings) -> Subscription:
        if request.subscription in self._all:
            raise UsageError("there is a subscription of this number", subscription=request.subscription)
        subscription = Subscription(
            request.subscription,
            request.pattern,
            request.group,
            request.member,
            request.credit_bytes,
            beginnings,
            request.holder,
            history=HistoryCursor() if request.with_history else None,
        )
        self._all[subscription.id] = subscription
        self._selection.add(subscription.pattern, subscription.id)
        return subscription

    def close(self, subscription: int) -> Subscription | None:
        closed = self._all.pop(subscription, None)
        if closed is not None:
            self._selection.remove(closed.pattern, closed.id)
            self._ready.pop(closed.id, None)
        return closed

    def _end(self, subscription: Subscription, error: WeftError) -> list[Effect]:
        self.close(subscription.id)
        return [Ended(subscription.id, error)]

    def is_live(self, info: StreamInfo, before: int) -> bool:
        """Whether this node gets the stream's events as they come: the stream is its own, or an earlier subscription
        here wanted it. Subscriptions with numbers below ``before`` are earlier.

        If not, the floor that another node announced for the stream is out of date, and is forgotten.
        """
        if info.stream.origin == self._me or any(each < before for each in self._selection.match(info.stream.topic)):
            return True
        self._floors.pop((info.stream, info.epoch), None)
        return False

    # --- what there is to read -----------------------------------------------------------------------------------

    def stream_known(self, info: StreamInfo) -> list[Effect]:
        """Begin a new stream of the log for the subscriptions that select it."""
        key = (info.stream, info.epoch)
        effects: list[Effect] = []
        for number in self._selection.match(info.stream.topic):
            subscription = self._all[number]
            if subscription.history is not None and subscription.history.is_looking:
                continue  # the stream is looked at when the subscription gets there
            if not subscription.group and not subscription.reads(key):  # it reads it already if opened after the sync
                try:
                    subscription.position(key, subscription.beginnings.later(info))
                except WeftError as error:
                    effects += self._end(subscription, error)
                else:
                    self._ready[number] = None
        return effects

    def advanced(self, keys: Iterable[StreamKey]) -> None:
        """Note that these streams have more that is durable."""
        for key in keys:
            for number in self._selection.match(key[0].topic):
                subscription = self._all[number]
                if subscription.reads(key):
                    subscription.behind[key] = None
                    self._ready[number] = None

    def begin_assigning(self, subscription: Subscription, keys: Set[StreamKey]) -> None:
        """Let a member of a group read exactly these streams. It gets nothing until all of them have their places."""
        subscription.is_assigned = False
        for key in [each for each in (*subscription.cursors, *subscription.searches) if each not in keys]:
            subscription.drop(key)

    def assign_some(self, subscription: Subscription, places: dict[StreamKey, int | Search]) -> None:
        """Let the member begin at these places. In streams that it reads already, it goes on where it is."""
        for key, place in places.items():
            if not subscription.reads(key):
                subscription.position(key, place)

    def end_assigning(self, subscription: Subscription) -> None:
        subscription.is_assigned = True
        self._ready[subscription.id] = None

    def wake(self, subscription: Subscription, keys: Iterable[StreamKey]) -> None:
        """Look again at these streams and at those in which the member was held back, because its ration may have
        grown."""
        waiting = [*subscription.held_back, *(key for key in keys if subscription.reads(key))]
        if waiting:
            subscription.behind.update(dict.fromkeys(waiting))
            subscription.held_back.clear()
            self._ready[subscription.id] = None

    def add_credit(self, subscription: Subscription, credit_bytes: int) -> None:
        subscription.credit_bytes += credit_bytes
        self._ready[subscription.id] = None

    # --- reading -------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether somebody has more to read now."""
        return bool(self._ready)

    def begin_turn(self) -> None:
        """Begin another turn of the loop. As long as there is more to read (``busy``), another one follows soon."""
        self._turn = Turn()

    def pump(self, now_s: float) -> list[Effect]:
        """Return what can be delivered now: a bounded amount, with subscribers in turn."""
        turn = self._turn
        if turn.is_over:
            return []
        effects: list[Effect] = []
        for _ in range(len(self._ready)):
            number, _ = self._ready.popitem(last=False)
            subscription = self._all[number]
            portion = self._portion_for(subscription)
            if portion is None:
                effects += self._pump(subscription, turn, now_s)
            else:
                if not portion.numbers:
                    effects.append(portion.deliver)
                self._hand_out(portion, subscription, turn)
            if turn.is_over:
                break
        self._shared.clear()
        self._portions.clear()
        self._portion = None
        asked, self._asked = self._asked, []
        return [*effects, *asked] if asked else effects

    # A short way for the usual case: many subscribers are at the same place of one stream, and each gets all the rest.

    def _portion_for(self, subscription: Subscription) -> Portion | None:
        """The portion for a subscription; None: it needs more work, see ``_pump``."""
        behind = subscription.behind
        if len(behind) != 1 or subscription.is_opening or not subscription.is_assigned or subscription.ration:
            return None
        (key,) = behind
        first = subscription.cursors.get(key)
        if first is None or (subscription.history is not None and subscription.history.is_looking):
            return None  # the place where it begins is still searched for
        portion = self._portion
        if portion is None or portion.first != first or portion.key is not key:
            place = (key, first)
            if place not in self._portions:
                self._portions[place] = self._read_portion(key, first)
            self._portion = portion = self._portions[place]
        if portion is None or portion.bytes > subscription.credit_bytes or subscription.holder.is_full:
            return None
        return portion

    def _read_portion(self, key: StreamKey, first: int) -> Portion | None:
        if self._log.find(*key) is None:
            return None  # only an archive table has it
        info = self._log.info(*key)
        if not info.start <= first < info.end:
            return None
        try:
            batches = self._read_shared(key, first, info.end, LINK_READ_BYTES_MAX)
        except WeftError:
            return None  # each subscriber gets the error when it reads for itself
        if not batches or end_offset(batches[-1].data) < info.end:
            return None
        size, numbers = sum([len(each.data) for each in batches]), list[int]()
        return Portion(key, first, info.end, size, numbers, Deliver(numbers, tuple(batches)))

    def _hand_out(self, portion: Portion, subscription: Subscription, turn: Turn) -> None:
        portion.numbers.append(subscription.id)
        subscription.behind.clear()
        subscription.cursors[portion.key] = portion.end
        subscription.credit_bytes -= portion.bytes
        subscription.holder.take(portion.bytes)
        turn.bytes_left -= portion.bytes
        turn.streams_left -= SHARE_COST

    # All other cases.

    def _pump(self, subscription: Subscription, turn: Turn, now_s: float) -> list[Effect]:
        delivered: list[Delivered] = []
        opened: list[Effect] = []
        size = 0
        holder = subscription.holder
        if not subscription.is_assigned or (subscription.history is not None and subscription.history.is_looking):
            return []
        try:
            if subscription.is_opening and not holder.is_full:
                opened += self._open_some(subscription, turn)
            if subscription.is_opening:
                return [*opened, *self._go_on(subscription)]
            while (
                subscription.behind
                and subscription.credit_bytes > 0
                and size < PUMP_BYTES_MAX
                and not holder.is_full
                and not turn.is_over
            ):
                key, _ = subscription.behind.popitem(last=False)
                turn.streams_left -= 1
                for each in self._read(subscription, key, now_s):
                    delivered.append(each)
                    size += len(each.data)
                    holder.take(len(each.data))
                    subscription.credit_bytes -= len(each.data)
                    turn.bytes_left -= len(each.data)
        except WeftError as error:
            return [*opened, *_deliver(subscription, delivered), *self._end(subscription, error)]
        return [*opened, *_deliver(subscription, delivered), *self._go_on(subscription)]

    def _go_on(self, subscription: Subscription) -> list[Effect]:
        """Let the subscription go on in its next turn, or when its holder has room, or when there is more to read."""
        if not subscription.is_opening and not (subscription.behind and subscription.credit_bytes > 0):
            return []
        if subscription.holder.is_full:
            return [HeldUp(subscription.id)]
        self._ready[subscription.id] = None
        return []

    def _read(self, subscription: Subscription, key: StreamKey, now_s: float) -> list[Delivered]:
        """Read the next batches of one stream. If there are more, the stream goes to the end of the queue."""
        try:
            return self._read_on(subscription, key, now_s)
        except PositionExpired:  # retention has just deleted it
            if not self.reads_back(subscription, key):
                raise
        except EventsLost as error:
            if not self._was_told(subscription.group, error):
                raise
            if subscription.ration is None:
                subscription.cursors[key] = error.loss.end
            else:
                subscription.ration.gone(key, error.loss.first, error.loss.end, now_s)
        subscription.behind[key] = None
        return []

    def _was_told(self, group: str, error: EventsLost) -> bool:
        """Whether a member of the group was already told here that these events are gone for good. If so, the next
        member goes on after them. Otherwise every member would end at them, because nobody can handle them."""
        if not group or not error.is_given_up:
            return False
        place = (group, error.loss.stream, error.loss.epoch, error.loss.end)
        if place in self._told:
            return True
        self._told[place] = None
        if len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        return False

    def _read_on(self, subscription: Subscription, key: StreamKey, now_s: float) -> list[Delivered]:
        stream, epoch = key
        search = subscription.searches.get(key)
        if search is not None:
            found = search.find(self._log, key, self._floors, self.pasts)
            if found is None:
                return []
            subscription.position(key, found)
            del subscription.behind[key]
        cursor = subscription.cursors[key]
        history = self._history_of(subscription, key)
        if history is not None and self._log.find(stream, epoch) is None:
            return self._read_history(subscription, history, key, cursor, OFFSET_MAX)
        info = self._log.info(stream, epoch)
        durable = info.end
        if cursor < info.start and self.pasts.lacks(info, offset=cursor):
            return []
        if subscription.ration is not None:
            return self._read_ration(subscription, subscription.ration, key, info, now_s)
        if cursor >= durable:
            return []
        if cursor < info.start and history is not None:
            return self._read_history(subscription, history, key, cursor, info.start)
        batches = self._read_shared(key, cursor, durable, self._bytes_max(subscription))
        end = end_offset(batches[-1].data) if batches else durable  # compaction deleted all of it
        subscription.cursors[key] = end
        if end < durable:
            subscription.behind[key] = None
        return batches

    def _read_shared(self, key: StreamKey, first: int, end: int, bytes_max: int) -> list[Delivered]:
        place = (key, first, bytes_max)
        batches = self._shared.get(place)
        if batches is None:
            stored = self._log.read(*key, first, end, bytes_max)
            batches = self._shared[place] = [self._delivered(key, data, first) for data in stored]
        return batches

    def _read_ration(
        self,
        subscription: Subscription,
        ration: Ration,
        key: StreamKey,
        info: StreamInfo,
        now_s: float,
    ) -> list[Delivered]:
        """Read exactly the next events that a member that acknowledges by hand may have."""
        run = ration.next_run(key, subscription.cursors[key], info.end, now_s)
        if isinstance(run, Nothing):
            if run is Nothing.LATER:
                subscription.held_back[key] = None
            return []
        history = self._history_of(subscription, key)
        if run.first < info.start and history is not None:
            stored = self._archived(subscription, history, key, run.first, min(run.end, info.start))
            if not stored:
                return []
        else:
            stored = self._log.read(*key, run.first, run.end, self._bytes_max(subscription))
        place = run.first
        delivered: list[Delivered] = []
        for data in stored:
            batch = Batch.read_stored(data)
            first, end = max(batch.base_offset, run.first), min(batch.end_offset, run.end)
            ration.gone(key, place, first, now_s)
            if end < batch.end_offset and not run.tries and ration.postpone(key, first, batch.end_offset - first):
                subscription.held_back[key] = None
                return delivered
            ration.take(key, first, end)
            delivered.append(Delivered(*key, _piece(batch, first, end).data, first, run.tries))
            place = end
        if not stored:
            ration.gone(key, place, run.end, now_s)
        subscription.behind[key] = None
        return delivered

    # --- archive tables ------------------------------------------------------------------------------------------

    def _history_of(self, subscription: Subscription, key: StreamKey) -> HistoryCursor | None:
        return subscription.history if subscription.history is not None and self.archived(key[0].topic) else None

    def reads_back(self, subscription: Subscription, key: StreamKey) -> bool:
        """Whether the subscription reads in an archive table what the log no longer has of a stream."""
        return self._history_of(subscription, key) is not None

    def _read_history(
        self, subscription: Subscription, history: HistoryCursor, key: StreamKey, cursor: int, end: int
    ) -> list[Delivered]:
        """Read the next batches from the archive table; none until they have come."""
        stored = self._archived(subscription, history, key, cursor, end)
        if not stored:
            return []
        subscription.cursors[key] = end_offset(stored[-1])
        subscription.behind[key] = None
        return [Delivered(*key, data, cursor) for data in stored]

    def _archived(
        self, subscription: Subscription, history: HistoryCursor, key: StreamKey, first: int, end: int
    ) -> list[bytes]:
        """Take what has come from the table. If nothing has, ask for it; when it comes, the stream gets its next
        turn."""
        stored = history.take(key, first)
        if not stored and history.asks(key, first):
            self._asked.append(ReadHistory(subscription.id, *key, first, end, self._bytes_max(subscription)))
        subscription.behind.update(history.take_waiting())
        return stored

    def history_read(self, read: HistoryRead, now_s: float) -> list[Effect]:
        """Take a piece of a table, or the reason why it cannot come."""
        subscription, key = self._all.get(read.subscription), (read.stream, read.epoch)
        if subscription is None or subscription.history is None or not subscription.history.came(read):
            return []
        if key not in subscription.cursors:
            subscription.history.drop(key)
        elif read.error is not None:
            return self._end(subscription, read.error)
        elif read.batches:
            subscription.behind[key] = None
        elif read.goes_on is not None:
            if subscription.ration is not None:
                subscription.ration.gone(key, read.first, read.goes_on, now_s)
            subscription.cursors[key] = max(subscription.cursors[key], read.goes_on)
            subscription.behind[key] = None
        subscription.behind.update(subscription.history.take_waiting())
        self._ready[subscription.id] = None
        return []

    def _bytes_max(self, subscription: Subscription) -> int:
        return min(LINK_READ_BYTES_MAX, max(subscription.credit_bytes, 1))

    def _delivered(self, key: StreamKey, data: bytes, cursor: int) -> Delivered:
        stream, epoch = key
        if len(data) < SHARED_BYTES_MIN:
            return Delivered(stream, epoch, data, cursor)
        place = (key, cursor, data[:HEADER_BYTES])  # the header has the checksum of everything after it
        known = self._large.get(place)
        if known is None:
            known = self._large[place] = Delivered(stream, epoch, data, cursor)
        return known


def positions_of(cursors: dict[StreamKey, int]) -> tuple[Position, ...]:
    return tuple(Position(stream, epoch, offset) for (stream, epoch), offset in sorted(cursors.items()))


def _piece(batch: Batch, first: int, end: int) -> Batch:
    """Take some events out of a batch. If there are only a few, they are put together without Arrow, which is
    faster."""
    if end - first == len(batch):
        return batch
    if batch.few is not None:
        return Batch.from_events(batch.events_from(first)[: end - first]).with_base_offset(first)
    return batch.slice(first, end)


def _deliver(subscription: Subscription, delivered: list[Delivered]) -> list[Effect]:
    return [Deliver((subscription.id,), tuple(delivered))] if delivered else []
