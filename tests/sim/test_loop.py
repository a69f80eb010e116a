"""The simulated event loop is an event loop, in virtual time and by its own clock."""

from __future__ import annotations

import asyncio

import pytest

from weft.errors import PeerError
from weft.testing.sim.loop import Clock, SimLoop, new_loop
from weft.testing.sim.schedule import Schedule, Violation, chance_of


def loop_of(clock: Clock | None = None, lag_s_max: float = 0.0) -> tuple[Schedule, SimLoop]:
    schedule = Schedule()
    return schedule, new_loop("n", schedule, clock or Clock(), chance_of(1, "loop"), lag_s_max)


def test_sleepers_wake_in_order_by_their_own_clock() -> None:
    schedule, loop = loop_of(Clock(rate=2.0, offset_s=100.0))
    woken: list[tuple[int, float, float]] = []

    async def sleep(seconds: int) -> None:
        await asyncio.sleep(seconds)
        woken.append((seconds, round(schedule.now_s, 6), round(asyncio.get_running_loop().time(), 6)))

    for seconds in (3, 1, 2):
        loop.run_on(lambda seconds=seconds: loop.create_task(sleep(seconds)))  # type: ignore[misc]
    schedule.run(10.0)
    assert woken == [(1, 0.5, 101.0), (2, 1.0, 102.0), (3, 1.5, 103.0)]


def test_timeouts_shields_and_events_work() -> None:
    schedule, loop = loop_of()
    said: list[str] = []

    async def story() -> None:
        never = asyncio.Event()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.shield(never.wait())
        said.append(f"{schedule.now_s:.3f}")
        assert await asyncio.to_thread(lambda: 7) == 7
        said.append("done")

    loop.run_on(lambda: loop.create_task(story()))
    schedule.run(20.0)
    assert said == ["5.000", "done"]
    loop.die()


def test_threads_are_heard_late_and_in_order() -> None:
    schedule, loop = loop_of(lag_s_max=1.0)
    heard: list[int] = []
    for number in range(20):
        loop.call_soon_threadsafe(heard.append, number)
    assert not heard
    schedule.run(0.1)
    assert len(heard) < 20
    schedule.run(1.0)
    assert heard == list(range(20))


def test_nothing_happens_on_a_dead_loop_and_its_tasks_have_ended() -> None:
    schedule, loop = loop_of()
    said: list[str] = []

    async def story() -> None:
        try:
            await asyncio.sleep(1.0)
            said.append("too late")
        finally:
            await asyncio.sleep(0)
            said.append("ended")

    task = loop.run_on(lambda: loop.create_task(story()))
    loop.call_later(1.0, said.append, "too late")
    schedule.run(0.5)
    loop.die()
    schedule.run(5.0)
    assert said == ["ended"]
    assert task.cancelled()


@pytest.mark.parametrize(("error", "fails"), [(PeerError("the peer's"), False), (ValueError("ours"), True)])
def test_a_task_that_fails_fails_the_run_unless_a_peer_is_to_blame(error: Exception, fails: bool) -> None:
    schedule, loop = loop_of()

    async def story() -> None:
        raise error

    loop.run_on(lambda: loop.create_task(story()))
    if fails:
        with pytest.raises(ValueError, match="ours"):
            schedule.run(1.0)
    else:
        schedule.run(1.0)


def test_who_never_rests_is_found() -> None:
    schedule, loop = loop_of()

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(Violation, match="does not come to rest"):
        schedule.run(1.0)
    schedule, loop = loop_of()

    def ring() -> None:
        loop.call_later(0.0, ring)

    ring()
    with pytest.raises(Violation, match="run in circles"):
        schedule.run(60.0)
