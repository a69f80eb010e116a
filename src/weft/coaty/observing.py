"""Observations: what an agent receives of one kind, as an iterator with a queue that is bounded in events and bytes.

An observer must read or leave: while its queue is full, the agent reads nothing more from its neighbours. To leave, use
``async with``, ``close()``, or drop the last reference to the observation.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

from weft.limits import COATY_OBSERVED_BYTES_MAX, COATY_OBSERVED_MAX

T = TypeVar("T")


class Observation(Generic[T]):
    """Events from when it was made until it is closed."""

    def __init__(self, leave: Callable[[], None], taken: Callable[[], None]) -> None:
        """``leave`` is called once, on the loop, when nobody observes any longer; ``taken`` whenever there is room
        again.

        Neither may keep a reference to the observation, or it would never be freed.
        """
        self._queue: deque[tuple[T, int]] = deque()
        self._queue_bytes = 0
        self.is_full = False  # from when the queue is full until half of it is taken
        self._arrived = asyncio.Event()
        self._is_closed = False
        self._taken = taken
        self._leave = weakref.finalize(self, _on_loop, asyncio.get_running_loop(), leave)
        self._leave.atexit = False

    def put(self, item: T, size_bytes: int = 0) -> None:
        """The agent calls this. What arrives after ``close`` is dropped."""
        if self._is_closed:
            return
        self._queue.append((item, size_bytes))
        self._queue_bytes += size_bytes
        self.is_full = self.is_full or self._is_over(1)
        self._arrived.set()

    def _is_over(self, divisor: int) -> bool:
        return (
            len(self._queue) >= COATY_OBSERVED_MAX // divisor
            or self._queue_bytes >= COATY_OBSERVED_BYTES_MAX // divisor
        )

    def close(self) -> None:
        """Stop observing. A reader that waits for the next event gets the end of the iteration."""
        self._is_closed = True
        self._queue.clear()
        self._queue_bytes = 0
        self.is_full = False
        self._arrived.set()
        self._leave()
        self._taken()

    async def next(self, timeout_s: float | None = None) -> T:
        """The next event; TimeoutError if none came in time, StopAsyncIteration once it is closed."""
        async with asyncio.timeout(timeout_s):
            while not self._queue:
                if self._is_closed:
                    raise StopAsyncIteration
                self._arrived.clear()
                await self._arrived.wait()
        item, size_bytes = self._queue.popleft()
        self._queue_bytes -= size_bytes
        if self.is_full and not self._is_over(2):
            self.is_full = False
            self._taken()
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await self.next()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _on_loop(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """The garbage collector may run in any thread. If the loop is closed, there is nothing to leave."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(leave)
