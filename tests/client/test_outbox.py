"""Gathering events into batches: who joins whom, what may follow what, and what a bad event does to its neighbours."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.client.chunk import CLIENT_EVENT_BYTES, Chunk, Lane, Published
from weft.client.errors import Backpressure, Busy
from weft.client.outbox import CLIENT_BATCHES_IN_FLIGHT_MAX, CLIENT_LANES_KEPT_MAX, PublishOutbox
from weft.errors import UsageError
from weft.limits import EVENT_PAYLOAD_BYTES_MAX
from weft.model import BadTopic, Batch, Epoch, NodeId, Receipt, Stream, Topic, partition_of

PRODUCER = bytes(range(16))
TIME_US = 1_700_000_000_000_000


class Woken:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def outbox(*, batch_bytes: int = 1000, bytes_max: int = 1_000_000, partitions: int = 1) -> PublishOutbox:
    return PublishOutbox(
        partitions=partitions, batch_bytes=batch_bytes, bytes_max=bytes_max, wake=Woken(), read_clock=lambda: TIME_US
    )


def add(box: PublishOutbox, payload: bytes, topic: str = "a.b", **how: object) -> Published:
    key, headers, copies = how.get("key"), how.get("headers"), how.get("copies", 0)
    return box.add(topic, payload, key, headers, how.get("timestamp_us"), copies)  # type: ignore[arg-type]


def sealed(chunk: Chunk | None, sequence: int = 1) -> list[bytes]:
    assert chunk is not None
    assert chunk.seal(PRODUCER, sequence)
    return [event.payload for event in Batch.read_untrusted(chunk.data)]


def receipt(chunk: Chunk, first_offset: int = 100) -> Receipt:
    stream = Stream(Topic("a.b"), NodeId("n"), 0)
    return Receipt(stream, Epoch(1), first_offset, chunk.events, 1)


def test_a_lone_event_may_leave_at_once() -> None:
    box = outbox()
    add(box, b"1")
    assert sealed(box.next({})) == [b"1"]
    assert box.next({}) is None


def test_what_is_published_while_a_batch_is_under_way_joins_the_next_one() -> None:
    box = outbox()
    add(box, b"1")
    first = box.next({})
    assert first is not None
    under_way = Counter({first.lane: 1})
    add(box, b"2")
    add(box, b"3")
    assert box.next(under_way) is None
    box.list_again(first.lane)
    assert sealed(box.next({})) == [b"2", b"3"]


def test_full_chunks_follow_each_other_without_waiting_up_to_what_a_node_remembers() -> None:
    box = outbox(batch_bytes=CLIENT_EVENT_BYTES + 10)
    for index in range(CLIENT_BATCHES_IN_FLIGHT_MAX + 5):
        add(box, b"%010d" % index)
    under_way: Counter[Lane] = Counter()
    while (chunk := box.next(under_way)) is not None:
        under_way[chunk.lane] += 1
    assert list(under_way.values()) == [CLIENT_BATCHES_IN_FLIGHT_MAX]


def test_a_batch_is_cut_before_it_gets_too_long() -> None:
    box = outbox(batch_bytes=2 * CLIENT_EVENT_BYTES + 20)
    for index in range(5):
        add(box, b"%010d" % index)
    counts = [len(sealed(chunk, index)) for index in range(1, 4) if (chunk := box.next({})) is not None]
    assert counts == [2, 2, 1]


def test_events_that_want_other_copies_are_another_batch_and_stay_in_order() -> None:
    box = outbox()
    add(box, b"1")
    add(box, b"2", copies=2)
    add(box, b"3")
    chunks = [box.next({}) for _ in range(3)]
    assert [(chunk.copies, sealed(chunk)) for chunk in chunks if chunk] == [(0, [b"1"]), (2, [b"2"]), (0, [b"3"])]


def test_topics_take_turns() -> None:
    box = outbox(batch_bytes=CLIENT_EVENT_BYTES + 1)
    for topic in ("a", "a", "a", "b", "c"):
        add(box, b"x", topic)
    topics = [chunk.lane.topic for _ in range(5) if (chunk := box.next({})) is not None]
    assert topics == ["a", "b", "c", "a", "a"]


def test_keys_choose_partitions() -> None:
    box = outbox(partitions=8)
    keys = [b"k%d" % index for index in range(20)]
    for key in keys:
        add(box, key, key=key)
    add(box, b"none")
    while (chunk := box.next({})) is not None:
        for payload in sealed(chunk):
            assert chunk.lane.partition == (0 if payload == b"none" else partition_of(payload, 8))


def test_columns_are_filled_up_when_the_first_key_or_header_comes_late() -> None:
    box = outbox(batch_bytes=100_000)
    add(box, b"1")
    add(box, b"2", key=b"k")
    add(box, b"3", headers={"h": "v"}, timestamp_us=5)
    chunk = box.next({})
    assert chunk is not None
    assert chunk.seal(PRODUCER, 7)
    batch = Batch.read_untrusted(chunk.data)
    events = [(event.payload, event.key, event.headers, event.timestamp_us) for event in batch]
    assert events == [(b"1", None, None, TIME_US), (b"2", b"k", None, TIME_US), (b"3", None, {"h": "v"}, 5)]
    assert (batch.producer, batch.sequence) == (PRODUCER, 7)


def test_each_event_gets_the_receipt_of_its_own_offset() -> None:
    box = outbox()
    tickets = [add(box, b"%d" % index) for index in range(3)]
    chunk = box.next({})
    assert chunk is not None
    chunk.seal(PRODUCER, 1)
    assert not tickets[0].done()
    box.settle(chunk, receipt(chunk))
    assert [ticket.result().first_offset for ticket in tickets] == [100, 101, 102]
    assert {ticket.result().count for ticket in tickets} == {1}


def test_a_bad_event_fails_alone() -> None:
    box = outbox(batch_bytes=100_000)
    tickets = [add(box, b"0"), add(box, b"1", headers={"x": "\ud800"}), add(box, b"2"), add(box, b"3", key=b"k" * 5000)]
    tickets.append(add(box, b"4"))
    chunk = box.next({})
    assert sealed(chunk) == [b"0", b"2", b"4"]
    assert chunk is not None
    box.settle(chunk, receipt(chunk))
    assert [tickets[index].result().first_offset for index in (0, 2, 4)] == [100, 101, 102]
    with pytest.raises(UsageError, match="surrogate") as raised:
        tickets[1].result()
    assert raised.value.facts["topic"] == "a.b"
    with pytest.raises(UsageError, match="key too long"):
        tickets[3].result()


def test_a_chunk_of_bad_events_only_is_no_batch() -> None:
    box = outbox()
    add(box, b"1", headers={"x": "\ud800"})
    chunk = box.next({})
    assert chunk is not None
    assert not chunk.seal(PRODUCER, 1)
    assert "surrogate" in str(chunk.failures[0])


def test_the_bound_is_kept_and_given_back() -> None:
    box = outbox(bytes_max=3 * (CLIENT_EVENT_BYTES + 10))
    for _ in range(3):
        add(box, b"x" * 10)
    assert not box.has_plenty
    with pytest.raises(Backpressure) as raised:
        add(box, b"x" * 10)
    assert raised.value.facts["limit"] == 3 * (CLIENT_EVENT_BYTES + 10)
    chunk = box.next({})
    assert chunk is not None
    chunk.seal(PRODUCER, 1)
    box.settle(chunk, receipt(chunk))
    assert box.has_plenty
    add(box, b"x" * 10)


def test_an_event_that_is_larger_than_the_bound_goes_alone() -> None:
    box = outbox(bytes_max=1000)
    add(box, b"x" * 5000)
    with pytest.raises(Backpressure):
        add(box, b"y")


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"topic": "a..b"}, BadTopic),
        ({"topic": "a.*"}, BadTopic),
        ({"copies": -1}, UsageError),
        ({"headers": {"x": 5}}, UsageError),
        ({"headers": ["x"]}, UsageError),
        ({"payload": b"x" * (EVENT_PAYLOAD_BYTES_MAX + 1)}, UsageError),
    ],
)
def test_refused_at_once(how: dict[str, object], error: type[Exception]) -> None:
    box = outbox(bytes_max=1 << 30)
    with pytest.raises(error):
        add(box, **{"payload": b"x", **how})  # type: ignore[arg-type]
    assert not box.unsettled
    assert box.next({}) is None


def test_what_a_node_refuses_keeps_its_place_and_gets_a_new_number() -> None:
    box = outbox(batch_bytes=CLIENT_EVENT_BYTES + 1)
    for payload in (b"1", b"2", b"3", b"4"):
        add(box, payload)
    under_way: Counter[Lane] = Counter()
    chunks = []
    for sequence in (1, 2, 3):
        chunk = box.next(under_way)
        assert chunk is not None
        chunk.seal(PRODUCER, sequence)
        under_way[chunk.lane] += 1
        chunks.append(chunk)
    lane = chunks[0].lane
    box.refused(chunks[1])
    box.refused(chunks[0])
    box.settle(chunks[2], receipt(chunks[2]))
    box.list_again(lane)
    assert box.next({}) is None, "nothing overtakes what was refused"
    box.resume(lane)
    again = [box.next({}) for _ in range(3)]
    assert [sealed(chunk, 9 + index) for index, chunk in enumerate(again)] == [[b"1"], [b"2"], [b"4"]]
    assert [chunk.sequence for chunk in again if chunk] == [9, 10, 11]


def test_giving_up_takes_everything_that_is_not_under_way() -> None:
    box = outbox(batch_bytes=CLIENT_EVENT_BYTES + 1)
    tickets = [add(box, b"1"), add(box, b"2", "c")]
    for chunk in box.take_all():
        box.settle(chunk, Busy("no"))
    assert not box.unsettled
    assert not box.waiting
    for ticket in tickets:
        with pytest.raises(Busy):
            ticket.result()
    add(box, b"3")
    assert sealed(box.next({})) == [b"3"]


def test_topics_without_events_are_forgotten() -> None:
    box = outbox(bytes_max=1 << 40)
    for index in range(3 * CLIENT_LANES_KEPT_MAX):
        add(box, b"x", f"t.{index}")
        chunk = box.next({})
        assert chunk is not None
        box.settle(chunk, Busy("no"))
        assert len(box._lanes) <= CLIENT_LANES_KEPT_MAX + 1


@given(st.lists(st.tuples(st.sampled_from(["add", "send", "answer", "refuse"]), st.integers(0, 2)), max_size=60))
def test_whatever_happens_each_event_goes_out_in_order_and_none_is_lost(steps: list[tuple[str, int]]) -> None:
    """One node that refuses at will, but in order: as a real one does that is busy for a while."""
    box = outbox(batch_bytes=3 * (CLIENT_EVENT_BYTES + 4))
    under_way: Counter[Lane] = Counter()
    sent: list[Chunk] = []
    stored: dict[str, list[bytes]] = {}
    added: dict[str, list[bytes]] = {}
    numbers = iter(range(1, 10_000))

    def answer(*, refuse: bool) -> None:
        chunk = sent.pop(0)
        under_way[chunk.lane] -= 1
        if refuse or chunk.lane.stalled:
            box.refused(chunk)
        else:
            stored.setdefault(chunk.lane.topic, []).extend(event.payload for event in Batch.read_stored(chunk.data))
            box.settle(chunk, receipt(chunk))
        if chunk.lane.stalled and not under_way[chunk.lane]:
            box.resume(chunk.lane)
        box.list_again(chunk.lane)

    def send() -> None:
        if (chunk := box.next(under_way)) is not None:
            chunk.seal(PRODUCER, next(numbers))
            under_way[chunk.lane] += 1
            sent.append(chunk)

    for step, which in steps:
        if step == "add":
            payload = b"%04d" % next(numbers)
            add(box, payload, f"t.{which}")
            added.setdefault(f"t.{which}", []).append(payload)
        elif step == "send":
            send()
        elif sent:
            answer(refuse=step == "refuse")
    while sent or box.waiting:
        send()
        if sent:
            answer(refuse=False)
    assert stored == added
    assert not box.unsettled
