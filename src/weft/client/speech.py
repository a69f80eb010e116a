"""When a subscription says something to its node: at once, or together with more a little later. Owns one timer."""

from __future__ import annotations

import asyncio
from typing import Final

CREDIT_SHARE: Final = 4  # credit goes back in quarters of the window: few messages, and the node is never idle


class Speech:
    """Something is to be said. The one who says it waits for ``wanted``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interval_s: float, window_bytes: int) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._window_bytes = window_bytes
        self._timer: asyncio.TimerHandle | None = None
        self._wanted = asyncio.Event()
        self.is_last = False

    def soon(self) -> None:
        """Within the interval; calls until then are one."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._wanted.set)

    def now(self) -> None:
        self._wanted.set()

    def credit_due(self, size_bytes: int) -> None:
        """So much is to be given back: at once if it is a good part of the window. Less goes with what else is said:
        the node has the rest of the window, or what it has used of that waits here and will be due."""
        if size_bytes * CREDIT_SHARE >= self._window_bytes:
            self.now()

    def last(self) -> None:
        """Now, and never again."""
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
