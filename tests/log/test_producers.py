"""What is remembered of producers, and what is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.laboratory import EPOCH, batch, settle, stream
from weft.limits import PRODUCER_RECEIPTS_MAX
from weft.log import MemoryStore, keys, open_store
from weft.log.errors import OutOfSequence
from weft.log.producers import Producers, Sent
from weft.log.store import Space

TEMP = stream("plant.temp")


def producer(number: int) -> bytes:
    return b"producer %07d" % number


def test_the_last_batches_of_a_producer_are_remembered() -> None:
    producers = Producers()
    key = (1, producer(1))
    assert producers.last_sequence(key) is None
    for sequence in range(100):
        assert producers.find(key, sequence, 2) is None
        producers.add(key, Sent(sequence, sequence * 2, 2))
    assert producers.last_sequence(key) == 99
    first = 100 - PRODUCER_RECEIPTS_MAX
    for sequence in range(first, 100):
        assert producers.find(key, sequence, 2) == Sent(sequence, sequence * 2, 2)
    with pytest.raises(OutOfSequence):
        producers.find(key, first - 1, 2)


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
        store.write(producers.writes(segment))
        producers.written()
        assert producers.writes(segment) == []
    loaded = Producers(limit=3)
    loaded.load(store)
    loaded.add((7, producer(4)), Sent(1, 1, 1))
    assert loaded.last_sequence((7, producer(2))) is None
    assert loaded.last_sequence((7, producer(1))) == 4
    store.write(loaded.writes(5))
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
