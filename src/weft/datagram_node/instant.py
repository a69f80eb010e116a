"""When something happens, by both clocks."""

from __future__ import annotations

from typing import NamedTuple


class Instant(NamedTuple):
    """One look at the clocks. A tuple, because there is one for every wake-up.

    Intervals are measured with the steady one, or a clock that is set back would stop the heartbeats. Packets are dated
    with the other, because other nodes compare them with theirs.
    """

    steady_s: float
    unix_s: float
