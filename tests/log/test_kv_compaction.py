"""Compaction of buckets: over all streams at once, losers first, and marks of what is gone last (CON-05)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.log import Log, kv_compaction, open_log
from weft.log.compaction import rewrite
from weft.log.kv_compaction import Tidied, Written, compact_bucket, surplus
from weft.model import Batch, Epoch, NodeId, Stream
from weft.model.key_value import COUNTER_BITS, BucketSettings, Op, Record, Revision, settings_value, topic_of

pytestmark = pytest.mark.req("CON-05")

TOPIC = topic_of("b")
GRACE_MS, SKEW_MS = 1000, 100


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = open_log(tmp_path, lambda: Epoch(1))
    yield opened
    opened.close()


class Writer:
    """A node's stream of the bucket; other nodes' streams are copies, which lie in the log just the same."""

    def __init__(self, log: Log, node: str) -> None:
        self._log = log
        self.stream = Stream(TOPIC, NodeId(node), 0)
        self._end = 0

    def write(self, record: Record) -> None:
        batch = Batch.from_columns([record.value], 0, [record.key.encode()], [record.headers()])
        batch = batch.with_base_offset(self._end)
        self._log.append_copy(self.stream, Epoch(1), batch)
        self._end += 1

    def put(self, key: str, time_ms: int, value: bytes, expires_ms: int = 0) -> None:
        self.write(Record(Op.PUT, key, time_ms << COUNTER_BITS, expires_ms, "", value))

    def delete(self, key: str, time_ms: int) -> None:
        self.write(Record(Op.DELETE, key, time_ms << COUNTER_BITS, 0, "", b""))


def to_tables(log: Log) -> None:
    log.sync()
    before = log.flushed_segment
    log.begin_segment()
    while log.flushed_segment == before:
        log.sync()


def tidy(log: Log, now_ms: int) -> Tidied:
    done = compact_bucket(log, TOPIC, now_ms, grace_ms=GRACE_MS, skew_ms=SKEW_MS)
    assert done is not None
    return done


def left(log: Log, *writers: Writer) -> list[bytes]:
    return [
        event.payload
        for writer in writers
        for data in log.read(writer.stream, Epoch(1), 0)
        for event in Batch.read_stored(data)
    ]


def test_what_is_hidden_goes_before_what_hides_it(log: Log) -> None:
    a, b = Writer(log, "a"), Writer(log, "b")
    a.put("x", 10, b"old")
    b.delete("x", 20)
    to_tables(log)
    assert tidy(log, 1019).gone == () and left(log, a, b) == [b"old", b""], "the time of grace is not over"
    first = tidy(log, 1020)
    assert first.gone == () and left(log, a, b) == [b""], "the mark stays as long as it hides something"
    assert first.due_ms is not None
    assert tidy(log, 1021).gone == (("x", Revision(20 << COUNTER_BITS, NodeId("b"))),)
    assert left(log, a, b) == []


def test_a_value_that_expired_is_a_mark_as_well(log: Log) -> None:
    a, b = Writer(log, "a"), Writer(log, "b")
    a.put("x", 10, b"older, for ever")
    b.put("x", 20, b"newer, for a while", expires_ms=30)
    b.put("y", 20, b"lives", expires_ms=5000)
    to_tables(log)
    tidy(log, 1029)
    assert left(log, a, b) == [b"older, for ever", b"newer, for a while", b"lives"]
    tidy(log, 1030)
    tidy(log, 1031)
    assert left(log, a, b) == [b"lives"], "what it hid has not come back"


def test_as_many_revisions_stay_as_the_bucket_says_over_all_streams(log: Log) -> None:
    a, b = Writer(log, "a"), Writer(log, "b")
    for number in range(4):
        a.put("x", 10 + 2 * number, b"a%d" % number)
        b.put("x", 11 + 2 * number, b"b%d" % number)
    a.write(Record(Op.SETTINGS, "", 50 << COUNTER_BITS, 0, "", settings_value(BucketSettings(history=3))))
    to_tables(log)
    tidy(log, 2000)
    assert [each for each in left(log, a, b) if not each.startswith(b"{")] == [b"a3", b"b2", b"b3"]


def test_what_is_ahead_of_the_clock_takes_nothing_away(log: Log) -> None:
    a, b = Writer(log, "a"), Writer(log, "b")
    a.write(Record(Op.SETTINGS, "", 1 << COUNTER_BITS, 0, "", settings_value(BucketSettings(history=1))))
    a.put("x", 10, b"now")
    b.put("x", 90_000, b"by a wrong clock")
    to_tables(log)
    tidy(log, 2000)
    assert b"now" in left(log, a) and left(log, b) == [b"by a wrong clock"]


def test_what_is_not_in_table_files_stays_and_a_segment_is_asked_for(log: Log) -> None:
    a = Writer(log, "a")
    a.delete("x", 20)
    log.sync()
    done = tidy(log, 5000)
    assert done.gone == () and done.wants_segment and left(log, a) == [b""]


def test_an_entry_that_was_adopted_counts_once(log: Log) -> None:
    """A node lost its disk, and two others wrote again what they had of it."""
    a, b, c = Writer(log, "a"), Writer(log, "b"), Writer(log, "c")
    a.put("x", 10, b"v")
    for other in (b, c):
        other.write(Record(Op.PUT, "x", 10 << COUNTER_BITS, 0, "", b"v", "a"))
    to_tables(log)
    tidy(log, 5000)
    assert left(log, a, b) == [] and left(log, c) == [b"v"]


def test_a_copy_that_is_restarted_while_it_is_read_waits_for_the_next_round(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop restarts copies at any time; what compaction was about to read is then no longer there."""
    a, b = Writer(log, "a"), Writer(log, "b")
    a.put("x", 10, b"of the copy")
    b.delete("x", 20)
    to_tables(log)
    read = log.read

    def restart_first(stream: Stream, *place: int) -> list[bytes]:
        monkeypatch.setattr(log, "read", read)
        log.restart_copy(a.stream, Epoch(1), 7)
        return read(stream, *place)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "read", restart_first)
    done = tidy(log, 5000)
    assert (done.streams, done.gone, done.due_ms) == ((), (), 5000)
    assert left(log, b) == [b""]
    log.sync()
    assert tidy(log, 5000).gone == (("x", Revision(20 << COUNTER_BITS, NodeId("b"))),)


