"""Calling a function with every event: ``client.run``.

Events of one stream with the same key are handled one after the other, in order; others run at the same time, up to
``concurrency`` at once. If the function returns, the event is acknowledged; if it raises, the event is refused. After a
refusal, events with that key wait for the node's answer. If the group wants order, events that were not begun are given
back to the node, and come again behind the refused one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final

from weft.client.background import begin
from weft.client.cursors import Place
from weft.client.hooks import LOG
from weft.client.received import Received
from weft.client.subscription import Subscription
from weft.errors import UsageError

Handler = Callable[[Received], Awaitable[None] | None]
Key = tuple[Place, bytes | int]  # an event without a key gets a lane of its own: its offset takes the key's place
NOTHING: Final = nullcontext()
CONCURRENCY_MAX: Final = 4096  # the largest window: no more events can be in hand


class Lane:
    """Events with one key, in their order."""

    __slots__ = ("events", "task")

    def __init__(self) -> None:
        self.events: deque[Received] = deque()  # not begun
        self.task: asyncio.Task[None] | None = None


class Handling:
    """The work of one subscription."""

    def __init__(self, subscription: Subscription, handler: Handler, concurrency: int) -> None:
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise UsageError("concurrency is out of range", value=concurrency, least=1, most=CONCURRENCY_MAX)
        self._subscription = subscription
        self._handler = handler
        self._room = asyncio.Semaphore(concurrency)
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[Key, Lane] = {}
        self._answers: dict[Place, list[asyncio.Future[None]]] = {}  # lanes that wait for the answer to a refusal
        self._tracing = subscription.trace_events()
        subscription.watch(self._given_back, self._answered)

    async def run(self) -> None:
        """Handle events until the subscription ends."""
        async with self._subscription:
            try:
                async for event in self._subscription:
                    self._add(event)
            finally:
                await self._stop()

    def _add(self, event: Received) -> None:
        place = event.stream, event.epoch
        key = place, event.offset if event.key is None else event.key
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane()
        lane.events.append(event)
        if lane.task is None:
            lane.task = begin(self._loop, self._work(key, lane), "weft handler")

    async def _work(self, key: Key, lane: Lane) -> None:
        try:
            while lane.events:
                async with self._room:
                    if not lane.events:
                        return  # it was given back meanwhile
                    event = lane.events.popleft()
                    refused = await self._handle(event)
                if refused:
                    await self._answer(key[0])
        finally:
            lane.task = None
            if not lane.events:
                self._lanes.pop(key, None)

    async def _handle(self, event: Received) -> bool:
        """Handle one event; return whether it failed."""
        try:
            with NOTHING if self._tracing is None else self._tracing.handling(event):
                result = self._handler(event)
                if inspect.isawaitable(result):
                    await result
        except Exception as error:
            LOG.warning("could not handle %s: %r", event.id, error)
            await self._subscription.nack(event, reason=f"{type(error).__name__}: {error}")
            return True
        await self._subscription.ack(event)
        return False

    async def _answer(self, place: Place) -> None:
        if self._subscription.is_stalled(place):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._answers.setdefault(place, []).append(waiter)
            await waiter

    # --- called by the subscription --------------------------------------------------------------------------------

    def _given_back(self, place: Place, after: int) -> None:
        """Begin no more events of this stream behind this offset: they come again, here or to another member."""
        for (lane_place, _), lane in list(self._lanes.items()):
            if lane_place == place:
                given_back = [event for event in lane.events if event.offset > after]
                lane.events = deque(event for event in lane.events if event.offset <= after)
                self._subscription.forget(given_back)

    def _answered(self, place: Place) -> None:
        for waiter in self._answers.pop(place, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def _stop(self) -> None:
        """Stop. Events that were begun and are not finished go back to the group."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
