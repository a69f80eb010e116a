"""One suite for both stores: what a log does, whatever it is kept in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.log.laboratory import (
    EPOCH,
    LABORATORIES,
    PRODUCER,
    Laboratory,
    Readout,
    batch,
    laboratory,
    numbered,
    numbers,
    payloads,
    read_out,
    settle,
    stream,
)
from weft.errors import UsageError
from weft.limits import PRODUCER_RECEIPTS_MAX
from weft.log import Log, keys
from weft.log.compaction import compact
from weft.log.errors import GapInCopy, OutOfSequence, PositionAhead, PositionExpired, SequenceReused, UnknownStream
from weft.log.keys import NO_TIME_US
from weft.log.log import Advanced
from weft.log.records import INDEX_BYTES
from weft.log.retention import RetentionRule, retain
from weft.log.store import Space
from weft.log.survey import SEGMENT_END
from weft.model import Batch, Epoch, EventId, Position, Stream, parse_pattern

TEMP, PRESSURE = stream("plant.temp"), stream("plant.pressure")
OTHER = stream("plant.temp", "node-b")


@pytest.fixture(params=LABORATORIES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Laboratory]:
    made = laboratory(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def log(lab: Laboratory) -> Log:
    return lab.log


# --- appending and reading ---------------------------------------------------------------------------------------


@pytest.mark.req("LOG-01", "LOG-02")
def test_what_is_appended_is_read_in_order(log: Log) -> None:
    assert log.append(TEMP, numbered(0, 3)).first_offset == 0
    second = log.append(TEMP, numbered(3, 2))
    assert (second.stream, second.epoch, second.first_offset, second.count) == (TEMP, log.epoch, 3, 2)
    log.append(PRESSURE, batch(b"p"))
    log.sync()
    assert numbers(payloads(log, TEMP)) == [0, 1, 2, 3, 4]
    assert payloads(log, PRESSURE) == [b"p"]


@pytest.mark.req("LOG-01")
def test_only_what_is_durable_is_read(log: Log) -> None:
    appended = log.append(TEMP, numbered(0, 2))
    assert log.info(TEMP, EPOCH).end == 0
    assert log.read(TEMP, EPOCH, 0) == []
    assert log.synced < appended.ticket
    assert log.sync() >= appended.ticket
    assert log.info(TEMP, EPOCH).end == 2
    log.append(TEMP, numbered(2, 1))
    assert numbers(payloads(log, TEMP)) == [0, 1]
    with pytest.raises(PositionAhead):
        log.read(TEMP, EPOCH, 3)


@pytest.mark.req("LOG-02")
def test_reading_returns_stored_bytes(log: Log) -> None:
    sent = numbered(0, 4)
    log.append(TEMP, sent)
    log.append(TEMP, sent)
    log.sync()
    assert log.read(TEMP, EPOCH, 0) == [sent.data, sent.with_base_offset(4).data]


@pytest.mark.req("LOG-02", "LOG-04")
@pytest.mark.parametrize(
    ("first", "end", "bases"),
    [(0, 9, [0, 3, 6]), (2, 3, [0]), (3, 6, [3]), (5, 7, [3, 6]), (8, 9, [6]), (9, 9, []), (4, 4, [])],
)
def test_a_range_is_the_batches_that_hold_it(log: Log, first: int, end: int, bases: list[int]) -> None:
    for base in (0, 3, 6):
        log.append(TEMP, numbered(base, 3))
    log.sync()
    stored = log.read(TEMP, EPOCH, first, end)
    assert [Batch.read_stored(each).base_offset for each in stored] == bases


@pytest.mark.req("LOG-02")
def test_a_read_is_bounded_in_bytes_but_never_empty(log: Log) -> None:
    for base in range(5):
        log.append(TEMP, numbered(base, 1, size=1000))
    log.sync()
    one = len(log.read(TEMP, EPOCH, 0, bytes_max=1)[0])
    assert len(log.read(TEMP, EPOCH, 0, bytes_max=1)) == 1
    assert len(log.read(TEMP, EPOCH, 0, bytes_max=3 * one)) == 3
    assert len(log.read(TEMP, EPOCH, 2, bytes_max=10 * one)) == 3


@pytest.mark.req("LOG-03", "LOG-04")
def test_all_of_it_is_there_after_reopening(lab: Laboratory) -> None:
    for number in range(20):
        lab.log.append(TEMP if number % 3 else PRESSURE, batch(b"%d" % number, at_us=number))
    lab.log.sync()
    before = {each: payloads(lab.log, each) for each in (TEMP, PRESSURE)}
    for log in lab.lives():
        assert log.epoch == EPOCH
        assert {each: payloads(log, each) for each in (TEMP, PRESSURE)} == before
        assert log.append(TEMP, batch(b"next")).first_offset == log.info(TEMP, EPOCH).end
        log.sync()
        before[TEMP].append(b"next")
    assert {each: payloads(lab.log, each) for each in (TEMP, PRESSURE)} == before


@pytest.mark.req("LOG-01", "LOG-04")
def test_segments_roll_and_are_read_across(tmp_path: Path, lab: Laboratory) -> None:
    lab.segment_bytes = 4096
    log = lab.reopen()
    for number in range(60):
        log.append((TEMP, PRESSURE)[number % 2], numbered(number, 1, size=500))
        if number % 5 == 0:
            log.sync()
    log.store.flush(wait=True)
    log.sync()
    assert log.flushed_segment > 2
    for each in lab.lives():
        assert numbers(payloads(each, TEMP)) == list(range(0, 60, 2))
        assert numbers(payloads(each, PRESSURE)) == list(range(1, 60, 2))
        assert numbers(payloads(each, TEMP, first=17)) == list(range(34, 60, 2))


@pytest.mark.req("LOG-04", "LOG-05")
def test_every_offset_of_a_long_stream_is_found(log: Log) -> None:
    """Over several index points, with another stream in between."""
    for number in range(0, 120, 3):
        log.append(TEMP, numbered(number, 3, size=INDEX_BYTES // 16))
        log.append(PRESSURE, numbered(number, 1, size=INDEX_BYTES // 4))
    log.sync()
    for offset in range(120):
        (stored,) = log.read(TEMP, EPOCH, offset, offset + 1)
        found = Batch.read_stored(stored)
        assert found.base_offset <= offset < found.end_offset
        assert numbers([event.payload for event in found.events_from(offset)])[0] == offset


@pytest.mark.req("LOG-03")
def test_the_epoch_is_minted_once(lab: Laboratory) -> None:
    assert lab.log.epoch == EPOCH
    assert lab.reopen().epoch == EPOCH
    assert lab.kill().epoch == EPOCH
    assert lab.mint() == Epoch(2), "nobody has asked for another one"


# --- streams -----------------------------------------------------------------------------------------------------


def test_streams_by_pattern(log: Log) -> None:
    names = ["plant.line1.temp", "plant.line2.temp", "plant.line1.pressure", "office.temp"]
    for name in names:
        log.append(stream(name), batch(b"x"))
    log.append(stream(names[0], partition=1), batch(b"x"))
    log.append_copy(stream(names[0], "node-b"), Epoch(9), batch(b"x"))
    log.sync()

    def topics(pattern: str) -> list[str]:
        return [str(info.stream) for info in log.streams(parse_pattern(pattern))]

    assert topics("plant.*.temp") == [
        "plant.line1.temp@node-a/0",
        "plant.line1.temp@node-a/1",
        "plant.line1.temp@node-b/0",
        "plant.line2.temp@node-a/0",
    ]
    assert topics("office.temp") == ["office.temp@node-a/0"]
    assert topics("nobody.>") == []
    assert len(log.streams()) == len(log.streams(parse_pattern(">"))) == 6


def test_info_says_what_is_there(log: Log) -> None:
    log.append(TEMP, batch(b"a", b"b", at_us=[7, 3]))
    log.append_copy(OTHER, Epoch(5), batch(b"c", at_us=1, base=40))
    log.sync()
    own, copied = log.info(TEMP, EPOCH), log.info(OTHER, Epoch(5))
    assert (own.start, own.end, own.latest_us) == (0, 2, 7)
    assert own.bytes == sum(map(len, log.read(TEMP, EPOCH, 0)))
    assert (copied.start, copied.end, copied.epoch) == (40, 41, 5)


def test_an_unknown_stream_is_told_with_the_epochs_there_are(log: Log) -> None:
    log.append_copy(OTHER, Epoch(5), batch(b"c"))
    log.append_copy(OTHER, Epoch(8), batch(b"c"))
    log.sync()
    with pytest.raises(UnknownStream, match=r"no stream plant.temp@node-b/0 in epoch 6 \(epochs \[5, 8\]\)"):
        log.read(OTHER, Epoch(6), 0)
    with pytest.raises(UnknownStream, match="epochs none"):
        log.info(PRESSURE, EPOCH)


@pytest.mark.req("LOG-06")
def test_positions_out_of_range_are_told_with_what_is_there(log: Log) -> None:
    for number in range(40):
        log.append(TEMP, numbered(number, 1, size=INDEX_BYTES // 8))
    settle(log)
    (expired,) = retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=INDEX_BYTES)], now_us=0)
    assert 0 < expired.end < 40
    with pytest.raises(PositionExpired, match=rf"no longer has offset 0 \(earliest {expired.end}, latest 40\)"):
        log.read(TEMP, EPOCH, 0)
    with pytest.raises(PositionAhead, match=rf"has no offset 41 yet \(earliest {expired.end}, latest 40\)"):
        log.read(TEMP, EPOCH, 41)
    assert log.read(TEMP, EPOCH, 40) == []


# --- producers ---------------------------------------------------------------------------------------------------


def test_a_repeated_batch_gets_its_first_receipt(lab: Laboratory) -> None:
    log = lab.log
    log.append(TEMP, numbered(0, 5))
    first = log.append(TEMP, batch(b"a", b"b", producer=PRODUCER, sequence=0))
    again = log.append(TEMP, batch(b"a", b"b", producer=PRODUCER, sequence=0))
    assert (again.first_offset, again.count, again.repeated) == (5, 2, True)
    assert again.ticket >= first.ticket, "it is durable no sooner than the first"
    log.sync()
    for reopened in lab.lives():
        again = reopened.append(TEMP, batch(b"a", b"b", producer=PRODUCER, sequence=0))
        assert (again.first_offset, again.repeated) == (5, True)
        assert len(payloads(reopened, TEMP)) == 7
        assert reopened.last_sequence(TEMP, PRODUCER) == 0
        assert reopened.last_sequence(TEMP, b"somebody-else---") is None


@pytest.mark.parametrize("settled", [False, True], ids=["in the write-ahead log", "in table files"])
def test_several_in_flight_are_all_recognised(lab: Laboratory, settled: bool) -> None:
    """A producer that did not get its receipts sends all of its last batches again."""
    in_flight = range(3, 3 + PRODUCER_RECEIPTS_MAX)
    for sequence in range(in_flight.stop):
        lab.log.append(TEMP, batch(b"%d" % sequence, producer=PRODUCER, sequence=sequence))
    settle(lab.log) if settled else lab.log.sync()
    for log in lab.lives():
        for sequence in in_flight:
            again = log.append(TEMP, batch(b"%d" % sequence, producer=PRODUCER, sequence=sequence))
            assert (again.first_offset, again.repeated) == (sequence, True)
        with pytest.raises(OutOfSequence, match=f"sequence 2, last {in_flight[-1]}"):
            log.append(TEMP, batch(b"2", producer=PRODUCER, sequence=2))


def test_sequences_may_skip_but_not_go_back(log: Log) -> None:
    log.append(TEMP, batch(b"a", producer=PRODUCER, sequence=4))
    log.append(TEMP, batch(b"b", producer=PRODUCER, sequence=9))
    with pytest.raises(OutOfSequence, match="sequence 7, last 9"):
        log.append(TEMP, batch(b"c", producer=PRODUCER, sequence=7))
    assert log.append(TEMP, batch(b"a", producer=PRODUCER, sequence=4)).repeated
    log.sync()
    assert payloads(log, TEMP) == [b"a", b"b"]


@pytest.mark.parametrize("settled", [False, True], ids=["in the write-ahead log", "in table files"])
def test_one_sequence_for_two_batches_is_refused(lab: Laboratory, settled: bool) -> None:
    lab.log.append(TEMP, numbered(0, 5))
    sent = {sequence: batch(b"mine %d" % sequence, producer=PRODUCER, sequence=sequence) for sequence in range(3)}
    for each in sent.values():
        lab.log.append(TEMP, each)
    settle(lab.log) if settled else lab.log.sync()
    for log in lab.lives():
        for sequence, first in sent.items():
            for other in (batch(b"ours", producer=PRODUCER, sequence=sequence), batch(b"ours %d" % sequence, b"b")):
                with pytest.raises(SequenceReused, match="a producer used one sequence for two batches") as caught:
                    log.append(TEMP, other.with_producer(PRODUCER, sequence))
                assert caught.value.facts == {
                    "producer": PRODUCER.hex(),
                    "sequence": sequence,
                    "differs": "content",
                    "kept_at": EventId(TEMP, log.epoch, 5 + sequence),
                }
            assert log.append(TEMP, first).first_offset == 5 + sequence
        assert len(payloads(log, TEMP)) == 8


def test_a_batch_that_was_compacted_is_recognised(lab: Laboratory) -> None:
    """Its events are in other batches now, which are not what the producer sent."""
    sent = [batch(b"%d" % number, keys=[b"k"], producer=PRODUCER, sequence=number) for number in range(3)]
    for each in sent:
        lab.log.append(TEMP, each)
    settle(lab.log)
    compact(lab.log, lab.log.state(TEMP, EPOCH), now_us=0)
    for log in lab.lives():
        assert payloads(log, TEMP) == [b"2"]
        assert [log.append(TEMP, each).first_offset for each in sent] == [0, 1, 2]
        with pytest.raises(SequenceReused):
            log.append(TEMP, batch(b"x", keys=[b"k"], producer=PRODUCER, sequence=1))


def test_producers_are_told_apart_by_stream(log: Log) -> None:
    for each in (TEMP, PRESSURE, stream("plant.temp", partition=1)):
        assert not log.append(each, batch(b"a", producer=PRODUCER, sequence=1)).repeated
    assert not log.append(TEMP, batch(b"a", producer=b"another producer", sequence=1)).repeated


# --- copies ------------------------------------------------------------------------------------------------------


@pytest.mark.req("MSH-03")
def test_copies_keep_their_offsets_and_come_once(log: Log) -> None:
    first, second = batch(b"a", b"b", base=10), batch(b"c", base=12)
    appended = log.append_copy(OTHER, Epoch(5), first)
    assert appended is not None
    assert appended.first_offset == 10
    assert log.append_copy(OTHER, Epoch(5), first) is None
    assert log.append_copy(OTHER, Epoch(5), second) is not None
    assert log.append_copy(OTHER, Epoch(5), first) is None
    log.sync()
    assert read_out(log, OTHER, Epoch(5)).events == {10: b"a", 11: b"b", 12: b"c"}
    assert log.read(OTHER, Epoch(5), 12) == [second.data]


@pytest.mark.req("MSH-03", "LOG-02")
@pytest.mark.parametrize("base", [11, 13, 100], ids=["overlaps", "skips one", "skips many"])
def test_a_gap_in_a_copy_is_refused(log: Log, base: int) -> None:
    log.append_copy(OTHER, Epoch(5), batch(b"a", b"b", base=10))
    with pytest.raises(GapInCopy, match=f"base {base}, expected 12"):
        log.append_copy(OTHER, Epoch(5), batch(b"x", b"y", base=base))


def test_epochs_are_kept_apart(lab: Laboratory) -> None:
    lab.log.append_copy(OTHER, Epoch(5), batch(b"old"))
    lab.log.append_copy(OTHER, Epoch(6), batch(b"new"))
    lab.log.append(TEMP, batch(b"own"))
    lab.log.sync()
    for log in lab.lives():
        assert payloads(log, OTHER, Epoch(5)) == [b"old"]
        assert payloads(log, OTHER, Epoch(6)) == [b"new"]
        assert payloads(log, TEMP) == [b"own"]


@pytest.mark.req("MSH-03", "LOG-02")
@pytest.mark.parametrize("settled", [False, True], ids=["in the write-ahead log", "in table files"])
def test_readers_pass_over_a_gap_in_a_copy(lab: Laboratory, settled: bool) -> None:
    """Compaction at the origin has taken 12 to 19 and 21 to 29."""
    lab.log.append_copy(OTHER, Epoch(5), batch(b"a", b"b", base=10, at_us=1))
    lab.log.append_gap(OTHER, Epoch(5), 20)
    lab.log.append_copy(OTHER, Epoch(5), batch(b"c", base=20, at_us=2))
    ticket = lab.log.append_gap(OTHER, Epoch(5), 30)
    assert lab.log.info(OTHER, Epoch(5)).end == 10, "not durable yet"
    assert lab.log.sync() >= ticket
    settle(lab.log) if settled else None
    for log in lab.lives():
        info = log.info(OTHER, Epoch(5))
        assert (info.start, info.end, info.bytes) == (10, 30, sum(map(len, log.read(OTHER, Epoch(5), 10))))
        for first in range(10, 30):
            expected = {offset: event for offset, event in {10: b"a", 11: b"b", 20: b"c"}.items() if offset >= first}
            assert read_out(log, OTHER, Epoch(5), first) == Readout(expected)
        assert log.read(OTHER, Epoch(5), 25) == []
        assert log.seek(OTHER, Epoch(5), 2) == 20
        assert log.seek(OTHER, Epoch(5), 3) == 30
    log.append_copy(OTHER, Epoch(5), batch(b"d", base=30))
    log.sync()
    for log in lab.lives():
        assert payloads(log, OTHER, Epoch(5)) == [b"a", b"b", b"c", b"d"]


@pytest.mark.req("MSH-03", "LOG-02")
@pytest.mark.parametrize("settled", [False, True], ids=["in the write-ahead log", "in table files"])
def test_readers_are_told_of_a_gap_in_a_copy_that_a_repair_left_at_its_origin(lab: Laboratory, settled: bool) -> None:
    lab.log.append_copy(OTHER, Epoch(5), batch(b"a", b"b", base=10, at_us=1))
    lab.log.append_gap(OTHER, Epoch(5), 20, lost=True)
    lab.log.append_copy(OTHER, Epoch(5), batch(b"c", base=20, at_us=2))
    lab.log.sync()
    settle(lab.log) if settled else None
    for log in lab.lives():
        assert log.info(OTHER, Epoch(5)).end == 21
        readout = read_out(log, OTHER, Epoch(5), 10)
        assert readout.events == {10: b"a", 11: b"b", 20: b"c"}
        assert readout.lost_offsets == set(range(12, 20))


@pytest.mark.parametrize("end", [0, 9, 12])
def test_a_gap_before_the_end_of_a_copy_changes_nothing(log: Log, end: int) -> None:
    log.append_copy(OTHER, Epoch(5), batch(b"a", b"b", base=10))
    ticket = log.sync()
    writes = log.store.sequence()
    assert log.append_gap(OTHER, Epoch(5), end) == ticket
    assert log.store.sequence() == writes
    assert log.append_copy(OTHER, Epoch(5), batch(b"c", base=12)) is not None


@pytest.mark.parametrize("begin", [Log.append_gap, Log.restart_copy])
def test_a_copy_may_begin_without_events(lab: Laboratory, begin: Callable[[Log, Stream, Epoch, int], int]) -> None:
    ticket = begin(lab.log, OTHER, Epoch(5), 40)
    assert lab.log.sync() >= ticket
    for log in lab.lives():
        assert (log.info(OTHER, Epoch(5)).start, log.info(OTHER, Epoch(5)).end) == (40, 40)
        assert log.read(OTHER, Epoch(5), 40) == []
        with pytest.raises(GapInCopy, match="base 41, expected 40"):
            log.append_copy(OTHER, Epoch(5), batch(b"x", base=41))
    log.append_copy(OTHER, Epoch(5), batch(b"a", base=40))
    log.sync()
    for log in lab.lives():
        assert read_out(log, OTHER, Epoch(5)) == Readout({40: b"a"})


@pytest.mark.req("MSH-03", "LOG-07")
@pytest.mark.parametrize("settled", [False, True], ids=["in the write-ahead log", "in table files"])
@pytest.mark.parametrize("first", [3, 50])
def test_a_copy_that_was_overtaken_goes_on_where_its_source_begins(lab: Laboratory, first: int, settled: bool) -> None:
    for base in range(3):
        lab.log.append_copy(OTHER, Epoch(5), batch(b"." * INDEX_BYTES, base=base, at_us=100))
    lab.log.append(TEMP, batch(b"own"))
    settle(lab.log) if settled else lab.log.sync()
    ticket = lab.log.restart_copy(OTHER, Epoch(5), first)
    for log in lab.lives():
        info = log.info(OTHER, Epoch(5))
        assert (info.start, info.end, info.bytes, info.latest_us) == (first, first, 0, NO_TIME_US)
        assert log.read(OTHER, Epoch(5), first) == []
        with pytest.raises(PositionExpired, match=f"no longer has offset 2 .earliest {first}, latest {first}"):
            log.read(OTHER, Epoch(5), 2)
        assert log.sync() >= ticket
        ticket = 0  # tickets are given anew by every process
    log.append_copy(OTHER, Epoch(5), batch(b"new", base=first, at_us=7))
    log.sync()
    for log in lab.lives():
        assert read_out(log, OTHER, Epoch(5)) == Readout({first: b"new"})
        assert log.seek(OTHER, Epoch(5), 7) == first
        assert payloads(log, TEMP) == [b"own"]


def test_what_was_let_go_gives_its_space_back(lab: Laboratory) -> None:
    """At once in table files; in the write-ahead log, once it has moved there, also if we are killed before."""
    lab.log.append_copy(OTHER, Epoch(5), batch(b"." * INDEX_BYTES))
    settle(lab.log)
    lab.log.append_copy(OTHER, Epoch(5), batch(b"." * INDEX_BYTES, base=1))
    lab.log.restart_copy(OTHER, Epoch(5), 9)
    lab.log.append_copy(OTHER, Epoch(5), batch(b"new", base=9))
    log = lab.kill()
    settle(log)
    rows = list(log.store.scan(Space.BATCHES, *keys.segment_range(0, SEGMENT_END)))
    assert [value for _, value in rows] == log.read(OTHER, Epoch(5), 9)


def test_a_restart_before_the_end_of_a_copy_is_refused(log: Log) -> None:
    log.append_copy(OTHER, Epoch(5), batch(b"a", b"b", base=10))
    with pytest.raises(UsageError, match=r"goes beyond 11 \(first 11, end 12\)"):
        log.restart_copy(OTHER, Epoch(5), 11)
    log.sync()
    assert payloads(log, OTHER, Epoch(5)) == [b"a", b"b"]


# --- where others stand ------------------------------------------------------------------------------------------


@pytest.mark.req("LOG-06")
def test_positions_of_groups_and_cursors_of_links_are_durable(lab: Laboratory) -> None:
    here, there = Position(TEMP, EPOCH, 7), Position(OTHER, Epoch(5), 40)
    ticket = lab.log.commit("billing", [here, there])
    lab.log.commit("audit", [Position(TEMP, EPOCH, 1)])
    lab.log.move_cursor("node-b", [here])
    assert lab.log.sync() >= ticket
    lab.log.commit("billing", [Position(TEMP, EPOCH, 8)])
    lab.log.sync()
    for log in lab.lives():
        assert log.positions("billing") == [Position(TEMP, EPOCH, 8), there]
        assert log.positions("bill") == []
        assert log.groups() == ["audit", "billing"]
        assert log.cursors("node-b") == [here]
        assert log.peers() == ["node-b"]
    log.forget_group("billing")
    log.forget_peer("node-b")
    log.sync()
    for log in lab.lives():
        assert log.groups() == ["audit"]
        assert log.peers() == []


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 65, ".hidden", "ein Name", "ä"])
def test_names_of_groups_are_checked(log: Log, name: str) -> None:
    for refused in (lambda: log.commit(name, []), lambda: log.positions(name), lambda: log.forget_peer(name)):
        with pytest.raises(UsageError, match="not a name for a group or peer"):
            refused()


# --- waiting for more --------------------------------------------------------------------------------------------


@pytest.mark.req("LOG-02")
def test_whoever_waits_is_told_by_the_sync_which_streams_have_more(log: Log) -> None:
    told: list[Advanced] = []
    log.on_synced(told.append)
    log.append(TEMP, numbered(0, 2))
    log.append(PRESSURE, numbered(0, 1))
    assert told == [], "nothing is durable yet"
    log.sync()
    log.append(TEMP, numbered(2, 1))
    log.sync()
    assert [set(advanced) for advanced in told] == [{(TEMP, EPOCH), (PRESSURE, EPOCH)}, {(TEMP, EPOCH)}]
    log.remove_on_synced(told.append)
    log.append(TEMP, numbered(3, 1))
    log.sync()
    assert len(told) == 2


@pytest.mark.req("LOG-06")
def test_a_slow_reader_of_one_stream_holds_up_nobody(log: Log) -> None:
    """A reader is a position: between two reads it holds nothing."""
    for number in range(30):
        log.append(TEMP, numbered(number, 1))
        log.append(PRESSURE, numbered(number, 1))
        log.sync()
    (first,) = log.read(TEMP, EPOCH, 0, bytes_max=1)
    assert len(log.read(PRESSURE, EPOCH, 0)) == 30
    (second,) = log.read(TEMP, EPOCH, Batch.read_stored(first).end_offset, bytes_max=1)
    assert Batch.read_stored(second).base_offset == 1


# --- seeking by time ---------------------------------------------------------------------------------------------


TIMES = st.integers(-50, 50)


@pytest.mark.req("LOG-06")
@pytest.mark.parametrize("kind", LABORATORIES)
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_seek_finds_what_a_search_of_everything_finds(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    groups = data.draw(st.lists(st.lists(TIMES, min_size=1, max_size=5), min_size=1, max_size=25))
    # Some batches are so large that each of them gets an index point of its own.
    sizes = data.draw(st.lists(st.sampled_from([0, INDEX_BYTES]), min_size=len(groups), max_size=len(groups)))
    lab = laboratory(kind, tmp_path_factory.mktemp("log"))
    for times, size in zip(groups, sizes, strict=True):
        lab.log.append(TEMP, batch(*(b"." * (size // len(times)) for _ in times), at_us=times))
        if data.draw(st.booleans()):
            settle(lab.log)
    lab.log.sync()
    every = [time for times in groups for time in times]
    for log in lab.lives():
        for wanted in (*data.draw(st.lists(TIMES, max_size=8)), min(every), max(every), max(every) + 1):
            expected = next((offset for offset, time in enumerate(every) if time >= wanted), len(every))
            assert log.seek(TEMP, EPOCH, wanted) == expected
        assert log.seek(TEMP, EPOCH, NO_TIME_US) == 0
        assert log.seek(TEMP, EPOCH, 1 << 80) == len(every)
    lab.close()


def test_seek_ignores_what_is_not_durable(log: Log) -> None:
    log.append(TEMP, batch(b"a", at_us=5))
    log.sync()
    log.append(TEMP, batch(b"b", at_us=9))
    assert log.seek(TEMP, EPOCH, 7) == 1
    log.append(TEMP, batch(b"c", at_us=3))
    log.sync()
    assert log.seek(TEMP, EPOCH, 7) == 1
    assert log.seek(TEMP, EPOCH, 10) == 3


# --- closing -----------------------------------------------------------------------------------------------------


def test_closing_syncs_and_may_be_done_twice(lab: Laboratory) -> None:
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.close()
    lab.log.close()
    lab.log = lab.open()
    assert numbers(payloads(lab.log, TEMP)) == [0, 1, 2]
