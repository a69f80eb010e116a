"""Between the node and the application: what was delivered, what the application has in hand, and what the node has to
be told. Pure.

The application takes one batch at a time, and one event at a time out of that. What it has taken is **in hand** until
it asks for the next. After that it counts as handled, unless the application itself says what it has handled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from weft.client.cursors import Cursors, Place
from weft.client.received import Received, ReceivedBatch
from weft.model import Batch, Epoch, Position, Stream

if TYPE_CHECKING:
    from weft.client.by_hand import Settlement


class Queued(NamedTuple):
    """A delivery that waits for the application, and the credit that it used."""

    batch: ReceivedBatch
    credit_bytes: int


class Report(NamedTuple):
    """What to tell the node. Without a generation, the report has no positions."""

    credit_bytes: int
    positions: list[Position]
    generation: int | None
    settled: Settlement | None = None  # of a member that acknowledges by hand


class EventIntake:
    """The state of a subscription. For speed, ``events`` and ``index`` are open to the code that hands out events."""

    def __init__(self, *, in_group: bool, is_auto: bool) -> None:
        self._in_group = in_group
        self._is_auto = is_auto
        self.cursors = Cursors()
        self.queue: deque[Queued] = deque()
        self.queued_bytes = 0
        self.credit_due_bytes = 0
        self.in_hand = False
        self.events: list[Received] = []  # events of the batch in hand, if it is handed out event by event
        self.index = 0  # the index of the event behind the one in hand
        self._taken: Queued | None = None
        self._generation: int | None = None
        self._answered: int | None = None  # the generation that was last reported
        self._answer_by_s = 0.0

    # --- from the node ---------------------------------------------------------------------------------------------

    def delivered(self, stream: Stream, epoch: Epoch, batch: Batch, first_offset: int, tries: int = 0) -> bool:
        """Queue the new events of a batch; return whether there were any. If there were none, the credit is given back
        at once."""
        size = len(batch.data)
        first = self.cursors.take(stream, epoch, max(first_offset, batch.base_offset), batch.end_offset)
        if first is None:
            self.credit_due_bytes += size
            return False
        self.queue.append(Queued(ReceivedBatch(stream, epoch, first, batch), size))
        self.queued_bytes += size
        return True

    def assigned(self, generation: int, positions: Iterable[Position], answer_by_s: float) -> None:
        """Take over an assignment: events of streams that were lost are no longer handed out."""
        self._note_handled()
        lost = self.cursors.assign(positions)
        kept = [queued for queued in self.queue if _place(queued) not in lost]
        gone_bytes = self.queued_bytes - sum(queued.credit_bytes for queued in kept)
        self.queue = deque(kept)
        self.queued_bytes -= gone_bytes
        self.credit_due_bytes += gone_bytes
        if self._taken is not None and _place(self._taken) in lost:
            del self.events[self.index :]
        self._generation, self._answered, self._answer_by_s = generation, None, answer_by_s

    def disconnected(self) -> None:
        """The connection is lost: reports may not have arrived, credit starts again, and which streams are ours is
        unknown until the next assignment."""
        self.cursors.forget_reports()
        self._generation = None
        self.credit_due_bytes = 0

    @property
    def held_bytes(self) -> int:
        """How many bytes of credit are in use by what waits here and by what the application has in hand."""
        return self.queued_bytes + self.taken_bytes

    @property
    def taken_bytes(self) -> int:
        return self._taken.credit_bytes if self._taken is not None else 0

    # --- for the application ---------------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        return bool(self.queue)

    def take(self) -> ReceivedBatch | None:
        """The next batch, or None while there is none. The application has finished what it had in hand."""
        self.put_down()
        if not self.queue:
            return None
        self._taken = self.queue.popleft()
        self.queued_bytes -= self._taken.credit_bytes
        self.in_hand = True
        return self._taken.batch

    def put_down(self) -> None:
        """The application asks for the next item, so it has finished the last one."""
        self.in_hand = False
        self._note_handled()
        if self._taken is not None and self.index >= len(self.events):
            self.credit_due_bytes += self._taken.credit_bytes
            self._taken, self.events, self.index = None, [], 0

    # --- to the node -----------------------------------------------------------------------------------------------

    @property
    def owes_answer(self) -> bool:
        return self._generation is not None and self._answered != self._generation

    def report(self, now_s: float) -> Report:
        """What the node should know by now. From now on, all of it counts as reported."""
        self._note_handled()
        credit, self.credit_due_bytes = self.credit_due_bytes, 0
        if not self._in_group or self._generation is None:
            return Report(credit, [], None)
        if self.owes_answer and self._holds_lost() and now_s < self._answer_by_s:
            return Report(credit, [], None)  # wait: the application still has an event of a stream that was lost
        positions = self.cursors.unreported()
        if self.owes_answer:
            positions += self.cursors.let_go()
            self._answered = self._generation
        elif not positions:
            return Report(credit, [], None)
        return Report(credit, positions, self._generation)

    def _holds_lost(self) -> bool:
        return self.in_hand and self._taken is not None and not self.cursors.holds(_place(self._taken))

    def _note_handled(self) -> None:
        """Work out what was handled from what was handed out, instead of noting it for every event."""
        if not (self._in_group and self._is_auto and self._taken):
            return
        batch = self._taken.batch
        if self.events:
            offset = batch.first_offset + self.index - self.in_hand
        else:
            offset = batch.first_offset if self.in_hand else batch.end_offset
        self.cursors.handled(Position(batch.stream, batch.epoch, offset))


def _place(queued: Queued) -> Place:
    return queued.batch.stream, queued.batch.epoch
