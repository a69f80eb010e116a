"""The turns of a session on asyncio: one timer, and tasks that wait until something has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Turns:
    """``on_timer`` is called at the time given by ``look_again``."""

    def __init__(self, on_timer: Callable[[], None]) -> None:
        self.is_closed = False
        self._on_timer = on_timer
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0  # when the timer is due
        self._changed: asyncio.Future[None] = self._loop.create_future()

    async def changed(self) -> None:
        """Wait until something has happened. Several tasks may wait; cancelling one of them does not affect the
        others."""
        await asyncio.shield(self._changed)

    def happened(self, look_again_s: float) -> None:
        """Wake the tasks that wait, and look again at that time of the loop's clock. Does nothing once closed."""
        if self.is_closed:
            return
        if self._timer is None or self._timer_s != look_again_s:
            self._cancel()
            self._timer_s = look_again_s  # kept here, because uvloop's handle has no time if it is due at once
            self._timer = self._loop.call_at(look_again_s, self._due)
        self._changed.set_result(None)
        self._changed = self._loop.create_future()

    def close(self) -> None:
        """Wake the tasks that wait, for the last time."""
        self.is_closed = True
        self._cancel()
        if not self._changed.done():
            self._changed.set_result(None)

    def _due(self) -> None:
        self._timer = None
        self._on_timer()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
