"""Peers that know only the document's four messages: their events, and the one sequence per topic that they get."""

from __future__ import annotations

import pytest

from tests.core.stage import Stage
from weft.core.messages import LinkDown, LinkUp, PlainEvent, ReceivedPlain, ReceivedPlainAck
from weft.limits import PLAIN_WINDOW_EVENTS
from weft.model import NodeId, parse_topic

OLD = NodeId("old")
T = parse_topic("t")


def event(offset: int, text: str, topic: str = "t") -> ReceivedPlain:
    return ReceivedPlain(OLD, PlainEvent(parse_topic(topic), offset, text.encode(), {"k": "v"}))


def got(stage: Stage, name: str = "a") -> list[tuple[str, int, str]]:
    return [(each.topic, each.offset, each.payload.decode()) for each in stage[name].plain]


@pytest.mark.req("PL-05")
def test_its_events_are_a_stream_of_its_own_and_are_acknowledged_when_durable() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    reader = stage["a"].subscribe("t")
    stage["a"].step(event(0, "x"))
    stage["a"].step(event(1, "y"))
    assert not stage["a"].plain_acks
    stage.run()
    assert reader.events == [("t@old/0:e1:0", "x"), ("t@old/0:e1:1", "y")]
    assert stage["a"].plain_acks[-1] == ("t", 1)


@pytest.mark.req("PL-04")
def test_what_it_sends_again_is_acknowledged_and_not_kept_twice() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    reader = stage["a"].subscribe("t")
    for _ in range(2):
        stage["a"].step(event(0, "x"))
        stage.run()
    assert reader.texts == ["x"]
    assert stage["a"].plain_acks == [("t", 0), ("t", 0)]


def test_offsets_that_it_skips_do_not_exist() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    reader = stage["a"].subscribe("t")
    stage["a"].step(event(3, "x"))
    stage["a"].step(event(7, "y"))
    stage.run()
    assert [place for place, _ in reader.events] == ["t@old/0:e1:3", "t@old/0:e1:7"]


def test_its_events_cross_the_mesh() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].say(neighbours=(NodeId("b"), OLD))
    reader = stage["c"].subscribe("t")
    stage.run()
    stage["a"].step(event(0, "x"))
    stage.run()
    assert reader.events == [("t@old/0:e1:0", "x")]


def test_topics_of_the_mesh_are_not_its_to_publish() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].step(event(0, "x", "weft.groups.g"))
    assert [(peer, reason) for _, peer, reason in stage.dropped] == [
        ("old", "topics below weft. are the mesh's own: weft.groups.g")
    ]


@pytest.mark.req("PL-05")
def test_the_streams_of_a_topic_come_to_it_as_one_sequence_without_gaps() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    stage["a"].subscribe("t")
    stage["a"].step(LinkUp(OLD, plain=True))
    for number in range(3):
        stage["a"].publish("t", f"a{number}")
        stage["b"].publish("t", f"b{number}")
        stage.run()
    sequence = got(stage)
    assert [offset for _, offset, _ in sequence] == list(range(6))
    texts = [text for _, _, text in sequence]
    for origin in "ab":
        assert [text for text in texts if text[0] == origin] == [f"{origin}{number}" for number in range(3)]


def test_it_gets_what_is_published_elsewhere_in_the_mesh() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage.run()
    stage["c"].publish("t", "far")
    stage.run()
    assert got(stage) == [("t", 0, "far")]
    stage["a"].step(LinkDown(OLD))
    stage.run()
    assert stage["a"].state.interest == ("weft.groups.>",), "who is gone wants nothing any more"


def test_it_does_not_get_its_own_events_nor_those_of_the_mesh() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].step(event(0, "x"))
    stage["a"].subscribe("t", group="g")
    stage["a"].publish("t", "y")
    stage.run()
    assert got(stage) == [("t", 0, "y")]


