"""Acknowledging by hand, on the reader's side: which events the application has, and which it has settled. Pure.

The node decides what is delivered. So everything that comes is handed out, except events that the application still
has: they come again after a reconnect, but the application settles them only once. A refused event stalls its stream
until the node has answered. If the group wants order, all events behind it are delivered again, after the refused one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from weft.client.cursors import Place
from weft.client.intake import EventIntake, Queued, Report
from weft.client.received import Received, ReceivedBatch
from weft.limits import OFFSET_MAX
from weft.model import Batch, Epoch, EventId, Position, Stream
from weft.model.offsets import OffsetRanges

NOTHING_YET: Final = -1  # an offset before every other
WINDOW_SHARE: Final = 4  # acknowledgements are sent in quarters of the window: few messages, and the node is never idle


class Refusal(NamedTuple):
    """An event that the application could not handle. ``delay_s`` None: the group's policy decides."""

    event: EventId
    delay_s: float | None
    reason: str


class Settlement(NamedTuple):
    """What to tell the node about single events."""

    acks: list[tuple[Place, OffsetRanges]]
    refusals: list[Refusal]
    generation: int


class HandIntake(EventIntake):
    """The state of a subscription whose application settles every event."""

    def __init__(self, window: int) -> None:
        super().__init__(in_group=True, is_auto=False)
        self._tell_at = max(window // WINDOW_SHARE, 1)
        self._held: set[Place] = set()  # streams that are assigned to us
        self._with_app: dict[Place, OffsetRanges] = {}  # handed out, and not settled
        self._acked: dict[Place, OffsetRanges] = {}  # not told to the node yet
        self._refusals: list[Refusal] = []  # not told to the node yet
        self._stalled: dict[Place, int] = {}  # how many refusals have no answer yet
        # The latest acknowledgements, as long as they follow each other. ``_note_run`` moves them to ``_acked``.
        self._run_stream: Stream | None = None
        self._run_epoch = Epoch(1)
        self._run_first = self._run_end = 0
        self._unsent = 0
        self._out = 0  # how many events the application has: at most this many, and exactly after ``_note_run``
        # ``Handling`` sets these. It learns that events behind an offset come again, and that a refusal was answered.
        self.on_given_back: Callable[[Place, int], None] = _nobody
        self.on_answered: Callable[[Place], None] = _nobody

    # --- from the application --------------------------------------------------------------------------------------

    def ack(self, event: Received) -> bool:
        """Acknowledge an event; return whether the node should hear of it now."""
        if event.stream is self._run_stream and event.offset == self._run_end and event.epoch == self._run_epoch:
            self._run_end += 1
        else:
            self._note_run()
            self._run_stream, self._run_epoch = event.stream, event.epoch
            self._run_first, self._run_end = event.offset, event.offset + 1
        self._unsent += 1
        self._out -= 1
        if self._unsent >= self._tell_at:
            self._unsent = 0
            return True
        return self._out <= 0 and not self.queue

    def ack_before(self, position: Position) -> None:
        """Acknowledge all events of this stream that the application has, up to this position."""
        self._note_run()
        place = position.stream, position.epoch
        for first, end in self._app_of(place).within(0, position.offset):
            self._ack_range(place, first, end)

    def refuse(self, event: Received, delay_s: float | None, reason: str) -> None:
        self._note_run()
        place = event.stream, event.epoch
        self._app_of(place).remove(event.offset, event.offset + 1)
        if place not in self._held:
            return  # we lost the stream: the event comes again to the member that has it now
        self._refusals.append(Refusal(event.id, delay_s, reason))
        self._stalled[place] = self._stalled.get(place, 0) + 1
        if self.events and self._taken is not None and _place(self._taken.batch) == place:
            self.put_back(self._taken.batch.first_offset + self.index)

    def put_back(self, offset: int) -> None:
        """Take back the rest of the batch in hand, from this offset on: it waits again."""
        taken = self._taken
        if taken is None or offset >= taken.batch.end_offset:
            return
        place = _place(taken.batch)
        self._app_of(place).remove(offset, taken.batch.end_offset)
        del self.events[self.index :]
        self.queue.appendleft(Queued(taken.batch.rest(offset), taken.credit_bytes))
        self.queued_bytes += taken.credit_bytes
        self._taken = Queued(taken.batch, 0)

    def forget(self, events: Iterable[Received]) -> None:
        """Forget that the application has these events. It has not begun with them, and they come again."""
        for event in events:
            self._app_of((event.stream, event.epoch)).remove(event.offset, event.offset + 1)

    def is_stalled(self, place: Place) -> bool:
        return place in self._stalled

    @property
    def has_more(self) -> bool:
        return any(_place(queued.batch) not in self._stalled for queued in self.queue)

    def take(self) -> ReceivedBatch | None:
        self.put_down()
        if not self._stalled:
            if not self.queue:
                return None
            self._taken = self.queue.popleft()
        else:
            found = next((each for each in self.queue if _place(each.batch) not in self._stalled), None)
            if found is None:
                return None
            self.queue.remove(found)
            self._taken = found
        self.queued_bytes -= self._taken.credit_bytes
        self.in_hand = True
        batch = self._taken.batch
        self._app_of(_place(batch)).add(batch.first_offset, batch.end_offset)
        self._out += len(batch)
        return batch

    # --- from the node ---------------------------------------------------------------------------------------------

    def delivered(self, stream: Stream, epoch: Epoch, batch: Batch, first_offset: int, tries: int = 0) -> bool:
        """Queue what the application does not have yet."""
        self._note_run()
        place = stream, epoch
        self._held.add(place)
        size = len(batch.data)
        known = OffsetRanges([*self._app_of(place), *self._acked.get(place, ())])
        first, end = max(first_offset, batch.base_offset), batch.end_offset
        pieces = list(known.outside(first, end))
        if pieces == [(first, end)]:
            self.queue.append(Queued(ReceivedBatch(stream, epoch, first, batch, tries), size))
        else:
            for number, (low, high) in enumerate(pieces):
                rows = batch.rows(low, high)
                self.queue.append(Queued(ReceivedBatch(stream, epoch, low, rows, tries), 0 if number else size))
        if pieces:
            self.queued_bytes += size
        else:
            self.credit_due_bytes += size
        return bool(pieces)

    def withdrawn(self, event: EventId, rest: bool) -> None:
        """The node has accepted a refusal. With ``rest``, it delivers the events behind the refused one again, so those
        that wait here are dropped.

        Waiting events before the refused one stay. The node may have delivered them again already, because of an
        earlier refusal, and then it does not send them once more.
        """
        place = event.stream, event.epoch
        left = self._stalled.get(place, 0) - 1
        if left > 0:
            self._stalled[place] = left
        else:
            self._stalled.pop(place, None)
        self._cut_queued(place, event.offset, OFFSET_MAX if rest else event.offset + 1)
        if rest:
            self.on_given_back(place, event.offset)
        if place not in self._stalled:
            self.on_answered(place)

    def assigned(self, generation: int, positions: Iterable[Position], answer_by_s: float) -> None:
        now = {(each.stream, each.epoch) for each in positions}
        lost = self._held - now
        self._held = now
        self._drop_queued(lost)
        for place in lost:
            self._stalled.pop(place, None)
            self.on_given_back(place, NOTHING_YET)
            self.on_answered(place)
        self._generation, self._answered, self._answer_by_s = generation, None, answer_by_s

    def disconnected(self) -> None:
        """Drop the events that wait here, because they come again. Those that the application has stay with it, and it
        settles them. Refusals get no answer: the node counts these events as failed when the connection is lost."""
        super().disconnected()
        self._drop_queued({_place(queued.batch) for queued in self.queue})
        if self._taken is not None and self.events:
            self._drop_queued({_place(self._taken.batch)})
        lost, self._held = self._held, set()
        self._refusals.clear()
        self._stalled.clear()
        self.credit_due_bytes = 0
        for place in lost:
            self.on_given_back(place, NOTHING_YET)
            self.on_answered(place)

    def _cut_queued(self, place: Place, first: int, end: int) -> None:
        """Remove these offsets from what waits."""
        kept: deque[Queued] = deque()
        for queued in self.queue:
            batch, credit_bytes = queued
            if _place(batch) != place or batch.end_offset <= first or end <= batch.first_offset:
                kept.append(queued)
                continue
            if batch.first_offset < first:
                kept.append(Queued(batch.head(first), credit_bytes))
                credit_bytes = 0
            if end < batch.end_offset:
                kept.append(Queued(batch.rest(end), credit_bytes))
                credit_bytes = 0
            self.queued_bytes -= credit_bytes
            self.credit_due_bytes += credit_bytes
        self.queue = kept

    def _drop_queued(self, places: set[Place]) -> None:
        kept = [queued for queued in self.queue if _place(queued.batch) not in places]
        gone_bytes = self.queued_bytes - sum(queued.credit_bytes for queued in kept)
        self.queue = deque(kept)
        self.queued_bytes -= gone_bytes
        self.credit_due_bytes += gone_bytes
        taken = self._taken
        if taken is not None and self.events and _place(taken.batch) in places:
            handed = taken.batch.first_offset + self.index
            self._app_of(_place(taken.batch)).remove(handed, taken.batch.end_offset)
            del self.events[self.index :]

    # --- to the node -----------------------------------------------------------------------------------------------

    def report(self, now_s: float) -> Report:
        self._note_run()
        credit, self.credit_due_bytes = self.credit_due_bytes, 0
        if self._generation is None:
            return Report(credit, [], None)
        parting = {place for place, held in self._with_app.items() if held and place not in self._held}
        answers = self.owes_answer and not (parting and now_s < self._answer_by_s)
        acks = [(place, acked) for place, acked in self._acked.items() if acked]
        if not (acks or self._refusals or answers):
            return Report(credit, [], None)
        refusals, self._refusals, self._acked, self._unsent = self._refusals, [], {}, 0
        if answers:
            self._answered = self._generation
            for place in parting:
                del self._with_app[place]
        taken_over = self._generation if answers or not self.owes_answer else self._generation - 1
        return Report(credit, [], None, Settlement(acks, refusals, taken_over))

    # ---------------------------------------------------------------------------------------------------------------

    def _app_of(self, place: Place) -> OffsetRanges:
        found = self._with_app.get(place)
        if found is None:
            found = self._with_app[place] = OffsetRanges()
        return found

    def _note_run(self) -> None:
        if self._run_stream is not None:
            self._ack_range((self._run_stream, self._run_epoch), self._run_first, self._run_end)
            self._run_stream = None
        self._out = sum(map(len, self._with_app.values()))

    def _ack_range(self, place: Place, first: int, end: int) -> None:
        self._app_of(place).remove(first, end)
        self._acked.setdefault(place, OffsetRanges()).add(first, end)


def _nobody(*_: object) -> None:
    """Used as long as nobody listens."""


def _place(batch: ReceivedBatch) -> Place:
    return batch.stream, batch.epoch
