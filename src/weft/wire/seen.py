"""Which packets were taken lately, for many packets a second (EMM-19, EMC-13).

``recent.Recent`` keeps a mark and a time per packet, a quarter of a kilobyte. A gateway takes more than devices do, so
this one keeps 64 bits of a keyed hash, in generations that expire as a whole. With as many entries as it may have, one
packet in 10 million millions is taken for another; nobody can change that without knowing the salt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from weft.limits import CLOCK_SKEW_S_MAX, REPLAY_WINDOW_S
from weft.wire.columns import Bytes

SEEN_MAX: Final = 1 << 21  # taken packets remembered against replays: 7 min at 5,000/s, 200 MB at most
GENERATIONS: Final = 4  # each is looked into for every packet; fewer keep entries for longer than they need
WORD_BYTES: Final = 8
SALT_BYTES: Final = 3 * WORD_BYTES
_ALL: Final = (1 << 64) - 1
_SPREAD: Final = 0xBF58476D1CE4E5B9

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class _Generation:
    begun_s: float
    last_s: float
    hashes: set[int] = field(default_factory=set)


class Seen:
    """Hashes of the marks of taken packets. An entry lives for the window and as long as a packet may be dated ahead,
    at least.

    When there is no room the oldest generation goes, and ``evicted`` counts it: those packets could be replayed. With
    ``journalled``, ``take_new`` has what was added, for somebody to write down; it grows until it is taken.
    """

    def __init__(
        self,
        salt: bytes,
        *,
        entries_max: int = SEEN_MAX,
        window_s: float = REPLAY_WINDOW_S,
        skew_s_max: float = CLOCK_SKEW_S_MAX,
        journalled: bool = False,
    ) -> None:
        assert len(salt) == SALT_BYTES, "three odd multipliers of 64 bits"
        self.evicted = 0
        self._multipliers = np.frombuffer(salt, "<u8") | np.uint64(1)
        self._factors: list[int] = self._multipliers.tolist()
        self._lifetime_s = window_s + skew_s_max
        self._span_s = self._lifetime_s / (GENERATIONS - 1)
        self._entries_max = max(entries_max // GENERATIONS, 1)
        self._generations: deque[_Generation] = deque()
        self._new: set[int] | None = set() if journalled else None

    def __len__(self) -> int:
        return sum(len(each.hashes) for each in self._generations)

    def __contains__(self, value: int) -> bool:
        return any(value in each.hashes for each in self._generations)

    # --- beyond a restart --------------------------------------------------------------------------------------------

    def take_new(self) -> list[int]:
        """Hashes that were added since this was last called."""
        if not self._new:
            return []
        new, self._new = self._new, set()
        return list(new)

    def restore(self, values: Sequence[int], at_s: float) -> None:
        """Packets that were taken at that time, before a restart: the oldest first."""
        self._note(set(values), at_s)

    # --- one mark: ``recent.ReplayMarks`` ----------------------------------------------------------------------------

    def holds(self, mark: bytes, _now_s: float) -> bool:
        return self.hash(mark) in self

    def add(self, mark: bytes, _until_s: float, now_s: float) -> None:
        """The time until which it counts is that of its generation, which is not earlier."""
        self._add({self.hash(mark)}, now_s)

    def hash(self, mark: bytes) -> int:
        """The definition that ``hashes`` keeps to: word by word, each with the next one of the multipliers."""
        mixed = 0
        for number, at in enumerate(range(0, len(mark), WORD_BYTES)):
            word = int.from_bytes(mark[at : at + WORD_BYTES], "little")
            mixed ^= word * self._factors[number % len(self._factors)] & _ALL
            spread = mixed ^ mixed >> 29
            mixed = spread * _SPREAD & _ALL ^ spread >> 32
        return mixed

    # --- many marks --------------------------------------------------------------------------------------------------

    def hashes(self, marks: Bytes) -> Hashes:
        """Of one mark a row, all of one size."""
        count, size = marks.shape
        filled = np.zeros((count, -(-size // WORD_BYTES) * WORD_BYTES), np.uint8)
        filled[:, :size] = marks
        mixed = np.zeros(count, np.uint64)
        for number, words in enumerate(filled.view("<u8").T):
            mixed = _mixed(mixed ^ words * self._multipliers[number % len(self._multipliers)])
        return mixed

    def admit(self, values: Sequence[int], marking: Sequence[bool] | None, now_s: float) -> list[int]:
        """Look these packets up, one after the other; return the places of those that are known.

        The others are remembered if they are ``marking`` (None: all are). Those must be authenticated, or a forgery
        would keep the real packet out.
        """
        fresh = set(values)
        if len(fresh) == len(values) and all(map(fresh.isdisjoint, (each.hashes for each in self._generations))):
            if marking is not None:
                fresh = {value for value, marks in zip(values, marking, strict=True) if marks}
            if fresh:
                self._add(fresh, now_s)
            return []
        known = []
        for place, value in enumerate(values):
            if value in self:
                known.append(place)
            elif marking is None or marking[place]:
                self._add({value}, now_s)
        return known

    def _add(self, values: set[int], now_s: float) -> None:
        if self._new is not None:
            self._new |= values
        self._note(values, now_s)

    def _note(self, values: set[int], now_s: float) -> None:
        newest = self._newest(now_s)
        newest.hashes |= values
        newest.last_s = max(newest.last_s, now_s)  # a clock that was set back must not have it forgotten too soon

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
    return spread * np.uint64(_SPREAD) ^ (spread >> np.uint64(32))
