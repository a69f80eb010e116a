"""Which messages have come by: a memory bounded in time and in number."""

from __future__ import annotations

from typing import Final

FLOODSUB_SEEN_S: Final = 120.0  # four times as long as the reference remembers
FLOODSUB_SEEN_MAX: Final = 1 << 17  # 120 s at 1,000 messages/s; oldest go first


class Seen:
    """Message ids in the order in which they came; the oldest go first."""

    def __init__(self, *, seconds_max: float = FLOODSUB_SEEN_S, count_max: int = FLOODSUB_SEEN_MAX) -> None:
        assert count_max > 0, "what was just added must stay"
        self._seconds_max = seconds_max
        self._count_max = count_max
        self._since_s: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    def has(self, message_id: bytes, now_s: float) -> bool:
        since_s = self._since_s.get(message_id)
        return since_s is not None and now_s - since_s < self._seconds_max

    def add(self, message_id: bytes, now_s: float) -> None:
        """Remember ``message_id`` from now on, and forget what is too old or too much."""
        self._since_s.pop(message_id, None)
        self._since_s[message_id] = now_s
        while len(self._since_s) > self._count_max or now_s - self._oldest_s() >= self._seconds_max:
            del self._since_s[next(iter(self._since_s))]

    def _oldest_s(self) -> float:
        return next(iter(self._since_s.values()))
