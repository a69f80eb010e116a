"""The book of a group that settles event by event finds each lie that it is there for, and lets the truth pass."""

from __future__ import annotations

import pytest

from weft.core.policy import GroupPolicy
from weft.model import Epoch, NodeId, Stream, parse_pattern, parse_topic
from weft.testing.sim.hand_members import HandBook
from weft.testing.sim.schedule import Violation
from weft.testing.sim.truth import Truth

KEY = (Stream(parse_topic("t"), NodeId("a"), 0), Epoch(7))
LIFE = ("a", 1)
POISON = 3


@pytest.fixture
def book() -> HandBook:
    return HandBook("g", parse_pattern("t"), Truth(), GroupPolicy(max_deliveries=2))


@pytest.mark.req("CON-02")
def test_poison_that_is_handed_out_too_often_is_found(book: HandBook) -> None:
    book.servers[KEY] = set()
    book.begins[KEY] = 1
    for _ in range(3):  # twice, and once more because a member began with the stream
        book.begin(KEY, POISON)
    with pytest.raises(Violation, match="4th time, of 3"):
        book.begin(KEY, POISON)


@pytest.mark.req("CON-02")
def test_a_reader_that_died_among_others_allows_for_one_more(book: HandBook) -> None:
    book.deaths_among[KEY][POISON] = 1
    for _ in range(3):
        book.begin(KEY, POISON)
    with pytest.raises(Violation):
        book.begin(KEY, POISON)


@pytest.mark.req("CON-01")
def test_what_was_acknowledged_and_comes_again_is_found(book: HandBook) -> None:
    book.acked[LIFE, KEY].add(5)
    book.given(LIFE, KEY, 4)
    book.given(("a", 2), KEY, 5)  # a node that died may have forgotten it
    with pytest.raises(Violation, match="took as acknowledged"):
        book.given(LIFE, KEY, 5)


@pytest.mark.req("CON-01")
def test_what_another_node_had_said_before_is_found_if_it_comes_again(book: HandBook) -> None:
    book._done_before[("b", 1), KEY] = {5}
    book.given(("b", 1), KEY, 4)
    book.given(("c", 1), KEY, 5)  # it had not heard
    with pytest.raises(Violation, match="acknowledged before it began"):
        book.given(("b", 1), KEY, 5)


@pytest.mark.req("CON-02")
def test_an_event_that_nobody_handled_is_found_unless_it_was_given_up(book: HandBook) -> None:
    book._truth.streams[KEY].payloads += [b"0", b"1", b"2", b"poison"]
    book._truth.streams[KEY].keys += [None] * 4
    book.handle(KEY, 0, 2)
    assert book.unhandled(KEY, 4) == 2
    book.handle(KEY, 2, 3)
    assert book.unhandled(KEY, 4) == POISON
    for _ in range(2):
        book.begin(KEY, POISON)
    assert book.unhandled(KEY, 4) is None
