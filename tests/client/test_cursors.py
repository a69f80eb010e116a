"""Positions of a subscription: what is new, what is ours, what is to be reported."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.client.cursors import Cursors
from weft.model import Epoch, NodeId, Position, Stream, Topic

A = Stream(Topic("a"), NodeId("n"), 0)
B = Stream(Topic("b"), NodeId("n"), 0)
ONE, TWO = Epoch(1), Epoch(2)


def at(stream: Stream, offset: int, epoch: Epoch = ONE) -> Position:
    return Position(stream, epoch, offset)


def test_what_was_delivered_before_is_cut_off() -> None:
    cursors = Cursors()
    assert cursors.take(A, ONE, 0, 10) == 0
    assert cursors.take(A, ONE, 5, 12) == 10
    assert cursors.take(A, ONE, 0, 12) is None
    assert cursors.take(A, ONE, 20, 25) == 20, "compaction leaves gaps"
    assert cursors.resume_at() == [at(A, 25)]


def test_epochs_have_nothing_to_do_with_each_other() -> None:
    cursors = Cursors()
    cursors.take(A, ONE, 0, 10)
    assert cursors.take(A, TWO, 0, 3) == 0
    assert cursors.resume_at() == [at(A, 10), at(A, 3, TWO)]


def test_streams_without_events_resume_where_the_node_said_they_begin() -> None:
    cursors = Cursors()
    cursors.begin([at(A, 7), at(B, 3)])
    cursors.take(A, ONE, 7, 9)
    cursors.begin([at(A, 0)])
    assert cursors.resume_at() == [at(A, 9), at(B, 3)]
    assert cursors.take(B, ONE, 0, 5) == 3


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=30))
def test_no_offset_comes_twice_and_none_goes_back(ranges: list[tuple[int, int]]) -> None:
    cursors = Cursors()
    handed_out: list[int] = []
    for first, count in ranges:
        begin = cursors.take(A, ONE, first, first + count)
        if begin is not None:
            handed_out += range(begin, first + count)
    assert handed_out == sorted(set(handed_out))


def test_an_assignment_says_what_is_lost_and_where_new_streams_begin() -> None:
    cursors = Cursors()
    assert cursors.assign([at(A, 5)]) == set()
    assert cursors.take(A, ONE, 5, 9) == 5
    assert cursors.assign([at(A, 5), at(B, 2)]) == set()
    assert cursors.take(A, ONE, 5, 9) is None, "we went on where we were"
    assert cursors.take(B, ONE, 0, 4) == 2
    assert cursors.assign([at(B, 2)]) == {(A, ONE)}
    assert not cursors.holds((A, ONE))


def test_a_stream_that_returns_begins_where_others_left_it() -> None:
    cursors = Cursors()
    cursors.assign([at(A, 5)])
    cursors.take(A, ONE, 5, 100)
    cursors.assign([])
    cursors.let_go()
    cursors.assign([at(A, 7)])
    assert cursors.take(A, ONE, 0, 50) == 7


def test_a_stream_that_returns_before_it_was_let_go_was_never_away() -> None:
    cursors = Cursors()
    cursors.assign([at(A, 5)])
    cursors.handled(at(A, 8))
    cursors.assign([])
    cursors.assign([at(A, 5)])
    assert cursors.let_go() == []
    assert cursors.unreported() == [at(A, 8)]


def test_a_stream_that_the_node_delivers_is_ours_although_it_was_not_named() -> None:
    cursors = Cursors()
    cursors.assign([at(A, 5)])
    assert cursors.take(B, ONE, 3, 6) == 3
    cursors.handled(at(B, 4))
    assert cursors.unreported() == [at(A, 5), at(B, 4)]


def test_reports_say_only_what_is_new_and_never_go_back() -> None:
    cursors = Cursors()
    cursors.assign([at(A, 0), at(B, 0)])
    assert cursors.unreported() == [at(A, 0), at(B, 0)], "where it begins is where the group stands"
    cursors.handled(at(A, 4))
    cursors.handled(at(A, 2))
    assert cursors.unreported() == [at(A, 4)]
    assert cursors.unreported() == []
    cursors.forget_reports()
    assert cursors.unreported() == [at(A, 4), at(B, 0)]


def test_the_last_word_on_a_lost_stream() -> None:
    cursors = Cursors()
    cursors.assign([at(A, 0)])
    cursors.handled(at(A, 4))
    cursors.assign([])
    cursors.handled(at(A, 5))
    assert cursors.unreported() == []
    assert cursors.let_go() == [at(A, 5)]
    cursors.handled(at(A, 6))
    assert cursors.let_go() == []
    assert cursors.unreported() == []
