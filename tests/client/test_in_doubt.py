"""What a lost node may have: it waits for that node, in order, and not for ever."""

from __future__ import annotations

import pytest

from weft.client.chunk import Chunk, Lane
from weft.client.in_doubt import InDoubt
from weft.model import Topic


def chunk(sequence: int) -> Chunk:
    made = Chunk(Lane(Topic("a"), 0), 0)
    made.sequence = sequence
    return made


@pytest.mark.req("SDK-01")
def test_chunks_wait_for_their_own_node_in_the_order_they_were_sent() -> None:
    doubts = InDoubt(60.0)
    one, two, three, other = chunk(1), chunk(2), chunk(3), chunk(4)
    doubts.add("a", "h:1", [two, three], now_s=0.0)
    doubts.add("b", "h:2", [other], now_s=0.0)
    doubts.add("a", "h:9", [one], now_s=1.0)
    assert doubts.nodes == {"a": "h:9", "b": "h:2"}
    assert doubts.take("a") == [one, two, three]
    assert doubts.take("a") == []
    assert doubts.nodes == {"b": "h:2"}


def test_nothing_in_doubt_is_nobody_to_wait_for() -> None:
    doubts = InDoubt(60.0)
    doubts.add("a", "h:1", [], now_s=0.0)
    assert doubts.nodes == {}
    assert doubts.next_expiry_s is None


def test_each_is_given_up_at_its_own_time() -> None:
    doubts = InDoubt(60.0)
    early, late = chunk(1), chunk(2)
    doubts.add("a", "h:1", [early], now_s=0.0)
    doubts.add("a", "h:1", [late], now_s=30.0)
    assert doubts.next_expiry_s == 60.0
    assert doubts.expire(59.9) == []
    assert doubts.expire(60.0) == [("a", early)]
    assert doubts.next_expiry_s == 90.0
    assert doubts.expire(float("inf")) == [("a", late)]
    assert doubts.nodes == {}


def test_who_was_taken_does_not_expire() -> None:
    doubts = InDoubt(60.0)
    doubts.add("a", "h:1", [chunk(1)], now_s=0.0)
    doubts.take("a")
    assert doubts.expire(1000.0) == []
