"""What becomes of a copy: kept, known, or out of line; with what its sender no longer has left out, not forgotten."""

from __future__ import annotations

import pytest

from weft.core.incoming import Taken, take
from weft.core.messages import Copy
from weft.log import Log, MemoryStore, open_store
from weft.model import Batch, Epoch, NodeId, Stream, parse_topic

STREAM = Stream(parse_topic("t"), NodeId("far"), 0)
EPOCH = Epoch(3)


def copy(base: int, *, follows: int, expired: bool = False, events: int = 2) -> Copy:
    batch = Batch.from_columns([b"x"] * events, 0).with_base_offset(base)
    return Copy(STREAM, EPOCH, batch, follows, expired)


def log_with(*copies: Copy) -> Log:
    log = open_store(MemoryStore(), lambda: Epoch(1), disk_reserve_bytes=0)
    for each in copies:
        assert take(log, each) is Taken.KEPT
    log.sync()
    return log


def span(log: Log) -> tuple[int, int]:
    info = log.info(STREAM, EPOCH)
    return info.start, info.end


@pytest.mark.req("PL-04")
@pytest.mark.parametrize(
    ("first", "span_after"),
    [
        (copy(0, follows=0), (0, 2)),
        (copy(9, follows=0), (0, 11)),  # compaction took what was before it
        (copy(9, follows=0, expired=True), (9, 11)),  # retention did
        (copy(9, follows=4, expired=True), (9, 11)),
    ],
)
def test_where_a_copy_begins(first: Copy, span_after: tuple[int, int]) -> None:
    log = log_with(first)
    assert span(log) == span_after
    (stored,) = log.read(STREAM, EPOCH, span_after[0])
    assert stored == first.batch.data


@pytest.mark.req("MSH-01", "PL-04")
@pytest.mark.parametrize(
    ("following", "taken", "span_after"),
    [
        (copy(2, follows=2), Taken.KEPT, (0, 4)),
        (copy(0, follows=0), Taken.KNOWN, (0, 2)),
        (copy(4, follows=4), Taken.MISSING, (0, 2)),
        (copy(4, follows=2), Taken.KEPT, (0, 6)),  # compacted between
        (copy(4, follows=2, expired=True), Taken.KEPT, (4, 6)),  # retention passed us
        (copy(1, follows=1), Taken.KEPT, (0, 3)),  # cut elsewhere: only what is new
    ],
)
def test_what_follows(following: Copy, taken: Taken, span_after: tuple[int, int]) -> None:
    log = log_with(copy(0, follows=0))
    assert take(log, following) is taken
    log.sync()
    assert span(log) == span_after


def test_a_stream_whose_beginning_nobody_has_seen_is_not_begun_in_the_middle() -> None:
    log = log_with()
    assert take(log, copy(4, follows=4)) is Taken.MISSING
    assert log.streams() == []
