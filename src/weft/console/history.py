"""How far behind groups were, over the last hour. Pure: bounded, whatever groups there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

INTERVAL_S: Final = 10.0  # between two points
POINTS_MAX: Final = 360  # an hour of them
AGE_S_MAX: Final = INTERVAL_S * POINTS_MAX
GROUPS_MAX: Final = 256  # about 35 KiB each, so 9 MiB at worst; as many as the metrics tell apart


class Point(NamedTuple):
    """At a Unix time: events not handled, and the age of the oldest of them."""

    at_s: float
    lag_events: int
    lag_s: float


class LagHistory:
    """Groups that read at this node are always recorded; others only while somebody has a page open."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    def add(self, at_s: float, lags: Iterable[tuple[str, int, float]]) -> None:
        """Record the lag of groups. An interval has one point for each group: the largest that was reported, because a
        node without a copy of a stream sees no lag in it.
        """
        self._forget(at_s - AGE_S_MAX)
        for name, lag_events, lag_s in lags:
            points = self._points.get(name)
            if points is None:
                if len(self._points) >= GROUPS_MAX:
                    continue
                points = self._points[name] = deque(maxlen=POINTS_MAX)
            if points and at_s < points[-1].at_s + INTERVAL_S / 2:
                last = points[-1]
                points[-1] = Point(last.at_s, max(last.lag_events, lag_events), max(last.lag_s, lag_s))
            else:
                points.append(Point(at_s, lag_events, lag_s))

    def _forget(self, before_s: float) -> None:
        """Drop groups that had no report since then."""
        for name in [name for name, points in self._points.items() if points[-1].at_s < before_s]:
            del self._points[name]

    def of(self, group: str) -> list[Point]:
        """The oldest first."""
        return list(self._points.get(group, ()))
