"""Plans of replays: order, steps, and what a node gives back."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.pipelines import replay_plan as room
from weft.pipelines.replay_plan import BadPlan, Plan, Step, StreamKey, Stretch, decode_untrusted, encode, plan, wait_s
from weft.spark.staging import SINK_TARGETS_MAX


def stretch(topic: str, first: int, first_us: int, *, events: int = 10, epoch: int = 1) -> Stretch:
    return Stretch(StreamKey(topic, "n0", 0, epoch), first, first + 9, events, 100 * events, first_us, first_us + 5)


def test_steps_follow_time_across_streams() -> None:
    found = [stretch("b", 0, 20), stretch("a", 10, 30), stretch("a", 0, 10), stretch("b", 10, 40)]
    made = plan(found, step_events=20)
    assert [[(each.stream.topic, each.first_offset) for each in step.stretches] for step in made.steps] == [
        [("a", 0), ("b", 0)],
        [("a", 10), ("b", 10)],
    ]
    assert (made.events, made.size_bytes) == (40, 4000)
    assert [(step.events, step.first_us, step.last_us) for step in made.steps] == [(20, 10, 25), (20, 30, 45)]


def test_a_step_is_what_one_write_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(found: list[Stretch]) -> list[int]:
        return [len(step.stretches) for step in plan(found, step_events=1000).steps]

    many = [stretch(f"t{number}", 0, number) for number in range(5)]
    one = [stretch("t", 10 * number, number) for number in range(5)]
    assert sizes(many) == sizes(one) == [5]
    monkeypatch.setattr(room, "REPLAY_STEP_TARGETS_MAX", 2)
    assert (sizes(many), sizes(one)) == ([2, 2, 1], [5])
    monkeypatch.setattr(room, "REPLAY_STEP_BYTES", 3000)
    assert (sizes(many), sizes(one)) == ([2, 2, 1], [3, 2])
    monkeypatch.setattr(room, "REPLAY_STEP_BYTES", 1)
    assert sizes(one) == [1, 1, 1, 1, 1], "a stretch goes into a step, however large"
    assert room.REPLAY_STEP_TARGETS_MAX < SINK_TARGETS_MAX


def test_a_stream_stays_in_order_whatever_its_timestamps_say() -> None:
    found = [stretch("a", 0, 50), stretch("a", 10, 1), stretch("a", 0, 2, epoch=2), stretch("b", 0, 10)]
    made = plan(found, step_events=10)
    order = [(each.stream.topic, each.stream.epoch, each.first_offset) for each in made.stretches()]
    assert order == [("b", 1, 0), ("a", 1, 0), ("a", 1, 10), ("a", 2, 0)]


def test_nothing_makes_no_step() -> None:
    assert plan([], 10) == Plan(())


stretches = st.builds(
    stretch,
    st.sampled_from(["a", "b.c"]),
    st.integers(0, 50).map(lambda number: number * 10),
    st.integers(-100, 100),
    events=st.integers(1, 10),
    epoch=st.integers(1, 3),
)


@given(st.lists(stretches, max_size=30, unique_by=lambda each: (each.stream, each.first_offset)), st.integers(1, 60))
def test_every_stretch_is_in_one_step_and_streams_are_in_order(found: list[Stretch], step_events: int) -> None:
    made = plan(found, step_events)
    assert sorted(made.stretches()) == sorted(found)
    assert decode_untrusted(encode(made)) == made
    assert plan(reversed(found), step_events) == made, "whatever order Spark counted in"
    streams = defaultdict(list)
    for each in made.stretches():
        streams[each.stream[:3]].append((each.stream.epoch, each.first_offset))
    assert all(places == sorted(places) for places in streams.values())
    assert all(step.events <= max(step_events, 10) for step in made.steps)


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan([stretch("a", 0, 1), stretch("a", 10, 2)], 10)
    data = encode(made)
    monkeypatch.setattr(room, "REPLAY_STRETCHES_MAX", 1)
    with pytest.raises(BadPlan, match="bounds"):
        decode_untrusted(data)
    monkeypatch.setattr(room, "EVENT_PAYLOAD_BYTES_MAX", 10)
    with pytest.raises(UsageError, match="larger steps"):
        encode(made)


BROKEN = {
    "no plan": b"[]",
    "no JSON": b"\xff",
    "no topic": encode(Plan((Step((stretch("a..b", 0, 1),)),))),
    "no node": encode(Plan((Step((stretch("a", 0, 1)._replace(stream=StreamKey("a", "", 0, 1)),)),))),
    "no partition": encode(Plan((Step((stretch("a", 0, 1)._replace(stream=StreamKey("a", "n", -1, 1)),)),))),
    "negative": encode(Plan((Step((stretch("a", -1, 1),)),))),
    "no events": encode(Plan((Step((stretch("a", 0, 1, events=0),)),))),
    "no offsets": encode(Plan((Step((stretch("a", 0, 1)._replace(first_offset=10),)),))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_plan_is_refused(name: str) -> None:
    with pytest.raises(BadPlan):
        decode_untrusted(BROKEN[name])


@given(st.binary(max_size=100))
def test_any_bytes_are_a_plan_or_refused(data: bytes) -> None:
    with pytest.raises(BadPlan):
        decode_untrusted(data)


def test_rests_make_the_rate() -> None:
    assert wait_s(100, 1.0, None) == 0.0
    assert wait_s(100, 1.0, 50.0) == 1.0
    assert wait_s(100, 3.0, 50.0) == 0.0
