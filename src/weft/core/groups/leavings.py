"""Frees large objects that are no longer needed, a piece at a time.

Freeing a hundred thousand objects takes nearly as long as making them, and a dropped group may have had positions in
that many streams.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

FREED_AT_ONCE: Final = 2_000  # a millisecond


class Leavings:
    def __init__(self) -> None:
        self._left: list[dict[Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, things: Iterable[dict[Any, Any]]) -> None:
        """Take things that nobody else uses, in order to free them later."""
        self._left += filter(None, things)

    def free_some(self) -> None:
        count = FREED_AT_ONCE
        while self._left and count > 0:
            last = self._left[-1]
            for _ in range(min(count, len(last))):
                last.popitem()
                count -= 1
            if not last:
                self._left.pop()
