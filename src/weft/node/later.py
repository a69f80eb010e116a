"""Events that wait at this node until they are due.

Only the log is stored (``weft.model.later`` says how). An event's delivery and its mark are one write: after a crash,
the event is delivered and marked, or neither, so it comes once. For slots that are near, memory holds sixteen bytes for
each event; slots further ahead are read when their time comes.

A log goes on in a new epoch after a restore or a repair. Events that waited in an earlier epoch are delivered all the
same, and their marks are in the new epoch.

The wall clock is read before every delivery, and at least every few seconds. So by that clock no event is early, and
setting the clock has an effect within seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final

from weft.core.later import Due, DueIndex
from weft.core.messages import Receipted
from weft.errors import UsageError, WeftError
from weft.limits import MIB
from weft.log import StreamInfo
from weft.log.errors import EventsLost, PositionExpired
from weft.model import Batch, Epoch, Event, EventId, Pattern, Stream, Topic
from weft.model.later import (
    LATER_PREFIX,
    SLOT_US,
    Waiting,
    check_due_us,
    done_topic,
    mark,
    mark_batch,
    owner_of_waiting,
    read_marks,
    read_waiting,
    slot_begin_us,
    slot_of,
    waiting_batch,
    waiting_topic,
)
from weft.node.figures import LaterFigures
from weft.port.errors import QuotaUsedUp
from weft.port.later import LaterSettings, NotWaiting, WaitsElsewhere
from weft.port.node import MeshNode, Part, PublishClient

NEAR_US: Final = 600 * 1_000_000  # slots that begin within ten minutes are read
ALARM_S_MAX: Final = 5.0  # then the clock is read again: it may have been set
RETRY_S: Final = 1.0  # after the log had no room
LATE_US: Final = 1_000_000  # anything delivered later than that counts as late
DELIVERED_AT_ONCE: Final = 1000
DELIVERED_BYTES: Final = 1 * MIB
DELIVERIES_MAX: Final = 4  # on their way into the log
READ_BYTES: Final = 1 * MIB  # of a slot, in one turn of the loop
BATCHES_KEPT: Final = 64  # decoded batches, while due events are read
ALL: Final = Pattern(f"{LATER_PREFIX}>")
WAITING_BYTES: Final = 256  # of a waiting event beside what its publisher gave, roughly
LISTED_MAX: Final = 1000  # looked at for one page


@dataclass(slots=True)
class Slot:
    """The waiting events of one owner in one slot and epoch. ``number`` is its number in the index.

    ``done``: a flag for each event from ``base`` on; None: the marks were not read. ``known``: in a slot that is read,
    the next offset that the index has not seen. ``pending``: how many events wait, only roughly until the slot is read;
    of those, ``in_flight`` have marks that are not durable yet.
    """

    number: int
    owner: str
    waiting: Stream
    epoch: Epoch
    marks: Stream
    pending: int = 0
    done: bytearray | None = None
    base: int = 0
    known: int = 0
    in_flight: int = 0
    is_read: bool = False

    def is_done(self, offset: int) -> bool:
        assert self.done is not None, "its marks were read"
        at = offset - self.base
        return at < 0 or (at < len(self.done) and bool(self.done[at]))

    def set_done(self, offset: int, value: bool) -> None:
        assert self.done is not None, "its marks were read"
        at = offset - self.base
        assert at >= 0, "what was tidied away is done for good"
        if at >= len(self.done):
            self.done.extend(bytes(at + 1 - len(self.done)))
        self.done[at] = value


@dataclass(frozen=True, slots=True)
class Accepting:
    """A publish without a receipt."""

    publisher: PublishClient
    request: int
    slot: Slot
    dues_us: Sequence[int]


@dataclass(slots=True)
class Delivering:
    """The events and marks of one write. ``left``: parts without a receipt."""

    due: list[Due]
    left: int = 0


@dataclass(slots=True)
class Cancelling:
    slot: Slot
    due: Due
    done: asyncio.Future[None] = field(repr=False)


class Later:
    """``LaterStore``. To the node it is a publisher. ``wall_us``: microseconds since 1970, by the machine's clock."""

    def __init__(self, node: MeshNode, settings: LaterSettings, wall_us: Callable[[], int]) -> None:
        self.settings = settings
        self.now_us = wall_us
        self._node = node
        self._me = node.node_id
        self._loop = asyncio.get_running_loop()
        self._index = DueIndex()
        self._slots: list[Slot] = []
        self._by_stream: dict[tuple[Stream, Epoch], Slot] = {}
        self._epochs = [node.log.epoch]  # epochs of this node's log with waiting events or their marks
        self._unread: list[tuple[int, int]] = []  # slots to read: when they may begin, and their numbers
        self._reading: deque[Slot] = deque()
        self._owners: Counter[str] = Counter()  # how many waiting events each owner has
        self._reserved: Counter[str] = Counter()  # how many of them have no receipt yet
        self._deliveries = 0  # without a receipt
        self._requests = count(1)
        self._open: dict[int, Accepting | Delivering | Cancelling] = {}
        self._batches: OrderedDict[tuple[Stream, Epoch, int], list[Event]] = OrderedDict()
        self._alarm: asyncio.TimerHandle | None = None
        self._is_joined = False
        self._full_until_s = 0.0  # no delivery before this time, because the log had no room
        self.delivered = 0
        self.late = 0
        self.cancelled = 0

    def start(self) -> None:
        """Find out what the log has: how many events wait, and which slots to read first."""
        log = self._node.log
        infos = {(info.stream, info.epoch): info for info in log.streams(ALL) if self._is_ours(info)}
        self._epochs = sorted({log.epoch, *(epoch for _, epoch in infos)})
        mixed = {info.stream.topic for info in infos.values() if info.epoch != log.epoch}
        for (stream, epoch), info in infos.items():
            owner = owner_of_waiting(stream.topic)
            if owner is None or info.start == info.end:
                continue
            self._join()  # now: later the node may have no room for a client, and due events would not come
            slot = self._slot(owner, stream.partition, epoch)
            marks = infos.get((slot.marks, epoch))
            done = 0 if marks is None else marks.end - marks.start
            if not mixed.isdisjoint((stream.topic, slot.marks.topic)):  # marks of several epochs: they have to be read
                self._read_marks(slot)
                done = sum(slot.done or b"")
            self._count(slot, max(info.end - info.start - done, 0))
        if self._slots:
            self._look()

    def _is_ours(self, info: StreamInfo) -> bool:
        return info.stream.origin == self._me and info.epoch <= self._node.log.epoch

    # --- taking ---------------------------------------------------------------------------------------------------

    def publish(
        self, publisher: PublishClient, request: int, owner: str, topic: Topic, partition: int, batch: Batch
    ) -> None:
        now_us = self.now_us()
        for due_us in (batch.timestamp_us_min, batch.timestamp_us_max):
            check_due_us(due_us, now_us, self.settings.ahead_s_max)
        self._check_room(owner, topic, len(batch))
        kept = waiting_batch(batch, topic, partition)
        self._join()
        slot = self._slot(owner, slot_of(batch.timestamp_us_min, now_us), self._node.log.epoch)
        number = next(self._requests)
        self._open[number] = Accepting(publisher, request, slot, _times_us(kept))
        self._reserved[owner] += len(kept)
        self._node.publish(self, number, slot.waiting.topic, slot.waiting.partition, kept, 0)

    def _check_room(self, owner: str, topic: Topic, more: int) -> None:
        limits = self.settings
        have = self._owners[owner] + self._reserved[owner]
        if have + more > limits.pending_of_key_max:
            raise QuotaUsedUp(
                "as many events wait for later as a key may have at this node: later.pending_of_key_max",
                topic=topic,
                node=self._me,
                waiting=have,
                limit=limits.pending_of_key_max,
            )
        if (have := self._owners.total() + self._reserved.total()) + more > limits.pending_max:
            raise QuotaUsedUp(
                "as many events wait for later as this node keeps: later.pending_max",
                topic=topic,
                node=self._me,
                waiting=have,
                limit=limits.pending_max,
            )

    def _slot(self, owner: str, partition: int, epoch: Epoch) -> Slot:
        waiting = Stream(waiting_topic(owner), self._me, partition)
        slot = self._by_stream.get((waiting, epoch))
        if slot is None:
            slot = Slot(len(self._slots), owner, waiting, epoch, Stream(done_topic(owner), self._me, partition))
            self._slots.append(slot)
            self._by_stream[waiting, epoch] = slot
            heappush(self._unread, (self._begin_us(waiting, epoch), slot.number))
        return slot

    def _begin_us(self, waiting: Stream, epoch: Epoch) -> int:
        """When the first event of a slot may be due. In a slot of long ago, not later than its latest event."""
        begin_us = slot_begin_us(waiting.partition, self.now_us())
        state = self._node.log.find(waiting, epoch)
        return begin_us if state is None or state.start == state.end else min(begin_us, state.latest_us)

    def _count(self, slot: Slot, more: int) -> None:
        slot.pending += more
        self._owners[slot.owner] += more
        if not self._owners[slot.owner]:
            del self._owners[slot.owner]

    def _accepted(self, accepting: Accepting, receipted: Receipted) -> None:
        slot, place = accepting.slot, receipted.place
        self._unreserve(accepting)
        if place.repeated or (slot.is_read and place.first_offset < slot.known):
            return  # it was counted when it was read
        self._count(slot, place.count)
        if slot.is_read:
            end = place.first_offset + place.count
            self._index.add_many(slot.number, accepting.dues_us, range(place.first_offset, end))
            slot.known = end

    def _unreserve(self, accepting: Accepting) -> None:
        self._reserved[accepting.slot.owner] -= len(accepting.dues_us)
        self._reserved += Counter()  # removes zeros

    # --- reading what is near -------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read slots that are near, deliver what is due, and set the alarm for what comes next."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._is_draining():
            return
        now_us = self.now_us()
        while self._unread and self._unread[0][0] <= now_us + NEAR_US:
            self._reading.append(self._slots[heappop(self._unread)[1]])
        if self._reading:
            self._read_on()
        if self._loop.time() >= self._full_until_s and self._deliveries < DELIVERIES_MAX:
            self._deliver(now_us)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None or not self._slots or self._is_draining():
            return
        now_us, wait_s = self.now_us(), ALARM_S_MAX
        due_us = self._index.next_us()
        if self._reading:
            wait_s = 0.0
        elif due_us is not None and self._deliveries < DELIVERIES_MAX:
            full_s = self._full_until_s - self._loop.time()
            wait_s = min(max((due_us - now_us) / 1e6, full_s, 0.0), ALARM_S_MAX)
        self._alarm = self._loop.call_later(wait_s, self._look)

    def _read_on(self) -> None:
        """Read a piece of the next slot; others have their turn in between."""
        slot = self._reading[0]
        try:
            self._read_marks(slot)
            if self._read_piece(slot):
                return
        except EventsLost as error:  # unreadable events are skipped: the rest still counts
            self._node.count_refusal(error)
            for offset in range(max(error.loss.first, slot.base), error.loss.end):
                slot.set_done(offset, True)
            slot.known = error.loss.end
            return
        except PositionExpired:  # the maintenance thread has just deleted them: read on behind them
            return
        self._reading.popleft()
        slot.is_read = True

    def _read_marks(self, slot: Slot) -> None:
        if slot.done is not None:
            return
        state = self._node.log.find(slot.waiting, slot.epoch)
        slot.base = slot.known = 0 if state is None else state.start
        slot.done = bytearray()
        for epoch in self._epochs:
            for offset in self._marks(slot, epoch) if epoch >= slot.epoch else ():
                if offset >= slot.base:
                    slot.set_done(offset, True)

    def _marks(self, slot: Slot, epoch: Epoch) -> Iterator[int]:
        """Offsets of events that are done, by the marks of the same epoch or of a later one."""
        marks = self._node.log.find(slot.marks, epoch)
        at, before = 0 if marks is None else marks.start, None if epoch == slot.epoch else slot.epoch
        while marks is not None and at < marks.durable:
            try:
                batches = [Batch.read_stored(data) for data in self._node.log.read(slot.marks, epoch, at)]
            except PositionExpired:  # deleted meanwhile, together with their events
                return
            except EventsLost as error:  # their events are delivered again: better twice than not at all
                self._node.count_refusal(error)
                at = error.loss.end
                continue
            if not batches:
                return
            yield from read_marks(batches, before)
            at = batches[-1].end_offset

    def _read_piece(self, slot: Slot) -> bool:
        """Read a piece; return whether there may be more."""
        log = self._node.log
        state = log.find(slot.waiting, slot.epoch)
        if state is None or slot.known >= state.durable:
            assert slot.done is not None, "its marks were read"
            waiting = slot.known - slot.base - sum(slot.done[: slot.known - slot.base]) + slot.in_flight
            self._count(slot, max(waiting, 0) - slot.pending)
            return False
        slot.known = max(slot.known, state.start)
        stored = log.read(slot.waiting, slot.epoch, slot.known, bytes_max=READ_BYTES)
        for batch in map(Batch.read_stored, stored):
            first = max(slot.known, batch.base_offset)
            left = [
                (due_us, offset)
                for offset, due_us in enumerate(_times_us(batch)[first - batch.base_offset :], first)
                if not slot.is_done(offset)
            ]
            self._index.add_many(slot.number, [each[0] for each in left], [each[1] for each in left])
            slot.known = batch.end_offset
        if not stored:
            slot.known = state.durable
        return True

    # --- delivering -----------------------------------------------------------------------------------------------

    def _deliver(self, now_us: int) -> None:
        """Deliver what is due, as much as a turn of the loop should take, in one write with its marks."""
        due: list[Due] = []
        events: dict[tuple[Topic, int], list[Event]] = {}
        size = 0
        while len(due) < DELIVERED_AT_ONCE and size < DELIVERED_BYTES and (each := self._index.pop(now_us)) is not None:
            slot = self._slots[each.slot]
            if slot.is_done(each.offset):
                continue
            found = self._read(slot, each.offset)
            if found is None:
                continue
            event = found.event
            size += _size_of(event)
            if due and size > DELIVERED_BYTES:  # one batch must hold them all if they are of one topic
                self._index.add(each)
                break
            events.setdefault((found.topic, found.partition), []).append(
                Event(event.payload, now_us, event.key, event.headers)
            )
            due.append(each)
            slot.set_done(each.offset, True)  # at once: after a cancellation that failed, it is in the index twice
            slot.in_flight += 1
        if due:
            self._hand_over(due, events, now_us)

    def _read(self, slot: Slot, offset: int) -> Waiting | None:
        """Read an event; None if nothing is left of it for good."""
        try:
            found = self._find(slot, offset)
        except WeftError as error:
            self._node.count_refusal(error)
            found = None
        if found is None:
            slot.set_done(offset, True)
            self._count(slot, -1)
        return found

    def _hand_over(self, due: list[Due], events: dict[tuple[Topic, int], list[Event]], now_us: int) -> None:
        marks: dict[Stream, list[bytes]] = {}
        for each in due:
            slot = self._slots[each.slot]
            marks.setdefault(slot.marks, []).append(self._mark(slot, each.offset))
        delivering = Delivering(due)
        parts: list[Part] = []
        for (topic, partition), some in events.items():
            parts.append(Part(next(self._requests), topic, partition, Batch.from_events(some)))
        for stream, theirs in marks.items():
            parts.append(Part(next(self._requests), stream.topic, stream.partition, mark_batch(theirs, now_us)))
        delivering.left = len(parts)
        self._open |= dict.fromkeys((part.request for part in parts), delivering)
        self._deliveries += 1
        self._node.publish_as_one(self, parts)

    def _mark(self, slot: Slot, offset: int) -> bytes:
        return mark(offset, None if slot.epoch == self._node.log.epoch else slot.epoch)

    def _delivered(self, delivering: Delivering) -> None:
        delivering.left -= 1
        if delivering.left:
            return
        self._deliveries -= 1
        now_us = self.now_us()
        for each in delivering.due:
            slot = self._slots[each.slot]
            slot.in_flight -= 1
            self._count(slot, -1)
            self.late += now_us - each.due_us > LATE_US
        self.delivered += len(delivering.due)

    def _give_back(self, delivering: Delivering) -> None:
        """Take back a write for which the log had no room: its events are due again soon."""
        if not delivering.left:
            return
        delivering.left = 0
        self._deliveries -= 1
        for each in delivering.due:
            slot = self._slots[each.slot]
            slot.set_done(each.offset, False)
            slot.in_flight -= 1
            self._index.add(each)
        self._full_until_s = self._loop.time() + RETRY_S

    def _find(self, slot: Slot, offset: int) -> Waiting | None:
        """A waiting event; None if there is none at that offset."""
        event_id = EventId(slot.waiting, slot.epoch, offset)
        for base, events in self._decoded(slot, offset):
            if base <= offset < base + len(events):
                return read_waiting(event_id, events[offset - base])
        return None

    def _decoded(self, slot: Slot, offset: int) -> Iterator[tuple[int, list[Event]]]:
        """Yield the decoded batch with an offset. Decoded batches are kept for a while, because their events are often
        due one after the other."""
        for (stream, epoch, base), events in reversed(self._batches.items()):
            if (stream, epoch) == (slot.waiting, slot.epoch) and base <= offset < base + len(events):
                yield base, events
                return
        for data in self._node.log.read(slot.waiting, slot.epoch, offset, offset + 1, 1):
            batch = Batch.read_stored(data)
            events = list(batch)
            self._batches[slot.waiting, slot.epoch, batch.base_offset] = events
            if len(self._batches) > BATCHES_KEPT:
                self._batches.popitem(last=False)
            yield batch.base_offset, events

    # --- what the node says: PublishClient ------------------------------------------------------------------------

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        accepted: dict[PublishClient, list[tuple[int, Receipted]]] = {}
        for number, receipted in receipts:
            match self._open.pop(number):
                case Accepting() as accepting:
                    self._accepted(accepting, receipted)
                    accepted.setdefault(accepting.publisher, []).append((accepting.request, receipted))
                case Delivering() as delivering:
                    self._delivered(delivering)
                case Cancelling(slot, _, done):
                    self.cancelled += 1
                    slot.in_flight -= 1
                    self._count(slot, -1)
                    if not done.done():
                        done.set_result(None)
        for publisher, theirs in accepted.items():
            if self._node.serves(publisher):
                publisher.receipts(theirs)
        self._look()
        self._leave_when_done()

    def refused(self, request: int, error: WeftError) -> None:
        match self._open.pop(request):
            case Accepting(publisher, number) as accepting:
                self._unreserve(accepting)
                if self._node.serves(publisher):
                    publisher.refused(number, error)
            case Delivering() as delivering:
                self._give_back(delivering)
            case Cancelling(slot, due, done):
                slot.set_done(due.offset, False)
                slot.in_flight -= 1
                if slot.is_read:
                    self._index.add(due)
                if not done.done():
                    done.set_exception(error)
        self._set_alarm()
        self._leave_when_done()

    def _join(self) -> None:
        """Join the node as a publisher, before there is any slot, so that no delivery of a slot can be refused. Raise
        Busy or ShuttingDown."""
        if not self._is_joined:
            self._node.join(self)
            self._is_joined = True

    def drain(self) -> None:
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        if self._is_joined and not self._open and self._is_draining():
            self._is_joined = False
            self._node.leave(self)

    def _is_draining(self) -> bool:
        try:
            self._node.check_open()
        except WeftError:
            return True
        return False

    # --- looking and cancelling -----------------------------------------------------------------------------------

    async def waiting(self, owner: str | None, after: EventId | None, bytes_max: int) -> tuple[list[Waiting], bool]:
        found: list[Waiting] = []
        size = looked = 0
        for slot in self._in_order(owner, after):
            self._read_marks(slot)
            is_last = after is not None and (after.stream, after.epoch) == (slot.waiting, slot.epoch)
            first = after.offset + 1 if after is not None and is_last else 0
            for offset, event in self._events(slot, first):
                if slot.is_done(offset):
                    continue
                if size >= bytes_max or looked >= LISTED_MAX:
                    return found, True
                looked += 1
                size += _size_of(event)
                with suppress(UsageError):
                    found.append(read_waiting(EventId(slot.waiting, slot.epoch, offset), event))
            await asyncio.sleep(0)
        return found, False

    def _in_order(self, owner: str | None, after: EventId | None) -> list[Slot]:
        """Slots that are not empty, from that of ``after`` on."""
        now_us = self.now_us()

        def order(slot: Slot) -> tuple[int, Stream, Epoch]:
            return slot_begin_us(slot.waiting.partition, now_us) // SLOT_US, slot.waiting, slot.epoch

        slots = sorted((each for each in self._slots if each.pending and owner in (None, each.owner)), key=order)
        last = None if after is None else self._by_stream.get((after.stream, after.epoch))
        return slots if last is None else [each for each in slots if order(each) >= order(last)]

    def _events(self, slot: Slot, first: int) -> Iterator[tuple[int, Event]]:
        log = self._node.log
        state = log.find(slot.waiting, slot.epoch)
        at = 0 if state is None else max(first, state.start)
        while state is not None and at < state.durable:
            try:
                stored = log.read(slot.waiting, slot.epoch, at, bytes_max=READ_BYTES)
            except EventsLost as error:
                at = error.loss.end
                continue
            except PositionExpired:  # deleted meanwhile
                at = max(state.start, at + 1)
                continue
            for data in stored:
                batch = Batch.read_stored(data)
                yield from enumerate(batch.events_from(at), max(at, batch.base_offset))
                at = batch.end_offset
            if not stored:
                return

    async def cancel(self, event: EventId, owner: str | None) -> Waiting:
        self._node.check_open()
        slot = self._checked(event, owner)
        self._read_marks(slot)
        state = self._node.log.find(slot.waiting, event.epoch)
        if state is None or not state.start <= event.offset < state.durable or slot.is_done(event.offset):
            raise NotWaiting("no such event waits here: it was delivered or cancelled", event=str(event), node=self._me)
        found = self._find(slot, event.offset)
        if found is None:
            raise NotWaiting("there is nothing left of this event", event=str(event), node=self._me)
        slot.set_done(event.offset, True)
        slot.in_flight += 1
        due = Due(found.due_us, slot.number, event.offset)
        cancelling = Cancelling(slot, due, self._loop.create_future())
        number = next(self._requests)
        self._open[number] = cancelling
        batch = mark_batch([self._mark(slot, event.offset)], self.now_us())
        self._node.publish(self, number, slot.marks.topic, slot.marks.partition, batch, 0)
        await asyncio.shield(cancelling.done)
        return found

    def _checked(self, event: EventId, owner: str | None) -> Slot:
        """The slot of an event that its owner may cancel. Others do not learn whether it exists."""
        of = owner_of_waiting(event.stream.topic)
        if of is None:
            raise UsageError("not the id of an event that waits: weft later ls shows them", event=str(event))
        if event.stream.origin != self._me:
            raise WaitsElsewhere("this event waits at another node", node=event.stream.origin, asked=self._me)
        slot = self._by_stream.get((event.stream, event.epoch))
        if slot is None or owner not in (None, of):
            raise NotWaiting("no such event waits here for you", event=str(event), node=self._me)
        return slot

    # --- for maintenance and metrics ------------------------------------------------------------------------------

    def tidied(self, cut: Iterable[tuple[Stream, Epoch, int]]) -> None:
        """Note that everything before an offset of these streams has left the log. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._forget, list(cut))

    def _forget(self, cut: list[tuple[Stream, Epoch, int]]) -> None:
        for stream, epoch, start in cut:
            slot = self._by_stream.get((stream, epoch))
            if slot is not None and slot.done is not None and start > slot.base:
                del slot.done[: start - slot.base]
                slot.base = start

    def figures(self) -> LaterFigures:
        now_us, first_us = self.now_us(), self._index.next_us()
        return LaterFigures(
            pending=self._owners.total(),
            indexed=len(self._index),
            overdue_s=0.0 if first_us is None else max(now_us - first_us, 0) / 1e6,
            delivered=self.delivered,
            late=self.late,
            cancelled=self.cancelled,
        )


def _times_us(batch: Batch) -> Sequence[int]:
    """When its events are due. The events themselves would take half a second for 100,000 of them."""
    return batch.timestamps.to_pylist() if batch.few is None else batch.few.timestamps_us


def _size_of(event: Event) -> int:
    """Estimate the size of an event. Headers are counted in characters, which is quicker; they count because they may
    hold much more than the payload."""
    headers = event.headers or {}
    return (
        WAITING_BYTES
        + len(event.payload)
        + len(event.key or b"")
        + sum(len(name) + len(value) for name, value in headers.items())
    )
