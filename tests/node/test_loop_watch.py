"""A loop that is held up says so: for how long, by what, and not too often."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.security.attacks.hostile import until
from tests.up import RunningNode, up
from weft.core.messages import StreamKey
from weft.node.figures import DELAY_BUCKETS_S, Histogram
from weft.node.loop_watch import QUIET, WAITING, HeldUp, HoldUps, LoopWatch, place_of
from weft.node.slices import in_order

PATIENCE_S = 60.0


@pytest.mark.req("SEC-05")
def test_what_is_late_is_told_with_its_cause() -> None:
    beats = HoldUps(limit_s=0.1, beat_s=0.02, now_s=10.0, cpu_s=1.0)
    delay_s, told = beats.beat(10.02, 1.001)
    assert (round(delay_s, 3), told) == (0.0, None)
    delay_s, told = beats.beat(10.09, 1.06)
    assert (round(delay_s, 3), told) == (0.05, None), "late, but not too late"
    assert not beats.is_overdue(10.15)
    assert beats.is_overdue(10.17), "half of what is too long: time to look"
    beats.see("core.broker.step")
    beats.see("core.broker.step")
    beats.collected(0.03)
    delay_s, told = beats.beat(10.41, 1.3)
    assert told is not None and told.delay_s == delay_s == pytest.approx(0.3)
    assert [round(each, 3) for each in (told.cpu_s, told.garbage_s)] == [0.24, 0.03]
    assert (told.where, told.untold) == (("core.broker.step",), 0)
    assert beats.beat(10.43, 1.3)[1] is None, "what was seen is told once"


def test_of_many_only_longer_ones_are_told_until_a_while_has_passed() -> None:
    beats = HoldUps(limit_s=0.1, beat_s=0.02, now_s=0.0, cpu_s=0.0)
    now_s, told = 0.0, []
    for held_s in (0.3, 0.2, 0.25, 0.4, 0.15):
        now_s += 0.02 + held_s
        found = beats.beat(now_s, 0.0)[1]
        told.append(found and (round(found.delay_s, 2), found.untold))
    assert told == [(0.3, 0), None, None, (0.4, 2), None]
    now_s += 0.02
    assert beats.beat(now_s, 0.0)[1] is None
    for _ in range(int(QUIET * 0.1 / 0.02) + 1):
        now_s += 0.02
        beats.beat(now_s, 0.0)
    found = beats.beat(now_s + 0.02 + 0.15, 0.0)[1]
    assert found is not None and found.untold == 1


def test_waiting_for_the_machine_does_not_hide_work() -> None:
    beats = HoldUps(limit_s=0.1, beat_s=0.02, now_s=0.0, cpu_s=0.0)
    now_s, cpu_s, told = 0.0, 0.0, []
    for held_s, used_s in ((0.5, 0.01), (0.3, 0.25), (0.4, 0.2), (0.3, 0.26)):
        now_s, cpu_s = now_s + 0.02 + held_s, cpu_s + used_s
        found = beats.beat(now_s, cpu_s)[1]
        told.append(found and (round(found.delay_s, 2), round(found.cpu_s, 2)))
    assert told == [(0.5, 0.01), (0.3, 0.25), None, (0.3, 0.26)]


async def test_a_place_is_our_functions_the_innermost_first() -> None:
    assert place_of(sys._getframe()) == WAITING, "tests are not ours in this sense"
    found: list[str] = []

    class Beginning(list[StreamKey]):
        def __len__(self) -> int:
            found.append(place_of(sys._getframe()))
            return 0

    await in_order(Beginning())
    assert found[0].startswith("node.slices.in_order")


@pytest.mark.req("SEC-05")
async def test_a_step_that_takes_long_is_seen_while_it_lasts() -> None:
    told: list[HeldUp] = []

    delays = Histogram(DELAY_BUCKETS_S)
    watch = LoopWatch(0.01, delays, told.append)
    watch.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not told:
                time.sleep(0.1)  # holds up the loop: that is the point
                await asyncio.sleep(0.01)
    finally:
        watch.stop()
    assert sum(delays.counts[DELAY_BUCKETS_S.index(0.05) :]) >= 1
    assert told[0].delay_s >= 0.05 and told[0].where


@pytest.mark.req("SEC-05")
async def test_a_node_that_could_not_go_on_says_so(tmp_path: Path) -> None:
    """It is stopped for a moment, as a machine that is too busy would; it need not be its own fault."""

    def held_up(node: RunningNode) -> bool:
        return any(line["event"] == "loop_held_up" and line["delay_s"] >= 0.5 for line in node.logged())

    with up(tmp_path / "data") as node:
        os.kill(node.process.pid, signal.SIGSTOP)
        time.sleep(0.7)
        os.kill(node.process.pid, signal.SIGCONT)
        await until(lambda: held_up(node))
        late = [line for line in node.metrics().splitlines() if line.startswith("weft_loop_delay_seconds_bucket")]
        counts = {line.split('"')[1]: float(line.split()[1]) for line in late}
        assert counts["+Inf"] > counts["0.5"]
        node.end_quietly()
