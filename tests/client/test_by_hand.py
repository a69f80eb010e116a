"""What a reader has that acknowledges by hand: what it has is not queued again, what it refused stalls its stream."""

from __future__ import annotations

import pytest

from weft.client.by_hand import HandIntake
from weft.client.received import Received
from weft.model import Batch, Epoch, EventId, NodeId, Position, Stream, Topic

T = Stream(Topic("t"), NodeId("a"), 0)
U = Stream(Topic("u"), NodeId("a"), 0)
E = Epoch(1)


def batch(first: int, end: int) -> Batch:
    return Batch.from_columns([b"%d" % number for number in range(first, end)], 1).with_base_offset(first)


def made(window: int = 100) -> HandIntake:
    intake = HandIntake(window)
    intake.assigned(1, [Position(T, E, 0), Position(U, E, 0)], 10.0)
    return intake


def deliver(intake: HandIntake, stream: Stream, first: int, end: int, tries: int = 0) -> bool:
    return intake.delivered(stream, E, batch(first, end), first, tries)


def take(intake: HandIntake) -> list[Received]:
    """The next batch, handed out event by event."""
    found = intake.take()
    if found is None:
        return []
    intake.events, intake.index = found.events(), len(found)
    return found.events()


def hand_out(intake: HandIntake, count: int) -> list[Received]:
    """Only so many of the next batch."""
    found = intake.take()
    assert found is not None
    intake.events, intake.index = found.events(), count
    return found.events()[:count]


def acks(intake: HandIntake, now_s: float = 0.0) -> dict[str, list[tuple[int, int]]]:
    settled = intake.report(now_s).settled
    return {} if settled is None else {place[0].topic: list(ranges) for place, ranges in settled.acks}


@pytest.mark.req("CON-01")
def test_events_are_acknowledged_out_of_order_and_told_as_ranges() -> None:
    intake = made()
    deliver(intake, T, 0, 10)
    events = take(intake)
    for number in (0, 1, 2, 7, 5, 6):
        intake.ack(events[number])
    assert acks(intake) == {"t": [(0, 3), (5, 8)]}
    assert acks(intake) == {}, "once"


def test_a_quarter_of_the_window_is_told_at_once_and_so_is_the_last_event_there_is() -> None:
    intake = made(window=8)
    deliver(intake, T, 0, 8)
    events = take(intake)
    deliver(intake, T, 8, 9)
    assert [intake.ack(event) for event in events[:2]] == [False, True]
    acks(intake)
    (last,) = take(intake)
    for event in events[2:]:
        intake.ack(event)
    acks(intake)
    assert intake.ack(last), "nothing more is here to be handled"


@pytest.mark.req("CON-01")
def test_what_the_application_has_is_not_handed_out_again() -> None:
    intake = made()
    deliver(intake, T, 0, 4)
    events = take(intake)
    intake.ack(events[1])
    intake.disconnected()
    intake.assigned(1, [Position(T, E, 0)], 10.0)
    assert deliver(intake, T, 0, 6, tries=1)
    assert [event.payload for event in take(intake)] == [b"4", b"5"]
    intake.ack(events[0])
    assert acks(intake) == {"t": [(0, 2)]}


@pytest.mark.req("CON-02")
def test_a_refusal_stalls_its_stream_until_it_is_answered_and_others_go_on() -> None:
    intake = made()
    deliver(intake, T, 0, 4)
    deliver(intake, U, 0, 2)
    events = hand_out(intake, 2)
    intake.refuse(events[1], None, "broken")
    assert [event.payload for event in take(intake)] == [b"0", b"1"], "of the other stream"
    assert take(intake) == [] and not intake.has_more
    settled = intake.report(0.0).settled
    assert settled is not None and [each.event.offset for each in settled.refusals] == [1]
    intake.withdrawn(EventId(T, E, 1), rest=False)
    assert [event.offset for event in take(intake)] == [2, 3]


