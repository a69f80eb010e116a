"""One subscription of an EXMP client: events go out as requests, and the answer to each says that the event is handled.

The core delivers as far as the credit allows, and what it has delivered waits here. Events are taken out of the batches
a few at a time, as far as the client's window allows. When a group gives streams of this member to another one, events
of these streams that wait here are dropped, and the group is told once none is on its way.

A member that settles each event by itself may refuse one: after a failure with ``retry`` in its data, the event comes
again later, and after too many tries it becomes a dead letter.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from weft.core.messages import Acked, AddCredit, Delivered, Handled, Nacked, Settled, Start, StreamKey
from weft.core.policy import RETRY_S_MAX
from weft.errors import PeerError, WeftError
from weft.gateway.exmp.values import events_json
from weft.limits import ERROR_TEXT_CHARS_MAX, MIB
from weft.model import Batch, EventId, Pattern, Position
from weft.port.access import Caller
from weft.port.held import Holding
from weft.port.node import MeshNode
from weft.transport.tcp import Answer, BadAnswer, LinkLost
from weft.wire.exmp import Failure, JsonObject, Success

EXMP_CREDIT_BYTES: Final = 1 * MIB  # delivered to one subscription and not handled yet; at least one batch
EXMP_EVENTS_AT_ONCE: Final = 256  # taken out of a batch: a batch of a million would take a gigabyte as objects


class NotHandled(PeerError):
    """The client answered an event with a failure."""


@dataclass(slots=True)
class InHand:
    """A delivered batch whose events are being sent."""

    key: StreamKey
    batch: Batch
    next_offset: int

    @property
    def is_done(self) -> bool:
        return self.next_offset >= self.batch.end_offset

    def take(self) -> Iterator[JsonObject]:
        stream, epoch = self.key
        first, self.next_offset = self.next_offset, min(self.next_offset + EXMP_EVENTS_AT_ONCE, self.batch.end_offset)
        return events_json(stream, epoch, self.batch, first, self.next_offset)


@dataclass(frozen=True, slots=True)
class Sent:
    """An event on its way: the position of its stream once it is handled, and the credit that it gives back."""

    key: StreamKey
    next_offset: int
    credit_bytes: int

    @property
    def event(self) -> tuple[StreamKey, int]:
        return self.key, self.next_offset - 1


class Feed:
    """``changed`` is called when there may be something to send, ``over`` once if the subscription ends by itself,
    ``closed`` once in any case."""

    def __init__(
        self,
        mesh: MeshNode,
        holding: Holding,
        name: int,
        window: int,
        changed: Callable[[], None],
        over: Callable[[Feed, WeftError], None],
        closed: Callable[[], None] = lambda: None,
        settles: bool = False,
        caller: Caller | None = None,
    ) -> None:
        """``settles``: each event is settled by itself. ``caller``: whose rights it has."""
        self.name = name
        self.caller = caller
        self._settles = settles
        self._acked: list[tuple[StreamKey, int]] = []  # since the last report
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._mesh = mesh
        self._holding = holding
        self._window = window
        self._changed = changed
        self._over = over
        self._closed: Callable[[], None] | None = closed
        self._subscription = 0
        self._group = ""
        self.is_over = False
        self._waiting: deque[Delivered] = deque()
        self._in_hand: InHand | None = None
        self._events: deque[JsonObject] = deque()  # taken out of the batch
        self._sent: deque[Sent] = deque()
        self._held: set[StreamKey] = set()  # of a member: its streams
        self._parting: set[StreamKey] = set()  # streams that it has lost and not released yet
        self._generation = self._taken_over = 0
        self._handled: dict[StreamKey, int] = {}  # since the last report
        self._credit_due_bytes = 0
        self._reporting: asyncio.Handle | None = None

    def open(self, pattern: Pattern, start: Start, group: str, member: str, owner: str) -> None:
        """Raise the node's refusal; ``ready`` says whether the core accepts it."""
        self._group = group
        credit = min(EXMP_CREDIT_BYTES, self._mesh.limits.credit_bytes_max)
        window = self._window if self._settles else 0
        self._subscription = self._mesh.subscribe(
            self, pattern, start, credit, group, member, self._holding, owner, window=window
        )

    def close(self) -> None:
        """Send no more events; those on their way count as not handled."""
        if not self.is_over:
            self._report()
            self.is_over = True
            self._mesh.unsubscribe(self._subscription)
        self._holding.close()
        if self._closed is not None:
            self._closed()
            self._closed = None
        self._drop_all()

    # --- sending -------------------------------------------------------------------------------------------------

    def next(self) -> JsonObject | None:
        """The next event to send, unless there is none or the window is full. ``answered`` gets its answer."""
        if self.is_over or len(self._sent) >= self._window:
            return None
        in_hands = {sent.event for sent in self._sent} if self._settles else set()
        while (event := self._next(in_hands)) is not None:
            if "subscription" in event:
                return event
        return None

    def _next(self, in_hands: set[tuple[StreamKey, int]]) -> JsonObject | None:
        """The next event. One without the subscription's number is skipped, because the client still has it."""
        hand = self._in_hand
        if hand is None:
            if not self._waiting:
                return None
            hand = self._in_hand = _in_hand(self._waiting.popleft())
        if not self._events:
            self._events.extend(hand.take())
        event = self._events.popleft()
        is_last = hand.is_done and not self._events
        credit_bytes = len(hand.batch.data) if is_last else 0
        if is_last:
            self._in_hand = None
        if (hand.key, event["offset"]) in in_hands:
            self._credit_due_bytes += credit_bytes
            return event
        self._sent.append(Sent(hand.key, event["offset"] + 1, credit_bytes))
        event["subscription"] = self.name
        return event

    def answered(self, answer: Answer) -> None:
        """Answers come in the order of events."""
        if self.is_over:
            return
        match answer:
            case Success():
                sent = self._sent.popleft()
                self._credit_due_bytes += sent.credit_bytes
                if self._settles:
                    self._acked.append(sent.event)
                elif self._group:
                    self._handled[sent.key] = sent.next_offset
                self._report_soon()
                self._changed()
            case Failure(description, _, data) if self._settles and data is not None and "retry" in data:
                self._refuse(description, data["retry"])
            case Failure(description):
                self.ended(NotHandled(f"the client answered an event with a failure: {description}"))
            case BadAnswer():
                self.ended(NotHandled(str(answer)))
            case LinkLost():
                pass  # the link ends, and this with it
            case _:
                assert_never(answer)

    def _refuse(self, reason: str, retry: object) -> None:
        """The event comes again: ``retry`` true means when the group's policy says; a number, after so many seconds."""
        is_number = isinstance(retry, int | float) and not isinstance(retry, bool)
        if retry is not True and not (is_number and 0 <= float(str(retry)) <= RETRY_S_MAX):
            self.ended(NotHandled(f"retry is true or seconds up to {RETRY_S_MAX:g}, not {str(retry)[:40]}"))
            return
        sent = self._sent.popleft()
        self._credit_due_bytes += sent.credit_bytes
        (stream, epoch), offset = sent.event
        delay_s = None if retry is True else float(str(retry))
        nack = Nacked(stream, epoch, offset, delay_s, reason[:ERROR_TEXT_CHARS_MAX])
        self._mesh.tell(Settled(self._subscription, self._take_acked(), (nack,), self._taken_over))
        self._report_soon()
        self._changed()

    def _take_acked(self) -> tuple[Acked, ...]:
        """What was handled since the last call, as runs of each stream."""
        acked, self._acked = sorted(self._acked), []
        runs: list[Acked] = []
        for (stream, epoch), offset in acked:
            last = runs[-1] if runs else None
            if last is not None and (last.stream, last.epoch, last.end) == (stream, epoch, offset):
                runs[-1] = Acked(stream, epoch, last.first, offset + 1)
            else:
                runs.append(Acked(stream, epoch, offset, offset + 1))
        return tuple(runs)

    # --- what the node says --------------------------------------------------------------------------------------

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        if not more and not self.ready.done():
            self.ready.set_result(None)

    def deliver(self, batches: Sequence[Delivered]) -> None:
        self._waiting.extend(batches)
        # An assignment leaves out streams whose beginning is still searched for; streams that come behind it are ours
        # as well.
        self._held.update((each.stream, each.epoch) for each in batches)
        self._changed()

    def assigned(self, generation: int, positions: Sequence[Position]) -> None:
        held = {(each.stream, each.epoch) for each in positions}
        lost = self._held - held
        self._held = held
        self._generation = generation
        self._drop(lost)
        on_their_way = {sent.key for sent in self._sent}
        self._parting = (self._parting | lost) & on_their_way - held
        self._report_soon()

    def withdrawn(self, event: EventId, rest: bool) -> None:
        """The refusal was taken. With ``rest``, what waits here behind it in the stream comes again after it."""
        if rest:
            self._drop({(event.stream, event.epoch)})
            self._report_soon()

    def ended(self, error: WeftError) -> None:
        if self.is_over:
            return
        self.close()
        if self.ready.done():
            self._mesh.count_refusal(error)
            self._over(self, error)
        else:
            self.ready.set_exception(error)

    # --- reports -------------------------------------------------------------------------------------------------

    def _report_soon(self) -> None:
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        """One report for all answers of a turn."""
        if self._reporting is not None:
            self._reporting.cancel()
            self._reporting = None
        if self.is_over:
            return
        if self._group:
            self._report_handled()
        if self._credit_due_bytes:
            credit, self._credit_due_bytes = self._credit_due_bytes, 0
            self._holding.give_back(credit)
            self._mesh.tell(AddCredit(self._subscription, credit))

    def _report_handled(self) -> None:
        if self._parting:
            self._parting &= {sent.key for sent in self._sent}
        takes_over = self._taken_over != self._generation and not self._parting
        if not self._handled and not self._acked and not takes_over:
            return
        if takes_over:
            self._taken_over = self._generation
        if self._settles:
            self._mesh.tell(Settled(self._subscription, self._take_acked(), (), self._taken_over))
            return
        handled, self._handled = self._handled, {}
        positions = tuple(Position(stream, epoch, offset) for (stream, epoch), offset in handled.items())
        self._mesh.tell(Handled(self._subscription, positions, self._taken_over))

    # --- dropping ------------------------------------------------------------------------------------------------

    def _drop(self, lost: set[StreamKey]) -> None:
        """Send nothing more of these streams; the credit that they used comes back."""
        if self._in_hand is not None and self._in_hand.key in lost:
            self._events.clear()
            self._credit_due_bytes += len(self._in_hand.batch.data)
            self._in_hand = None
        kept = deque(each for each in self._waiting if (each.stream, each.epoch) not in lost)
        gone_bytes = sum(len(each.data) for each in self._waiting) - sum(len(each.data) for each in kept)
        self._waiting = kept
        self._credit_due_bytes += gone_bytes

    def _drop_all(self) -> None:
        self._waiting.clear()
        self._events.clear()
        self._sent.clear()
        self._in_hand = None


def _in_hand(delivered: Delivered) -> InHand:
    batch = Batch.read_stored(delivered.data)
    return InHand((delivered.stream, delivered.epoch), batch, max(delivered.first_offset, batch.base_offset))
