"""How events wait: where they are looked for, and that they come out as they went in (CON-03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.model import Batch, Epoch, Event, EventId, NodeId, Stream, Topic
from weft.model.later import (
    AHEAD_S_MAX,
    HEADERS_MAX,
    ID,
    SLOT_US,
    SLOTS,
    TOPIC,
    done_topic,
    mark,
    mark_batch,
    owner_of_waiting,
    read_marks,
    read_waiting,
    slot_begin_us,
    slot_of,
    waiting_batch,
    waiting_topic,
)

pytestmark = pytest.mark.req("CON-03")

OWNER = "0123456789abcdef"
NOW_US = 1_794_985_090_000_000
AHEAD_US = int(AHEAD_S_MAX * 1e6)


@given(st.integers(0, NOW_US + AHEAD_US))
def test_a_slot_begins_before_what_is_kept_in_it_is_due(due_us: int) -> None:
    slot = slot_of(due_us, NOW_US)
    assert 0 <= slot < SLOTS
    begin_us = slot_begin_us(slot, NOW_US)
    assert begin_us <= max(due_us, NOW_US), "it is read in time"
    assert due_us <= NOW_US or begin_us > due_us - SLOT_US, "and not long before"


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=20),
            st.integers(0, NOW_US),
            st.none() | st.binary(min_size=1, max_size=5),
            st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.text("xyz", max_size=5), min_size=1),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 3),
)
def test_what_waits_comes_out_as_it_went_in(rows: list[tuple[bytes, int, bytes, dict[str, str]]], part: int) -> None:
    events = [Event(*row) for row in rows]
    batch = Batch.from_events(events, producer=b"p" * 16, sequence=7)
    kept = waiting_batch(batch, Topic("plant.x"), part)
    assert (kept.producer, kept.sequence) == (b"p" * 16, 7)
    for number, (before, stored) in enumerate(zip(events, kept, strict=True)):
        where = EventId(Stream(waiting_topic(OWNER), NodeId("a"), 5), Epoch(1), number)
        found = read_waiting(where, stored)
        assert (found.due_us, found.topic, found.partition) == (before.timestamp_us, "plant.x", part)
        assert (found.event.payload, found.event.key) == (before.payload, before.key)
        assert found.event.headers == {**(before.headers or {}), ID: str(where)}


def test_what_cannot_wait_is_refused() -> None:
    many = {f"h{n}": "x" for n in range(HEADERS_MAX + 1)}
    for headers, why in ((many, "too many headers for later"), ({TOPIC: "x"}, "reserved for the mesh")):
        with pytest.raises(UsageError, match=why):
            waiting_batch(Batch.from_events([Event(b"", 0, None, headers)]), Topic("t"), 0)
    for owner in ("", "x", OWNER + ".done"):
        with pytest.raises(UsageError, match="another identity"):
            waiting_topic(owner)
    nothing = EventId(Stream(waiting_topic(OWNER), NodeId("a"), 0), Epoch(1), 0)
    with pytest.raises(UsageError, match="does not wait"):
        read_waiting(nothing, Event(b"", 0))


def test_topics_say_whose_they_are() -> None:
    assert owner_of_waiting(waiting_topic(OWNER)) == OWNER
    assert owner_of_waiting(done_topic(OWNER)) is None
    assert owner_of_waiting("plant.x") is None


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=300))
def test_marks_come_out_as_they_went_in(offsets: list[int]) -> None:
    before = [mark(offset + 1, Epoch(6)) for offset in offsets]
    stored = Batch.read_stored(mark_batch([*map(mark, offsets), *before], NOW_US).data)
    assert read_marks([stored]) == offsets
    assert read_marks([stored], before=Epoch(6)) == [offset + 1 for offset in offsets]
    assert read_marks([stored], before=Epoch(5)) == []
