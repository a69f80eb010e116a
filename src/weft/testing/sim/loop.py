"""A node's clock, and an asyncio event loop that lives in virtual time: what runs on it is what runs in a real node.

Every life of a node has a loop of its own. It reads the node's own clock, and it dies with the node: what was planned
on it no longer happens. Threads are work that is done at some later moment.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from weft.errors import PeerError
from weft.testing.sim.schedule import Schedule, Violation

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WALL_US: Final = 1_700_000_000_000_000  # the wall clock when a simulation begins
TIMER_S_MIN: Final = 0.0001  # a timer in the past is served this late
TIMERS_PER_S_MAX: Final = 3000.0
TURNS_MAX: Final = 100_000  # callbacks in a moment
FAREWELLS_MAX: Final = 20  # rounds of cancelling what runs on a loop that dies


@dataclass(frozen=True, slots=True)
class Clock:
    """A node's own monotonic clock, and how far its wall clock is off."""

    rate: float = 1.0
    offset_s: float = 0.0
    skew_us: int = 0

    def read_s(self, now_s: float) -> float:
        return self.offset_s + self.rate * now_s

    def until_s(self, own_s: float, now_s: float) -> float:
        """How long it takes until this clock shows ``own_s``."""
        return (own_s - self.read_s(now_s)) / self.rate

    def wall_us(self, now_s: float) -> int:
        return WALL_US + int(now_s * 1e6) + self.skew_us


class SimLoop(asyncio.AbstractEventLoop):
    """``lag_s_max``: how long a thread's call and a thread's answer take at most to reach the loop.

    A task or callback that fails, but for a PeerError, fails the whole simulation.
    """

    def __init__(self, name: str, schedule: Schedule, clock: Clock, chance: Random, lag_s_max: float) -> None:
        self.name = name
        self.dead = False
        self._dying = False
        self._schedule = schedule
        self._clock = clock
        self._chance = chance
        self.lag_s_max = lag_s_max
        self._ready: deque[asyncio.Handle] = deque()
        self._is_planned = False  # a run of ready callbacks
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._heard_s = 0.0  # when the last call of a thread arrives
        self._timers_left = 0.0
        self._timers_s = 0.0

    # --- from outside --------------------------------------------------------------------------------------------

    def run_on(self, action: Callable[[], T]) -> T:
        """As a callback of this loop would be run, now."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            return action()
        finally:
            events._set_running_loop(before)

    def plan(self, delay_s: float, action: Callable[[], None]) -> None:
        """For the node's threads and its surroundings: not on the loop, but not after its death either."""
        self._schedule.at(delay_s, partial(self._unless_dead, action))

    def _unless_dead(self, action: Callable[[], None]) -> None:
        if not self.dead:
            action()

    def die(self) -> None:
        """End everything that runs on it, at once. Nobody is told: the owner of the loop has made sure of that."""
        self._dying = True
        for _ in range(FAREWELLS_MAX):
            if not self._tasks:
                break
            for task in list(self._tasks):
                task.cancel()
            self._run_ready()
        self.dead = True
        if self._tasks:
            raise Violation(
                f"{len(self._tasks)} tasks of {self.name} do not end when they are cancelled: {self._tasks}"
            )

    # --- what asyncio asks of a loop -----------------------------------------------------------------------------

    def time(self) -> float:
        return self._clock.read_s(self._schedule.now_s)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_planned:
            self._is_planned = True
            self._schedule.at(0.0, self._run_ready)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """A busy loop hears late, and in order."""
        handle = asyncio.Handle(callback, args, self, context)
        self._heard_s = max(self._heard_s, self._schedule.now_s + self._lag_s())
        self.plan(self._heard_s - self._schedule.now_s, partial(self._enqueue, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        wait_s = max(TIMER_S_MIN, self._clock.until_s(when, self._schedule.now_s) + 1e-9)
        self._schedule.at(wait_s, partial(self._ring, timer))
        return timer

    def _ring(self, timer: asyncio.TimerHandle) -> None:
        if self.dead or timer.cancelled():
            return
        self._count_timer()
        self._enqueue(timer)

    def _count_timer(self) -> None:
        """PL-02: no busy loops. A budget that fills up with time."""
        now_s, per_s = self._schedule.now_s, TIMERS_PER_S_MAX
        self._timers_left = min(per_s, self._timers_left + (now_s - self._timers_s) * per_s) - 1
        self._timers_s = now_s
        if self._timers_left < -per_s:
            raise Violation(f"the timers of {self.name} run in circles")

    def _enqueue(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)
        self._run_ready()

    def _run_ready(self) -> None:
        self._is_planned = False
        if self.dead:
            return
        before = events._get_running_loop()
        events._set_running_loop(self)
        ready, left = self._ready, TURNS_MAX
        try:
            while ready:
                handle = cast(Any, ready.popleft())  # not by its own _run, which would swallow what goes wrong
                left -= 1
                if not handle._cancelled:
                    handle._context.run(handle._callback, *handle._args)
                if not left:
                    raise Violation(f"{self.name} does not come to rest")
        finally:
            events._set_running_loop(before)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays in the heap, and does nothing then."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name or self.name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, PeerError) and not self._dying:
            self._schedule.fail(error)

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        self.plan(self._lag_s(), partial(self._work, done, partial(func, *args)))
        return done

    def _work(self, done: asyncio.Future[T], work: Callable[[], T]) -> None:
        try:
            result = work()
        except Exception as error:
            self.call_soon_threadsafe(_unless_done, done, done.set_exception, error)
        else:
            self.call_soon_threadsafe(_unless_done, done, done.set_result, result)

    def _lag_s(self) -> float:
        return self._chance.random() * self.lag_s_max

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            self._schedule.fail(context.get("exception") or Violation(f"{self.name}: {context.get('message')}"))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return self.dead


def new_loop(name: str, schedule: Schedule, clock: Clock, chance: Random, lag_s_max: float) -> SimLoop:
    """Has no sockets, signals and processes: the simulation uses none."""
    return SimLoop(name, schedule, clock, chance, lag_s_max)  # type: ignore[abstract]


def _unless_done(future: asyncio.Future[T], act: Callable[[Any], None], what: object) -> None:
    if not future.done():
        act(what)
