"""What a Fetch reads: ranges one after the other, cut into replies, and nothing left out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.laboratory import EPOCH, Laboratory, laboratory, numbered, settle, stream
from weft.core.messages import StreamKey
from weft.errors import UsageError
from weft.limits import FETCH_RANGES_MAX, LOOK_STREAMS_AT_ONCE, OFFSET_MAX, READ_BYTES_MAX
from weft.log.errors import UnknownStream
from weft.log.retention import cut_before
from weft.model import Batch, Stream
from weft.model.batch_header import end_offset
from weft.port.errors import TooLarge
from weft.port.history import HistoryPiece
from weft.transport.clients import fetching
from weft.transport.clients.fetching import (
    Piece,
    RangesReading,
    WantedRange,
    read_ranges_untrusted,
    reply_parts,
)
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import stream_ref

BATCHES, EACH = 4, 10  # of every stream
STREAMS = [stream(f"t.{number}") for number in range(5)]
UNKNOWN = stream("t.unknown")
REF = stream_ref(STREAMS[0], EPOCH)


@pytest.fixture(scope="module")
def lab() -> Laboratory:
    made = laboratory("memory", Path())
    for each in STREAMS:
        for first in range(0, BATCHES * EACH, EACH):
            made.log.append(each, numbered(first, EACH))
    made.log.sync()
    return made


def wanted(of: Stream, first: int = 0, end: int = OFFSET_MAX) -> WantedRange:
    return WantedRange(of, EPOCH, first, end)


def one_reply(reading: RangesReading, lab: Laboratory) -> list[Piece]:
    return asyncio.run(reading.read(lab.log, None))


def read_all(lab: Laboratory, ranges: list[WantedRange], bytes_max: int, columns: list[str]) -> list[tuple[int, int]]:
    """Every row as (range, offset), from replies as a client parses them."""
    reading = RangesReading(ranges, bytes_max)
    found: list[tuple[int, int]] = []
    done = 0
    while not reading.is_over:
        head, rest = reply_parts(one_reply(reading, lab), columns, reading.number)
        reply = pb.FetchReply.FromString(head + rest).fetched
        assert len(reply.ranges) == len(reply.batches)
        for index, (number, data) in enumerate(zip(reply.ranges, reply.batches, strict=True)):
            assert done <= number, "no range comes back that was done"
            if columns:
                rows = pa.ipc.open_stream(data).read_all()
                offsets = range(reply.first_offsets[index], reply.first_offsets[index] + rows.num_rows)
            else:
                batch = Batch.read_untrusted(data)
                first, end = ranges[number].first, ranges[number].end
                offsets = range(max(batch.base_offset, first), min(batch.end_offset, end))
            found += [(number, offset) for offset in offsets]
        done = reply.ranges_done
    assert done == len(ranges)
    return found


RANGES = st.tuples(st.sampled_from(STREAMS), st.integers(0, 40), st.integers(0, 50)).map(
    lambda it: wanted(it[0], it[1], max(it[1], it[2]))
)


@pytest.mark.req("SPK-01")
@given(st.lists(RANGES, min_size=1, max_size=8), st.sampled_from([1, 2000, READ_BYTES_MAX]), st.booleans())
def test_replies_have_every_event_of_every_range_once(
    lab: Laboratory, ranges: list[WantedRange], bytes_max: int, some_columns: bool
) -> None:
    found = read_all(lab, ranges, bytes_max, ["payload"] if some_columns else [])
    there = BATCHES * EACH
    assert found == [
        (number, offset) for number, each in enumerate(ranges) for offset in range(each.first, min(each.end, there))
    ]


@pytest.mark.req("SPK-01")
def test_small_streams_share_a_reply(lab: Laboratory) -> None:
    reading = RangesReading([wanted(each) for each in STREAMS], READ_BYTES_MAX)
    pieces = one_reply(reading, lab)
    assert reading.is_over
    assert [(piece.number, len(piece.stored)) for piece in pieces] == [(number, BATCHES) for number in range(5)]


def test_others_get_their_turn(lab: Laboratory) -> None:
    reading = RangesReading([wanted(STREAMS[0], 0, 1)] * (3 * LOOK_STREAMS_AT_ONCE), READ_BYTES_MAX)
    assert len(one_reply(reading, lab)) == LOOK_STREAMS_AT_ONCE
    assert reading.number == LOOK_STREAMS_AT_ONCE


async def test_a_reply_is_read_in_turns_of_the_loop(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-06: however much one reply has, whoever waits for the loop gets it in between."""
    (first,) = await RangesReading([wanted(STREAMS[0])], 1).read(lab.log, None)
    monkeypatch.setattr(fetching, "READ_AT_ONCE_BYTES", len(first.stored[0]))
    reading = asyncio.ensure_future(RangesReading([wanted(STREAMS[0])], READ_BYTES_MAX).read(lab.log, None))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    (piece,) = await reading
    assert len(piece.stored) == BATCHES <= turns


