"""What was seen lately, each thing for a time of its own, and never more than a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)


class ReplayMarks(Protocol):
    """What a judge of datagrams remembers packets by. ``Recent`` is one, ``seen.Seen`` another for a great many."""

    @property
    def evicted(self) -> int:
        """How many were forgotten before their time: they could come again."""

    def holds(self, key: bytes, now_s: float, /) -> bool: ...

    def add(self, key: bytes, until_s: float, now_s: float, /) -> None: ...


class NoMarks:
    """For judges whose replays somebody else finds."""

    evicted: Final = 0

    def holds(self, _key: bytes, _now_s: float) -> bool:
        return False

    def add(self, _key: bytes, _until_s: float, _now_s: float) -> None:
        pass


class Recent(Generic[Key]):
    """Keys and until when they count. When there is no room the oldest goes, and ``evicted`` counts it."""

    def __init__(self, keys_max: int) -> None:
        assert keys_max > 0, "a cache without room would forget everything at once"
        self.evicted = 0
        self._keys_max = keys_max
        # Oldest first. A plain dict would look for its oldest behind everything deleted before it: when the cache is
        # full, that is a hundred microseconds a key.
        self._until_s: OrderedDict[Key, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until_s)

    def holds(self, key: Key, now_s: float) -> bool:
        until_s = self._until_s.get(key)
        return until_s is not None and now_s <= until_s

    def add(self, key: Key, until_s: float, now_s: float) -> None:
        """Remember it, or for longer."""
        self._until_s.pop(key, None)  # so that it goes to the young end
        self._make_room(now_s)
        self._until_s[key] = until_s

    def _make_room(self, now_s: float) -> None:
        """Two at most for each that is added: the cost stays flat, and what has expired goes away in the end."""
        for _ in range(2):
            oldest = next(iter(self._until_s), None)
            if oldest is None:
                return
            expired = self._until_s[oldest] < now_s
            if not expired and len(self._until_s) < self._keys_max:
                return
            self.evicted += not expired
            del self._until_s[oldest]
