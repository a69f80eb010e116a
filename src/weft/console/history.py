"""How far behind groups were, over the last hour. Pure: bounded, whatever groups there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

POINTS_MAX: Final = 360  # an hour, at one point every ten seconds
GROUPS_MAX: Final = 256  # about 35 KiB each, so 9 MiB at worst; as many as the metrics tell apart


class Point(NamedTuple):
    """At a Unix time: events not handled, and the age of the oldest of them."""

    at_s: float
    lag_events: int
    lag_s: float


class LagHistory:
    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    def add(self, at_s: float, lags: Iterable[tuple[str, int, float]]) -> None:
        """What all groups of now lack. Those that are gone are forgotten; of too many, the first by name are kept."""
        before, self._points = self._points, {}
        for name, lag_events, lag_s in sorted(lags)[:GROUPS_MAX]:
            points = before.get(name) or deque(maxlen=POINTS_MAX)
            points.append(Point(at_s, lag_events, lag_s))
            self._points[name] = points

    def of(self, group: str) -> list[Point]:
        """The oldest first."""
        return list(self._points.get(group, ()))
