"""The books of segments that have ended: written some at a time, and made up by recovery where a crash came first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.log.laboratory import EPOCH, MemoryLaboratory, batch, numbered, numbers, payloads, settle, stream
from weft.log import Log, MemoryStore, books, keys, open_store
from weft.log.gathering import pack_pieces
from weft.log.records import decode_record, meta_write
from weft.log.recovery import FORMAT, read_meta, read_promises
from weft.log.store import Delete, Put, Space, Write
from weft.log.survey import Survey, losses
from weft.model import Stream

STREAMS = [stream(f"plant.{name}") for name in "abcde"]
ANNA, BERT = b"a" * 16, b"b" * 16
FIRST, SECOND = batch(b"1", producer=ANNA, sequence=1), batch(b"2", b"3", producer=BERT, sequence=9)
THIRD = batch(b"4", b"5", b"6", producer=ANNA, sequence=2)


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "AT_ONCE", 1)


class HeedfulStore(MemoryStore):
    """Notes how many writes are made at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def write(self, writes: Sequence[Write]) -> None:
        self.most = max(self.most, len(writes))
        super().write(writes)


def recorded_ends(log: Log) -> list[int]:
    rows = log.store.scan(Space.TABLES, *keys.table_range(keys.STREAMS))
    return [decode_record(value).end for _, value in rows]


def end_with_gathered(lab: MemoryLaboratory) -> None:
    """A segment with five streams and two producers ends, and the next one has more of them."""
    for at in STREAMS:
        lab.log.append(at, numbered(0, 2))
    lab.log.append_all([(STREAMS[0], FIRST), (STREAMS[0], SECOND)])
    lab.log.sync()
    lab.log._begin_segment()
    lab.log.append_all([(STREAMS[0], THIRD), (STREAMS[0], batch(b"7"))])
    lab.log.append(STREAMS[4], numbered(2, 1))
    for _ in range(20):
        lab.log._close_some()
    lab.log._note_flushed()


def check_all_is_there(log: Log) -> None:
    for at in STREAMS[1:4]:
        assert numbers(payloads(log, at)) == [0, 1]
    for sent, offset in ((FIRST, 2), (SECOND, 3)):
        place = log.append(STREAMS[0], sent)
        assert (place.first_offset, place.repeated) == (offset, True)
    survey = Survey(log.store, read_promises(log.store))
    assert not losses(survey, survey.found())


@pytest.mark.req("LOG-01", "LOG-03", "SDK-01")
def test_a_crash_between_the_pieces_loses_nothing() -> None:
    lab = MemoryLaboratory()
    end_with_gathered(lab)
    pieces = lab.store.unsynced_writes
    assert pieces > 8, "five records, two producers, and what tells of the segment"
    for kept in range(pieces + 1):
        lab = MemoryLaboratory()
        end_with_gathered(lab)
        for log in (lab.power_cut(kept), lab.kill(), lab.reopen(), lab.power_cut()):
            assert not log.cuts
            check_all_is_there(log)
        more = payloads(lab.log, STREAMS[0])[5:]
        assert more in ([], [b"4", b"5", b"6", b"7"]), "what was not synced is there as a whole or not at all"
        if more:
            assert lab.log.append(STREAMS[0], THIRD).repeated
        settle(lab.log)
        assert lab.log.flushed_segment == read_meta(lab.store, "segment") - 1  # type: ignore[operator]


def test_no_segment_counts_as_moved_before_its_books_are_written() -> None:
    lab = MemoryLaboratory()
    for at in STREAMS:
        lab.log.append(at, numbered(0, 2))
    lab.log._begin_segment()
    for written in range(len(STREAMS)):
        assert recorded_ends(lab.log).count(2) == written
        assert lab.log.flushed_segment == 0
        lab.log.append(STREAMS[0], numbered(2 + written, 1))
        lab.log.sync()
    assert lab.log.flushed_segment == 1


def test_a_record_may_be_newer_than_the_end_of_its_segment() -> None:
    lab = MemoryLaboratory()
    lab.log.append(STREAMS[0], numbered(0, 2))
    lab.log._begin_segment()
    lab.log.append(STREAMS[0], numbered(2, 3))
    lab.log.sync()
    assert recorded_ends(lab.log) == [5]
    assert lab.log.flushed_segment == 1
    for log in (lab.power_cut(), lab.reopen()):
        assert numbers(payloads(log, STREAMS[0])) == list(range(5))


@pytest.mark.req("SEC-05")
def test_a_segment_grows_longer_while_the_books_before_it_are_open() -> None:
    lab = MemoryLaboratory(segment_bytes=1000)
    for at in STREAMS:
        lab.log.append(at, numbered(0, 2, size=1000))
    lab.log.sync()
    segments = []
    for number in range(8):
        lab.log.append(STREAMS[0], numbered(2 + number, 1, size=2000))
        lab.log.sync()
        segments.append(lab.log._segments.current)
    assert segments == [2, 2, 2, 2, 3, 4, 5, 6], "a record of five with each sync, the first one before"
    assert numbers(payloads(lab.kill(), STREAMS[0])) == list(range(10))


@pytest.mark.req("SEC-05")
def test_who_ends_a_segment_closes_its_books_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does whoever looks what is in table files while nothing comes."""
    monkeypatch.setattr(books, "AT_ONCE", 7)
    store = HeedfulStore()
    log = open_store(store, lambda: EPOCH)
    for segment in (1, 2):
        log.append_all(
            [(stream(f"many.s{number}"), batch(b"x", producer=ANNA, sequence=segment)) for number in range(50)]
        )
        log.sync()
        store.most = 0
        if segment == 1:
            log._begin_segment()
            log.look_flushed()
        else:
            log.begin_segment()
        assert recorded_ends(log) == [segment] * 50
        assert store.most == 7
        log.sync()
        assert log.flushed_segment == segment


def gathered_of_format_4(lab: MemoryLaboratory, at: Stream) -> None:
    lab.log.append_all([(at, FIRST), (at, SECOND)])
    number = lab.log.state(at, EPOCH).id
    old: Any = keys.STREAM_OFFSET_KEY.pack(keys.PIECES, number, 0)
    lab.store.write(
        [
            Delete(Space.TABLES, keys.pieces_key(1, number, 0)),
            Put(Space.TABLES, old, pack_pieces([FIRST, SECOND])),
            meta_write("format", 4),
        ]
    )
    lab.log.sync()


@pytest.mark.req("OPS-02", "SDK-01")
def test_what_a_log_of_format_4_has_gathered_is_known_and_forgotten_with_its_segment() -> None:
    lab = MemoryLaboratory()
    gathered_of_format_4(lab, STREAMS[0])
    for log in (lab.kill(), lab.power_cut()):
        assert read_meta(log.store, "format") == FORMAT
        assert [log.append(STREAMS[0], each).repeated for each in (FIRST, SECOND)] == [True, True]
    settle(lab.log)
    assert not list(lab.store.scan(Space.TABLES, *keys.table_range(keys.PIECES)))
    for log in (lab.kill(), lab.reopen()):
        assert [log.append(STREAMS[0], each).repeated for each in (FIRST, SECOND)] == [True, True]
