"""A subscription: an iterator of events, or of batches, that survives the loss of nodes.

A task puts what nodes deliver into a queue (``intake``), and the application takes events from there. A node sends no
more than its credit allows, and gets credit back for events that the application has finished. So the queue holds at
most one window. After a reconnect the subscription goes on at its own positions, and drops events that come twice
(NFR-02).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self

from opentelemetry.trace import Span

from weft.client.background import begin
from weft.client.by_hand import HandIntake
from weft.client.cursors import Place
from weft.client.errors import Closed, NodeShuttingDown, PositionUnknown, Unavailable, is_retryable
from weft.client.failing import REASON_CHARS_MAX, RETRY_S_MAX, Failing
from weft.client.hooks import LOG, notify
from weft.client.intake import EventIntake
from weft.client.nodes import Nodes
from weft.client.received import Received, ReceivedBatch
from weft.client.refs import stream_positions
from weft.client.session import SubscribeSession
from weft.client.speech import Speech
from weft.client.start import resumed
from weft.client.tracing import Tracing
from weft.errors import UsageError, WeftError
from weft.model import Pattern, Position
from weft.wire.mesh import mesh_pb2 as pb

Commit = Literal["auto", "manual"]


class Subscription:
    """Events that match a pattern. Iterate over it, or over ``batches()``; leave by ``async with`` or ``close``."""

    def __init__(
        self,
        nodes: Nodes,
        pattern: Pattern,
        *,
        group: str,
        member: str,
        start: Callable[[], Awaitable[pb.Start]],
        commit: Commit,
        failing: Failing,
        on_closed: Callable[[Subscription], None],
    ) -> None:
        self.pattern: Final = pattern
        self.group: Final = group
        self.commit: Final = commit
        self._nodes = nodes
        self._options = nodes.options
        self._member = member
        self._start = start
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._failing = failing
        self._by_hand = HandIntake(failing.window) if group and commit == "manual" else None
        self._intake = self._by_hand or EventIntake(in_group=bool(group), is_auto=commit == "auto")
        self._arrived = asyncio.Event()  # something is in the queue, or nothing ever will be
        self._speech = Speech(self._loop, self._options.handled_interval_s, self._options.credit_bytes)
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._opened_us = 0
        self._session: SubscribeSession | None = None  # while one is open
        self._end: WeftError | None = None
        self._tracing = nodes.tracing
        self._spans: list[Span] = []  # the spans of the batch that was handed out last
        self._task = begin(self._loop, self._run(), f"weft subscribe {pattern}")

    # --- for the application ---------------------------------------------------------------------------------------

    async def opened(self) -> None:
        """Wait until a node has accepted the subscription; raise the node's refusal."""
        await asyncio.wait({self._opened})
        self._opened.result()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        intake = self._intake
        index = intake.index
        if index < len(intake.events):
            intake.index = index + 1
            if self.group:
                self._speech.soon()
            return intake.events[index]
        while (batch := intake.take()) is None:
            await self._wait_for_more()
        intake.events, intake.index = batch.events(), 1
        self._has_taken(batch)
        return intake.events[0]

    async def next_batch(self) -> ReceivedBatch | None:
        """The next batch, as Arrow; None after ``close``. Do not mix this with iterating over events."""
        try:
            while (batch := self._intake.take()) is None:
                await self._wait_for_more()
        except StopAsyncIteration:
            return None
        self._has_taken(batch)
        return batch

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        """Iterate over batches, as Arrow. Do not mix this with iterating over events."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def handled(self, what: Received | ReceivedBatch | Position) -> None:
        """Say that everything up to and including this event or batch, or before this position, is handled."""
        position = what if isinstance(what, Position) else what.next_position
        if self._by_hand is not None:
            self._by_hand.ack_before(position)
        else:
            self._intake.cursors.handled(position)
        self._speech.soon()

    async def ack(self, event: Received) -> None:
        """Acknowledge this event, independently of those before it. The node hears of it within
        ``handled_interval_s``."""
        by_hand = self._by_hand
        if by_hand is None:
            by_hand = self._hand  # raises if this is no subscription by hand
        if by_hand.ack(event):
            self._speech.now()
            await asyncio.sleep(0)  # lets the message go out even if the application never waits for anything else
        else:
            self._speech.soon()

    async def nack(self, event: Received, *, delay_s: float | None = None, reason: str = "") -> None:
        """Refuse this event, because it could not be handled. It comes again, here or to another member, after
        ``delay_s`` or when the group's policy says; after too many tries it becomes a dead letter with this reason."""
        if delay_s is not None and not 0 <= delay_s <= RETRY_S_MAX:
            raise UsageError("delay_s is out of range", value=delay_s, least=0, most=RETRY_S_MAX)
        self._hand.refuse(event, delay_s, reason.encode(errors="replace").decode()[:REASON_CHARS_MAX])
        self._speech.now()

    def put_back(self, offset: int) -> None:
        """For iterators over batches: the batch in hand was handed out only up to this offset."""
        self._hand.put_back(offset)

    def watch(self, given_back: Callable[[Place, int], None], answered: Callable[[Place], None]) -> None:
        """For code that hands events on: it learns which events come again, behind which offset, and when a refusal was
        answered."""
        self._hand.on_given_back, self._hand.on_answered = given_back, answered

    def is_stalled(self, place: Place) -> bool:
        """Whether a refusal waits for its answer."""
        return self._hand.is_stalled(place)

    def forget(self, events: Iterable[Received]) -> None:
        """These events were handed out, and nobody has begun with them."""
        self._hand.forget(events)

    @property
    def _hand(self) -> HandIntake:
        if self._by_hand is None:
            raise UsageError('events are acknowledged one by one in a group, with commit="manual"', group=self.group)
        return self._by_hand

    async def close(self) -> None:
        """Report what was handled, and leave. Events that were received and not handled go back to the group."""
        if self._end is None:
            self._finish(Closed("the subscription is closed"))
            self._speech.last()
            if self._session is not None:
                await asyncio.wait({self._task}, timeout=self._options.close_timeout_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._speech.stop()
        self._intake.queue.clear()
        self._end_spans()
        self._on_closed(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def trace_events(self) -> Tracing | None:
        """For code that hands on events one by one: it makes their spans itself, with what this returns."""
        tracing, self._tracing = self._tracing, None
        return tracing

    def _end_spans(self) -> None:
        for span in self._spans:
            span.end()
        self._spans = []

    async def _wait_for_more(self) -> None:
        self._end_spans()
        self._tell()
        if self._intake.has_more:
            return
        if isinstance(self._end, Closed):
            raise StopAsyncIteration
        if self._end is not None:
            raise self._end
        self._arrived.clear()
        await self._arrived.wait()

    def _tell(self) -> None:
        """Something was taken or put down; the node has to know sooner or later."""
        if self._intake.owes_answer:
            self._speech.now()
        elif self.group:
            self._speech.soon()
        self._speech.credit_due(self._intake.credit_due_bytes)

    def _has_taken(self, batch: ReceivedBatch) -> None:
        intake = self._intake
        if self._session is not None:
            self._session.has_taken()
        self._tell()
        if self._tracing is not None:
            self._end_spans()
            self._spans = self._tracing.handing_out(batch)
        notify(self._nodes.hooks.on_delivered, batch.stream.topic, len(batch), intake.taken_bytes)

    # --- with nodes ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._run_sessions()
        except WeftError as error:
            LOG.warning("subscription to %s ended: %s", self.pattern, error)
            self._finish(error)
        except Exception as error:  # a bug of ours: end the subscription, so that nobody waits for ever
            LOG.exception("subscription to %s has failed", self.pattern)
            self._finish(Unavailable(f"the client has failed: {error!r}"))

    async def _run_sessions(self) -> None:
        """Run one session after the other until the subscription is closed; raise an error that no other node can help
        with."""
        start = await self._start()
        backoff = self._nodes.backoff()
        lacking: set[str] = set()  # nodes that do not have our positions; another node may
        attempts = self._nodes.attempts("subscribe", backoff, self._nodes.last_good)
        reason: object = "connection lost"
        while not self._speech.is_last:
            address = await attempts.next(reason)
            session = SubscribeSession(self._nodes, address, self._intake, self._speech, self._arrived)
            begun_s = self._loop.time()
            try:
                await session.run(self._open_message(start), partial(self._has_opened, session))
                return
            except WeftError as error:
                if isinstance(error, PositionUnknown) and self._opened.done():
                    lacking.add(address)
                    if lacking.issuperset(self._nodes.book.all()):
                        raise
                elif not is_retryable(error):
                    raise
                reason = error
            finally:
                self._session = None
            if session.has_delivered or self._loop.time() - begun_s > self._options.backoff_s_max:
                backoff.succeeded()
                lacking.clear()
                leaving = isinstance(reason, NodeShuttingDown)
                if leaving:
                    backoff.failed()
                preferred, avoided = (None, address) if leaving else (address, None)
                attempts = self._nodes.attempts("subscribe", backoff, preferred, avoided)

    def _open_message(self, start: pb.Start) -> pb.SubscribeOpen:
        """Without a group, we go on at our own positions; with one, at the group's, and drop what we have had."""
        if self._opened.done() and not self.group:
            positions = stream_positions(self._intake.cursors.resume_at())
            start = resumed(start, positions, self._opened_us)
        return pb.SubscribeOpen(
            pattern=self.pattern,
            group=self.group,
            member=self._member,
            start=start,
            # Events that still wait here use a part of the window.
            credit_bytes=max(self._options.credit_bytes - self._intake.held_bytes, 1),
            paged=True,
            window=self._failing.window if self._by_hand is not None else 0,
            policy=self._failing.policy if self._by_hand is not None else None,
        )

    def _has_opened(self, session: SubscribeSession) -> None:
        self._session = session
        if not self._opened.done():
            self._opened_us = time.time_ns() // 1000
            self._opened.set_result(None)

    def _finish(self, end: WeftError) -> None:
        self._end = self._end or end
        self._arrived.set()
        if not self._opened.done():
            self._opened.set_exception(end)
            self._opened.exception()  # if nobody waits for it, the iterator raises it
