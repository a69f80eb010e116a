"""When a subscription sends a message to its node: at once, or a little later, with more in it. Owns one timer."""

from __future__ import annotations

import asyncio
from typing import Final

CREDIT_SHARE: Final = 4  # credit is given back in quarters of the window: few messages, and the node is never idle


class Speech:
    """Notes that there is something to send. The task that sends it waits for ``wanted``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interval_s: float, window_bytes: int) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._window_bytes = window_bytes
        self._timer: asyncio.TimerHandle | None = None
        self._wanted = asyncio.Event()
        self.is_last = False

    def soon(self) -> None:
        """Send a message within the interval; all calls until then share it."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._wanted.set)

    def now(self) -> None:
        self._wanted.set()

    def credit_due(self, size_bytes: int) -> None:
        """Give this much credit back: at once if it is a quarter of the window, otherwise with the next message.

        A smaller amount can wait. Either the node still has credit left, or the events that used it wait here, and
        their credit is given back soon.
        """
        if size_bytes * CREDIT_SHARE >= self._window_bytes:
            self.now()

    def last(self) -> None:
        """Send the last message now."""
        self.is_last = True
        self._wanted.set()

    async def wanted(self) -> None:
        await self._wanted.wait()
        self._wanted.clear()
        self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
