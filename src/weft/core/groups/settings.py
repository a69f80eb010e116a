"""The knobs of groups, with their ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError

DAY_S: Final = 86_400.0

# Knob -> least, most.
RANGES: Final[dict[str, tuple[float, float]]] = {
    "publish_interval_s": (0.01, 60.0),
    "release_timeout_s": (0.1, 600.0),
    "settle_s": (0.0, 30.0),
    "expire_after_s": (1.0, 10 * 365 * DAY_S),
}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """``publish_interval_s``: how far behind positions may be on other nodes.

    ``release_timeout_s``: how long a member may take to let go of a stream. ``settle_s``: how long a node that wants a
    stream listens for others that want it, too. ``expire_after_s``: how long a group that nobody uses is remembered,
    and that it was dropped; it has to be much longer than clocks differ and nodes are cut off.
    """

    publish_interval_s: float = 1.0  # what another node may hand out again when this one dies
    release_timeout_s: float = 10.0  # for what a member has in hand; afterwards it counts as stuck
    settle_s: float = 0.25  # twice what an event takes through a mesh of a few hops, each with a sync
    expire_after_s: float = 30 * DAY_S  # its positions are worth nothing any more once retention has passed them

    def __post_init__(self) -> None:
        for knob, (least, most) in RANGES.items():
            value = getattr(self, knob)
            if not least <= value <= most:  # written so that NaN fails too
                raise UsageError(f"{knob} is out of range", value=value, least=least, most=most)
