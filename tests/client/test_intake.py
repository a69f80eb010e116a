"""Between node and application: credit, what is in hand, and when a lost stream is let go."""

from __future__ import annotations

from weft.client.intake import EventIntake, Report
from weft.model import Batch, Epoch, NodeId, Position, Stream, Topic

A = Stream(Topic("a"), NodeId("n"), 0)
B = Stream(Topic("b"), NodeId("n"), 0)
ONE = Epoch(1)


def at(stream: Stream, offset: int) -> Position:
    return Position(stream, ONE, offset)


def batch(base: int, count: int) -> Batch:
    return Batch.from_columns([b"%d" % (base + index) for index in range(count)], 0).with_base_offset(base)


def intake(*, in_group: bool = True, is_auto: bool = True) -> EventIntake:
    return EventIntake(in_group=in_group, is_auto=is_auto)


def hand_out(box: EventIntake, count: int) -> None:
    """As a subscription does it, event by event."""
    for _ in range(count):
        if box.index < len(box.events):
            box.index += 1
        else:
            taken = box.take()
            assert taken is not None
            box.events, box.index = taken.events(), 1


def test_credit_goes_back_when_a_batch_is_done_with() -> None:
    box = intake(in_group=False)
    one, two = batch(0, 5), batch(5, 5)
    box.delivered(A, ONE, one, 0)
    box.delivered(A, ONE, two, 0)
    assert box.held_bytes == len(one.data) + len(two.data)
    hand_out(box, 5)
    assert box.report(0.0).credit_bytes == 0
    hand_out(box, 1)
    assert box.report(0.0) == Report(len(one.data), [], None)
    assert box.held_bytes == len(two.data)


def test_what_comes_twice_or_is_not_meant_is_not_handed_out_and_costs_nothing() -> None:
    box = intake(in_group=False)
    assert box.delivered(A, ONE, batch(0, 5), 3)
    taken = box.take()
    assert taken is not None
    assert [event.offset for event in taken.events()] == [3, 4]
    assert not box.delivered(A, ONE, batch(0, 5), 0)
    assert box.report(0.0).credit_bytes == len(batch(0, 5).data)


def test_an_event_is_handled_when_the_next_is_asked_for() -> None:
    box = intake()
    box.assigned(1, [at(A, 0)], 10.0)
    assert box.report(0.0) == Report(0, [at(A, 0)], 1)
    box.delivered(A, ONE, batch(0, 3), 0)
    hand_out(box, 2)
    assert box.report(0.0).positions == [at(A, 1)]
    hand_out(box, 1)
    assert box.report(0.0).positions == [at(A, 2)]
    assert box.take() is None, "asked for the next, which is not there yet"
    assert box.report(0.0).positions == [at(A, 3)]


def test_a_batch_is_handled_when_the_next_is_asked_for() -> None:
    box = intake()
    box.assigned(1, [at(A, 0)], 10.0)
    box.report(0.0)
    box.delivered(A, ONE, batch(0, 3), 0)
    assert box.take() is not None
    assert box.report(0.0).positions == []
    assert box.take() is None
    assert box.report(0.0).positions == [at(A, 3)]


def test_by_hand_only_what_was_said_is_handled() -> None:
    box = intake(is_auto=False)
    box.assigned(1, [at(A, 0)], 10.0)
    box.report(0.0)
    box.delivered(A, ONE, batch(0, 3), 0)
    hand_out(box, 3)
    assert box.report(0.0).generation is None
    box.cursors.handled(at(A, 2))
    assert box.report(0.0) == Report(0, [at(A, 2)], 1)


def test_events_of_a_lost_stream_are_not_handed_out() -> None:
    box = intake()
    box.assigned(1, [at(A, 0), at(B, 0)], 10.0)
    box.delivered(A, ONE, batch(0, 3), 0)
    box.delivered(B, ONE, batch(0, 3), 0)
    box.delivered(A, ONE, batch(3, 3), 0)
    hand_out(box, 1)
    box.assigned(2, [at(B, 0)], 10.0)
    hand_out(box, 1)
    assert (box.events[0].stream, len(box.queue)) == (B, 0)
    assert box.report(0.0).credit_bytes == len(batch(0, 3).data) + len(batch(3, 3).data)


def test_a_lost_stream_is_let_go_when_its_last_event_is_done_with() -> None:
    box = intake()
    box.assigned(1, [at(A, 0)], 10.0)
    box.report(0.0)
    box.delivered(A, ONE, batch(0, 3), 0)
    hand_out(box, 2)
    box.assigned(2, [], 10.0)
    assert box.report(9.9).generation is None
    assert box.owes_answer
    assert box.take() is None
    assert box.report(9.9) == Report(len(batch(0, 3).data), [at(A, 2)], 2)
    assert not box.owes_answer


def test_a_lost_stream_is_let_go_in_time_even_if_the_application_is_stuck() -> None:
    box = intake()
    box.assigned(1, [at(A, 0)], 10.0)
    box.report(0.0)
    box.delivered(A, ONE, batch(0, 3), 0)
    hand_out(box, 2)
    box.assigned(2, [], 10.0)
    assert box.report(10.0) == Report(0, [at(A, 1)], 2)


def test_after_a_disconnection_nothing_is_reported_before_the_next_assignment() -> None:
    box = intake()
    box.assigned(1, [at(A, 0)], 10.0)
    box.delivered(A, ONE, batch(0, 3), 0)
    hand_out(box, 3)
    box.disconnected()
    assert box.take() is None
    assert box.report(0.0).generation is None
    box.assigned(1, [at(A, 1)], 10.0)
    assert box.report(0.0) == Report(0, [at(A, 3)], 1)
    assert not box.delivered(A, ONE, batch(0, 3), 1), "it was handed out before"
