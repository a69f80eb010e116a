"""When a subscription says something to its node: at once, or a little later together with more. Owns one timer."""

from __future__ import annotations

import asyncio
from typing import Final

CREDIT_SHARE: Final = 4  # credit is given back in quarters of the window: few messages, and the node is never idle


class Speech:
    """Notes that something is to be said. The task that says it waits for ``wanted``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interval_s: float, window_bytes: int) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._window_bytes = window_bytes
        self._timer: asyncio.TimerHandle | None = None
        self._wanted = asyncio.Event()
        self.is_last = False

    def soon(self) -> None:
        """Say something within the interval; calls until then share one message."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._wanted.set)

    def now(self) -> None:
        self._wanted.set()

    def credit_due(self, size_bytes: int) -> None:
        """So much credit is to be given back: at once if it is a good part of the window. Less waits for the next
        message: the node still has the rest of the window, or what it has used of that waits here and will be due."""
        if size_bytes * CREDIT_SHARE >= self._window_bytes:
            self.now()

    def last(self) -> None:
        """Say the last thing now."""
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
