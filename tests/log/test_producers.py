"""What is remembered of producers, and what is forgotten."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.log.laboratory import EPOCH, LABORATORIES, PRODUCER, batch, laboratory, settle, stream
from weft.limits import PRODUCER_RECEIPTS_MAX
from weft.log import Appended, MemoryStore, keys, open_store
from weft.log.errors import OutOfSequence, SequenceReused
from weft.log.producers import Producers, Sent, sent_as
from weft.log.records import meta_write
from weft.log.recovery import FORMAT, read_meta
from weft.log.store import Put, Space
from weft.model import Batch, Event

TEMP = stream("plant.temp")


def producer(number: int) -> bytes:
    return b"producer %07d" % number


def test_the_last_batches_of_a_producer_are_remembered() -> None:
    producers = Producers()
    key = (1, producer(1))
    assert producers.last_sequence(key) is None
    for sequence in range(100):
        assert producers.find(key, sequence) is None
        producers.add(key, Sent(sequence, sequence * 2, sequence + 1))
    assert producers.last_sequence(key) == 99
    first = 100 - PRODUCER_RECEIPTS_MAX
    for sequence in range(first, 100):
        assert producers.find(key, sequence) == Sent(sequence, sequence * 2, sequence + 1)
    with pytest.raises(OutOfSequence):
        producers.find(key, first - 1)


def test_a_batch_is_the_same_wherever_it_is_placed_and_whoever_reads_it() -> None:
    sent = batch(b"a", keys=[b"k"], at_us=7, producer=PRODUCER, sequence=3)
    kept = sent_as(sent, 100)
    placed = sent.with_base_offset(100)
    for same in (sent, placed, Batch.read_untrusted(sent.data), Batch.read_stored(placed.data)):
        assert kept.difference(same) == ""
    others = (
        batch(b"b", keys=[b"k"], at_us=7, producer=PRODUCER, sequence=3),
        batch(b"a", keys=[b"K"], at_us=7, producer=PRODUCER, sequence=3),
        batch(b"a", keys=[b"k"], at_us=8, producer=PRODUCER, sequence=3),
        batch(b"a", b"a", at_us=7, producer=PRODUCER, sequence=3),
        Batch.from_events([Event(b"a", 7, b"k", {"h": "v"})], producer=PRODUCER, sequence=3),
    )
    assert [kept.difference(other) for other in others] == ["content"] * len(others)


# --- other events with the same checksum -----------------------------------------------------------------------------


def colliding() -> tuple[Batch, Batch]:
    """Two batches of one size with different events and one checksum, as anybody can make them: the checksum is linear
    in the bits of the payload, and there are more bits than the checksum has."""
    payload = bytes(5)
    checksum = batch(payload).body_crc
    basis: dict[int, tuple[int, int]] = {}  # highest bit -> how the checksum changes, by which bits of the payload
    for bit in range(8 * len(payload)):
        bits = 1 << bit
        change = batch(bits.to_bytes(len(payload), "little")).body_crc ^ checksum
        while change and change.bit_length() in basis:
            other_change, other_bits = basis[change.bit_length()]
            change, bits = change ^ other_change, bits ^ other_bits
        if not change:
            other = bits.to_bytes(len(payload), "little")
            return tuple(batch(each, producer=PRODUCER, sequence=3) for each in (payload, other))  # type: ignore[return-value]
        basis[change.bit_length()] = (change, bits)
    raise AssertionError("33 changes of 32 bits depend on each other")


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize("is_synced", [False, True])
@pytest.mark.parametrize("is_gathered", [False, True])
@pytest.mark.parametrize("kind", LABORATORIES)
def test_other_events_get_no_receipt_though_their_checksum_fits(
    kind: str, is_gathered: bool, is_synced: bool, tmp_path: Path
) -> None:
    first, forged = colliding()
    assert first.body_crc == forged.body_crc and list(first) != list(forged)
    lab = laboratory(kind, tmp_path)
    before = [(TEMP, batch(b"before"))] if is_gathered else []
    *_, kept = lab.log.append_all([*before, (TEMP, first)])
    if is_synced:
        lab.log.sync()
    with pytest.raises(SequenceReused, match="differs content"):
        lab.log.append(TEMP, forged)
    again = lab.log.append(TEMP, first)
    assert isinstance(kept, Appended)
    assert (again.repeated, again.first_offset) == (True, kept.first_offset)
    lab.close()


# --- logs of format 1 ------------------------------------------------------------------------------------------------

# As version 0.1 wrote it: segment:u32, then sequence:u64 first_offset:u64 events:u32 of each batch.
ROW_1 = struct.pack(">I QQI QQI", 5, 3, 40, 2, 4, 42, 1)


def test_batches_of_an_old_log_are_known_by_their_number_of_events() -> None:
    store = MemoryStore()
    store.write([Put(Space.TABLES, keys.producer_key(7, producer(1)), ROW_1)])
    producers = Producers()
    producers.load(store.scan(Space.TABLES, *keys.table_range(keys.PRODUCERS)))
    key = (7, producer(1))
    assert producers.last_sequence(key) == 4
    found = producers.find(key, 3)
    assert found == Sent(3, 40, None, 2)
    assert (found.difference(batch(b"a", b"b")), found.difference(batch(b"a"))) == ("", "number of events")
    producers.add(key, Sent(5, 43, 1234))
    store.write(producers.writes(producers.take_touched(), 6))
    again = Producers()
    again.load(store.scan(Space.TABLES, *keys.table_range(keys.PRODUCERS)))
    assert [again.find(key, sequence) for sequence in (3, 4, 5)] == [found, Sent(4, 42, None, 1), Sent(5, 43, 1234)]


@pytest.mark.parametrize("kind", LABORATORIES)
def test_a_log_of_format_1_opens_and_is_of_this_format_then(kind: str, tmp_path: Path) -> None:
    lab = laboratory(kind, tmp_path)
    lab.log.append(TEMP, batch(b"a", b"b", producer=PRODUCER, sequence=3))
    settle(lab.log)
    number = lab.log.state(TEMP, EPOCH).id
    row = struct.pack(">I QQI", 1, 3, 0, 2)
    lab.log.store.write([Put(Space.TABLES, keys.producer_key(number, PRODUCER), row), meta_write("format", 1)])
    lab.log.sync()
    for open_again in (lab.kill, lab.reopen):
        log = open_again()
        assert read_meta(log.store, "format") == FORMAT
        assert log.append(TEMP, batch(b"a", b"b", producer=PRODUCER, sequence=3)).repeated
        with pytest.raises(SequenceReused, match="differs content"):  # the events themselves are there to compare
            log.append(TEMP, batch(b"c", b"d", producer=PRODUCER, sequence=3))
        with pytest.raises(SequenceReused, match="differs number of events"):
            log.append(TEMP, batch(b"a", producer=PRODUCER, sequence=3))
    log.append(TEMP, batch(b"e", producer=PRODUCER, sequence=4))
    log.sync()
    for open_again in (lab.kill, lab.reopen):
        log = open_again()
        with pytest.raises(SequenceReused, match="differs content"):
            log.append(TEMP, batch(b"f", producer=PRODUCER, sequence=4))
    lab.close()


# --- what is forgotten -----------------------------------------------------------------------------------------------


def test_who_was_silent_longest_is_forgotten() -> None:
    producers = Producers(limit=3)
    for number in (1, 2, 3, 1, 4):
        producers.add((7, producer(number)), Sent(number, 0, 1))
    assert len(producers) == 3
    assert producers.last_sequence((7, producer(2))) is None, "heard of only once, at the beginning"
    assert all(producers.last_sequence((7, producer(number))) is not None for number in (1, 3, 4))


def test_they_are_kept_on_disk_in_the_order_of_their_silence() -> None:
    store = MemoryStore()
    producers = Producers(limit=3)
    for segment, number in enumerate((1, 2, 3, 1), 1):
        producers.add((7, producer(number)), Sent(segment, segment, 1))
        store.write(producers.writes(producers.take_touched(), segment))
        assert not producers.take_touched()
    loaded = Producers(limit=3)
    loaded.load(store.scan(Space.TABLES, *keys.table_range(keys.PRODUCERS)))
    loaded.add((7, producer(4)), Sent(1, 1, 1))
    assert loaded.last_sequence((7, producer(2))) is None
    assert loaded.last_sequence((7, producer(1))) == 4
    store.write(loaded.writes(loaded.take_touched(), 5))
    rows = list(store.scan(Space.TABLES, *keys.table_range(keys.PRODUCERS)))
    assert {key[-16:] for key, _ in rows} == {producer(1), producer(3), producer(4)}, "forgotten on disk, too"


def test_a_log_forgets_producers_and_not_their_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("weft.log.producers.PRODUCERS_MAX", 5)
    monkeypatch.setattr(Producers.__init__, "__defaults__", (5,))
    store = MemoryStore()
    log = open_store(store, lambda: EPOCH)
    for number in range(20):
        log.append(TEMP, batch(b"%d" % number, producer=producer(number), sequence=1))
        if number == 9:
            settle(log)
    log.sync()
    for reopened in (log, open_store(store, lambda: EPOCH)):
        assert reopened.append(TEMP, batch(b"19", producer=producer(19), sequence=1)).repeated
        assert reopened.last_sequence(TEMP, producer(2)) is None
    log = open_store(store, lambda: EPOCH)
    assert not log.append(TEMP, batch(b"2", producer=producer(2), sequence=1)).repeated


def test_asking_for_a_sequence_remembers_nobody() -> None:
    store = MemoryStore()
    log = open_store(store, lambda: EPOCH)
    log.append(TEMP, batch(b"a"))
    assert log.last_sequence(TEMP, producer(1)) is None
    settle(log)
    assert not list(store.scan(Space.TABLES, *keys.table_range(keys.PRODUCERS)))
