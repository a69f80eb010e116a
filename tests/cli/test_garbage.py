"""When a node looks for garbage: where memory has grown, and never through what stays."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from weft.cli import garbage
from weft.cli.garbage import KEPT_BLOCKS, KEPT_BLOCKS_MIN, SEARCH_BLOCKS, GarbageKeeper, GarbagePlan


def test_there_is_a_search_when_memory_has_grown() -> None:
    plan = GarbagePlan(1_000_000)
    assert not plan.is_due(1_000_000 + SEARCH_BLOCKS)
    assert plan.is_due(1_000_001 + SEARCH_BLOCKS)
    assert not plan.searched(1_000_000), "all of that was garbage"
    assert not plan.is_due(1_000_000 + SEARCH_BLOCKS)


@pytest.mark.req("SEC-05")
def test_what_stays_is_set_aside_before_a_search_takes_long() -> None:
    plan, blocks, set_aside, unlooked = GarbagePlan(0), 0, 0, 0
    for _ in range(1000):
        blocks += 10_000
        if plan.is_due(blocks):
            unlooked = max(unlooked, blocks - set_aside)
            if plan.searched(blocks):
                set_aside = blocks
    assert unlooked <= KEPT_BLOCKS + 2 * SEARCH_BLOCKS, "what a search looks through, however much there is"


@pytest.mark.req("SEC-05")
def test_a_node_that_is_small_sets_aside_sooner() -> None:
    """A search through what 150,000 blocks hold takes 70 ms on a busy machine."""
    plan = GarbagePlan(500_000)
    assert not plan.searched(500_000 + KEPT_BLOCKS_MIN)
    assert plan.searched(500_001 + KEPT_BLOCKS_MIN)


def test_who_comes_and_goes_leaves_something_behind_once() -> None:
    """A tenth of what is set aside is in cycles, and lost when its owners go: that does not add up."""
    plan, lost, times = GarbagePlan(0), 0, 0
    for _ in range(1000):
        crowd = lost + 1_500_000
        assert plan.is_due(crowd) or times
        if plan.is_due(crowd) and plan.searched(crowd):
            lost, times = lost + 150_000, times + 1
        if plan.is_due(lost):
            plan.searched(lost)
    assert times == 1


async def test_a_running_node_finds_cycles_and_python_goes_on_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "LOOK_S", 0.0)
    monkeypatch.setattr(garbage, "SEARCH_BLOCKS", 1000)

    class Node:
        me: object

    before = gc.get_threshold()
    keeper = GarbageKeeper()
    gc.disable()  # of the searches, those that are started here are left
    try:
        first = Node()
        first.me = first
        gone = weakref.ref(first)
        del first
        kept: list[list[int]] = []
        async with asyncio.timeout(60):
            while gone() is not None:
                kept += ([number] for number in range(100))
                await asyncio.sleep(0)
    finally:
        gc.enable()
        keeper.stop()
        gc.unfreeze()
    assert gc.get_threshold() == before
