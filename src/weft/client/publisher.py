"""Publishing: takes events, keeps a link to one node, and never sends an event to a node if that could store it twice.

New batches go to one node, the **home**. When the link to it breaks, batches that were not acknowledged are in doubt,
and wait for that node. All others go to a new home. If the new home is another node, a **recovery** keeps trying to
reach the old one until it is back, or the batches in doubt have expired. Two links to one node could overtake each
other, so there is only one: if the new home is a node that a recovery looks for, the recovery ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from time import time_ns
from typing import Final

from weft.client import tracing
from weft.client.background import begin
from weft.client.chunk import Chunk, Lane, Timing, Whole, settled, size_of
from weft.client.errors import (
    BehindRefused,
    Closed,
    DiskFull,
    NodeShuttingDown,
    PublishInDoubt,
    Unauthenticated,
    Unavailable,
    is_retryable,
)
from weft.client.hooks import LOG, Hooks, notify
from weft.client.in_doubt import InDoubt
from weft.client.link import PublishLink
from weft.client.nodes import Attempts, Nodes
from weft.client.outbox import PublishOutbox
from weft.client.publish_message import PublishMessage
from weft.errors import UsageError, WeftError
from weft.limits import KIB
from weft.model import Receipt
from weft.schema.errors import SchemaBroken

CLIENT_MESSAGE_BYTES: Final = 512 * KIB  # a message takes batches up to this size, then one more of any size


class Publisher:
    """The publishing half of a client."""

    def __init__(self, nodes: Nodes, producer: bytes, partitions: int) -> None:
        options = nodes.options
        self._nodes = nodes
        self._hooks: Hooks = nodes.hooks
        self._has_hooks = type(nodes.hooks) is not Hooks  # of the application
        self._producer = producer
        self._wake = asyncio.Event()
        self._resting: PublishLink | None = None  # a link that has sent everything, while its task waits for ``_wake``
        self._is_called = False  # ``_send_some`` is scheduled for the end of this turn of the loop
        self._mistake: Exception | None = None  # raised in ``_send_some``: a bug of ours
        self.outbox: Final = PublishOutbox(
            partitions=partitions,
            batch_bytes=options.batch_bytes,
            bytes_max=options.unacknowledged_bytes_max,
            wake=self._on_work,
            read_clock=self._read_clock,
        )
        self._sequences = count(1)
        self._refusals = nodes.backoff()
        self._in_doubt = InDoubt(options.in_doubt_timeout_s)
        self._loop = asyncio.get_running_loop()
        self._home: asyncio.Task[None] | None = None
        self._recoveries: dict[str, asyncio.Task[None]] = {}
        self._expiry: asyncio.Task[None] | None = None
        self._room_waiters: list[asyncio.Future[None]] = []
        self._unseen_failure: WeftError | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._closed = False

    # --- for the client --------------------------------------------------------------------------------------------

    async def publish_whole(self, topic: str, partition: int, whole: Whole, copies: int) -> Receipt:
        """Publish a batch, once there is room for it, and wait for its receipt."""
        await self.wait_for_room(size_of(whole), plenty=False)
        chunk = self.outbox.add_whole(topic, partition, whole, copies)
        if self._nodes.tracing is not None:
            chunk.headers = [self._nodes.tracing.headers(None)]
        await settled(chunk)
        if isinstance(chunk.outcome, Receipt):
            return chunk.outcome
        assert chunk.outcome is not None, "a settled chunk has an outcome"
        raise chunk.outcome

    async def wait_for_room(self, size: int = 0, *, plenty: bool = True) -> None:
        """Wait until this much may be added; with ``plenty``, until half of the bound is free."""
        while not self.outbox.fits(size) or (plenty and not self.outbox.has_plenty):
            waiter = self._loop.create_future()
            self._room_waiters.append(waiter)
            await waiter

    async def flush(self) -> None:
        """Wait until everything published so far has its outcome; raise the first failure that nobody has waited
        for."""
        for chunk in list(self.outbox.unsettled):
            if chunk.outcome is None:
                await settled(chunk, watching=False)
        if self._unseen_failure is not None:
            failure, self._unseen_failure = self._unseen_failure, None
            raise failure

    async def close(self, timeout_s: float) -> None:
        """Wait this long for receipts, then give up the batches that have none."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            LOG.warning("closing with %d batches that have no receipt", len(self.outbox.unsettled))
        except WeftError:
            pass  # it was logged when it happened, and nobody waits for it
        finally:
            tasks = [task for task in (self._home, self._expiry, *self._recoveries.values()) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._home = None
            for timer in self._timers:
                timer.cancel()
            self._give_up_doubts(float("inf"))
            self._fail_waiting(Unavailable("the client was closed before a node could be reached"))

    # --- home ------------------------------------------------------------------------------------------------------

    def _on_work(self) -> None:
        if self._resting is not None:
            if not self._is_called:
                self._is_called = True
                self._loop.call_soon(self._send_some)
            return
        if self._home is None:
            if self._closed:
                raise Closed("the client is closed")
            self._home = begin(self._loop, self._run(), "weft publish")
        self._wake.set()

    async def _run(self) -> None:
        try:
            await self._run_home()
        except Exception as error:  # a bug of ours: fail everything that waits, so that nobody waits for ever
            LOG.exception("publishing has failed")
            self._home = None
            failure = Unavailable(f"the client has failed: {error!r}")
            self._fail_waiting(failure)
            for chunk in [chunk for chunk in self.outbox.unsettled if not chunk.doubtful]:
                self._settle(chunk, failure)  # the chunk that it failed on

    async def _run_home(self) -> None:
        backoff = self._nodes.backoff()
        preferred, avoided = self._nodes.last_good, None
        reason: object = "connection lost"
        while True:
            while not (self.outbox.waiting or self._in_doubt.nodes):
                self._wake.clear()
                await self._wake.wait()
            link = await self._open_home(self._nodes.attempts("publish", backoff, preferred, avoided), reason)
            if link is None:
                backoff.failed()
                continue
            await self._end_recovery(link.node)
            self.outbox.list_all()
            for node, address in self._in_doubt.nodes.items():
                if node != link.node:
                    self._recover(node, address)
            opened_s = self._loop.time()
            await self._run_link(link, self._send_new)
            self.outbox.resume_all()
            if link.has_acknowledged or self._loop.time() - opened_s > self._nodes.options.backoff_s_max:
                backoff.succeeded()
            if link.leaving or not link.has_acknowledged:
                backoff.failed()
            preferred, avoided = (None, link.address) if link.leaving else (link.address, None)
            reason = link.leaving or "connection lost"

    async def _open_home(self, attempts: Attempts, reason: object) -> PublishLink | None:
        """Open a link to the first node that accepts one. If a node refuses for good, return None, after everything
        that waits has failed with that error."""
        while True:
            address = await attempts.next(reason)
            try:
                return await PublishLink.open(self._nodes, address, self._producer)
            except WeftError as error:
                reason = error
                if not is_retryable(error):
                    self._fail_waiting(error)
                    return None

    async def _send_new(self, link: PublishLink) -> None:
        """Send what waits and what comes, until the node is leaving and has answered everything."""
        while True:
            message = PublishMessage()
            if not link.leaving and self._fill(message, link):
                await link.send(message)
            elif link.leaving and not link.unacknowledged:
                return
            else:
                await self._rest(link)

    async def _rest(self, link: PublishLink) -> None:
        """Sleep as long as ``_send_some`` can send all events as they come."""
        self._wake.clear()
        self._resting = link
        try:
            await self._wake.wait()
        finally:
            self._resting = None
        if self._mistake is not None:
            mistake, self._mistake = self._mistake, None
            raise mistake
        await link.wait_for_room()

    def _send_some(self) -> None:
        """Send everything that was published in this turn of the loop, up to one message, without waking a task for
        it."""
        self._is_called = False
        self.outbox.now_us = 0
        link = self._resting
        if link is None or link.leaving:
            self._wake.set()
            return
        try:
            message = PublishMessage()
            if self._fill(message, link):
                link.send_now(message)
        except Exception as error:
            self._mistake = error
        if self._mistake is not None or self.outbox.has_ready or link.is_full:
            self._wake.set()

    def _fill(self, message: PublishMessage, link: PublishLink) -> bool:
        """Gather chunks in one message while it is small, because each message costs time. Return whether it has any.
        The last chunk may be as large as a batch can be; the chunks before it leave room for that."""
        size = 0
        while size < CLIENT_MESSAGE_BYTES and (chunk := self.outbox.next(link.in_flight)) is not None:
            if self._seal(chunk, link):
                link.put(chunk, message)
                size += len(chunk.data)
        return size > 0

    def _seal(self, chunk: Chunk, link: PublishLink) -> bool:
        """Make the batch of a chunk. Return False if none of its events can be sent; the chunk is settled then."""
        if chunk.lane.timing is not Timing.NOW and link.clock_us is None:
            self._settle(chunk, UsageError("this node is older than events for a later time", node=link.node))
            return False
        tracing = self._nodes.tracing
        if tracing is not None and chunk.first_sent_s is None:
            chunk.span = tracing.sending(chunk.lane.topic, len(chunk.payloads), chunk.headers or ())
            if chunk.whole is None:
                chunk.headers = tracing.carried(chunk.span, len(chunk.payloads), chunk.headers)
        if not chunk.seal(self._producer, next(self._sequences), link.clock_us or 0):
            failure = UsageError("none of the events can be in a batch", topic=chunk.lane.topic)
            self._settle(chunk, next(iter(chunk.failures.values()), failure))
            return False
        if chunk.first_sent_s is None:
            chunk.first_sent_s = self._loop.time()
            if chunk.span is not None:
                chunk.span.set_attribute("messaging.batch.message_count", chunk.events)
        return True

    # --- links -----------------------------------------------------------------------------------------------------

    async def _run_link(self, link: PublishLink, then: Callable[[PublishLink], Awaitable[None]] | None) -> None:
        """Serve a link until it breaks: first send what is in doubt at this node again, in order, then run ``then``."""
        LOG.info("publishing to %s at %s", link.node, link.address)
        notify(self._hooks.on_connected, link.address, link.node, "publish")
        doubts = self._in_doubt.take(link.node)
        reader = self._loop.create_task(link.read(partial(self._answered, link)))
        writer = self._loop.create_task(self._write(link, doubts, then))
        reason: WeftError | None = None  # None: we ended it
        try:
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if isinstance(error := task.exception(), WeftError):
                    reason = error
                    link.leaving = link.leaving or (error if isinstance(error, NodeShuttingDown) else None)
                elif error is not None:
                    raise error
        finally:
            reader.cancel()
            writer.cancel()
            link.close()
            await asyncio.gather(reader, writer, return_exceptions=True)
            self._lost(link, doubts, reason)

    async def _write(
        self, link: PublishLink, doubts: list[Chunk], then: Callable[[PublishLink], Awaitable[None]] | None
    ) -> None:
        """Send the chunks in doubt, one of each lane at a time; then run ``then``.

        One at a time, because a refused chunk can no longer be sent once the node has accepted a later one of its lane.
        """
        while doubts:
            firsts: dict[Lane, Chunk] = {}
            for chunk in doubts:
                firsts.setdefault(chunk.lane, chunk)
            for chunk in firsts.values():
                doubts.remove(chunk)
                message = PublishMessage()
                link.put(chunk, message)
                await link.send(message)
            while link.unacknowledged:
                await settled(next(iter(link.unacknowledged.values())), watching=False)
        if then is not None:
            await then(link)

    def _answered(self, link: PublishLink, chunk: Chunk, outcome: Receipt | WeftError) -> None:
        lane = chunk.lane
        if isinstance(outcome, Receipt):
            self._refusals.succeeded()
            if self._has_hooks:
                latency_s = self._loop.time() - (chunk.first_sent_s or 0.0)
                notify(self._hooks.on_published, lane.topic, chunk.events, len(chunk.data), latency_s)
            self._settle(chunk, outcome)
        elif is_retryable(outcome):
            if chunk.doubtful:
                # The node refused it without looking into its log, which may have it from before. So it stays in doubt,
                # and the link ends.
                self._in_doubt.add(link.node, link.address, [chunk], self._loop.time())
                raise outcome
            self.outbox.refused(chunk)
            lane.waits_out = lane.waits_out or not isinstance(outcome, BehindRefused)
            if isinstance(outcome, NodeShuttingDown | DiskFull):
                link.leaving = outcome
                self._wake.set()
        elif isinstance(outcome, SchemaBroken) and not chunk.doubtful and self._is_sent_again(chunk, outcome):
            self.outbox.refused(chunk)
        else:
            self._settle(chunk, outcome)
        if not lane.stalled:
            if lane.waiting:
                self.outbox.list_again(lane)
        elif lane not in link.in_flight:
            if lane.waits_out:
                self._resume_later(lane, outcome)
            else:
                self.outbox.resume(lane)
        if link.leaving and not link.unacknowledged:
            self._wake.set()

    def _is_sent_again(self, chunk: Chunk, broken: SchemaBroken) -> bool:
        """Whether a batch can be sent again without the events that broke the schema. Only these events fail."""
        return chunk.take_out_broken(broken) and bool(chunk.data)

    def _resume_later(self, lane: Lane, reason: object) -> None:
        """Everything of a lane is answered, and something was refused: send it again after a while."""
        self._refusals.failed()
        delay_s = self._refusals.delay_s()
        level = logging.WARNING if self._refusals.failures == 1 else logging.INFO  # once, not for every try
        LOG.log(level, "%s is refused for now, trying again in %.2f s: %s", lane.topic, delay_s, reason)
        notify(self._hooks.on_retry, "publish", delay_s, str(reason))

        def resume() -> None:
            self._timers.discard(timer)
            self.outbox.resume(lane)

        timer = self._loop.call_later(delay_s, resume)
        self._timers.add(timer)

    def _lost(self, link: PublishLink, unsent: list[Chunk], reason: WeftError | None) -> None:
        """A link is over. Chunks that were not acknowledged, and those that were in doubt before, wait for its node."""
        if reason is not None:
            LOG.info("no longer publishing to %s at %s: %s", link.node, link.address, reason)
            notify(self._hooks.on_disconnected, link.address, link.node, "publish", str(reason))
        chunks = [*link.unacknowledged.values(), *unsent]
        if isinstance(reason, NodeShuttingDown | Unauthenticated):
            # A node that ends a stream in order has answered everything that it accepted. So only chunks that were in
            # doubt before are still in doubt.
            for chunk in chunks:
                if not chunk.doubtful:
                    self.outbox.refused(chunk)
            chunks = [chunk for chunk in chunks if chunk.doubtful]
        for chunk in chunks:
            chunk.doubtful = True
        self._in_doubt.add(link.node, link.address, chunks, self._loop.time())
        if chunks and (self._expiry is None or self._expiry.done()):
            self._expiry = begin(self._loop, self._run_expiry(), "weft in doubt")

    # --- in doubt --------------------------------------------------------------------------------------------------

    def _recover(self, node: str, address: str) -> None:
        if node not in self._recoveries or self._recoveries[node].done():
            self._recoveries[node] = begin(self._loop, self._run_recovery(node, address), "weft recovery")

    async def _end_recovery(self, node: str) -> None:
        if (recovery := self._recoveries.pop(node, None)) is not None:
            recovery.cancel()
            await asyncio.gather(recovery, return_exceptions=True)

    async def _run_recovery(self, node: str, address: str) -> None:
        """Try to reach the node until nothing is in doubt there: it has answered, or everything has expired."""
        backoff = self._nodes.backoff()
        while node in self._in_doubt.nodes:
            backoff.failed()
            await asyncio.sleep(backoff.delay_s())
            try:
                link = await PublishLink.open(self._nodes, address, self._producer)
            except WeftError as error:
                LOG.info("waiting for %s, which may have batches of ours: %s", node, error)
                continue
            if link.node == node:
                await self._run_link(link, None)
            else:
                link.close()  # the address belongs to another node now

    async def _run_expiry(self) -> None:
        while (until_s := self._in_doubt.next_expiry_s) is not None:
            await asyncio.sleep(max(until_s - self._loop.time(), 0))
            self._give_up_doubts(self._loop.time())

    def _give_up_doubts(self, now_s: float) -> None:
        for node, chunk in self._in_doubt.expire(now_s):
            doubt = PublishInDoubt(
                "sent, and no receipt came: the events may be in the log or not",
                topic=chunk.lane.topic,
                events=chunk.events,
                node=node,
                waited_s=self._nodes.options.in_doubt_timeout_s,
            )
            self._settle(chunk, doubt)

    # --- outcomes --------------------------------------------------------------------------------------------------

    def _settle(self, chunk: Chunk, outcome: Receipt | WeftError) -> None:
        failure = outcome if isinstance(outcome, WeftError) else None
        if chunk.failures and failure is None:
            failure = next(iter(chunk.failures.values()))
        if failure is not None:
            topic, events = chunk.lane.topic, chunk.events or len(chunk.payloads) or len(chunk.failures)
            if isinstance(outcome, Receipt):  # the other events are in the log
                events = len(chunk.failures)
            LOG.warning("gave up %d events of %s: %s", events, topic, failure)
            notify(self._hooks.on_publish_failed, topic, events, str(failure))
            if not chunk.is_watched:
                self._unseen_failure = self._unseen_failure or failure
        if chunk.span is not None:
            tracing.settled(chunk.span, failure)
        self.outbox.settle(chunk, outcome)
        if self._room_waiters:
            waiters, self._room_waiters = self._room_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _fail_waiting(self, error: WeftError) -> None:
        for chunk in self.outbox.take_all():
            self._settle(chunk, error)

    # --- the clock -------------------------------------------------------------------------------------------------

    def _read_clock(self) -> int:
        """Read the time, once for all events of this turn of the loop: a reading for each would double the cost of an
        event."""
        self.outbox.now_us = time_ns() // 1000
        if not self._is_called:  # otherwise ``_send_some`` would not reset it
            self._loop.call_soon(self._forget_clock)
        return self.outbox.now_us

    def _forget_clock(self) -> None:
        self.outbox.now_us = 0