@pytest.mark.req("PL-04")
@pytest.mark.parametrize("crash", [False, True])
def test_after_a_reconnect_it_goes_on_after_its_last_ack_with_the_same_numbers(crash: bool) -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    for text in "vwxyz":
        stage["a"].publish("t", text)
        stage.run()
    before = got(stage)
    stage["a"].step(ReceivedPlainAck(OLD, T, 1))
    stage.run()
    if crash:
        stage.kill("a")
        stage.restart()
    else:
        stage["a"].step(LinkDown(OLD))
    stage["a"].plain.clear()
    stage["a"].step(LinkUp(OLD, plain=True))
    stage.run()
    assert got(stage) == before[2:]


def test_no_more_is_under_way_than_the_window() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].publish("t", *map(str, range(PLAIN_WINDOW_EVENTS + 500)))
    stage.run()
    assert len(stage["a"].plain) == PLAIN_WINDOW_EVENTS
    stage["a"].step(ReceivedPlainAck(OLD, T, 399))
    assert len(stage["a"].plain) == PLAIN_WINDOW_EVENTS + 400
    assert [each.offset for each in stage["a"].plain] == list(range(PLAIN_WINDOW_EVENTS + 400))


@pytest.mark.parametrize("offset", [-5, 10_000])
def test_an_ack_for_what_was_never_sent_counts_for_nothing(offset: int) -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].publish("t", "x")
    stage.run()
    stage["a"].step(ReceivedPlainAck(OLD, T, offset))
    stage["a"].step(LinkDown(OLD))
    stage["a"].plain.clear()
    stage["a"].step(LinkUp(OLD, plain=True))
    stage.run()
    assert got(stage) == [("t", 0, "x")]


# --- a full disk -----------------------------------------------------------------------------------------------------

ROOM = 1 << 60


def test_an_event_without_room_is_sent_again_and_not_taken_for_one_that_does_not_exist() -> None:
    stage = Stage("a")
    actor = stage["a"]
    actor.step(LinkUp(OLD, plain=True))
    reader = actor.subscribe("t")
    actor.step(event(0, "x"))
    stage.run()
    actor.store.disk_bytes_max = 0
    actor.step(event(1, "y"))
    assert [(peer, reason.split(":")[0]) for _, peer, reason in stage.dropped] == [("old", "no room for its events")]
    actor.store.disk_bytes_max = ROOM
    actor.step(event(2, "z"))  # was under way before the link broke
    stage.run()
    assert reader.texts == ["x"]
    actor.step(LinkDown(OLD))
    actor.step(LinkUp(OLD, plain=True))
    actor.step(event(1, "y"))
    actor.step(event(2, "z"))
    stage.run()
    assert reader.texts == ["x", "y", "z"]


def test_what_found_no_room_in_its_sequence_comes_once_there_is_room() -> None:
    """Also if the stream does not go on."""
    stage = Stage("a")
    actor = stage["a"]
    actor.step(LinkUp(OLD, plain=True))
    actor.publish("t", "x")
    actor.store.disk_bytes_max = actor.store.disk_bytes()
    stage.run(3.0)
    assert not actor.plain
    actor.store.disk_bytes_max = ROOM
    stage.run(3.0)
    assert got(stage) == [("t", 0, "x")]


def test_its_acks_count_on_a_full_disk() -> None:
    stage = Stage("a")
    actor = stage["a"]
    actor.step(LinkUp(OLD, plain=True))
    actor.publish("t", *map(str, range(PLAIN_WINDOW_EVENTS + 1)))
    stage.run()
    actor.store.disk_bytes_max = 0
    actor.step(ReceivedPlainAck(OLD, T, 9))
    assert len(actor.plain) == PLAIN_WINDOW_EVENTS + 1


def test_what_it_left_behind_reaches_who_wants_it_over_nodes_that_do_not() -> None:
    """Nobody can reach it any more, so there is no tree to send its events along."""
    stage = Stage("a", "b", "c", "d")
    stage.link("a-b", "b-c", "c-d")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].say(neighbours=(NodeId("b"), OLD))
    stage["a"].step(event(0, "x"))
    stage.run()
    stage["a"].step(LinkDown(OLD))
    stage["a"].say(neighbours=(NodeId("b"),))
    stage.run(30.0)
    reader = stage["d"].subscribe("t")
    stage.run(60.0)
    assert reader.events == [("t@old/0:e1:0", "x")]
