"""The triples of a node's events: epoch from the clock, offset by counting, event id by chance (2.1, EMC-04).

The epoch is the number of ticks since 1970, modulo 65536, so a restarted node continues from the clock, and not from 0.
(epoch, offset) alone never repeats within 65536 ticks (18 hours at one a second, against a cache of 5 minutes): the
counter never goes back, neither with the clock nor when the offsets of a tick run out. In both cases it moves into the
next tick early and stays there until the clock has caught up; nothing is refused and nothing repeats. The random event
id covers what counting cannot: a restart within one tick, and the wrap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Self

from weft.errors import UsageError
from weft.wire.emm_compact.header import Triple

EPOCHS: Final = 1 << 16
OFFSETS: Final = 1 << 16
TICK_S: Final = 1.0  # EMC-04: the field's definition, not the minute of its recommendation


@dataclass(frozen=True, slots=True)
class Numbering:
    """Which triple comes next. A value: ``take`` gives the triple and the numbering that follows."""

    tick_s: float
    tick: int
    offset: int

    @classmethod
    def starting(cls, now_s: float, tick_s: float = TICK_S) -> Self:
        """The numbering of a node that starts now."""
        if not tick_s > 0:
            raise UsageError("a tick must take time", tick_s=tick_s)
        return cls(tick_s, math.floor(now_s / tick_s), 0)

    def take(self, now_s: float, event_id: int) -> tuple[Triple, Numbering]:
        """The next event's triple; ``event_id`` is 16 random bits."""
        tick, offset = max(self.tick, math.floor(now_s / self.tick_s)), self.offset
        if tick > self.tick:
            offset = 0
        elif offset == OFFSETS:
            tick, offset = tick + 1, 0
        return Triple(event_id, tick % EPOCHS, offset), Numbering(self.tick_s, tick, offset + 1)