@pytest.mark.req("CON-02")
def test_in_order_what_waits_behind_a_refused_event_is_dropped_and_comes_again() -> None:
    intake = made()
    deliver(intake, T, 0, 4)
    events = hand_out(intake, 2)
    intake.refuse(events[1], 1.0, "")
    intake.withdrawn(EventId(T, E, 1), rest=True)
    assert take(intake) == []
    deliver(intake, T, 1, 2, tries=1)
    deliver(intake, T, 2, 4)
    assert [(event.offset, event.tries) for event in take(intake)] == [(1, 1)]
    assert [event.offset for event in take(intake)] == [2, 3]


@pytest.mark.req("CON-01")
@pytest.mark.req("CON-01")
def test_what_came_again_before_a_later_refusal_stays() -> None:
    """The node delivered 3 again, and all behind it, before it heard of the refusal of 10."""
    intake = made()
    deliver(intake, T, 0, 20)
    events = hand_out(intake, 12)
    intake.refuse(events[3], None, "")
    intake.refuse(events[10], None, "")
    intake.withdrawn(EventId(T, E, 3), rest=True)
    intake.forget([*events[4:10], events[11]])
    deliver(intake, T, 3, 4, tries=1)
    deliver(intake, T, 4, 20)
    assert take(intake) == [], "the other refusal has no answer yet"
    intake.withdrawn(EventId(T, E, 10), rest=True)
    assert [event.offset for event in take(intake)] == [3]
    assert [event.offset for event in take(intake)] == [4, 5, 6, 7, 8, 9]
    assert take(intake) == [], "what is behind the refused one comes again"
    deliver(intake, T, 10, 11, tries=1)
    assert [event.offset for event in take(intake)] == [10]


def test_a_refusal_that_is_put_aside_takes_only_itself_out_of_what_waits() -> None:
    intake = made()
    deliver(intake, T, 0, 6)
    events = hand_out(intake, 3)
    intake.refuse(events[2], None, "")
    deliver(intake, T, 2, 3, tries=1)
    intake.withdrawn(EventId(T, E, 2), rest=False)
    assert [event.offset for event in take(intake)] == [3, 4, 5]
    assert take(intake) == []


def test_a_stream_that_is_lost_is_let_go_when_what_the_application_has_is_settled() -> None:
    intake = made()
    deliver(intake, T, 0, 2)
    deliver(intake, U, 0, 2)
    events = take(intake)
    intake.report(0.0)
    intake.assigned(2, [Position(U, E, 0)], 10.0)
    assert intake.report(1.0).settled is None, "the application still has some of it"
    for event in events:
        intake.ack(event)
    settled = intake.report(2.0).settled
    assert settled is not None and settled.generation == 2
    assert [place[0] for place, _ in settled.acks] == [T]


def test_an_application_that_does_not_let_go_is_not_waited_for() -> None:
    intake = made()
    deliver(intake, T, 0, 2)
    take(intake)
    intake.report(0.0)
    intake.assigned(2, [], 10.0)
    settled = intake.report(11.0).settled
    assert settled is not None and settled.generation == 2


def test_everything_before_a_position_can_be_acknowledged_at_once() -> None:
    intake = made()
    deliver(intake, T, 5, 10)
    take(intake)
    intake.ack_before(Position(T, E, 8))
    assert acks(intake) == {"t": [(5, 8)]}


def test_credit_comes_back_however_a_delivery_ends() -> None:
    intake = made()
    size = sum(len(batch(first, first + 2).data) for first in (0, 2, 4))
    for first in (0, 2, 4):
        deliver(intake, T, first, first + 2)
    events = hand_out(intake, 1)
    intake.refuse(events[0], None, "")
    intake.withdrawn(EventId(T, E, 0), rest=True)
    intake.put_down()
    assert intake.credit_due_bytes == size
    assert intake.held_bytes == 0
