"""Delivery to a node's own subscribers: where they begin, what they may have, and what they must never get."""

from __future__ import annotations

import pytest

from tests.core.stage import Stage
from weft.core.messages import AddCredit, Deliver, Edge, FromPositions, FromTime, Synced
from weft.core.subscriptions import SHARE_COST, TURN_STREAMS_MAX
from weft.log.errors import PositionAhead, PositionExpired, UnknownStream
from weft.log.retention import RetentionRule, retain
from weft.model import Position, parse_pattern, parse_position


@pytest.mark.req("MSH-01")
def test_nothing_is_delivered_before_it_is_durable() -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe("t")
    stage["a"].publish("t", "x")
    assert not reader.batches
    stage.run()
    assert reader.events == [("t@a/0:e7:0", "x")]


@pytest.mark.req("LOG-06")
@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        (Edge.EARLIEST, ["1", "2", "3", "4"]),
        (Edge.LATEST, ["4"]),
        (Edge.OWN, ["4"]),
        (FromTime(2_000_000), ["2", "3", "4"]),
        (FromTime(10_000_000_000), []),
        (FromPositions((parse_position("t@a/0:e7:2"),)), ["3", "4"]),
        (FromPositions(()), ["1", "2", "3", "4"]),
    ],
    ids=str,
)
def test_where_a_subscription_begins(start: Edge | FromTime | FromPositions, wanted: list[str]) -> None:
    stage = Stage("a")
    for number in (1, 2, 3):
        stage["a"].publish("t", str(number), at_us=number * 1_000_000)
    stage.run()
    reader = stage["a"].subscribe("t", start)
    stage["a"].publish("t", "4", at_us=4_000_000)
    stage.run()
    assert reader.texts == wanted


@pytest.mark.parametrize("start", [Edge.LATEST, Edge.OWN, Edge.EARLIEST])
def test_a_topic_that_is_new_begins_with_its_first_event_whatever_its_time(start: Edge) -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe("*", start)
    stage["a"].publish("t", "x", at_us=1)
    stage.run()
    assert reader.texts == ["x"]


def test_a_subscription_may_begin_within_a_batch() -> None:
    stage = Stage("a")
    stage["a"].publish("t", "1", "2", "3")
    stage.run()
    reader = stage["a"].subscribe("t", FromPositions((parse_position("t@a/0:e7:1"),)))
    stage.run()
    assert reader.texts == ["2", "3"]


def test_positions_and_a_time_for_all_other_streams() -> None:
    stage = Stage("a")
    for topic in ("t.named", "t.other"):
        for number in (1, 2, 3):
            stage["a"].publish(topic, f"{topic}{number}", at_us=number)
    stage.run()
    start = FromPositions((parse_position("t.named@a/0:e7:1"),), otherwise_us=3)
    reader = stage["a"].subscribe("t.*", start)
    stage["a"].publish("t.new", "new", at_us=1)
    stage.run()
    assert sorted(reader.texts) == ["new", "t.named2", "t.named3", "t.other3"]


def test_a_position_in_a_log_that_was_lost_is_refused() -> None:
    stage = Stage("a")
    stage["a"].publish("t", "1")
    stage.run()
    reader = stage["a"].subscribe("t", FromPositions((parse_position("t@a/0:e6:2"),)))
    assert isinstance(reader.error, UnknownStream)
    assert reader.error.facts == {"epochs": [7]}


def test_a_position_that_has_not_been_given_is_refused() -> None:
    stage = Stage("a")
    stage["a"].publish("t", "1")
    stage.run()
    reader = stage["a"].subscribe("t", FromPositions((parse_position("t@a/0:e7:2"),)))
    assert isinstance(reader.error, PositionAhead)
    assert reader.error.facts == {"epoch": 7, "earliest": 0, "latest": 1}


def test_a_position_that_has_expired_is_refused_with_what_there_is() -> None:
    stage = Stage("a")
    for number in range(3):
        stage["a"].publish("t", str(number), at_us=number)
    stage.run()
    stage["a"].log.begin_segment()
    stage["a"].publish("t", "3", at_us=2_000_000_000)
    stage.run()
    retain(stage["a"].log, [RetentionRule(parse_pattern("t"), age_us_max=1_000_000)], now_us=2_000_000_000)
    reader = stage["a"].subscribe("t", FromPositions((parse_position("t@a/0:e7:0"),)))
    assert isinstance(reader.error, PositionExpired)
    assert reader.error.facts == {"epoch": 7, "earliest": 3, "latest": 4}


def test_wildcards_do_not_select_the_topics_of_the_mesh_itself() -> None:
    stage = Stage("a")
    everything, inbox = stage["a"].subscribe(">"), stage["a"].subscribe("weft.inbox.>")
    stage["a"].publish("weft.inbox.me", "x")
    stage["a"].publish("t", "y")
    stage.run()
    assert (everything.texts, inbox.texts) == (["y"], ["x"])


