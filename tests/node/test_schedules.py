"""Changes of schedules that come at the same time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.node.running import running_node
from weft.model.schedules import Schedule
from weft.port.errors import QuotaUsedUp
from weft.port.later import NoSchedule

pytestmark = pytest.mark.req("CON-03")


def _of(owner: str) -> Schedule:
    return Schedule("0 3 * * *", "shop.reports", b"", owner, f"key of {owner}", time.time_ns() // 1000)


async def test_schedules_that_are_made_at_once_are_no_more_than_a_key_may_have(tmp_path: Path) -> None:
    async with running_node(tmp_path, later__schedules_of_key_max=2) as node:
        schedules = node._machinery.schedules
        puts = [schedules.put(f"s{number}", _of("shop"), "shop", replace=False) for number in range(5)]
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert [type(each) for each in outcomes if isinstance(each, BaseException)] == [QuotaUsedUp] * 3
        assert len(await schedules.list(None, "", 100)) == 2


async def test_of_two_owners_that_use_one_name_at_once_one_is_refused(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        schedules = node._machinery.schedules
        puts = [schedules.put("nightly", _of(owner), owner, replace=False) for owner in ("shop", "plant")]
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert [isinstance(each, BaseException) for each in outcomes] == [False, True]
        assert [each.schedule.owner for each in await schedules.list(None, "", 100)] == ["shop"]


async def test_a_schedule_that_is_removed_while_somebody_pauses_it_stays_removed(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        schedules = node._machinery.schedules
        await schedules.put("nightly", _of("shop"), "shop", replace=False)
        outcomes = await asyncio.gather(
            schedules.remove("nightly", "shop"),
            schedules.pause("nightly", "shop", "a test", paused=True),
            return_exceptions=True,
        )
        assert isinstance(outcomes[1], NoSchedule)
        assert await schedules.list(None, "", 100) == []
