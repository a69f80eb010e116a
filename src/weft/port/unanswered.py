"""How much a node holds of what publishers sent and it has not answered yet, of all of them together."""

from __future__ import annotations

import asyncio


class UnansweredBytes:
    """Publish streams count in what they read, and wait while it is too much."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: set[asyncio.Event] = set()
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        return self.bytes > self._bytes_max

    def take(self, size: int) -> None:
        self.bytes += size

    def give_back(self, size: int) -> None:
        self.bytes -= size
        if self._waiting and not self.is_full:
            for event in self._waiting:
                event.set()
            self._waiting.clear()

    def wake_with_room(self, event: asyncio.Event) -> None:
        """Set the event once there is room again."""
        self._waiting.add(event)
