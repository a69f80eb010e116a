"""Stories of copies that begin with what is new, and of those who want what came before (MSH-03, ADR 39)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.stage import Actor, Stage
from weft.core.messages import (
    Edge,
    FromPositions,
    FromTime,
    Past,
    PastRequest,
    ReceivedPast,
    ReceivedPastRequest,
    SendBegins,
    SendCopies,
    SendPast,
    SendPastRequest,
    Tick,
)
from weft.core.past import PAST_ASKED_MAX, PAST_RETRY_S
from weft.core.routes import Routes
from weft.core.settings import BrokerSettings
from weft.log.errors import EventsLost, PositionExpired
from weft.log.retention import RetentionRule, retain
from weft.membership import NodeState
from weft.model import Batch, Epoch, NodeId, Position, Stream, Topic, parse_pattern
from weft.routing import SINCE_EVER_US

pytestmark = pytest.mark.req("MSH-03")

T = Topic("t")
A = (Stream(T, NodeId("a"), 0), Epoch(7))


def copy_of(actor: Actor, key: tuple[Stream, Epoch] = A) -> tuple[int, int]:
    info = actor.log.info(*key)
    return info.start, info.end


def has_copy(actor: Actor) -> bool:
    return actor.log.find(*A) is not None


def published(stage: Stage, name: str, *texts: str) -> None:
    for text in texts:
        stage[name].publish("t", text)
        stage.run(1.0)


def until(stage: Stage, holds: Callable[[], object]) -> None:
    """One thing at a time."""
    for _ in range(1000):
        if holds():
            return
        if not stage._turn():
            timers = {
                actor.id: timer for actor in stage.actors.values() if (timer := actor.broker.get_timer()) is not None
            }
            first = min(timers, key=timers.__getitem__)
            stage.now_s = max(stage.now_s, timers[first])
            stage.actors[first].step(Tick())
    raise AssertionError("it never comes to that")


@pytest.fixture
def chain() -> Stage:
    """c has copied the stream of a from the fourth event on; b passed it on, and has no more."""
    stage = Stage("a", "b", "c", settings=BrokerSettings(past_timeout_s=60.0))
    stage.link("a-b", "b-c")
    published(stage, "a", "0", "1", "2")
    stage["c"].subscribe("t", Edge.LATEST)
    stage.run()
    published(stage, "a", "3")
    assert [copy_of(stage[name]) for name in "bc"] == [(3, 4), (3, 4)]
    return stage


def test_a_quiet_stream_begins_where_it_ended_when_the_wish_was_heard(chain: Stage) -> None:
    """So that all from there on is new, also if the link breaks before anything comes, and whatever publishers' clocks
    say."""
    stage = Stage("a", "b")
    stage.link("a-b")
    published(stage, "a", "old")
    reader = stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    assert copy_of(stage["b"]) == (1, 1)
    stage.cut("a-b")
    stage["a"].publish("t", "new", at_us=5)
    stage.run()
    stage.link("a-b")
    stage.run()
    assert reader.texts == ["new"]
    assert copy_of(stage["b"]) == (1, 2)


def test_who_wants_everything_gets_it_at_a_node_that_copied_only_what_is_new(chain: Stage) -> None:
    reader = chain["c"].subscribe("t")
    chain.run()
    assert reader.texts == ["0", "1", "2", "3"]
    assert [copy_of(chain[name]) for name in "bc"] == [(0, 4), (0, 4)], "also where it passed"
    published(chain, "a", "4")
    assert reader.texts == ["0", "1", "2", "3", "4"]


def test_a_past_has_the_gaps_that_a_repair_left_and_all_that_is_around_them() -> None:
    stage = Stage("a", "b", "c")
    published(stage, "a", "0", "1", "2", "3", "4")
    stage.kill("a")
    for offset in (1, 2):
        stage.damage(A[0], offset)
    stage.restart(epoch=8, repaired=True)
    stage.link("a-b", "b-c")
    stage["c"].subscribe("t", FromTime(int(stage.now_s * 1e6)))
    stage.run()
    assert copy_of(stage["c"]) == (5, 5)
    early = stage["c"].subscribe("t")
    stage.run()
    assert early.texts == ["0"]
    assert isinstance(early.error, EventsLost)
    assert (early.error.loss.first, early.error.loss.end) == (1, 3)
    rest = stage["c"].subscribe("t", FromPositions((Position(*A, 3),)))
    stage.run()
    assert (rest.texts, rest.error) == (["3", "4"], None)


def test_a_past_that_ends_with_a_gap_that_a_repair_left_is_whole() -> None:
    stage = Stage("a", "b")
    published(stage, "a", "0", "1", "2")
    stage.kill("a")
    stage.damage(A[0], 2)
    stage.restart(epoch=8, repaired=True)
    stage.link("a-b")
    stage["b"].subscribe("t", FromTime(int(stage.now_s * 1e6)))
    stage.run()
    early = stage["b"].subscribe("t")
    stage.run()
    assert early.texts == ["0", "1"]
    assert isinstance(early.error, EventsLost)
    assert (early.error.loss.first, early.error.loss.end) == (2, 3)


def test_what_is_new_does_not_wait_for_the_past(chain: Stage) -> None:
    news = chain["c"].subscribe("t", Edge.LATEST)
    chain.cut("a-b")
    reader = chain["c"].subscribe("t")
    chain.run()
    assert reader.texts == [] and copy_of(chain["c"]) == (3, 4)
    chain.link("a-b")
    published(chain, "a", "4")
    assert news.texts == ["4"]
    assert reader.texts == ["0", "1", "2", "3", "4"]


def test_a_group_gets_its_past(chain: Stage) -> None:
    reader = chain["c"].subscribe("t", group="g", member="m")
    chain.run()
    assert reader.texts == ["0", "1", "2", "3"]


def test_a_group_goes_on_where_it_stands_at_a_node_that_has_only_what_is_newer() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "a-c")
    published(stage, "a", "0", "1")
    first = stage["b"].subscribe("t", group="g", member="m")
    stage.run()
    stage["b"].handled(first)
    stage["b"].unsubscribe(first)
    published(stage, "a", "2", "3")
    stage["c"].subscribe("t", Edge.LATEST)
    stage.run()
    assert copy_of(stage["c"]) == (4, 4)
    second = stage["c"].subscribe("t", Edge.OWN, group="g", member="m2")
    published(stage, "a", "4")
    assert second.texts == ["2", "3", "4"]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_who_goes_on_at_a_position_misses_nothing(chain: Stage, place: int) -> None:
    start = FromPositions((Position(*A, place),), otherwise_us=int(chain.now_s * 1e6))
    reader = chain["c"].subscribe("t", start)
    chain.run()
    assert reader.texts == ["0", "1", "2", "3"][place:]
    assert copy_of(chain["c"]) == (min(place, 3), 4), "nothing before it was fetched"


def test_who_wants_what_came_since_a_time_has_no_more_copied_than_that() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    published(stage, "a", "0", "1", "2", "3")
    stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    assert copy_of(stage["b"]) == (4, 4)
    since = [int((stage.now_s - 5.0 - 4.0 + number) * 1e6) for number in range(4)]  # when each of them was published
    reader = stage["b"].subscribe("t", FromTime(since[2]))
    stage.run()
    assert (reader.texts, copy_of(stage["b"])) == (["2", "3"], (2, 4))
    earlier = stage["b"].subscribe("t", FromTime(since[1]))
    stage.run()
    assert (earlier.texts, copy_of(stage["b"])) == (["1", "2", "3"], (1, 4))
    everything = stage["b"].subscribe("t")
    stage.run()
    assert (everything.texts, copy_of(stage["b"])) == (["0", "1", "2", "3"], (0, 4))
    assert stage["b"].log.info(*A).late_us is None


def test_a_copy_for_who_wants_what_came_since_a_time_begins_there() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    published(stage, "a", "0", "1", "2")
    reader = stage["b"].subscribe("t", FromTime(int((stage.now_s - 1.0) * 1e6)))
    stage.run()
    assert (reader.texts, copy_of(stage["b"])) == (["2"], (2, 3))


def test_one_who_wants_history_is_enough(chain: Stage) -> None:
    """At any node behind, and for exactly the topics that it wants."""
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    for topic in ("p.x", "p.y"):
        stage["a"].publish(topic, "old")
    stage.run()
    stage["c"].subscribe("p.x")
    stage["c"].subscribe("p.>", Edge.LATEST)
    stage["b"].subscribe("p.*", Edge.LATEST)
    stage.run()
    starts = {info.stream.topic: info.start for info in stage["b"].log.streams() if info.stream.topic.startswith("p")}
    assert starts == {"p.x": 0, "p.y": 1}


def test_the_earliest_wish_in_a_branch_counts() -> None:
    """So its copy begins where all of them need it, and nothing has to be fetched afterwards."""
    a, b, c = map(NodeId, "abc")
    routes = Routes(a)
    routes.know(NodeState(a, 1, 1, Epoch(1), neighbours=(b,)))
    routes.know(_who_wants(b, since_us=70, neighbours=(a, c)))
    routes.know(_who_wants(c, since_us=50, neighbours=(b,)))
    assert routes.since(b, a, T) == 50
    routes.know(_who_wants(b, since_us=30, neighbours=(a, c), version=2))
    assert routes.since(b, a, T) == 30
    routes.know(_who_wants(c, since_us=SINCE_EVER_US, neighbours=(b,), version=2))
    assert routes.since(b, a, T) == SINCE_EVER_US


def _who_wants(node: NodeId, *, since_us: int, neighbours: tuple[NodeId, ...], version: int = 1) -> NodeState:
    return NodeState(
        node,
        1,
        version,
        Epoch(1),
        neighbours=neighbours,
        interest=(parse_pattern("t"),),
        interest_since_us=(since_us,),
    )


def test_topics_of_the_mesh_and_buckets_have_their_history_everywhere() -> None:
    stage = Stage("a", "b")
    topics = ("weft.dead.g", "kv.bucket", "weft.other")
    for topic in topics:
        stage["a"].publish(topic, "old")
    for pattern in ("weft.>", "kv.>"):
        stage["b"].subscribe(pattern, Edge.LATEST)
    stage.link("a-b")
    stage.run()
    assert {info.stream.topic: info.start for info in stage["b"].log.streams() if info.stream.topic in topics} == (
        dict.fromkeys(topics, 0)
    )


def test_copies_for_safety_are_whole_and_counted_only_where_they_are() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    published(stage, "a", "0", "1")
    stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    assert copy_of(stage["b"]) == (2, 2)
    outgoing = stage["a"].broker.replication.links[NodeId("b")].outgoing
    assert not outgoing.has(A, 1, 2)
    request = stage["a"].publish("t", "2", copies=2)
    stage.run()
    assert stage["a"].receipts[request].copies == 2
    assert not outgoing.has(A, 1, 3) and outgoing.has(A, 2, 3)
    stage.cut("a-b")
    stage.link("a-b")
    stage.run()
    outgoing = stage["a"].broker.replication.links[NodeId("b")].outgoing
    assert not outgoing.has(A, 1, 3) and outgoing.has(A, 2, 3), "the child says where its copy begins"


def test_a_copy_that_is_asked_for_safety_is_whole() -> None:
    stage = Stage("a", "b")
    published(stage, "a", "0", "1")
    stage["b"].subscribe("t", Edge.LATEST)
    stage["a"].publish("t", "2", copies=2)
    stage.link("a-b")
    stage.run()
    assert copy_of(stage["b"]) == (0, 3)


def test_a_node_that_knows_nothing_of_late_copies_gets_whole_ones() -> None:
    stage = Stage("a", "b", "c")
    stage.old = {NodeId("c")}
    stage.link("a-b", "b-c")
    published(stage, "a", "0", "1")
    stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    assert copy_of(stage["b"]) == (2, 2)
    reader = stage["c"].subscribe("t", Edge.LATEST)
    published(stage, "a", "2")
    assert (reader.texts, copy_of(stage["c"])) == (["2"], (0, 3))
    assert not any(isinstance(each, SendBegins | SendPast) and each.peer == "c" for each in stage["b"].sent)


@pytest.fixture
def large() -> Stage:
    """b has nothing of a stream with four large events, but for what is to come."""
    stage = Stage("a", "b")
    stage.link("a-b")
    published(stage, "a", *("x" * 600_000 for _ in range(4)))
    stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    assert copy_of(stage["b"]) == (4, 4)
    return stage


def test_a_past_comes_in_pieces_over_links_that_break(large: Stage) -> None:
    reader = large["b"].subscribe("t")
    for events in (1, 2, 3):
        until(large, lambda events=events: large["b"].log.past_end(*A) == events)  # type: ignore[misc]
        large.cut("a-b")
        large.run()
        large.link("a-b")
    large.run()
    assert len(reader.texts) == 4


def test_a_node_that_died_in_between_goes_on_with_what_it_has_of_the_past(large: Stage) -> None:
    large["b"].subscribe("t")
    until(large, lambda: large["b"].log.past_end(*A) == 2)
    large["b"].sync()
    large.kill("b")
    node = large.restart()
    assert (node.log.past_end(*A), copy_of(node)) == (2, (4, 4))
    node.sent.clear()
    reader = node.subscribe("t")
    large.link("a-b")
    large.run()
    assert len(reader.texts) == 4
    assert [each.request.first for each in node.sent if isinstance(each, SendPastRequest)] == [2, 3]


def test_a_parent_that_lost_its_disk_hands_on_what_a_child_still_lacks() -> None:
    """The child says where it stands before the parent has anything of the stream again. What the parent begins then is
    newer than that, and nothing more is published that would show the gap (seed 312)."""
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    first = stage["c"].subscribe("t", Edge.LATEST)
    stage.run()
    published(stage, "a", "0", "1")
    stage["c"].unsubscribe(first)
    stage.run()
    published(stage, "a", "2", "3")
    assert copy_of(stage["c"]) == (0, 2)
    stage.kill("b")
    stage.restart(epoch=8)
    reader = stage["c"].subscribe("t", FromPositions((Position(*A, 2),), int(stage.now_s * 1e6)))
    stage.link("b-c")
    stage.run()
    stage.link("a-b")
    stage.run()
    assert reader.texts == ["2", "3"]
    assert copy_of(stage["c"]) == (0, 4)
    assert copy_of(stage["b"]) == (2, 4), "no more of the past than was wanted"


def test_a_copy_that_found_no_room_to_begin_begins_once_there_is_room() -> None:
    """Also if the stream does not go on. Otherwise nobody here knows of it, and who wants all of it waits for ever."""
    stage = Stage("a", "b")
    stage.link("a-b")
    published(stage, "a", "0")
    stage["b"].store.disk_bytes_max = 0
    stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    assert not has_copy(stage["b"])
    stage["b"].store.disk_bytes_max = 1 << 60
    stage.run()
    assert copy_of(stage["b"]) == (1, 1)
    reader = stage["b"].subscribe("t")
    stage.run()
    assert reader.texts == ["0"]


def test_what_expires_at_the_parent_before_it_was_fetched_is_gone() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    published(stage, "a", "0", "1", "2")
    stage["b"].subscribe("t", Edge.LATEST)
    published(stage, "a", "3")
    assert copy_of(stage["b"]) == (3, 4)
    stage["a"].log.begin_segment()
    stage["a"].sync()
    retain(stage["a"].log, [RetentionRule(parse_pattern("t"), stream_bytes_max=0)], 0)
    assert copy_of(stage["a"]) == (4, 4)
    reader = stage["b"].subscribe("t")
    stage.run()
    assert reader.texts == ["3"] and reader.error is None
    goes_on = stage["b"].subscribe("t", FromPositions((Position(*A, 1),)))
    stage.run()
    assert isinstance(goes_on.error, PositionExpired)


def test_a_past_whose_origin_does_not_come_back_is_given_up(chain: Stage) -> None:
    """Who wants everything gets what there is, after a time; who stood before it is told that it is gone."""
    chain.kill("a")
    chain.run()
    everything, goes_on = chain["c"].subscribe("t"), chain["c"].subscribe("t", FromPositions((Position(*A, 1),)))
    chain.run(30.0)
    assert everything.texts == [] and goes_on.error is None
    chain.run(60.0)
    assert everything.texts == ["3"]
    assert isinstance(goes_on.error, PositionExpired)
    chain.restart()
    chain.link("a-b")
    chain.run()
    later = chain["c"].subscribe("t")
    chain.run()
    assert later.texts == ["0", "1", "2", "3"], "it is back, and so is what it has"


def test_a_peer_that_has_it_gives_the_past_of_an_origin_that_is_gone(chain: Stage) -> None:
    """b got everything for a moment, c did not."""
    everything = chain["b"].subscribe("t")
    chain.run()
    assert len(everything.texts) == 4 and copy_of(chain["c"]) == (3, 4)
    chain.kill("a")
    chain.run()
    reader = chain["c"].subscribe("t")
    chain.run()
    assert reader.texts == ["0", "1", "2", "3"]


def test_a_peer_is_asked_for_the_past_however_long_the_origin_has_been_gone(chain: Stage) -> None:
    """Who asked after ten minutes got the rest alone, without a word."""
    chain["b"].subscribe("t")
    chain.run()
    chain.kill("a")
    chain.run(200.0)
    reader = chain["c"].subscribe("t")
    chain.run()
    assert reader.texts == ["0", "1", "2", "3"]


def test_a_past_that_comes_slowly_is_not_given_up() -> None:
    stage = Stage("a", "b", "c", settings=BrokerSettings(past_timeout_s=30.0))
    stage.link("a-b", "b-c")
    published(stage, "a", *("x" * 600_000 for _ in range(4)))
    stage["c"].subscribe("t", Edge.LATEST)
    stage.run()
    stage["b"].subscribe("t")
    stage.run()
    assert [copy_of(stage[name]) for name in "bc"] == [(0, 4), (4, 4)]
    stage.kill("a")
    stage.run()
    reader = stage["c"].subscribe("t")
    for events in (1, 2, 3):
        until(stage, lambda events=events: stage["c"].log.past_end(*A) == events)  # type: ignore[misc]
        stage.now_s += 20.0
    stage.run()
    assert len(reader.texts) == 4


def test_the_past_of_a_log_that_was_lost_is_asked_of_everybody() -> None:
    stage = Stage("a", "b", "c", settings=BrokerSettings(past_timeout_s=30.0))
    stage.link("a-b", "a-c", "b-c")
    published(stage, "a", "0", "1")
    stage["b"].subscribe("t")
    stage["c"].subscribe("t", Edge.LATEST)
    stage.run()
    stage.kill("a")
    stage.restart(epoch=8)
    stage.link("a-b", "a-c")
    stage.run()
    reader = stage["c"].subscribe("t")
    stage.run()
    assert reader.texts == ["0", "1"]


def test_a_lost_answer_is_asked_for_again(chain: Stage) -> None:
    reader = chain["c"].subscribe("t")
    until(chain, lambda: any(isinstance(each, SendPast) for each in chain["b"].sent))
    chain._flying.clear()
    chain.run(3 * PAST_RETRY_S)
    assert reader.texts == ["0", "1", "2", "3"]


@pytest.mark.req("SEC-05")
def test_the_pasts_of_many_streams_are_asked_for_in_turn() -> None:
    """All at once, the answers were more than a link's queue holds, and what was new was dropped with them."""
    stage = Stage("a", "b")
    stage.link("a-b")
    for number in range(3 * PAST_ASKED_MAX):
        stage["a"].publish(f"many.t{number}", "old")
    stage.run()
    stage["b"].subscribe("many.>", Edge.LATEST)
    stage.run()
    reader = stage["b"].subscribe("many.>")
    until(stage, lambda: any(isinstance(each, SendPastRequest) for each in stage["b"].sent))
    assert sum(isinstance(each, SendPastRequest) for each in stage["b"].sent) == PAST_ASKED_MAX
    stage.run()
    assert len(reader.texts) == 3 * PAST_ASKED_MAX
    assert stage["b"].broker.replication.pasts.get_timer() is None


