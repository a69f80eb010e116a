"""How long the event loop is held up, and by what (SEC-05).

A timer beats on the loop. Each beat notes how late it is: other work has held up the loop for that long, give or take
one interval between beats. Meanwhile a thread reads the clock; if a beat is overdue, it notes which functions the loop
is in. So a step that takes too long appears in the metrics, and in the log with its name.

The CPU time tells two cases apart: either the loop was busy, or the machine was, and the loop had to wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Final

from weft.node.figures import Histogram

BEATS: Final = 5  # in the longest time that a step may take: so lengths are known within a fifth of it
BEAT_S_MIN: Final = 0.001  # the finest that timers can tell apart
LOOKS: Final = 2  # of the thread, in the same time
QUIET: Final = 100  # for this many times as long, the log gets no other line, except for a longer hold-up
SEEN_MAX: Final = 64  # places that are noted for one hold-up
TOLD_MAX: Final = 4  # of these, the places where the loop was seen most often
FRAMES_MAX: Final = 8  # functions of one place, the innermost first
OURS: Final = "weft."
WAITING: Final = "waiting"  # in none of our functions: the machine or a library was busy


@dataclass(frozen=True, slots=True)
class HeldUp:
    """The loop was ``delay_s`` late for a beat, and used ``cpu_s`` meanwhile; ``garbage_s`` went into garbage
    collection, by any thread. ``untold``: hold-ups since the one that was reported last."""

    delay_s: float
    cpu_s: float
    garbage_s: float
    where: tuple[str, ...]
    untold: int


class HoldUps:
    """Judges beats. Delays of ``limit_s`` or more are reported. For a hundred times ``limit_s`` after a report, another
    delay is reported only if it is the longest so far, by the clock or by the loop's own work. So on a busy machine,
    time spent waiting does not hide what the loop does."""

    def __init__(self, limit_s: float, beat_s: float, now_s: float, cpu_s: float) -> None:
        self._limit_s = limit_s
        self._beat_s = beat_s
        self._beat_at_s = now_s
        self._cpu_s = cpu_s
        self._garbage_s = 0.0
        self._told_s = 0.0  # the longest delay that was reported in this quiet time
        self._told_own_s = 0.0  # the same for the loop's own work
        self._quiet_until_s = now_s
        self._untold = 0
        self._seen: Counter[str] = Counter()

    def is_overdue(self, now_s: float) -> bool:
        """Whether it is time to look at what the loop does."""
        return now_s - self._beat_at_s > self._beat_s + self._limit_s / LOOKS

    def see(self, where: str) -> None:
        if where in self._seen or len(self._seen) < SEEN_MAX:
            self._seen[where] += 1

    def collected(self, duration_s: float) -> None:
        """A garbage collection took this long."""
        self._garbage_s += duration_s

    def beat(self, now_s: float, cpu_s: float) -> tuple[float, HeldUp | None]:
        """Judge a beat: return how late it is, and what to report."""
        delay_s = max(now_s - self._beat_at_s - self._beat_s, 0.0)
        used_s, garbage_s, seen = cpu_s - self._cpu_s, self._garbage_s, self._seen
        self._beat_at_s, self._cpu_s, self._garbage_s = now_s, cpu_s, 0.0
        if seen:
            self._seen = Counter()
        if delay_s < self._limit_s:
            return delay_s, None
        if now_s >= self._quiet_until_s:
            self._told_s = self._told_own_s = 0.0
        own_s = min(delay_s, used_s)
        if delay_s <= self._told_s and own_s <= self._told_own_s:
            self._untold += 1
            return delay_s, None
        where = tuple(place for place, _ in seen.most_common(TOLD_MAX))
        held_up = HeldUp(delay_s, used_s, garbage_s, where, self._untold)
        self._told_s, self._told_own_s, self._untold = max(delay_s, self._told_s), max(own_s, self._told_own_s), 0
        self._quiet_until_s = now_s + QUIET * self._limit_s
        return delay_s, held_up


def place_of(frame: FrameType | None) -> str:
    """Our functions that a thread is in, the innermost first."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES_MAX:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(OURS) and not module.startswith("weft.cli."):
            found.append(f"{module.removeprefix(OURS)}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(found) or WAITING


class LoopWatch:
    """Watches the running loop, between ``start`` and ``stop``. ``tell`` is told, on the loop, what took longer than
    ``limit_s``."""

    def __init__(self, limit_s: float, delays: Histogram, tell: Callable[[HeldUp], None]) -> None:
        self._beat_s = max(limit_s / BEATS, BEAT_S_MIN)
        self._look_s = limit_s / LOOKS
        self._delays = delays
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._of_thread = threading.get_ident()
        self._hold_ups = HoldUps(limit_s, self._beat_s, time.monotonic(), time.thread_time())
        self._timer: asyncio.TimerHandle | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="weft-loop-watch", daemon=True)
        self._collecting_s = 0.0

    def start(self) -> None:
        gc.callbacks.append(self._on_garbage)
        self._timer = self._loop.call_later(self._beat_s, self._beat)
        self._thread.start()

    def stop(self) -> None:
        gc.callbacks.remove(self._on_garbage)
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    def _beat(self) -> None:
        delay_s, held_up = self._hold_ups.beat(time.monotonic(), time.thread_time())
        self._delays.add(delay_s)
        if held_up is not None:
            self._tell(held_up)
        self._timer = self._loop.call_later(self._beat_s, self._beat)

    def _look(self) -> None:
        """Runs in the thread."""
        while not self._over.wait(self._look_s):
            if self._hold_ups.is_overdue(time.monotonic()):
                # The loop's thread runs on meanwhile: once, Python gave us something that was not a frame.
                with contextlib.suppress(AttributeError):
                    self._hold_ups.see(place_of(sys._current_frames().get(self._of_thread)))

    def _on_garbage(self, phase: str, _: Mapping[str, int]) -> None:
        now_s = time.monotonic()
        if phase == "start":
            self._collecting_s = now_s
        else:
            self._hold_ups.collected(now_s - self._collecting_s)
