"""A bounded queue from which urgent things come out first (EMM-29, EMC-02). Pure."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class UrgentFirst(Generic[Item]):
    """Urgent items have room of their own, so a heap of others does not keep them out.

    When there is no room, the item that comes last is not taken: those before it are closer to their turn.
    """

    def __init__(self, items_max: int) -> None:
        """``items_max``: of each kind."""
        self._items_max = items_max
        self._urgent: deque[Item] = deque()
        self._normal: deque[Item] = deque()

    def __len__(self) -> int:
        return len(self._urgent) + len(self._normal)

    def has_room(self, count: int, urgent: bool) -> bool:
        return len(self._of_kind(urgent)) + count <= self._items_max

    def put(self, item: Item, urgent: bool) -> bool:
        """Whether there was room."""
        if not self.has_room(1, urgent):
            return False
        self._of_kind(urgent).append(item)
        return True

    def first(self) -> Item:
        """What ``pop`` will give."""
        return (self._urgent or self._normal)[0]

    def pop(self) -> Item:
        return (self._urgent or self._normal).popleft()

    def clear(self) -> int:
        """Forget everything; how many that were."""
        forgotten = len(self)
        self._urgent.clear()
        self._normal.clear()
        return forgotten

    def _of_kind(self, urgent: bool) -> deque[Item]:
        return self._urgent if urgent else self._normal
