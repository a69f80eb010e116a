"""Turns: a timer that can be moved, and waiters that are woken together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from weft.transport.turns import Turns


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_timer_goes_off_once_and_can_be_moved(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def story() -> None:
        gone_off = asyncio.Event()
        turns = Turns(gone_off.set)
        loop = asyncio.get_running_loop()
        turns.happened(loop.time() + 3600)
        turns.happened(loop.time())
        turns.happened(loop.time() + 1800)
        turns.happened(loop.time())
        async with asyncio.timeout(30):
            await gone_off.wait()
        assert turns._timer is None

    run(story())


async def test_all_who_wait_are_woken_and_one_that_gives_up_disturbs_nobody() -> None:
    turns = Turns(lambda: None)
    first, second = asyncio.create_task(turns.changed()), asyncio.create_task(turns.changed())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    turns.happened(asyncio.get_running_loop().time() + 3600)
    async with asyncio.timeout(30):
        await second
    waiting = asyncio.create_task(turns.changed())
    await asyncio.sleep(0)
    turns.close()
    async with asyncio.timeout(30):
        await waiting
        await turns.changed()  # nobody waits for what never comes
    turns.happened(0.0)
    assert turns.is_closed
