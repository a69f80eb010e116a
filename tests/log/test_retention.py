"""Retention: by age, by size, by the first rule that matches; only what is in table files; and nobody reads a gap."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.log.laboratory import (
    EPOCH,
    LABORATORIES,
    Laboratory,
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
from weft.log import Log, MemoryStore, keys, open_store
from weft.log.errors import DiskFull, PositionExpired, StoreCorrupt
from weft.log.records import INDEX_BYTES, StreamState
from weft.log.retention import RetentionRule, retain
from weft.log.store import Put, Space
from weft.model import Batch, parse_pattern

TEMP, PRESSURE = stream("plant.temp"), stream("plant.pressure")
ALL = parse_pattern(">")
HALF_POINT = INDEX_BYTES // 2  # two of these make an index point


@pytest.fixture
def log() -> Log:
    return open_store(MemoryStore(), lambda: EPOCH, recent_bytes=0)


def append(log: Log, events: int, at: object = TEMP) -> None:
    """One batch each, of half an index point, a second apart."""
    for number in range(events):
        log.append(at, batch(b"%d" % number + b"." * HALF_POINT, at_us=number))  # type: ignore[arg-type]


def by_size(size: int, pattern: str = ">") -> RetentionRule:
    return RetentionRule(parse_pattern(pattern), stream_bytes_max=size)


def by_age(age_us: int, pattern: str = ">") -> RetentionRule:
    return RetentionRule(parse_pattern(pattern), age_us_max=age_us)


@pytest.mark.req("LOG-07")
@pytest.mark.parametrize("kept_us", [0, 1, 5, 20])
def test_by_age_nothing_younger_is_taken(log: Log, kept_us: int) -> None:
    append(log, 20)
    settle(log)
    retain(log, [by_age(kept_us)], now_us=20)
    start = log.info(TEMP, EPOCH).start
    assert start <= 20 - kept_us
    assert 20 - kept_us - start <= 2, "of what is too old, no more than a stretch of the index is left"
    assert numbers(payloads(log, TEMP)) == list(range(start, 20))


@pytest.mark.req("LOG-07")
def test_by_age_an_old_event_behind_a_young_one_stays(log: Log) -> None:
    for time in (5, 50, 1, 2, 3):
        log.append(TEMP, batch(b"." * INDEX_BYTES, at_us=time))
    settle(log)
    retain(log, [by_age(10)], now_us=30)
    assert log.info(TEMP, EPOCH).start == 1


@pytest.mark.req("LOG-07")
def test_by_age_everything_may_go_and_offsets_go_on(log: Log) -> None:
    append(log, 10)
    settle(log)
    (expired,) = retain(log, [by_age(1)], now_us=1000)
    assert (expired.first, expired.end) == (0, 10)
    info = log.info(TEMP, EPOCH)
    assert (info.start, info.end, info.bytes) == (10, 10, 0)
    assert log.read(TEMP, EPOCH, 10) == []
    assert log.append(TEMP, numbered(10, 1)).first_offset == 10
    log.sync()
    assert numbers(payloads(log, TEMP)) == [10]


@pytest.mark.req("LOG-07")
@pytest.mark.parametrize("points", [0, 1, 3, 100])
def test_by_size_as_much_is_kept_as_was_asked_for(log: Log, points: int) -> None:
    append(log, 20)
    settle(log)
    before = log.info(TEMP, EPOCH).bytes
    expired = retain(log, [by_size(points * INDEX_BYTES)], now_us=0)
    info = log.info(TEMP, EPOCH)
    assert info.bytes >= min(before, points * INDEX_BYTES)
    assert info.bytes <= (points + 2) * INDEX_BYTES or points == 100
    assert sum(each.bytes for each in expired) == before - info.bytes
    assert info.bytes == sum(map(len, log.read(TEMP, EPOCH, info.start, bytes_max=1 << 30)))
    assert numbers(payloads(log, TEMP)) == list(range(info.start, 20))


@pytest.mark.req("LOG-07")
def test_of_age_and_size_the_stricter_counts(log: Log) -> None:
    append(log, 20)
    settle(log)
    retain(log, [RetentionRule(ALL, age_us_max=15, stream_bytes_max=2 * INDEX_BYTES)], now_us=20)
    strict = log.info(TEMP, EPOCH).start
    assert strict > 10
    append(log, 20, PRESSURE)
    settle(log)
    retain(log, [RetentionRule(ALL, age_us_max=3, stream_bytes_max=100 * INDEX_BYTES)], now_us=20)
    assert log.info(PRESSURE, EPOCH).start > 10


@pytest.mark.req("LOG-07")
def test_the_first_rule_that_matches_counts(log: Log) -> None:
    append(log, 10)
    append(log, 10, PRESSURE)
    settle(log)
    retain(log, [by_age(1000, "plant.temp"), by_size(0, "plant.*")], now_us=100)
    assert log.info(TEMP, EPOCH).start == 0
    assert log.info(PRESSURE, EPOCH).start == 10
    assert retain(log, [by_size(0, "office.>")], now_us=100) == []


@pytest.mark.req("LOG-07")
def test_a_second_round_takes_nothing_more(log: Log) -> None:
    append(log, 20)
    settle(log)
    assert retain(log, [by_size(INDEX_BYTES)], now_us=0)
    assert retain(log, [by_size(INDEX_BYTES)], now_us=0) == []


@pytest.mark.req("LOG-07")
def test_what_is_being_written_is_left_for_the_next_round(log: Log) -> None:
    append(log, 10)
    settle(log)
    append(log, 10)
    log.sync()
    (first,) = retain(log, [by_size(0)], now_us=0)
    assert first.end == 10, "only table files"
    log.sync()
    (second,) = retain(log, [by_size(0)], now_us=0)
    assert second.end == 20, "the first round has begun a new segment"


@pytest.mark.req("LOG-07")
def test_after_a_crash_nothing_of_an_unflushed_segment_is_taken(tmp_path: Path) -> None:
    """The stream is known from its record, and its tail is in the segment that is being written."""
    for kind in LABORATORIES:
        lab = laboratory(kind, tmp_path)
        append(lab.log, 10)
        settle(lab.log)
        append(lab.log, 10)
        lab.log.sync()
        log = lab.kill()
        (expired,) = retain(log, [by_size(0)], now_us=0)
        assert expired.end == 10
        assert len(payloads(log, TEMP)) == 10
        log = lab.kill()
        assert len(payloads(log, TEMP)) == 10
        assert log.append(TEMP, numbered(20, 1)).first_offset == 20
        log.sync()
        log = lab.kill()
        assert len(payloads(log, TEMP)) == 11
        lab.close()


@pytest.mark.req("LOG-07", "LOG-03")
@pytest.mark.parametrize("kind", LABORATORIES)
def test_what_was_taken_stays_away(kind: str, tmp_path: Path) -> None:
    lab: Laboratory = laboratory(kind, tmp_path)
    append(lab.log, 20)
    settle(lab.log)
    retain(lab.log, [by_size(3 * INDEX_BYTES)], now_us=0)
    lab.log.sync()
    start = lab.log.info(TEMP, EPOCH).start
    for log in lab.lives():
        assert log.info(TEMP, EPOCH).start == start
        assert numbers(payloads(log, TEMP)) == list(range(start, 20))
        assert log.seek(TEMP, EPOCH, 0) == start
        with pytest.raises(PositionExpired):
            log.read(TEMP, EPOCH, start - 1)
    lab.close()


@pytest.mark.req("LOG-07")
@pytest.mark.parametrize("kind", LABORATORIES)
def test_space_is_given_back(kind: str, tmp_path: Path) -> None:
    lab = laboratory(kind, tmp_path)
    append(lab.log, 60)
    settle(lab.log)
    before = lab.log.store.disk_bytes()
    retain(lab.log, [by_size(0)], now_us=0)
    settle(lab.log)
    lab.log.store.flush(wait=True)
    lab.log.store.reclaim(b"", b"\xff" * 20)
    tables = lab.log.store.disk_bytes()
    assert tables < before - 50 * HALF_POINT
    lab.close()


@pytest.mark.req("LOG-07")
@pytest.mark.parametrize("kind", LABORATORIES)
def test_it_is_safe_while_being_read(kind: str, tmp_path: Path) -> None:
    """Whoever reads meanwhile gets events in order, or is told where the stream begins now: never a gap."""
    lab = laboratory(kind, tmp_path)
    log = lab.log
    append(log, 10)
    log.sync()
    stop, trouble = threading.Event(), []

    def follow() -> None:
        try:
            at = 0
            while not stop.is_set():
                try:
                    stored = log.read(TEMP, EPOCH, at, bytes_max=3 * HALF_POINT)
                except PositionExpired as expired:
                    earliest = expired.facts["earliest"]
                    assert isinstance(earliest, int)
                    assert earliest > at
                    at = earliest
                    continue
                for each in map(Batch.read_stored, stored):
                    assert each.base_offset == at, "no gap"
                    at = each.end_offset
                log.seek(TEMP, EPOCH, at)
        except BaseException as error:
            trouble.append(error)

    readers = [threading.Thread(target=follow) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(15):
        append(log, 10)
        settle(log)
        retain(log, [by_size(INDEX_BYTES)], now_us=0)
    stop.set()
    for reader in readers:
        reader.join()
    assert not trouble
    lab.close()


def test_a_damaged_index_does_not_keep_other_streams_from_being_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    class Damaged(MemoryStore):
        bad = b""

        def scan_back(self, space: Space, first: bytes, end: bytes):  # type: ignore[no-untyped-def]
            if self.bad and first.startswith(self.bad):
                raise StoreCorrupt("a block of the index")
            return super().scan_back(space, first, end)

    store = Damaged()
    log = open_store(store, lambda: EPOCH, recent_bytes=0)
    append(log, 10)
    append(log, 10, PRESSURE)
    settle(log)
    store.bad = keys.stream_range(keys.INDEX, log.state(TEMP, EPOCH).id)[0]
    with pytest.raises(StoreCorrupt):
        retain(log, [by_size(0)], now_us=0)
    assert log.info(PRESSURE, EPOCH).start == 10
    assert log.info(TEMP, EPOCH).start == 0
    store.bad = b""
    assert len(read_out(log, TEMP).events) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs an age or a size"),
        ({"age_us_max": -1}, "the age of a retention rule is negative"),
        ({"stream_bytes_max": -1}, "the size of a retention rule is negative"),
    ],
)
def test_rules_are_checked(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RetentionRule(ALL, **arguments)


def test_a_failed_write_takes_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, 10)
    settle(log)
    before = log.info(TEMP, EPOCH)

    def refuse(writes: list[Put]) -> None:
        raise StoreCorrupt("no")

    with monkeypatch.context() as patch:
        patch.setattr(log.store, "write", refuse)
        with pytest.raises(StoreCorrupt):
            retain(log, [by_size(0)], now_us=0)
    assert log.info(TEMP, EPOCH) == before
    assert len(payloads(log, TEMP)) == 10


def test_what_was_taken_is_said_although_the_disk_became_full(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, 6, TEMP)
    append(log, 6, PRESSURE)
    settle(log)
    change = log.change
    changed: list[str] = []

    def change_once(state: StreamState, *arguments: Any, **values: Any) -> bool:
        if changed:
            raise DiskFull("no room", free=0)
        changed.append(state.stream.topic)
        return change(state, *arguments, **values)

    monkeypatch.setattr(log, "change", change_once)
    taken = retain(log, [by_age(0)], now_us=20)
    assert [each.stream.topic for each in taken] == changed
    monkeypatch.setattr(log, "change", change)
    later = retain(log, [by_age(0)], now_us=20)
    assert {each.stream.topic for each in (*taken, *later)} == {TEMP.topic, PRESSURE.topic}