def test_a_batch_that_was_too_much_comes_with_the_next_reply(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(one_reply(RangesReading([wanted(STREAMS[0])], 1), lab)[0].stored[0])
    monkeypatch.setattr(fetching, "READ_AT_ONCE_BYTES", size)
    reading = RangesReading([wanted(STREAMS[0])], 5 * size // 2)
    replies = []
    while not reading.is_over:
        replies.append([len(piece.stored) for piece in one_reply(reading, lab)])
    assert replies[:2] == [[2], [2]]


def test_what_comes_before_a_bad_range_is_given(lab: Laboratory) -> None:
    reading = RangesReading([wanted(STREAMS[0]), wanted(UNKNOWN), wanted(STREAMS[1])], READ_BYTES_MAX)
    (piece,) = one_reply(reading, lab)
    assert (piece.number, reading.number) == (0, 1)
    with pytest.raises(UnknownStream):
        one_reply(reading, lab)
    assert reading.number == 1, "the range that the error is about"


class Table:
    """An archive table with the whole stream."""

    def __init__(self, stored: list[bytes]) -> None:
        self._stored = stored

    def covers(self, _topic: str) -> bool:
        return True

    async def read(self, _key: StreamKey, first: int, end: int, _bytes_max: int) -> HistoryPiece:
        return HistoryPiece([each for each in self._stored if first < end_offset(each) <= end])


@pytest.mark.req("LAK-04")
@pytest.mark.parametrize("before", [[], [STREAMS[1]]])
async def test_retention_that_is_quicker_sends_a_fetch_to_the_table(
    monkeypatch: pytest.MonkeyPatch, before: list[Stream]
) -> None:
    """It runs in a thread: between the look at where the log begins and the reading, that may have moved."""
    own = laboratory("memory", Path())
    for each in STREAMS[:2]:
        for first in range(0, BATCHES * EACH, EACH):
            own.log.append(each, numbered(first, EACH))
    settle(own.log)  # retention takes only what is in table files
    state = own.log.state(STREAMS[0], EPOCH)
    stored = own.log.read(STREAMS[0], EPOCH, 0)
    table: Any = Table(stored)
    read = own.log.read

    def cut_and_read(stream: Stream, *rest: Any) -> list[bytes]:
        if stream == state.stream and not state.start:
            assert cut_before(own.log, state, state.end)[0] is not None
        return read(stream, *rest)

    monkeypatch.setattr(own.log, "read", cut_and_read)
    reading = RangesReading([*map(wanted, before), wanted(STREAMS[0])], READ_BYTES_MAX)

    async def everything() -> list[bytes]:
        found: list[bytes] = []
        while pieces := await reading.next(own.log, table):
            found += [each for piece in pieces if piece.number == len(before) for each in piece.stored]
        return found

    assert await everything() == stored
    assert state.start == BATCHES * EACH, "the log has nothing of it any more"


def test_columns_of_batches_that_follow_each_other_are_one(lab: Laboratory) -> None:
    reading = RangesReading([wanted(STREAMS[0], 5), wanted(STREAMS[1])], READ_BYTES_MAX)
    head, rest = reply_parts(one_reply(reading, lab), ["payload", "timestamp"], reading.number)
    reply = pb.FetchReply.FromString(head + rest).fetched
    assert (list(reply.first_offsets), list(reply.ranges), reply.ranges_done) == ([5, 0], [0, 1], 2)
    assert [pa.ipc.open_stream(data).read_all().num_rows for data in reply.batches] == [35, 40]


def test_one_range_is_told_as_ever(lab: Laboratory) -> None:
    """By clients that know no others, too."""
    pieces = one_reply(RangesReading([wanted(STREAMS[0])], READ_BYTES_MAX), lab)
    head, rest = reply_parts(pieces, [], None)
    assert head + rest == pb.FetchReply(fetched=pb.FetchedBatches(batches=pieces[0].stored)).SerializeToString()


def test_ranges_that_are_asked_for() -> None:
    (found,) = read_ranges_untrusted(pb.FetchRequest(stream=REF, first_offset=3, end_offset=5))
    assert found == wanted(STREAMS[0], 3, 5)
    more = [pb.FetchRange(stream=REF, first_offset=7)]
    assert read_ranges_untrusted(pb.FetchRequest(stream=REF, first_offset=3, more=more)) == [
        wanted(STREAMS[0], 3),
        wanted(STREAMS[0], 7),
    ]


@pytest.mark.parametrize(("first", "end"), [(5, 3), (0, OFFSET_MAX + 1), (OFFSET_MAX + 1, 0)])
def test_ranges_that_cannot_be(first: int, end: int) -> None:
    with pytest.raises(UsageError, match="range"):
        read_ranges_untrusted(pb.FetchRequest(stream=REF, first_offset=first, end_offset=end))
    with pytest.raises(UsageError, match="range"):
        bad = pb.FetchRange(stream=REF, first_offset=first, end_offset=end)
        read_ranges_untrusted(pb.FetchRequest(stream=REF, more=[bad]))


def test_too_many_ranges_are_refused_before_they_are_read() -> None:
    bad = pb.FetchRange()
    with pytest.raises(TooLarge, match="too many ranges"):
        read_ranges_untrusted(pb.FetchRequest(stream=REF, more=[bad] * FETCH_RANGES_MAX))