def test_pasts_that_nobody_has_do_not_hold_up_others(chain: Stage) -> None:
    for number in range(2 * PAST_ASKED_MAX):
        chain["a"].publish(f"lost.t{number}", "old")
    chain["b"].publish("there", "old")
    chain.run()
    for pattern in ("lost.>", "there"):
        chain["c"].subscribe(pattern, Edge.LATEST)
    chain.run()
    chain.kill("a")
    chain.run()
    lost = chain["c"].subscribe("lost.>")
    chain.run(0.0)
    there = chain["c"].subscribe("there")
    chain.run()
    assert there.texts == ["old"]
    assert lost.texts == []


def test_a_past_of_many_pieces_gives_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.core.past.PAST_ASKED_MAX", 1)
    monkeypatch.setattr("weft.core.past.PAST_PIECES", 2)
    stage = Stage("a", "b")
    stage.link("a-b")
    for topic, events in (("t", 4), ("u", 1)):
        for _ in range(events):
            stage["a"].publish(topic, "x" * 600_000)
    stage.run()
    for topic in "tu":
        stage["b"].subscribe(topic, Edge.LATEST)
    stage.run()
    readers = [stage["b"].subscribe(topic) for topic in "tu"]
    stage.run()
    assert [len(each.texts) for each in readers] == [4, 1]
    asked = [each.request.stream.topic for each in stage["b"].sent if isinstance(each, SendPastRequest)]
    assert asked == ["t", "t", "u", "t", "t"]


