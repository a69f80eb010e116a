"""A full disk: publishes are refused, reading goes on, and writing, too, as soon as there is room; nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.log.laboratory import EPOCH, numbered, numbers, payloads, settle, stream
from weft.cli.log.commands import _settle
from weft.errors import StorageError
from weft.limits import MIB
from weft.log import Log, MemoryStore, open_log, open_store
from weft.log.errors import DiskFull
from weft.log.repair import check
from weft.log.retention import RetentionRule, retain
from weft.log.store import Space
from weft.log.syncer import Syncer
from weft.model import Position, parse_pattern

TEMP = stream("plant.temp")
DISK_BYTES = 64 * MIB
BALLAST_BYTES = 48 * MIB
NO_RESERVE = -(1 << 40)  # so that the log does not look, and RocksDB meets the end of the disk


def fill(log: Log, first: int = 0) -> int:
    """Append until there is no room; the number of the first event that was refused."""
    number = first
    while True:
        try:
            log.append(TEMP, numbered(number, 1, size=100_000))
            if number % 4 == 0:
                log.sync()
        except DiskFull:
            # The one that was refused is either not in the log at all, or its sync was; then it is appended.
            return log.state(TEMP, EPOCH).end
        number += 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with a file on it that can be removed to make room."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small disk needs root: {mounted.stderr.decode().strip()}")
    try:
        (place / "ballast").write_bytes(bytes(BALLAST_BYTES))
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def open_on(place: Path, reserve: int) -> Log:
    return open_log(place / "log", lambda: EPOCH, disk_reserve_bytes=reserve, segment_bytes=64 * MIB, recent_bytes=0)


# --- the reserve -------------------------------------------------------------------------------------------------


def test_publishing_is_refused_while_reading_goes_on() -> None:
    store = MemoryStore(disk_bytes_max=10 * MIB)
    log = open_store(store, lambda: EPOCH, disk_reserve_bytes=2 * MIB, recent_bytes=0)
    written = fill(log)
    with pytest.raises(DiskFull, match=r"the disk is full: publishing is refused \(free \d+, reserve 2097152\)"):
        log.append(TEMP, numbered(written, 1, size=100_000))
    assert store.free_bytes() < 2 * MIB + 200_000
    log.commit("group", [Position(TEMP, EPOCH, 5)])  # the reserve is for such things
    log.sync()
    assert numbers(payloads(log, TEMP)) == list(range(written))
    store.disk_bytes_max = 20 * MIB
    assert log.append(TEMP, numbered(written, 1)).first_offset == written
    log.sync()
    assert numbers(payloads(log, TEMP)) == list(range(written + 1))


def test_the_log_says_why_it_refuses_for_as_long_as_it_does() -> None:
    store = MemoryStore(disk_bytes_max=10 * MIB)
    log = open_store(store, lambda: EPOCH, disk_reserve_bytes=2 * MIB, recent_bytes=0)
    assert log.disk_full() is None
    written = fill(log)
    free = store.free_bytes()
    assert free >= 2 * MIB, "more than the reserve, but not with the event that was refused"
    assert str(log.disk_full()) == f"the disk is full: publishing is refused (free {free}, reserve {2 * MIB})"
    log.append(TEMP, numbered(written, 1, size=1))
    assert log.disk_full() is None, "there is room for a small one"
    store.disk_bytes_max -= MIB
    full = log.disk_full()
    assert full is not None, "without anybody publishing, too"
    assert full.facts == {"free": store.free_bytes(), "reserve": 2 * MIB}


def test_retention_makes_room() -> None:
    log = open_store(MemoryStore(disk_bytes_max=10 * MIB), lambda: EPOCH, disk_reserve_bytes=2 * MIB, recent_bytes=0)
    written = fill(log)
    settle(log)
    retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=MIB)], now_us=0)
    assert log.append(TEMP, numbered(written, 1)).first_offset == written


def test_the_reserve_is_kept_on_a_real_disk(small_disk: Path) -> None:
    log = open_on(small_disk, reserve=8 * MIB)
    written = fill(log)
    assert log.store.free_bytes() > 6 * MIB, "RocksDB never met the end of the disk"
    log.sync()
    assert numbers(payloads(log, TEMP)) == list(range(written))
    (small_disk / "ballast").unlink()
    assert log.append(TEMP, numbered(written, 1)).first_offset == written
    log.close()


# --- without one: RocksDB meets the end of the disk --------------------------------------------------------------


def test_a_failed_write_is_recovered_from_once_there_is_room(small_disk: Path) -> None:
    log = open_on(small_disk, reserve=NO_RESERVE)
    refused = fill(log)
    durable = log.info(TEMP, EPOCH).end
    assert numbers(payloads(log, TEMP)) == list(range(durable)), "reading goes on"
    for _ in range(3):
        with pytest.raises(DiskFull, match=r"free \d+, need \d+"):
            log.append(TEMP, numbered(refused, 1))
        with pytest.raises(DiskFull):
            log.sync()
        with pytest.raises(DiskFull):
            log.commit("group", [Position(TEMP, EPOCH, 1)])
    assert log.info(TEMP, EPOCH).end == durable, "what could not be synced is not handed out"
    (small_disk / "ballast").unlink()
    log.sync()
    assert log.info(TEMP, EPOCH).end == refused, "what was appended before is durable now"
    assert log.append(TEMP, numbered(refused, 1)).first_offset == refused
    log.sync()
    assert numbers(payloads(log, TEMP)) == list(range(refused + 1))
    log.close()
    assert check(small_disk / "log").is_sound
    reopened = open_on(small_disk, reserve=NO_RESERVE)
    assert numbers(payloads(reopened, TEMP)) == list(range(refused + 1))
    reopened.close()


def test_again_and_again(small_disk: Path) -> None:
    log = open_on(small_disk, reserve=NO_RESERVE)
    refused = 0
    for _ in range(3):
        refused = fill(log, refused)
        (small_disk / "ballast").unlink()
        log.sync()
        retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=MIB)], now_us=0)  # begins a segment
        log.store.flush(wait=True)
        log.sync()
        retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=MIB)], now_us=0)
        log.store.reclaim(b"", b"\xff" * 20)
        log.sync()
        start = log.info(TEMP, EPOCH).start
        assert numbers(payloads(log, TEMP)) == list(range(start, refused))
        (small_disk / "ballast").write_bytes(bytes(BALLAST_BYTES))
        log.store._revival_at_s = 0.0  # type: ignore[attr-defined]  # no need to wait in a test
    log.close()


def test_a_flush_without_room_loses_nothing(small_disk: Path) -> None:
    """The write-ahead log has room, the table file that it goes to has not."""
    log = open_on(small_disk, reserve=NO_RESERVE)
    written = 0
    while log.store.free_bytes() > 6 * MIB:  # then the write-ahead log has 10 of the 16 MiB
        log.append(TEMP, numbered(written, 1, size=100_000))
        written += 1
    log.sync()
    with suppress(DiskFull):
        log.begin_segment()
        log.store.flush(wait=True)
    assert log.flushed_segment == 0
    with suppress(DiskFull):
        log.sync()
    assert log.flushed_segment == 0, "what is not in table files is not said to be there"
    assert numbers(payloads(log, TEMP)) == list(range(written))
    (small_disk / "ballast").unlink()
    log.append(TEMP, numbered(written, 1))
    log.sync()
    log.store.flush(wait=True)
    log.sync()
    assert numbers(payloads(log, TEMP)) == list(range(written + 1))
    log.close()
    reopened = open_on(small_disk, reserve=NO_RESERVE)
    assert numbers(payloads(reopened, TEMP)) == list(range(written + 1))
    reopened.close()


def test_readers_are_not_in_the_way(small_disk: Path) -> None:
    """Reading goes on in other threads while the store is opened anew."""
    log = open_on(small_disk, reserve=NO_RESERVE)
    log.append(TEMP, numbered(0, 1, size=100_000))
    log.sync()
    stop, failures = threading.Event(), []

    def read() -> None:
        try:
            while not stop.is_set():
                assert numbers(payloads(log, TEMP))[:1] == [0]
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    refused = fill(log, 1)
    (small_disk / "ballast").unlink()
    log.sync()
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert numbers(payloads(log, TEMP)) == list(range(refused))
    log.close()


def test_a_reader_that_stands_still_only_delays_it(small_disk: Path) -> None:
    log = open_on(small_disk, reserve=NO_RESERVE)
    refused = fill(log)
    standing = log.store.scan(Space.BATCHES, b"", b"\xff" * 20)
    next(standing)
    (small_disk / "ballast").unlink()
    with pytest.raises(DiskFull, match="readers are in the way"):
        log.append(TEMP, numbered(refused, 1))
    standing.close()  # type: ignore[attr-defined]
    log.store._revival_at_s = 0.0  # type: ignore[attr-defined]
    assert log.append(TEMP, numbered(refused, 1)).first_offset == refused
    log.close()


def test_the_syncer_waits_for_room(small_disk: Path) -> None:
    log = open_on(small_disk, reserve=NO_RESERVE)
    durable, failed, errors = threading.Event(), threading.Event(), []

    def on_failed(error: StorageError) -> None:
        errors.append(error)
        failed.set()

    syncer = Syncer(log, lambda ticket: durable.set() if ticket == log.appended else None, on_failed)
    refused = 0
    with suppress(DiskFull):
        while True:
            log.append(TEMP, numbered(refused, 1, size=100_000))
            refused += 1
    syncer.start()
    syncer.wake()
    assert failed.wait(30)
    assert all(isinstance(error, DiskFull) for error in errors)
    assert not durable.is_set()
    (small_disk / "ballast").unlink()
    assert durable.wait(30)
    syncer.stop()
    assert numbers(payloads(log, TEMP)) == list(range(refused))
    log.close()


# --- where nobody may mount ----------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.log.laboratory import EPOCH, numbered, numbers, payloads
from tests.log.test_disk_full import NO_RESERVE, TEMP, fill
from weft.log import open_log

log = open_log(Path(sys.argv[1]), lambda: EPOCH, disk_reserve_bytes=NO_RESERVE)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, hard))  # no file may become longer: writes fail as on a full disk
refused = fill(log)
durable = log.info(TEMP, EPOCH).end
assert numbers(payloads(log, TEMP)) == list(range(durable))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.append(TEMP, numbered(refused, 1, size=100_000))
log.sync()
assert numbers(payloads(log, TEMP)) == list(range(refused + 1))
log.close()
print("recovered", refused)
"""


def test_a_write_error_in_a_process_with_a_limit(tmp_path: Path) -> None:
    script = LIMITED.format(root=str(Path.cwd()))
    ran = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "log"], check=False, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "recovered" in ran.stdout


def test_weft_log_retain_says_that_there_is_no_room_to_begin(small_disk: Path) -> None:
    """It waited for a flush that never came to an end."""
    log = open_on(small_disk, NO_RESERVE)
    for number in range(6 * MIB // 100_000):
        log.append(TEMP, numbered(number, 1, size=100_000))
    log.sync()
    (small_disk / "more").write_bytes(bytes(shutil.disk_usage(small_disk).free - 3 * MIB))  # no room for a table file
    said: list[BaseException] = []

    def settle_for_retention() -> None:
        try:
            _settle(log)
        except BaseException as error:
            said.append(error)

    settling = threading.Thread(target=settle_for_retention, daemon=True)
    settling.start()
    settling.join(60)
    assert isinstance(said[0], DiskFull) and "room" in str(said[0])
    (small_disk / "more").unlink()
    log.close()
