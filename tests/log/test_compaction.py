"""Compaction: the latest event of each key stays, at its offset; nothing else changes, and a crash in the middle of it
loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.laboratory import (
    EPOCH,
    LABORATORIES,
    MemoryLaboratory,
    batch,
    laboratory,
    numbered,
    payloads,
    read_out,
    settle,
    stream,
)
from weft.log import Log, MemoryStore, keys, open_store
from weft.log.compaction import Compacted, compact
from weft.log.errors import EventsLost, StoreCorrupt
from weft.log.records import INDEX_BYTES
from weft.log.repair import examine
from weft.log.retention import RetentionRule, retain
from weft.log.store import Delete, Space, Write
from weft.model import Batch, Event, parse_pattern

STATES = stream("machine.states")
DAY_US = 24 * 3600 * 1_000_000
NOW_US = 100 * DAY_US


@pytest.fixture
def log() -> Log:
    return open_store(MemoryStore(), lambda: EPOCH, recent_bytes=0)


def append(log: Log, *pairs: tuple[bytes | None, bytes], at_us: int = NOW_US) -> None:
    """Events of (key, payload) as one batch."""
    log.append(STATES, batch(*(payload for _, payload in pairs), keys=[key for key, _ in pairs], at_us=at_us))


def run(log: Log, now_us: int = NOW_US, **options: int) -> Compacted | None:
    return compact(log, log.state(STATES, EPOCH), now_us, **options)


def there(log: Log) -> dict[int, bytes]:
    found = read_out(log, STATES)
    assert not found.losses
    return found.events


A, B, C = b"a", b"b", b"c"


@pytest.mark.req("LOG-07")
def test_the_latest_of_each_key_stays_at_its_offset(log: Log) -> None:
    append(log, (A, b"1"), (B, b"1"), (A, b"2"))
    append(log, (C, b"1"), (A, b"3"))
    append(log, (B, b"2"))
    settle(log)
    done = run(log)
    assert done is not None
    assert (done.end, done.events_removed, done.events_kept) == (6, 3, 3)
    assert there(log) == {3: b"1", 4: b"3", 5: b"2"}
    assert log.info(STATES, EPOCH).start == 0
    assert log.append(STATES, numbered(6, 1)).first_offset == 6


@pytest.mark.req("LOG-07")
def test_events_without_a_key_stay(log: Log) -> None:
    append(log, (None, b"x"), (A, b"1"), (None, b""), (A, b"2"), (None, b"y"))
    settle(log)
    run(log)
    assert there(log) == {0: b"x", 2: b"", 3: b"2", 4: b"y"}


@pytest.mark.req("LOG-07")
def test_a_tombstone_takes_its_key_away_and_goes_when_it_is_old(log: Log) -> None:
    append(log, (A, b"1"), (B, b"1"))
    append(log, (A, b""), at_us=NOW_US - DAY_US // 2)
    settle(log)
    run(log)
    assert there(log) == {1: b"1", 2: b""}, "readers shall see that the key is gone"
    assert run(log, NOW_US + 2 * DAY_US) is None, "a round begins only if something was appended"
    append(log, (C, b"1"), at_us=NOW_US + 2 * DAY_US)
    settle(log)
    run(log, NOW_US + 2 * DAY_US)
    assert there(log) == {1: b"1", 3: b"1"}


@pytest.mark.req("LOG-07")
def test_a_tombstone_of_a_key_that_came_back(log: Log) -> None:
    append(log, (A, b"1"), (A, b""), (A, b"2"), at_us=0)
    settle(log)
    run(log)
    assert there(log) == {2: b"2"}


@pytest.mark.req("LOG-07")
def test_only_table_files_are_touched(log: Log) -> None:
    append(log, (A, b"1"), (A, b"2"))
    log.sync()
    assert run(log) is None
    settle(log)
    append(log, (A, b"3"))
    log.sync()
    done = run(log)
    assert done is not None
    assert done.end == 2
    assert there(log) == {1: b"2", 2: b"3"}
    settle(log)
    run(log)
    assert there(log) == {2: b"3"}


@pytest.mark.req("LOG-07")
def test_a_second_round_does_nothing(log: Log) -> None:
    append(log, (A, b"1"), (A, b"2"))
    settle(log)
    assert run(log) is not None
    assert run(log) is None


@pytest.mark.req("LOG-07")
def test_keys_in_memory_are_bounded_and_rounds_get_on(log: Log) -> None:
    """Three batches of four keys each, and once more the same: eight keys are two batches."""
    for number in range(6):
        append(log, *((b"key %d" % (number % 3 * 4 + key), b"%d" % number) for key in range(4)))
    settle(log)
    ends = []
    while (done := run(log, keys_max=8)) is not None:
        ends.append(done.end)
    assert ends == [8, 16, 24]
    assert there(log) == {offset: b"%d" % (offset // 4) for offset in range(12, 24)}


@pytest.mark.req("LOG-07")
def test_a_batch_with_more_keys_than_the_bound_is_a_round_of_its_own(log: Log) -> None:
    for number in range(3):
        append(log, *((b"key %d" % key, b"%d" % number) for key in range(4)))
    settle(log)
    ends = []
    while (done := run(log, keys_max=2)) is not None:
        ends.append(done.end)
    assert ends == [4, 8, 12]
    assert there(log) == dict.fromkeys(range(8, 12), b"2")


@pytest.mark.req("LOG-07")
def test_gaps_are_notes_and_a_missing_note_is_a_loss() -> None:
    """So that damage is told from compaction."""
    store = MemoryStore()
    log = open_store(store, lambda: EPOCH, recent_bytes=0)
    for number in range(10):
        append(log, (A, b"%d" % number))
    settle(log)
    run(log)
    rows = list(store.scan(Space.BATCHES, b"", b"\xff" * 20))
    assert len(rows) == 2, "neighbouring notes are one"
    log.sync()
    assert examine(store).is_sound
    with pytest.raises(EventsLost) as lost:
        store.write([Delete(Space.BATCHES, rows[0][0])])
        log.read(STATES, EPOCH, 0)
    assert (lost.value.loss.first, lost.value.loss.end) == (0, 9)
    store.sync()
    assert [(loss.first, loss.end) for loss in examine(store).losses] == [(0, 9)]


@pytest.mark.req("LOG-07", "LOG-02")
def test_reading_goes_over_stretches_without_events(log: Log) -> None:
    """A whole index stretch, and a whole segment, that compaction has emptied."""
    for number in range(12):
        append(log, (A, b"%d" % number + b"." * INDEX_BYTES))
        if number % 4 == 3:
            settle(log)
    append(log, (None, b"last"))
    settle(log)
    run(log)
    assert sorted(there(log)) == [11, 12]
    for first in range(12):
        (stored, *_) = log.read(STATES, EPOCH, first, bytes_max=1)
        assert Batch.read_stored(stored).base_offset == 11
    assert log.read(STATES, EPOCH, 0, 11) == []
    assert log.seek(STATES, EPOCH, 0) == 11


@pytest.mark.req("LOG-07")
def test_sizes_are_right_afterwards(log: Log) -> None:
    """What retention by size goes by: the bytes that are really there."""
    for number in range(30):
        append(log, (A, b"%d" % number + b"." * INDEX_BYTES), (b"key %d" % number, b"." * INDEX_BYTES))
    settle(log)
    before = log.info(STATES, EPOCH).bytes
    done = run(log)
    assert done is not None
    info = log.info(STATES, EPOCH)
    stored = log.read(STATES, EPOCH, 0, bytes_max=1 << 30)
    assert info.bytes == sum(map(len, stored)) == before - done.bytes_removed
    retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=10 * INDEX_BYTES)], now_us=0)
    info = log.info(STATES, EPOCH)
    kept = sum(map(len, log.read(STATES, EPOCH, info.start, bytes_max=1 << 30)))
    assert info.bytes == kept
    assert 10 * INDEX_BYTES <= kept <= 13 * INDEX_BYTES


@pytest.mark.req("LOG-07")
def test_compression_is_kept(log: Log) -> None:
    events = [Event(b"text " * 100, NOW_US, key) for key in (A, B, A, C)]
    log.append(STATES, Batch.from_events(events, compression="zstd"))
    settle(log)
    run(log)
    stored = [Batch.read_stored(each) for each in log.read(STATES, EPOCH, 0)]
    assert [each.base_offset for each in stored] == [1]
    assert all(each.compression == "zstd" and each.intact for each in stored)


@pytest.mark.req("LOG-07", "LOG-03")
@pytest.mark.parametrize("kind", LABORATORIES)
def test_what_was_taken_stays_away(kind: str, tmp_path: Path) -> None:
    lab = laboratory(kind, tmp_path)
    for number in range(20):
        append(lab.log, (b"key %d" % (number % 3), b"%d" % number))
    settle(lab.log)
    run(lab.log)
    lab.log.sync()
    for log in lab.lives():
        assert there(log) == {17: b"17", 18: b"18", 19: b"19"}
        assert run(log) is None
    lab.close()


@pytest.mark.req("LOG-07", "LOG-01")
@given(st.data())
def test_a_crash_in_the_middle_loses_nothing(data: st.DataObject) -> None:
    """Whatever part of a round is on the disk: the latest of each key are there, and the next round ends it."""
    lab = MemoryLaboratory()
    pairs = data.draw(st.lists(st.sampled_from([None, A, B, C]), min_size=1, max_size=30))
    for number, key in enumerate(pairs):
        append(lab.log, (key, b"%d" % number + b"." * data.draw(st.sampled_from([0, INDEX_BYTES]))))
        if data.draw(st.integers(0, 5)) == 0:
            settle(lab.log)
    settle(lab.log)
    everything = there(lab.log)
    latest = {key: offset for offset, key in enumerate(pairs) if key is not None}
    needed = {offset for offset, key in enumerate(pairs) if key is None} | set(latest.values())
    run(lab.log)
    log = lab.power_cut(data.draw(st.integers(0, lab.store.unsynced_writes)))
    found = there(log)
    assert needed <= set(found) <= set(everything)
    assert all(found[offset] == everything[offset] for offset in found)
    log.sync()  # notes that all is in table files
    run(log)
    assert set(there(log)) == needed
    log.sync()
    assert examine(lab.store).is_sound


def test_a_failed_write_leaves_the_books_as_they_are(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, (A, b"1"), (A, b"2"))
    settle(log)
    before = log.info(STATES, EPOCH)

    def refuse(writes: list[Write]) -> None:
        raise StoreCorrupt("no")

    with monkeypatch.context() as patch:
        patch.setattr(log.store, "write", refuse)
        with pytest.raises(StoreCorrupt):
            run(log)
    assert log.info(STATES, EPOCH) == before
    assert len(payloads(log, STATES)) == 2
    assert run(log) is not None


def test_damage_is_not_compacted_away() -> None:
    store = MemoryStore()
    log = open_store(store, lambda: EPOCH, recent_bytes=0)
    for number in range(4):
        append(log, (A, b"%d" % number))
    settle(log)
    key = keys.batch_key(1, log.state(STATES, EPOCH).id, 2)
    stored = bytearray(store.get(Space.BATCHES, key) or b"")
    stored[-1] ^= 1
    store.put_batches([(key, bytes(stored))])
    with pytest.raises(EventsLost, match=r"compaction found the log damaged there \(first 2, end 3\)"):
        run(log)
    assert len(log.read(STATES, EPOCH, 0)) == 4, "nothing was taken"
