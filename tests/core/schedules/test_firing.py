"""Which node fires a schedule, and when: by what it knows, and nobody is asked (CON-03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.schedules.cron import MINUTE_US, parse_cron
from weft.core.schedules.firing import BACKUP_US, GRACE_US, CatchUp, Fire, Wait, decide, rank
from weft.model import NodeId

pytestmark = pytest.mark.req("CON-03")

HOUR_US = 60 * MINUTE_US
HOURLY = parse_cron("@hourly")
NODES = [NodeId(name) for name in ("a", "b", "c", "d")]


@given(st.sampled_from(["", *NODES]), st.sampled_from(["x", "y", "reports.daily"]))
def test_every_node_has_a_rank_of_its_own_and_who_fired_last_is_first(last: str, name: str) -> None:
    ranks = {node: rank(node, name, NODES, last) for node in NODES}
    assert sorted(ranks.values()) == [0, 1, 2, 3]
    if last:
        assert ranks[NodeId(last)] == 0


def test_when_the_first_is_gone_the_next_moves_up() -> None:
    first, second, *_ = sorted(NODES, key=lambda node: rank(node, "x", NODES, ""))
    left = [node for node in NODES if node != first]
    assert rank(second, "x", left, first) == 0


def test_it_fires_in_time_and_never_before() -> None:
    at_us = 10 * HOUR_US
    assert decide(HOURLY, at_us - 1, at_us - 1, 0, 0, CatchUp.LAST) == Wait(at_us)
    assert decide(HOURLY, at_us - 1, at_us, 0, 0, CatchUp.LAST) == Fire(at_us, 0)
    assert decide(HOURLY, at_us, at_us, 0, 0, CatchUp.LAST) == Wait(at_us + HOUR_US)


def test_who_is_second_waits_for_news_of_the_first() -> None:
    at_us = 10 * HOUR_US
    assert decide(HOURLY, at_us - 1, at_us, 0, 1, CatchUp.LAST) == Wait(at_us + BACKUP_US)
    assert decide(HOURLY, at_us - 1, at_us + BACKUP_US, 0, 1, CatchUp.LAST) == Fire(at_us, 0)
    assert decide(HOURLY, at_us, at_us + BACKUP_US, 0, 1, CatchUp.LAST) == Wait(at_us + HOUR_US + BACKUP_US)


def test_nodes_that_begin_together_with_a_time_that_is_past_wait_for_each_other() -> None:
    at_us, able_us = 10 * HOUR_US, 10 * HOUR_US + 7 * MINUTE_US
    assert decide(HOURLY, at_us - 1, able_us, able_us, 0, CatchUp.LAST) == Fire(at_us, 0)
    assert decide(HOURLY, at_us - 1, able_us, able_us, 2, CatchUp.LAST) == Wait(able_us + 2 * BACKUP_US)


def test_what_was_missed_is_made_up_for_once_or_not_at_all() -> None:
    since_us, now_us = 10 * HOUR_US, 20 * HOUR_US + 5 * GRACE_US
    assert decide(HOURLY, since_us, now_us, 0, 0, CatchUp.LAST) == Fire(20 * HOUR_US, 9)
    assert decide(HOURLY, since_us, now_us, 0, 0, CatchUp.NONE) == Wait(21 * HOUR_US)
    assert decide(HOURLY, since_us, 20 * HOUR_US + GRACE_US, 0, 0, CatchUp.NONE) == Fire(20 * HOUR_US, 9)


@given(st.integers(0, 40), st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(CatchUp))
def test_a_decision_is_about_the_future_or_about_a_time_that_has_come(
    before: int, since_min: int, more_min: int, catch_up: CatchUp
) -> None:
    cron = parse_cron("*/15 3-5 * * mon-fri")
    since_us, now_us = since_min * MINUTE_US, (since_min + more_min) * MINUTE_US + 7
    match decide(cron, since_us, now_us, 0, before, catch_up):
        case Fire(at_us, _):
            assert since_us < at_us <= now_us and cron.matches(at_us)
        case Wait(until_us):
            assert until_us is not None and until_us > now_us
