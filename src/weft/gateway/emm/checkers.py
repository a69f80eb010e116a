"""Ed25519 checks of many packets, on every core that is free.

libsodium releases the GIL, so threads help. They share one pile of packets with the caller, which works too. So this is
no slower than without threads if no core is free, and no thread runs between two piles.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from weft.wire.emm.auth import is_signed
from weft.wire.emm.judge_columns import Signed

HELPERS_MAX: Final = 3  # the node has other work, and one thread cannot prepare packets for more than a few helpers


class Checkers:
    """``helpers`` are the threads beside the caller's own: by default one for every other core."""

    def __init__(self, helpers: int | None = None) -> None:
        if helpers is None:
            helpers = min(len(os.sched_getaffinity(0)) - 1, HELPERS_MAX)
        self._helpers = helpers
        self._threads = ThreadPoolExecutor(max(helpers, 1), "weft-emm-signatures")  # starts them when they are needed

    def check(self, work: Sequence[Signed]) -> list[bool]:
        """Whether each signature is valid. Returns when all are checked."""
        good = [False] * len(work)
        pile = iter(range(len(work)))  # the interpreter hands out each number once

        def take_from_pile() -> None:
            for place in pile:
                good[place] = is_signed(*work[place])

        others = [self._threads.submit(take_from_pile) for _ in range(min(self._helpers, len(work) - 1))]
        take_from_pile()
        for other in others:
            if not other.cancel():  # it has begun, and may be at its last one
                other.result()
        return good

    def close(self) -> None:
        self._threads.shutdown()
