"""When an agent may speak: started, settled, join events first (COA-07)."""

from __future__ import annotations

import pytest

from weft.coaty.settling import COATY_DEFERRED_BYTES_MAX, COATY_SETTLING_S, COATY_SETTLING_S_MAX, Publication, Settling
from weft.errors import UsageError

JOIN = [Publication("join", b"1"), Publication("join", b"2")]
EARLY = Publication("early", b"3")


@pytest.mark.req("COA-07")
def test_join_events_go_first_and_in_order_a_second_after_the_start() -> None:
    settling = Settling(JOIN)
    assert settling.publish(EARLY) == []
    assert settling.settled_at_s is None
    settling.started(100.0)
    assert settling.settle(100.0 + COATY_SETTLING_S - 0.001) == []
    assert settling.settle(100.0 + COATY_SETTLING_S) == [*JOIN, EARLY]
    assert settling.is_settled
    assert settling.publish(EARLY) == [EARLY]
    assert settling.settle(200.0) == []


@pytest.mark.req("COA-07")
def test_every_neighbour_that_comes_lets_the_second_begin_again() -> None:
    settling = Settling(JOIN)
    settling.changed(99.0)  # before the start: nothing to put off
    settling.started(100.0)
    settling.changed(100.6)
    assert settling.settle(101.5) == []
    assert settling.settled_at_s == 100.6 + COATY_SETTLING_S
    assert settling.settle(101.6) == JOIN
    settling.changed(102.0)
    assert settling.publish(EARLY) == [EARLY]  # later ones put off nothing


def test_neighbours_without_end_do_not_keep_an_agent_silent() -> None:
    settling = Settling(JOIN)
    settling.started(0.0)
    now_s = 0.0
    while not settling.settle(now_s):
        settling.changed(now_s)
        now_s += COATY_SETTLING_S / 2
    assert now_s == COATY_SETTLING_S_MAX


def test_what_waits_is_bounded() -> None:
    settling = Settling([])
    big = Publication("t", bytes(COATY_DEFERRED_BYTES_MAX // 2))
    settling.publish(big)
    settling.publish(big)
    with pytest.raises(UsageError, match=r"agent\.ready"):
        settling.publish(EARLY)