def test_a_copy_that_is_restarted_before_it_is_rewritten_is_not_called_damaged(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Writer(log, "a")
    for number in range(9):
        a.put("x", 10 + number, b"%d" % number)
    to_tables(log)

    def restart_first(*arguments: Any) -> object:
        log.restart_copy(a.stream, Epoch(1), 9)
        return rewrite(*arguments)

    monkeypatch.setattr(kv_compaction, "rewrite", restart_first)
    assert tidy(log, 5000).streams == ()


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from("abc"), st.booleans(), st.sampled_from([0, 0, 50, 5000])),
        max_size=12,
        unique_by=lambda each: each[:2],
    ),
    st.integers(0, 4000),
    st.integers(1, 3),
)
def test_readers_see_the_same_before_and_after(
    some: list[tuple[int, str, bool, int]], now_ms: int, history: int
) -> None:
    """However often it is done; and of a key that is gone, the mark is the last thing to go."""
    written = []
    for number, (time_ms, node, deletes, expires_ms) in enumerate(some):
        revision = Revision(time_ms << COUNTER_BITS, NodeId(node))
        rank = (revision, False, 1, number, Stream(TOPIC, NodeId(node), 0))
        written.append(Written(rank, time_ms if deletes else 0, 0 if deletes else expires_ms, (1, number), 1))
    latest = max(written, default=None)
    is_gone = latest is not None and (latest.gone_ms or 0 < latest.expires_ms <= now_ms)
    kept = list(written)
    for _ in range(3):
        found = surplus({"x": list(kept)} if kept else {}, history, now_ms, GRACE_MS)
        after = [each for each in kept if each.at[1] not in found.places.get(1, ())]
        if latest in kept and latest not in after:
            assert is_gone and kept == [latest], "nothing that it hides is left"
        kept = after
    assert is_gone or latest is None or latest in kept


def test_what_is_in_table_files_is_noted_without_a_sync_but_only_if_all_is_durable(log: Log) -> None:
    """On a node where nothing happens nothing is synced, and what has expired has to go all the same."""
    a = Writer(log, "a")
    a.put("x", 10, b"not durable yet")
    before = log.flushed_segment
    log.begin_segment()
    log.store.flush(wait=True)
    log.look_flushed()
    assert log.flushed_segment == before, "compaction would take what no sync has told of"
    log.sync()
    a.put("x", 11, b"durable")
    log.sync()
    before = log.flushed_segment
    log.begin_segment()
    log.store.flush(wait=True)
    log.look_flushed()
    assert log.flushed_segment > before
