"""Dead letters: the whole event, and what is known about its end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.limits import EVENT_HEADERS_MAX, OFFSET_MAX
from weft.model import Batch, Epoch, Event, EventId, NodeId, Stream, Topic
from weft.model.dead_letters import DEAD_HEADER, DeadLetter, dropped_event, letter_event, letters_left
from weft.model.dead_letters import read_letter_untrusted as read

ID = EventId(Stream(Topic("orders.new"), NodeId("a"), 3), Epoch(7), 42)
WHOLE = Event(b"\x00\xff", 1_700_000_000_000_000, b"key", {"trace": "1", "tenant": "b"})


def letter(event: Event = WHOLE, number: int = 42, died_us: int = 5) -> DeadLetter:
    return DeadLetter(EventId(ID.stream, ID.epoch, number), "billing", 5, "no such customer", event, died_us)


@pytest.mark.req("CON-02")
def test_a_letter_carries_the_whole_event_its_identity_the_group_the_reason_and_the_tries() -> None:
    (stored,) = Batch.from_events([letter_event(letter())])
    assert stored.payload == WHOLE.payload
    assert read(stored) == letter()


def test_an_event_with_as_many_headers_as_can_be_loses_one_and_says_which() -> None:
    full = Event(b"x", 1, None, {f"h{number:02}": "v" for number in range(EVENT_HEADERS_MAX)})
    (stored,) = Batch.from_events([letter_event(letter(full))])
    found = read(stored)
    assert isinstance(found, DeadLetter)
    assert found.left_out == f"h{EVENT_HEADERS_MAX - 1:02}"
    assert len(found.event.headers or {}) == EVENT_HEADERS_MAX - 1


def test_a_reason_that_is_too_long_as_json_is_cut() -> None:
    """Whatever a reader says and a publisher calls its headers: the node must be able to write the letter."""
    full = Event(b"x", 1, None, {"\x01" * 253 + f"{number:02}": "v" for number in range(EVENT_HEADERS_MAX)})
    stream = Stream(Topic("t" * 255), NodeId("n" * 64), 65535)
    last = EventId(stream, Epoch(OFFSET_MAX), OFFSET_MAX - 1)
    long = DeadLetter(last, "g" * 64, OFFSET_MAX, "\x01" * 500, full, 5)
    (stored,) = Batch.from_events([letter_event(long)])
    found = read(stored)
    assert isinstance(found, DeadLetter)
    assert found.id == last and 0 < len(found.reason) < 500


def test_one_event_has_one_letter_and_dropped_ones_are_gone() -> None:
    events = [
        letter_event(each) for each in (letter(number=2, died_us=9), letter(number=1), letter(number=1, died_us=8))
    ]
    assert [each.id.offset for each in letters_left(events, "billing")] == [1, 2]
    assert letters_left(events, "other") == []
    dropped = dropped_event(EventId(ID.stream, ID.epoch, 1), 3)
    assert [each.id.offset for each in letters_left([dropped, *events], "billing")] == [2]


@given(st.dictionaries(st.sampled_from([DEAD_HEADER, "weft-dead-dropped", "x"]), st.text(max_size=200), max_size=3))
def test_any_event_is_a_letter_or_is_not(headers: dict[str, str]) -> None:
    found = read(Event(b"", 0, None, headers))
    assert found is None or isinstance(found, DeadLetter | EventId)
