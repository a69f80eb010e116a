"""What a node remembers of when events came and went: bounded, and the less exact the older it is."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.messages import StreamKey
from weft.core.subscriptions import Subscriptions
from weft.model import Epoch, NodeId, Stream, Topic
from weft.node import hops
from weft.node.hops import Hops, Timeline
from weft.port.node import Delivery, Moment


def key(number: int) -> StreamKey:
    return Stream(Topic(f"t{number}"), NodeId("a"), 0), Epoch(1)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=300), st.integers(0, 20))
def test_a_timeline_is_right_about_every_event_and_exact_about_the_last(
    steps: list[tuple[int, int]], first: int
) -> None:
    timeline = Timeline(first, 16)
    end, now_us = first, 1000
    true: dict[int, int] = {}
    for events, pause_us in steps:
        now_us += pause_us
        for offset in range(end, end + events):
            true[offset] = now_us
        end += events
        timeline.add(end, now_us)
    for offset, time_us in true.items():
        moment = timeline.find(offset)
        assert moment is None or timeline.reached_us(offset) == moment.at_us
        assert moment is not None and moment.not_before_us <= time_us <= moment.at_us
    for offset in list(true)[-8:]:
        assert timeline.find(offset) == Moment(true[offset], true[offset])
    assert timeline.find(first - 1) is None
    assert timeline.find(end) is None and timeline.reached_us(end) is None and timeline.reached_us(first - 1) is None
    moments = [timeline.find(offset) for offset in true]
    assert all(one is not None and other is not None and one <= other for one, other in pairwise(moments))


def test_what_comes_again_does_not_change_when_it_came_first() -> None:
    timeline = Timeline(0, 16)
    timeline.add(5, 100)
    timeline.add(3, 200)
    timeline.add(5, 300)
    assert timeline.find(4) == Moment(100, 100)


class Clock:
    now_us = 1000

    def __call__(self) -> int:
        return self.now_us


class FakeSubscriptions:
    """None of them is known: whoever has left has no name."""

    def get(self, number: int) -> None:
        return None


def made(ends: dict[StreamKey, int], clock: Clock) -> Hops:
    return Hops(ends, cast(Subscriptions, FakeSubscriptions()), clock)


@pytest.mark.req("SEE-03")
def test_events_from_before_the_start_are_not_known_and_later_ones_are() -> None:
    clock = Clock()
    remembered = made({key(1): 10}, clock)
    clock.now_us = 2000
    remembered.stored({key(1): 12, key(2): 3})
    assert remembered.since_us == 1000
    assert remembered.stored_at(key(1), 9) is None
    assert remembered.stored_at(key(1), 10) == Moment(2000, 2000)
    assert remembered.stored_at(key(2), 0) == Moment(2000, 2000)
    assert remembered.stored_at(key(3), 0) is None


def test_a_stream_that_was_forgotten_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops, "STREAMS_MAX", 2)
    clock = Clock()
    remembered = made({}, clock)
    for number in (1, 2, 3):
        remembered.stored({key(number): 5})
    assert remembered.stored_at(key(1), 4) is None
    clock.now_us = 3000
    remembered.stored({key(1): 7})
    assert remembered.stored_at(key(1), 4) is None
    assert remembered.stored_at(key(1), 5) == Moment(3000, 3000)


def test_deliveries_are_known_by_reader_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops, "READERS_MAX", 3)
    monkeypatch.setattr(hops, "DELIVERIES_TOLD_MAX", 2)
    remembered = made({}, Clock())
    for number in range(5):
        remembered.delivered((number,), key(1), 3, 7, 100 + number)
    assert remembered.deliveries(key(1), 2) == ()
    assert remembered.deliveries(key(2), 3) == ()
    assert [each.when for each in remembered.deliveries(key(1), 6)] == [Moment(102, 102), Moment(103, 103)]
    assert remembered.deliveries(key(1), 6)[0] == Delivery("", "", "", Moment(102, 102))
