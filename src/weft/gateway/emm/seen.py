"""Which packets were taken lately, for many packets a second (EMM-19).

``wire.emm.ReplayCache`` keeps a sender, a number and a time per packet, a quarter of a kilobyte. A gateway takes more
than devices do, so this one keeps 64 bits of a keyed hash, in generations that expire as a whole. With as many
entries as it may have, one packet in 10 million millions is taken for another; whoever does not know the salt can do
nothing about it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from weft.limits import CLOCK_SKEW_S_MAX, REPLAY_WINDOW_S

GATEWAY_EMM_SEEN_MAX: Final = 1 << 21  # taken packets remembered against replays: 7 min at 5,000/s, 200 MB at most
GENERATIONS = 4  # each is looked into for every packet; fewer keep entries for longer than they need
SALT_BYTES = 24

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class _Generation:
    begun_s: float
    last_s: float
    hashes: set[int] = field(default_factory=set)


class Seen:
    """Hashes of taken packets. An entry lives for the window and as long as a packet may be dated ahead, at least.

    When there is no room the oldest generation goes, and ``evicted`` counts it: those packets could be replayed.
    """

    def __init__(
        self,
        salt: bytes,
        *,
        entries_max: int = GATEWAY_EMM_SEEN_MAX,
        window_s: float = REPLAY_WINDOW_S,
        skew_s_max: float = CLOCK_SKEW_S_MAX,
    ) -> None:
        assert len(salt) == SALT_BYTES, "three odd multipliers of 64 bits"
        self.evicted = 0
        self._multipliers = np.frombuffer(salt, np.uint64) | np.uint64(1)
        self._lifetime_s = window_s + skew_s_max
        self._span_s = self._lifetime_s / (GENERATIONS - 1)
        self._entries_max = max(entries_max // GENERATIONS, 1)
        self._generations: deque[_Generation] = deque()

    def __len__(self) -> int:
        return sum(len(each.hashes) for each in self._generations)

    def hashes(self, senders: npt.NDArray[np.uint8], numbers: npt.NDArray[np.uint64]) -> Hashes:
        """Of packets: 16 bytes of sender each, and a number of at most 64 bits."""
        halves = np.ascontiguousarray(senders).view(np.uint64).reshape(-1, 2)
        first, second, third = self._multipliers
        mixed = _mixed(_mixed(halves[:, 0] * first) ^ halves[:, 1] * second)
        return _mixed(mixed ^ numbers * third)

    def __contains__(self, value: int) -> bool:
        return any(value in each.hashes for each in self._generations)

    def admit(self, values: Sequence[int], now_s: float) -> list[int]:
        """Remember these packets; return the places of those that are known. For authenticated packets only: see
        ``wire.emm.ReplayCache.admit``."""
        fresh = set(values)
        if len(fresh) == len(values) and all(map(fresh.isdisjoint, (each.hashes for each in self._generations))):
            self._add(fresh, now_s)
            return []
        known = []
        for place, value in enumerate(values):
            if value in self:
                known.append(place)
            else:
                self._add({value}, now_s)
        return known

    def _add(self, values: set[int], now_s: float) -> None:
        newest = self._newest(now_s)
        newest.hashes |= values
        newest.last_s = now_s

    def _newest(self, now_s: float) -> _Generation:
        generations = self._generations
        if generations:
            newest = generations[-1]
            if now_s - newest.begun_s < self._span_s and len(newest.hashes) < self._entries_max:
                return newest
        while generations and now_s - generations[0].last_s > self._lifetime_s:
            generations.popleft()
        while len(generations) >= GENERATIONS:
            self.evicted += len(generations.popleft().hashes)
        generations.append(_Generation(now_s, now_s))
        return generations[-1]


def _mixed(values: Hashes) -> Hashes:
    """High bits into low ones: a product alone leaves the low bits to the low bits."""
    spread: Hashes = values ^ (values >> np.uint64(29))
    return spread * np.uint64(0xBF58476D1CE4E5B9) ^ (spread >> np.uint64(32))