def test_a_past_that_nobody_asked_for_is_not_kept(chain: Stage) -> None:
    batch = Batch.from_columns([b"evil"] * 3, 0).with_base_offset(0)
    chain["c"].step(ReceivedPast(NodeId("b"), Past(*A, 0, 3, (batch,))))
    chain.run()
    assert copy_of(chain["c"]) == (3, 4)
    chain.cut("b-c")
    reader = chain["c"].subscribe("t")
    chain["c"].step(ReceivedPast(NodeId("x"), Past(*A, 0, 3, (batch,))))
    chain.run()
    assert reader.texts == []


@pytest.mark.parametrize(
    "past",
    [
        Past(*A, 2, 1, ()),
        Past(*A, 0, 9, ()),
        Past(*A, 5, 9, ()),
        Past(*A, 2, 3, (Batch.from_columns([b"x"], 0).with_base_offset(0),)),
        Past(*A, 0, 3, tuple(Batch.from_columns([b"x"] * 2, 0).with_base_offset(at) for at in (0, 1, 1))),
        Past(*A, 0, 1 << 60, (Batch.from_columns([b"x"], 0).with_base_offset(1 << 58),)),
    ],
)
def test_a_past_that_cannot_be_is_not_kept(chain: Stage, past: Past) -> None:
    reader = chain["c"].subscribe("t")
    assert any(isinstance(each, SendPastRequest) for each in chain["c"].sent)
    chain["c"].step(ReceivedPast(NodeId("b"), past))
    chain.run()
    assert reader.texts in (["0", "1", "2", "3"], ["3"])


def test_nobody_waits_for_a_stream_that_the_giver_does_not_know(chain: Stage) -> None:
    unknown = PastRequest(Stream(Topic("never"), NodeId("a"), 0), Epoch(7), 3, offset=0)
    chain["b"].step(ReceivedPastRequest(NodeId("c"), unknown))
    chain.run()
    assert not any(isinstance(each, SendPast) for each in chain["b"].sent)


def test_history_is_not_sent_where_only_what_is_new_is_wanted(chain: Stage) -> None:
    sent = [copy for each in chain["a"].sent if isinstance(each, SendCopies) for copy in each.copies]
    assert [copy.batch.base_offset for copy in sent if copy.stream.topic == "t"] == [3]
