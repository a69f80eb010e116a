"""Peers that know only the document's four messages: their events, and the one sequence per topic that they get."""

from __future__ import annotations

import pytest

from tests.core.stage import Reader, Stage
from weft.core.messages import EventsGone, LinkDown, LinkUp, PlainEvent, ReceivedPlain, ReceivedPlainAck
from weft.core.plain import PLAIN_GAP_S, PLAIN_WINDOW_EVENTS
from weft.core.topics import EVERYWHERE
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


# --- what is missing -------------------------------------------------------------------------------------------------


def with_a_gap(*offsets: int) -> tuple[Stage, Reader]:
    """A peer on its first link has sent these offsets, and everything that follows at once is done."""
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    reader = stage["a"].subscribe("t")
    for offset in offsets:
        stage["a"].step(event(offset, str(offset)))
    stage.run(0.0)
    return stage, reader


def link_again(stage: Stage) -> None:
    stage["a"].step(LinkDown(OLD))
    stage["a"].step(LinkUp(OLD, plain=True))


def test_a_stream_may_begin_anywhere() -> None:
    stage, reader = with_a_gap(3, 4)
    assert reader.texts == ["3", "4"]
    assert stage["a"].plain_acks[-1] == ("t", 4)
    assert not stage["a"].gone


@pytest.mark.req("PL-04")
def test_what_comes_behind_a_gap_is_not_taken_until_the_gap_is_filled() -> None:
    stage, reader = with_a_gap(0, 1)
    actor = stage["a"]
    actor.plain_acks.clear()
    for offset in (5, 6, 7):
        actor.step(event(offset, str(offset)))
    stage.run(0.0)
    assert actor.plain_acks == [("t", 1)], "once for the gap, however much comes behind it"
    for offset in (2, 3, 4, 5):
        actor.step(event(offset, str(offset)))
    stage.run(60.0)
    assert reader.texts == ["0", "1", "2", "3", "4", "5"]
    assert actor.plain_acks[-1] == ("t", 5)
    assert not stage.dropped and not actor.gone


def test_a_gap_before_anything_is_durable_is_acknowledged_after_the_sync() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].step(event(0, "0"))
    stage["a"].step(event(2, "2"))
    assert not stage["a"].plain_acks
    stage.run(0.0)
    assert stage["a"].plain_acks == [("t", 0)]


def test_every_gap_is_told() -> None:
    stage, _ = with_a_gap(0, 2, 1)
    assert stage["a"].plain_acks[-1] == ("t", 1)
    stage["a"].plain_acks.clear()
    stage["a"].step(event(3, "3"))
    assert stage["a"].plain_acks == [("t", 1)]


def test_who_does_not_go_back_loses_its_link_and_resumes_on_the_next() -> None:
    stage, reader = with_a_gap(0, 1, 4)
    stage.run(PLAIN_GAP_S - 0.1)
    assert not stage.dropped
    stage.run(0.2)
    assert [(peer, reason) for _, peer, reason in stage.dropped] == [("old", "events are missing: t from 2 to 3")]
    stage["a"].step(event(5, "5"))  # was under way
    link_again(stage)
    for offset in (2, 3, 4, 5):
        stage["a"].step(event(offset, str(offset)))
    stage.run(60.0)
    assert reader.texts == ["0", "1", "2", "3", "4", "5"]
    assert not stage["a"].gone and len(stage.dropped) == 1


def test_a_gap_that_is_there_again_on_the_next_link_is_a_hole_and_said_to_be_one() -> None:
    """The peer has lost its older events. Where the hole ends does not matter: meanwhile it may have lost more."""
    stage, reader = with_a_gap(0, 1, 4)
    link_again(stage)
    for offset in (5, 6):
        stage["a"].step(event(offset, str(offset)))
    stage.run(60.0)
    assert [place for place, _ in reader.events] == [f"t@old/0:e1:{offset}" for offset in (0, 1, 5, 6)]
    assert stage["a"].plain_acks[-1] == ("t", 6)
    assert stage["a"].gone == [EventsGone(OLD, T, 2, 5)]
    assert not stage.dropped


def test_a_peer_that_begins_anew_on_every_link_gets_over_its_holes() -> None:
    stage, reader = with_a_gap(0, 1, 4)
    link_again(stage)
    for offset in (0, 1, 4):
        stage["a"].step(event(offset, str(offset)))
    stage.run(60.0)
    assert reader.texts == ["0", "1", "4"]
    assert stage["a"].gone == [EventsGone(OLD, T, 2, 4)]


def test_a_gap_at_another_place_is_not_believed_on_the_next_link() -> None:
    stage, reader = with_a_gap(0, 1, 4)
    link_again(stage)
    for offset in (2, 5):
        stage["a"].step(event(offset, str(offset)))
    stage.run(0.0)
    assert reader.texts == ["0", "1", "2"]
    assert stage["a"].plain_acks[-1] == ("t", 2)
    assert not stage["a"].gone


def test_topics_wait_for_their_own_gaps_only() -> None:
    stage, _ = with_a_gap(0, 2)
    other = stage["a"].subscribe("other")
    for offset in (0, 1):
        stage["a"].step(event(offset, str(offset), "other"))
    stage.run(0.0)
    assert other.texts == ["0", "1"]


def test_a_hole_reaches_other_nodes() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].say(neighbours=(NodeId("b"), OLD))
    reader = stage["b"].subscribe("t")
    stage.run()
    for offset in (0, 3):
        stage["a"].step(event(offset, str(offset)))
    stage.run(0.0)
    link_again(stage)
    stage["a"].step(event(3, "3"))
    stage.run()
    assert [place for place, _ in reader.events] == ["t@old/0:e1:0", "t@old/0:e1:3"]


# --- what it gets and where it goes ----------------------------------------------------------------------------------


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
    assert stage["a"].state.interest == tuple(sorted(EVERYWHERE)), "who is gone wants nothing any more"


def test_it_does_not_get_its_own_events_nor_those_of_the_mesh() -> None:
    stage = Stage("a")
    stage["a"].step(LinkUp(OLD, plain=True))
    stage["a"].step(event(0, "x"))
    stage["a"].subscribe("t", group="g")
    stage["a"].publish("t", "y")
    stage.run()
    assert got(stage) == [("t", 0, "y")]


@pytest.mark.req("PL-04", "PL-05")
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
