"""When a node collects garbage, so that no collection stops it for long (SEC-05).

Python frees nearly everything at once; the collector only looks for cycles. By default it looks through all objects now
and then, which takes a tenth of a second with 100,000 topics, and is useful only if memory has grown. So here it runs
when there are ``SEARCH_BLOCKS`` more blocks than after the last time. If much of that is still in use, it is set aside
and not looked through again (``gc.freeze``): streams, groups and members stay for long.

Objects set aside are still freed when they are no longer used, except for cycles, which are lost memory. The loss is
bounded: objects are set aside only when a tenth more than ever before is in use, so clients that come and go by the
thousand leave something behind once, and not each time.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Final

# New objects between two searches among them (Python's 700 are one busy millisecond), and how many of these there are
# between two that look one generation further back: 15,000 objects at most, 2 ms. All others are started here.
YOUNG: Final = (5_000, 2, 1 << 30)
SEARCH_BLOCKS: Final = 50_000  # of memory, one or more for each object: about 5 MB
KEPT_SHARE: Final = 10  # a tenth of all there is, but
KEPT_BLOCKS_MIN: Final = 50_000
KEPT_BLOCKS: Final = 150_000  # at most: with the above, a search looks through 100,000 objects then, in 9 ms
LOOK_S: Final = 0.1  # a look takes 20 µs, and a busy node makes 10,000 objects meanwhile


class GarbagePlan:
    """Decides from how many blocks of memory are in use."""

    def __init__(self, blocks: int) -> None:
        self._searched = blocks  # after the last search
        self._kept = blocks  # when something was set aside last

    def is_due(self, blocks: int) -> bool:
        return blocks > self._searched + SEARCH_BLOCKS

    def searched(self, blocks: int) -> bool:
        """There was a search; whether to set aside what is left."""
        self._searched = blocks
        if blocks <= self._kept + min(max(self._kept // KEPT_SHARE, KEPT_BLOCKS_MIN), KEPT_BLOCKS):
            return False
        self._kept = blocks
        return True


class GarbageKeeper:
    """Of this process, while a loop runs."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._loop = asyncio.get_running_loop()
        gc.freeze()  # modules above all, which stay to the end
        gc.set_threshold(*YOUNG)
        self._plan = GarbagePlan(sys.getallocatedblocks())
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        self._timer.cancel()
        gc.set_threshold(*self._before)

    def _look(self) -> None:
        if self._plan.is_due(sys.getallocatedblocks()):
            gc.collect()
            if self._plan.searched(sys.getallocatedblocks()):
                gc.freeze()
        self._timer = self._loop.call_later(LOOK_S, self._look)
