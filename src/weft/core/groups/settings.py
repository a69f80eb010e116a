"""The knobs of groups, with their ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError

DAY_S: Final = 86_400.0

# Each knob with its smallest and greatest value.
RANGES: Final[dict[str, tuple[float, float]]] = {
    "publish_interval_s": (0.01, 60.0),
    "release_timeout_s": (0.1, 600.0),
    "settle_s": (0.0, 30.0),
    "expire_after_s": (1.0, 10 * 365 * DAY_S),
}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """``publish_interval_s``: how old positions may be on other nodes.

    ``release_timeout_s``: how long a member may take to release a stream. ``settle_s``: how long a node that wants a
    stream listens for others that want it, too. ``expire_after_s``: how long an unused group, or the fact that a group
    was dropped, is remembered. It has to be much longer than clocks differ, and much longer than nodes are cut off.
    """

    publish_interval_s: float = 1.0  # when this node dies, others may hand out this much again
    release_timeout_s: float = 10.0  # time to finish what is in hand; a slower member counts as stuck
    settle_s: float = 0.25  # twice the time that an event takes over a few hops, each with a sync
    expire_after_s: float = 30 * DAY_S  # by then, retention has usually deleted the events at its positions

    def __post_init__(self) -> None:
        for knob, (least, most) in RANGES.items():
            value = getattr(self, knob)
            if not least <= value <= most:  # written so that NaN is refused, too
                raise UsageError(f"{knob} is out of range", value=value, least=least, most=most)
