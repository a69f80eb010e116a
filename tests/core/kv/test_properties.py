"""The rule for conflicts: the same writings give the same bucket, in whatever order and however often they come."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.kv import Buckets, ClockBehind, HybridClock, KvSettings, Overfull, Place
from weft.errors import UsageError
from weft.model import Batch, Epoch, Event, NodeId, Stream
from weft.model.key_value import (
    COUNTER_BITS,
    BucketSettings,
    Op,
    Record,
    Revision,
    parse_revision,
    read_record_untrusted,
    read_settings_untrusted,
    settings_value,
    topic_of,
)

pytestmark = pytest.mark.req("CON-05")

NOW_MS = 1_000_000
NODES = ("a", "b", "c")
Writing = tuple[Record, Place]


@st.composite
def writings(draw: st.DrawFn) -> list[Writing]:
    """As nodes write: each into its own stream, with times of its own that only go forward."""
    found: list[Writing] = []
    for node in NODES:
        time = draw(st.integers(1, 50))
        for offset in range(draw(st.integers(0, 6))):
            time += draw(st.integers(1, 3))
            op = draw(st.sampled_from([Op.PUT, Op.PUT, Op.DELETE]))
            expires_ms = draw(st.sampled_from([0, 0, NOW_MS - 1, NOW_MS + 1])) if op is Op.PUT else 0
            record = Record(op, draw(st.sampled_from(["x", "y.z"])), time, expires_ms, "", b"%d" % offset)
            found.append((record, Place(Stream(topic_of("b"), NodeId(node), 0), Epoch(1), offset)))
    return found


def folded(some: list[Writing], settings: KvSettings | None = None) -> Buckets:
    buckets = Buckets(NodeId("me"), settings or KvSettings())
    for record, place in some:
        buckets.take("b", record, place, NOW_MS)
    return buckets


def seen(buckets: Buckets) -> dict[str, list[tuple[Revision, Op, bytes | None]]]:
    bucket = buckets.get("b")
    if bucket is None:
        return {}
    return {key: [(e.revision, e.op, e.value) for e in bucket.history(key)] for key in bucket.keys_after("")}


@given(writings(), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(some: list[Writing], chance: object) -> None:
    again = [*some, *some]
    chance.shuffle(again)  # type: ignore[attr-defined]
    assert seen(folded(again)) == seen(folded(some))


@given(writings())
def test_the_latest_revision_counts_and_hides_what_is_older(some: list[Writing]) -> None:
    bucket = folded(some).get("b")
    for key in ("x", "y.z"):
        theirs = [(Revision(r.time, p.stream.origin), r) for r, p in some if r.key == key]
        entry = None if bucket is None else bucket.get(key, NOW_MS)
        if not theirs:
            assert entry is None
            continue
        revision, record = max(theirs)
        is_gone = record.op is Op.DELETE or 0 < record.expires_ms <= NOW_MS
        assert (entry is None) == is_gone
        assert entry is None or entry.revision == revision


@given(writings())
def test_memory_for_values_is_bounded_and_counted(some: list[Writing]) -> None:
    buckets = folded(some, KvSettings(cache_bytes_max=3))
    kept = [e for found in buckets for key in found.keys_after("") for e in found.history(key)]
    assert buckets.cached_bytes == sum(e.size for e in kept if e.value is not None) <= 3
    assert buckets.keys == len({r.key for r, _ in some})


def test_a_tie_goes_to_the_greater_node_id_in_every_order() -> None:
    tie = [
        (Record(Op.PUT, "x", 7, 0, "", node.encode()), Place(Stream(topic_of("b"), NodeId(node), 0), Epoch(1), 0))
        for node in NODES
    ]
    for order in permutations(tie):
        bucket = folded(list(order)).get("b")
        assert bucket is not None
        latest = bucket.get("x", NOW_MS)
        assert latest is not None and latest.value == b"c"


# --- time ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=30))
def test_a_clock_never_goes_back_and_is_later_than_all_it_saw(moves: list[tuple[int, int]]) -> None:
    clock = HybridClock(skew_ms_max=20_000)
    last = 0
    for now_ms, seen_ms in moves:
        clock.observe(seen_ms << COUNTER_BITS)
        time = clock.tick(now_ms)
        assert time > max(last, seen_ms << COUNTER_BITS)
        assert time >= now_ms << COUNTER_BITS
        last = time


def test_a_clock_that_went_back_far_refuses_instead_of_writing_what_others_hold_back() -> None:
    clock = HybridClock(skew_ms_max=1000)
    clock.observe(50_000 << COUNTER_BITS)
    with pytest.raises(ClockBehind, match="behind its last write"):
        clock.tick(48_000)
    assert clock.tick(49_000) > 50_000 << COUNTER_BITS


def test_a_writing_far_ahead_waits_for_its_time_and_does_not_move_the_clock() -> None:
    buckets = Buckets(NodeId("me"), KvSettings(skew_ms_max=1000))
    ahead = Record(Op.PUT, "x", 60_000 << COUNTER_BITS, 0, "", b"wrong clock")
    place = Place(Stream(topic_of("b"), NodeId("a"), 0), Epoch(1), 0)
    assert buckets.take("b", ahead, place, now_ms=10_000) == []
    assert buckets.clock.tick(10_000) >> COUNTER_BITS == 10_000
    assert buckets.next_due_ms() == 59_000
    assert buckets.due(58_999) == []
    assert buckets.due(59_000) == [("b", "x")]


def test_a_value_is_gone_at_its_time_and_not_before() -> None:
    buckets = Buckets(NodeId("me"), KvSettings())
    place = Place(Stream(topic_of("b"), NodeId("a"), 0), Epoch(1), 0)
    buckets.take("b", Record(Op.PUT, "x", 1 << COUNTER_BITS, 500, "", b"v"), place, 1)
    bucket = buckets.get("b")
    assert bucket is not None
    assert bucket.get("x", 499) is not None and buckets.due(499) == []
    assert bucket.get("x", 500) is None and buckets.due(500) == [("b", "x")]


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_node_that_is_given_too_many_keys_says_so_instead_of_answering_wrong() -> None:
    buckets = Buckets(NodeId("me"), KvSettings(keys_max=2))
    for number in range(5):
        place = Place(Stream(topic_of("b"), NodeId("a"), 0), Epoch(1), number)
        buckets.take("b", Record(Op.PUT, f"k{number}", number + 1, 0, "", b""), place, NOW_MS)
    bucket = buckets.get("b")
    assert bucket is not None and bucket.is_overfull and buckets.keys == 4


def test_the_settings_of_a_bucket_are_merged_by_the_same_rule() -> None:
    def settings(time: int, node: str, history: int) -> Writing:
        value = settings_value(BucketSettings(node, history))
        return Record(Op.SETTINGS, "", time, 0, "", value), Place(Stream(topic_of("b"), NodeId(node), 0), Epoch(1), 0)

    some = [settings(1, "a", 3), settings(2, "b", 1)]
    for order in permutations(some):
        bucket = folded(list(order)).get("b")
        assert bucket is not None and bucket.settings == BucketSettings("b", 1)


# --- as events -------------------------------------------------------------------------------------------------------


@given(writings())
def test_writings_come_back_from_batches(some: list[Writing]) -> None:
    for record, _ in some:
        batch = Batch.from_columns([record.value], 0, [record.key.encode()], [record.headers()])
        assert [read_record_untrusted(event) for event in batch] == [record]


@given(
    st.binary(max_size=10) | st.none(),
    st.dictionaries(
        st.sampled_from(["weft-kv", "weft-kv-op", "weft-kv-expires", "weft-kv-by"]),
        st.text(max_size=25) | st.integers(-5, 1 << 70).map(str) | st.sampled_from(list(Op)).map(str),
    ),
)
def test_any_event_is_a_record_or_nothing(key: bytes | None, headers: dict[str, str]) -> None:
    record = read_record_untrusted(Event(b"", 0, key, headers))
    assert record is None or (record.time > 0 and record.expires_ms >= 0)


@pytest.mark.parametrize("text", ["", "1", "1.2", "0.0@n", "1.70000@n", "1.0@", "01.0@n", f"{10**15}.0@n", "1.0@n n"])
def test_what_is_no_revision_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a revision"):
        parse_revision(text)


@given(st.integers(1 << COUNTER_BITS, (1 << 63) - 1))
def test_revisions_are_written_and_read(time: int) -> None:
    revision = Revision(time, NodeId("n-1.x"))
    assert parse_revision(str(revision)) == revision


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"history": 0}', b'{"history": 65}', b'{"owner": "-x"}', b'{"owner": 1}']
)
def test_what_is_no_settings_is_none(text: bytes) -> None:
    assert read_settings_untrusted(text) is None


def test_a_key_that_is_written_again_and_again_takes_no_more_memory() -> None:
    """Each writing left the time at which it would have expired, for days."""
    stream = Stream(topic_of("b"), NodeId("a"), 0)
    buckets = Buckets(NodeId("me"), KvSettings())
    for number in range(5000):
        record = Record(Op.PUT, "x", number + 1, NOW_MS + 10_000 + number, "", b"v")
        buckets.take("b", record, Place(stream, Epoch(1), number), NOW_MS)
    assert len(buckets._expiries) < 2000
    assert buckets.due(NOW_MS + 14_998) == []
    assert [change.key for change in buckets.due(NOW_MS + 14_999)] == ["x"]


def test_a_bucket_of_which_nothing_is_left_makes_room_for_another() -> None:
    """A service with a bucket for each session was refused another one after 1024 sessions, until the node started
    again."""
    stream = Stream(topic_of("old"), NodeId("a"), 0)
    buckets = Buckets(NodeId("me"), KvSettings(buckets_max=1))
    put = Record(Op.PUT, "x", 1, NOW_MS + 10, "", b"v")
    gone = Record(Op.DELETE, "x", 2, 0, "", b"")
    for offset, record in enumerate((put, gone)):
        buckets.take("old", record, Place(stream, Epoch(1), offset), NOW_MS)
    with pytest.raises(Overfull):
        buckets.check_room("new", "x")
    buckets.forget("old", [("x", gone.revision(NodeId("a")))])
    buckets.check_room("new", "x")
    assert buckets.get("old") is None
    assert buckets.due(NOW_MS + 20) == []
