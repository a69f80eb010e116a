"""What is known no longer, freed some at a time.

To free a hundred thousand things takes nearly as long as to make them: a group that is dropped may have stood in so
many streams.
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
        """Nobody else may use them any more."""
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