def test_a_subscriber_gets_no_more_than_its_credit() -> None:
    stage = Stage("a")
    for number in range(10):
        stage["a"].publish("t", str(number) * 1000)
    stage.run()
    reader = stage["a"].subscribe("t", credit=1)
    assert len(reader.batches) == 1, "one batch more than the credit, or nothing would ever come"
    stage["a"].inbox.clear()  # it gives nothing back
    stage.run()
    assert len(reader.batches) == 1
    stage["a"].step(AddCredit(reader.number, 1 << 20))
    stage.run()
    assert [text[0] for text in reader.texts] == list("0123456789")


def test_a_slow_subscriber_holds_up_nobody() -> None:
    stage = Stage("a")
    slow = stage["a"].subscribe("t", credit=0)
    quick = stage["a"].subscribe("t")
    stage["a"].publish("t", "x")
    stage.run()
    assert (slow.texts, quick.texts) == ([], ["x"])


def synced(stage: Stage) -> list[Deliver]:
    """What a sync leads to in one step."""
    actor = stage["a"]
    event = Synced(actor.log.sync(), dict(actor.advanced))
    actor.advanced.clear()
    effects = actor.broker.step(event, stage.now_s)
    actor.perform(effects)
    return [each for each in effects if isinstance(each, Deliver)]


def test_who_stands_at_the_same_place_is_served_together() -> None:
    stage = Stage("a")
    readers = [stage["a"].subscribe("t") for _ in range(3)]
    poor, member = stage["a"].subscribe("t", credit=0), stage["a"].subscribe("t", group="g", member="m")
    stage["a"].publish("t", "first: its place is known from now on")
    stage.run()
    stage["a"].publish("t", "x")
    (one,) = synced(stage)
    assert sorted(one.subscriptions) == [*(each.number for each in readers), member.number]
    assert poor.texts == [], "it has no credit"
    assert all(each.delivered[-1] is one.batches[0] for each in (*readers, member)), "and it is one object"
    stage["a"].step(AddCredit(poor.number, 1 << 20))
    stage.run()
    assert poor.texts == readers[0].texts


def test_many_at_one_place_are_served_in_turns_of_the_loop() -> None:
    stage = Stage("a")
    count = int(TURN_STREAMS_MAX / SHARE_COST)
    readers = [stage["a"].subscribe("t") for _ in range(count + 10)]
    stage.run()
    stage["a"].broker.subscriptions.begin_turn()
    stage["a"].publish("t", "x")
    served = [number for each in synced(stage) for number in each.subscriptions]
    assert 0 < len(served) <= count, "a bounded part in the first"
    stage.run()
    assert [each.texts for each in readers] == [["x"]] * (count + 10), "and everybody once"


def test_streams_take_turns() -> None:
    stage = Stage("a")
    for _ in range(100):
        stage["a"].publish("long", "x" * 100_000)
    stage["a"].publish("short", "y")
    stage.run()
    reader = stage["a"].subscribe("*", credit=4 << 20)
    assert "y" in reader.texts, "the short one did not wait for all of the long one"


def test_who_unsubscribes_gets_nothing_more() -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe("t")
    stage["a"].unsubscribe(reader)
    stage["a"].publish("t", "x")
    stage.run()
    assert not reader.batches


def test_positions_say_where_a_subscription_begins() -> None:
    stage = Stage("a")
    stage["a"].publish("t", "1", "2")
    stage.run()
    reader = stage["a"].subscribe("t", Edge.LATEST)
    epoch = stage["a"].log.epoch
    assert reader.opened == (Position(parse_position("t@a/0:e7:0").stream, epoch, 2),)


def test_who_comes_between_a_sync_and_word_of_it_gets_a_new_stream_once() -> None:
    """The storage thread is ahead of the event loop: a stream may be durable before the broker has heard of it."""
    stage = Stage("a")
    actor = stage["a"]
    actor.publish("t", "x")
    ticket = actor.log.sync()
    reader = actor.subscribe("t")
    assert reader.texts == ["x"]
    actor.step(Synced(ticket, dict(actor.advanced)))
    assert reader.texts == ["x"]


class Shelf:
    """A holder of so many bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        return self.bytes >= self.bytes_max

    def take(self, size: int) -> None:
        self.bytes += size


@pytest.mark.req("SEC-05")
def test_nothing_is_read_for_a_subscriber_whose_holder_is_full() -> None:
    stage = Stage("a")
    node = stage["a"]
    for number in range(4):
        node.publish(f"t.{number}", "x" * 1000)
    stage.run()
    shelf = Shelf(2000)
    reader = node.subscribe("t.>", Edge.EARLIEST, holder=shelf)
    stage.run()
    assert len(reader.batches) == 2 and set(node.held_up) == {reader.number}
    shelf.bytes = 0
    node.step(AddCredit(reader.number, 0))
    stage.run()
    assert len(reader.batches) == 4


@pytest.mark.req("SEC-05")
def test_subscribers_that_come_one_after_the_other_share_a_large_batch() -> None:
    stage = Stage("a")
    stage["a"].publish("t", "x" * 100_000)
    stage.run()
    readers = []
    for _ in range(3):
        readers.append(stage["a"].subscribe("t", Edge.EARLIEST))
        stage.run()
    assert len({id(each) for reader in readers for each in reader.delivered}) == 1
