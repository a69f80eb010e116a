"""Acknowledging by hand from a subscriber's side: retries, readers that die, dead letters, on one node and on two."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.core.stage import Actor, Reader, Stage
from weft.core.errors import GroupDropped
from weft.core.messages import Acked, DropDead, DropGroup, MoveGroup, Nacked, SetGroup, Settled, Unsubscribe
from weft.core.policy import GroupPolicy
from weft.errors import UsageError
from weft.log.retention import RetentionRule, retain
from weft.model import Batch, Epoch, EventId, NodeId, Position, Stream, Topic, parse_pattern
from weft.model.dead_letters import DeadLetter, letters_left

T = Stream(Topic("t"), NodeId("a"), 0)
EPOCH = Epoch(7)
SET_ASIDE = GroupPolicy(max_deliveries=3, retry_s_min=1.0, retry_s_max=60.0, in_order=False)
IN_ORDER = GroupPolicy(max_deliveries=3, retry_s_min=1.0, retry_s_max=60.0, in_order=True)


def numbers(first: int, end: int) -> list[str]:
    return [f"e{number}" for number in range(first, end)]


def join(actor: Actor, member: str = "m", window: int = 10, policy: GroupPolicy | None = None) -> Reader:
    return actor.subscribe("t", group="g", member=member, window=window, policy=policy)


def ack(actor: Actor, reader: Reader, *offsets: int) -> None:
    acks = tuple(Acked(T, EPOCH, offset, offset + 1) for offset in offsets)
    actor.step(Settled(reader.number, acks, (), reader.assigned[-1].generation))


def nack(actor: Actor, reader: Reader, offset: int, delay_s: float | None = None, reason: str = "broken") -> None:
    refusal = Nacked(T, EPOCH, offset, delay_s, reason)
    actor.step(Settled(reader.number, (), (refusal,), reader.assigned[-1].generation))


def die(actor: Actor, reader: Reader) -> None:
    del actor.readers[reader.number]
    actor.step(Unsubscribe(reader.number, died=True))


def new_texts(reader: Reader) -> list[str]:
    """What came since it was last looked at."""
    texts = reader.texts
    reader.batches.clear()
    return texts


def letters(actor: Actor, topic: str = "weft.dead.g") -> list[DeadLetter]:
    events = [
        event
        for info in actor.log.streams(parse_pattern(topic))
        for data in actor.log.read(info.stream, info.epoch, info.start)
        for event in Batch.read_stored(data)
    ]
    return letters_left(events, "g")


def position(actor: Actor) -> int | None:
    return actor.broker.group_work.groups.position("g", (T, EPOCH))


def filled(*names: str, events: int = 30, settings: GroupPolicy | None = None) -> tuple[Stage, Reader]:
    stage = Stage(*names)
    stage.link(*(f"{one}-{other}" for one, other in pairwise(names)))
    stage["a"].publish("t", *numbers(0, events))
    stage.run()
    reader = join(stage["a"], policy=settings)
    stage.run()
    return stage, reader


@pytest.mark.req("CON-01")
def test_who_refuses_what_others_have_handled_meanwhile_has_room_for_more() -> None:
    stage, reader = filled("a", events=30)
    assert new_texts(reader) == numbers(0, 10)
    stage["a"].broker.group_work.groups._groups["g"].places.advance((T, EPOCH), 10)
    for offset in range(10):
        nack(stage["a"], reader, offset)
    stage.run()
    assert new_texts(reader) == numbers(10, 20)


@pytest.mark.req("CON-01")
def test_no_more_than_the_window_is_in_hand_and_acknowledging_brings_more() -> None:
    stage, reader = filled("a")
    assert new_texts(reader) == numbers(0, 10)
    ack(stage["a"], reader, 4, 7)
    stage.run()
    assert new_texts(reader) == numbers(10, 12)
    assert position(stage["a"]) == 0, "the first is not acknowledged"
    ack(stage["a"], reader, *range(10))
    stage.run()
    assert position(stage["a"]) == 10
    assert new_texts(reader) == numbers(12, 20)


@pytest.mark.req("CON-01")
def test_what_was_acknowledged_out_of_order_does_not_come_again_to_the_next_member() -> None:
    stage, reader = filled("a")
    ack(stage["a"], reader, 0, 2, 5)
    stage["a"].unsubscribe(reader)
    other = join(stage["a"], "other")
    stage.run()
    assert new_texts(other) == ["e1", "e3", "e4", *numbers(6, 13)]


@pytest.mark.req("CON-01")
def test_what_was_acknowledged_out_of_order_survives_a_restart_of_the_node() -> None:
    stage, reader = filled("a")
    ack(stage["a"], reader, 0, 2, 5)
    stage.run()
    stage.kill("a")
    actor = stage.restart()
    stage.run()
    other = join(actor, "other")
    stage.run()
    assert new_texts(other) == ["e1", "e3", "e4", *numbers(6, 13)]


@pytest.mark.req("CON-01")
def test_what_was_acknowledged_out_of_order_does_not_come_again_at_another_node() -> None:
    stage, reader = filled("a", "b")
    ack(stage["a"], reader, 0, 2, 5)
    stage["a"].unsubscribe(reader)
    stage.run()
    other = join(stage["b"], "other")
    stage.run(10.0)
    assert new_texts(other) == ["e1", "e3", "e4", *numbers(6, 13)]


@pytest.mark.req("CON-02")
def test_in_order_the_stream_waits_for_the_retry() -> None:
    stage, reader = filled("a", settings=IN_ORDER)
    new_texts(reader)
    ack(stage["a"], reader, 0, 1)
    nack(stage["a"], reader, 2, delay_s=3.0)
    assert [each.rest for each in reader.withdrawn] == [True]
    stage.run(2.0)
    assert new_texts(reader) == numbers(10, 12), "given out when there was room, before the refusal"
    stage.run(2.0)
    assert new_texts(reader) == numbers(2, 12), "all behind it comes again, after it"
    assert reader.delivered[-2].tries == 1


@pytest.mark.req("CON-02")
def test_set_aside_the_stream_goes_on() -> None:
    stage, reader = filled("a", settings=SET_ASIDE)
    new_texts(reader)
    nack(stage["a"], reader, 2, delay_s=3.0)
    assert [each.rest for each in reader.withdrawn] == [False]
    ack(stage["a"], reader, 0, 1, *range(3, 10))
    stage.run(2.0)
    assert new_texts(reader) == numbers(10, 20)
    assert position(stage["a"]) == 2
    stage.run(2.0)
    assert new_texts(reader) == [], "the window is full"
    ack(stage["a"], reader, 10)
    stage.run()
    assert new_texts(reader) == ["e2"]
    ack(stage["a"], reader, 2)
    stage.run()
    assert position(stage["a"]) == 11


@pytest.mark.req("CON-02")
def test_retries_wait_twice_as_long_each_time_and_end_as_a_dead_letter() -> None:
    stage, reader = filled("a", events=3, settings=SET_ASIDE)
    ack(stage["a"], reader, 0, 2)
    came = []
    for _ in range(3):
        new_texts(reader)
        nack(stage["a"], reader, 1, reason="no such customer")
        begun_s = stage.now_s
        while not reader.batches and stage.now_s < begun_s + 10:
            stage.run(0.5)
        came.append(stage.now_s - begun_s)
    assert came == pytest.approx([1.0, 2.0, 10.0], abs=0.6)
    (letter,) = letters(stage["a"])
    assert (str(letter.id), letter.tries, letter.reason) == ("t@a/0:e7:1", 3, "no such customer")
    assert letter.event.payload == b"e1"
    assert position(stage["a"]) == 3


@pytest.mark.req("CON-02")
def test_a_reader_that_dies_with_one_event_in_hand_has_tried_it() -> None:
    stage, reader = filled("a", events=1, settings=IN_ORDER)
    for _ in range(2):
        assert reader.texts == ["e0"]
        die(stage["a"], reader)
        assert not letters(stage["a"])
        reader = join(stage["a"])
        stage.run(10.0)
    die(stage["a"], reader)
    stage.run()
    (letter,) = letters(stage["a"])
    assert (letter.tries, letter.event.payload) == (3, b"e0")
    other = join(stage["a"])
    stage.run(100.0)
    assert other.texts == []


@pytest.mark.req("CON-02")
def test_events_around_a_deadly_one_come_again_one_by_one_and_are_not_given_up() -> None:
    stage, reader = filled("a", events=10, settings=IN_ORDER)
    handled: list[str] = []
    deaths = 0
    for _ in range(1000):
        stage.run(10.0)
        texts = new_texts(reader)
        if not texts:
            break
        if "e6" in texts:
            deaths += 1
            die(stage["a"], reader)
            reader = join(stage["a"])
            continue
        assert len(texts) == 1 or not deaths
        handled += texts
        ack(stage["a"], reader, *(int(text[1:]) for text in texts))
    assert deaths == 3
    assert [letter.event.payload for letter in letters(stage["a"])] == [b"e6"]
    assert sorted(handled) == [each for each in numbers(0, 10) if each != "e6"]
    assert position(stage["a"]) == 10


@pytest.mark.req("CON-02")
def test_tries_are_counted_across_nodes() -> None:
    stage, reader = filled("a", "b", settings=IN_ORDER)
    nack(stage["a"], reader, 0)
    stage.run()
    stage["a"].unsubscribe(reader)
    other = join(stage["b"], "other")
    stage.run(10.0)
    assert other.delivered[0].tries == 1
    nack(stage["b"], other, 0)
    stage.run(10.0)
    nack(stage["b"], other, 0)
    stage.run()
    for name in "ab":
        (letter,) = letters(stage[name])
        assert letter.tries == 3, "every node has the dead letters of every group"


@pytest.mark.req("CON-02")
def test_tries_survive_the_node_that_counted_them() -> None:
    stage, reader = filled("a", "b", "c", settings=SET_ASIDE)
    stage["a"].unsubscribe(reader)
    stage.link("a-c")
    second = join(stage["b"], "second")
    stage.run(10.0)
    nack(stage["b"], second, 0, delay_s=0.0)
    ack(stage["b"], second, 1, 3)
    stage.run(2.0)
    stage.kill("b")
    third = join(stage["c"], "third")
    stage.run(10.0)
    assert third.delivered[0].tries == 1
    assert new_texts(third) == ["e0", "e2", *numbers(4, 12)]


@pytest.mark.req("CON-02")
def test_a_group_is_told_how_to_treat_failures_and_every_node_knows() -> None:
    stage, reader = filled("a", "b", events=1)
    stage["b"].step(SetGroup(99, "g", GroupPolicy(max_deliveries=1, dead_letter="broken.orders")))
    stage.run()
    assert 99 in stage["b"].moved
    nack(stage["a"], reader, 0)
    stage.run()
    for name in "ab":
        assert [letter.tries for letter in letters(stage[name], "broken.orders")] == [1]
    with pytest.raises(UsageError, match="topic of yours"):
        GroupPolicy(dead_letter="weft.groups.g")


@pytest.mark.req("CON-02")
def test_a_policy_given_by_a_member_counts_only_while_there_is_none() -> None:
    stage, reader = filled("a", settings=SET_ASIDE)
    join(stage["a"], "other", policy=IN_ORDER)
    assert stage["a"].broker.group_work.groups.policy("g") == SET_ASIDE
    stage["a"].unsubscribe(reader)


@pytest.mark.req("CON-02")
def test_dropped_letters_are_gone_at_every_node() -> None:
    stage, reader = filled("a", "b", settings=GroupPolicy(max_deliveries=1, in_order=False))
    nack(stage["a"], reader, 3)
    nack(stage["a"], reader, 4)
    stage.run()
    stage["b"].step(DropDead(99, "g", (EventId(T, EPOCH, 3),)))
    stage.run()
    assert 99 in stage["b"].moved
    for name in "ab":
        assert [letter.id.offset for letter in letters(stage[name])] == [4]


@pytest.mark.req("CON-02")
def test_an_event_that_retention_takes_while_it_waits_is_put_aside_by_its_identity() -> None:
    stage, reader = filled("a", settings=SET_ASIDE)
    nack(stage["a"], reader, 2, delay_s=100.0)
    ack(stage["a"], reader, *(each for each in range(30) if each != 2))
    stage["a"].unsubscribe(reader)
    stage["a"].log.begin_segment()
    stage["a"].publish("t", "later", at_us=int(stage.now_s * 1e6) + 10_000_000)
    stage.run(1.0)
    now_us = int(stage.now_s * 1e6) + 10_000_000
    retain(stage["a"].log, [RetentionRule(parse_pattern("t"), age_us_max=1_000_000)], now_us)
    assert stage["a"].log.info(T, EPOCH).start == 30
    other = join(stage["a"], "other")
    stage.run(1.0)
    (letter,) = letters(stage["a"])
    assert letter.is_lost and letter.id.offset == 2
    assert other.error is None
    assert other.texts == ["later"]


@pytest.mark.req("CON-01")
def test_a_group_that_is_moved_back_begins_with_a_clean_ledger() -> None:
    stage, reader = filled("a")
    ack(stage["a"], reader, 0, 1, 5)
    new_texts(reader)
    stage["a"].step(MoveGroup(99, "g", (Position(T, EPOCH, 0),)))
    stage.run()
    ack(stage["a"], reader)  # it takes over the assignment without the stream, and lets go
    stage.run()
    assert new_texts(reader) == numbers(0, 10)
    ack(stage["a"], reader, *range(10))
    stage.run()
    assert position(stage["a"]) == 10


# --- the end of a group ----------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-03", "CON-01", "CON-02")
@pytest.mark.parametrize("restart", [False, True])
def test_a_drop_ends_ledgers_retries_and_the_policy_and_leaves_the_dead_letters(*, restart: bool) -> None:
    stage, reader = filled("a", "b", settings=SET_ASIDE)
    a, b = stage["a"], stage["b"]
    for _ in range(3):
        nack(a, reader, 3, delay_s=0.0)
        stage.run(1.0)
    nack(a, reader, 2, delay_s=30.0)
    nack(a, reader, 4, delay_s=30.0)
    ack(a, reader, 0, 5, 7)
    stage.run(5.0)
    b.step(DropGroup(99, "g"))
    stage.run(5.0)
    assert b.moved == [99] and isinstance(reader.error, GroupDropped)
    for name in "ab":
        groups = stage[name].broker.group_work.groups
        assert groups.policy("g") is None and groups.position("g", (T, EPOCH)) is None
        assert [letter.id.offset for letter in letters(stage[name])] == [3], "nobody has dropped that"
    if restart:
        stage.kill("a")
        a = stage.restart()
        stage.run(5.0)
    again = join(a, "m", window=100)
    stage.run(5.0)
    assert new_texts(again) == numbers(0, 30), "all of it, at once: nothing is done, and nothing waits"
    assert not any(delivered.tries for delivered in again.delivered)
    stage.run(60.0)
    assert new_texts(again) == [], "the retries of the old group do not come"
    nack(a, again, 2, delay_s=0.0)
    stage.run(1.0)
    assert a.broker.group_work.groups.policy("g") is None
    assert again.withdrawn[-1].rest, "in order, which is the default"
    assert [letter.id.offset for letter in letters(a)] == [3], "it counts from one again"


@pytest.mark.req("SEC-03", "CON-02")
def test_a_node_that_was_cut_off_does_not_bring_back_what_failed_or_the_policy() -> None:
    stage, reader = filled("a", "b", settings=GroupPolicy(max_deliveries=2, in_order=False, dead_letter="broken"))
    ack(stage["a"], reader, 0, 5)
    nack(stage["a"], reader, 2, delay_s=30.0)
    stage.run(5.0)
    assert stage["b"].broker.group_work.groups.dead_topics == {"broken"}
    stage.cut("a-b")
    stage["b"].step(DropGroup(99, "g"))
    ack(stage["a"], reader, 7)
    nack(stage["a"], reader, 4, delay_s=30.0)
    stage["a"].step(SetGroup(98, "g", GroupPolicy(max_deliveries=1, dead_letter="broken")))
    stage.run(5.0)
    assert reader.error is None, "where nobody knows of it, it goes on"
    stage.link("a-b")
    stage.run(20.0)
    assert isinstance(reader.error, GroupDropped)
    again = join(stage["b"], window=100)
    stage.run(60.0)
    assert new_texts(again) == numbers(0, 30)
    for name in "ab":
        groups = stage[name].broker.group_work.groups
        assert groups.policy("g") is None and groups.dead_topics == frozenset()


@pytest.mark.req("SEC-03", "CON-02")
def test_a_policy_that_comes_with_the_first_member_of_a_new_era_stays() -> None:
    """What was said of the old one is withdrawn a little later, by the same key."""
    stage, reader = filled("a", "b", settings=SET_ASIDE)
    stage["a"].step(DropGroup(99, "g"))
    join(stage["a"], policy=IN_ORDER)
    stage.run(20.0)
    assert isinstance(reader.error, GroupDropped)
    stage.kill("a")
    stage.restart()
    stage.run(20.0)
    assert [stage[name].broker.group_work.groups.policy("g") for name in "ab"] == [IN_ORDER, IN_ORDER]


@pytest.mark.req("CON-01")
def test_a_member_that_lets_go_of_a_stream_goes_on_with_the_others() -> None:
    """What it had in hand of the stream filled its window."""
    stage = Stage("a")
    topics = [f"t.{number}" for number in range(4)]
    for topic in topics:
        stage["a"].publish(topic, *numbers(0, 8))
    stage.run()
    one = stage["a"].subscribe("t.*", group="g", member="one", window=8)
    stage.run()
    other = stage["a"].subscribe("t.*", group="g", member="other", window=100)
    stage.run()
    kept = {each.stream.topic for each in one.assigned[-1].positions}
    assert kept and not kept & {each.stream.topic for each in one.delivered}, "all that it has in hand is lost"
    stage["a"].step(Settled(one.number, (), (), one.assigned[-1].generation))
    stage.run()
    assert {each.stream.topic for each in one.delivered} & kept, "there is room again"
    assert {each.stream.topic for each in other.delivered} == set(topics) - kept
