"""The two stores are the same to the log: any writes, any reads. And the traps of RocksDB are closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rocksdict import AccessType

from tests.log.laboratory import copy_live
from weft.limits import MIB
from weft.log import MemoryStore, RocksStore, open_log
from weft.log.claim import Claim, is_claimed
from weft.log.errors import DiskFull, LogInUse, ReadOnly, StoreCorrupt
from weft.log.gate import Gate
from weft.log.marks_file import MarksFile
from weft.log.store import Delete, DeleteRange, Put, Space, Store, Write
from weft.model import Epoch

SPACES = st.sampled_from(Space)
KEYS = st.binary(min_size=1, max_size=2)
WRITES: st.SearchStrategy[Write] = st.one_of(
    st.builds(Put, SPACES, KEYS, st.binary(max_size=3)),
    st.builds(Delete, SPACES, KEYS),
    st.builds(lambda space, one, other: DeleteRange(space, min(one, other), max(one, other)), SPACES, KEYS, KEYS),
)


@given(st.lists(st.lists(WRITES, min_size=1, max_size=4), max_size=10), st.lists(st.tuples(KEYS, KEYS), max_size=5))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rocksdb_equals_memory(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[Write]], ranges: list[tuple[bytes, bytes]]
) -> None:
    memory = MemoryStore()
    with closing(RocksStore(tmp_path_factory.mktemp("store"))) as rocks:
        for number, group in enumerate(groups):
            for store in (memory, rocks):
                store.write(group)
            if number % 3 == 2:
                rocks.flush(wait=True)
        for first, end in [(b"", b"\xff\xff\xff"), *ranges]:
            for space in Space:
                for look in (look_forward, look_back):
                    assert look(memory, space, first, end) == look(rocks, space, first, end)
                for at, _ in ranges:
                    if first <= at < end:
                        held = [list(store.scan_holding(space, first, at, end, 0)) for store in (memory, rocks)]
                        assert held[0] == held[1]
                assert memory.get(space, first) == (rocks.get(space, first) if first else None)


def look_forward(store: Store, space: Space, first: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
    return list(store.scan(space, first, end))


def look_back(store: Store, space: Space, first: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
    return list(store.scan_back(space, first, end))


def test_mistakes_of_ours_are_not_taken_for_those_of_the_disk(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path)) as store:
        mistakes: list[Callable[[], object]] = [
            lambda: store.put_batches([("not bytes", b"")]),  # type: ignore[list-item]
            lambda: store.write([Put(Space.TABLES, b"key", None)]),  # type: ignore[arg-type]
            lambda: store.get(Space.BATCHES, 7),  # type: ignore[arg-type]
            lambda: store.append_marks("not bytes"),  # type: ignore[arg-type]
        ]
        for mistake in mistakes:
            with pytest.raises((TypeError, AttributeError, KeyError, ValueError)):
                mistake()
        store.put_batches([(b"key", b"value")])
        store.sync()
        assert store.get(Space.BATCHES, b"key") == b"value", "the store goes on"


@pytest.mark.parametrize("kind", ["memory", "rocks"])
def test_a_scan_shows_what_was_there_when_it_began(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else RocksStore(tmp_path)
    store.write([Put(Space.TABLES, b"%d" % number, b"") for number in range(5)])
    rows = store.scan(Space.TABLES, b"0", b"9")
    next(rows)
    store.write([Delete(Space.TABLES, b"3"), Put(Space.TABLES, b"5", b"")])
    assert [key for key, _ in rows] == [b"1", b"2", b"3", b"4"]
    store.close()


def test_the_sequence_grows_with_writes_and_survives(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path)) as store:
        store.write([Put(Space.TABLES, b"a", b""), Put(Space.BATCHES, b"a", b"")])
        store.put_batches([(b"b", b"")])
        assert store.sequence() == 3
        store.sync()
        with closing(RocksStore(tmp_path, read_only=True)) as looking:
            assert looking.sequence() == 3
    with closing(RocksStore(tmp_path)) as store:
        assert store.sequence() == 3


def test_looking_only_writes_nothing(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path)) as store:
        store.replace_marks(b"marks")
    with closing(RocksStore(tmp_path, read_only=True)) as looking:
        forbidden: Callable[[], None]
        for forbidden in (
            lambda: looking.write([]),
            lambda: looking.put_batches([(b"a", b"")]),
            lambda: looking.append_marks(b"more"),
            lambda: looking.replace_marks(b"other"),
        ):
            with pytest.raises(ReadOnly, match="opened for looking only"):
                forbidden()
        assert looking.read_marks() == b"marks"


def test_a_directory_without_current_is_not_made_new(tmp_path: Path) -> None:
    """RocksDB would begin a new database there, and remove the files of the old one."""
    with closing(RocksStore(tmp_path)) as store:
        store.put_batches([(b"a", b"value")])
    (tmp_path / "db" / "CURRENT").unlink()
    before = sorted((tmp_path / "db").iterdir())
    for read_only in (True, False):
        with pytest.raises(StoreCorrupt, match="no file CURRENT"):
            RocksStore(tmp_path, read_only=read_only)
    assert sorted((tmp_path / "db").iterdir()) == before


def test_the_fingerprint_tells_a_manifest_that_lost_its_end(tmp_path: Path) -> None:
    """RocksDB takes that for a torn write: it opens without the files that were named there, and removes them."""
    with closing(RocksStore(tmp_path)) as store:
        store.put_batches([(b"a", b"value")])
        store.flush(wait=True)
        fingerprint = store.fingerprint()
        assert store.contradiction(fingerprint) == ""
        store.put_batches([(b"b", b"value")])
        store.flush(wait=True)
        assert store.contradiction(fingerprint) == "", "a MANIFEST grows"
        name = (tmp_path / "db" / "CURRENT").read_text().strip()
        manifest = tmp_path / "db" / name
        data = manifest.read_bytes()
        manifest.write_bytes(data[:-1])
        assert store.contradiction(store.fingerprint()) == ""
        assert "is not what it was" not in store.contradiction(fingerprint)
        manifest.write_bytes(data[:20])
        assert store.contradiction(fingerprint) == f"{name} is not what it was"
        manifest.write_bytes(data)
        (tmp_path / "db" / "CURRENT").write_text("MANIFEST-000001\n")
        assert "older than" in store.contradiction(fingerprint)
        (tmp_path / "db" / "CURRENT").write_text(f"{name}\n")
    assert store.contradiction(b"") == ""


# --- one writer at a time ----------------------------------------------------------------------------------------


def test_one_process_at_a_time_may_write(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path)):
        assert is_claimed(tmp_path)
        with pytest.raises(LogInUse, match="another process has this log open"):
            RocksStore(tmp_path)
    assert not is_claimed(tmp_path)
    RocksStore(tmp_path).close()


def test_a_store_that_does_not_open_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "000001.sst").touch()
    with pytest.raises(StoreCorrupt):
        RocksStore(tmp_path)
    Claim(tmp_path).release()


# --- marks -------------------------------------------------------------------------------------------------------


def test_marks_are_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of a record leaves nothing of it: no later record stands behind a tear."""
    marks = MarksFile(tmp_path)
    assert marks.read() is None
    marks.append(b"first.")
    whole = os.write

    def part(file: int, data: bytes) -> int:
        if len(data) > 3:
            return whole(file, data[:3])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", part)
        with pytest.raises(OSError, match="No space"):
            marks.append(b"second")
        with pytest.raises(OSError, match="No space"):
            marks.replace(b"instead")
    marks.append(b"third.")
    assert marks.read() == b"first.third."
    marks.replace(b"fourth.")
    marks.append(b"fifth.")
    marks.close()
    assert marks.read() == b"fourth.fifth."
    assert [each.name for each in tmp_path.iterdir()] == ["promised"]


def test_marks_that_could_not_be_settled_are_settled_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = MarksFile(tmp_path)
    marks.append(b"first.")
    synced: list[int] = []

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdatasync", full)
    with pytest.raises(OSError, match="No space"):
        marks.settle()
    monkeypatch.setattr("os.fdatasync", synced.append)
    marks.settle()
    marks.settle()
    assert len(synced) == 1
    marks.close()


def test_a_sync_says_what_had_failed_though_the_store_is_revived_meanwhile(tmp_path: Path) -> None:
    failures: list[str | None] = []

    class Reviving(RocksStore):
        @property
        def _failure(self) -> str | None:
            return failures.pop(0) if failures else None

        @_failure.setter
        def _failure(self, failure: str | None) -> None:
            pass

    with closing(Reviving(tmp_path)) as store:
        failures += ["No space left on device", None]
        with pytest.raises(DiskFull):
            store.sync()


@pytest.mark.req("LOG-01")
def test_what_is_noted_of_the_books_of_the_engine_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a power cut could take the end of MANIFEST and leave the marks that tell of it: a log that does not open."""
    synced: list[tuple[int, int]] = []

    def sync(file: int) -> None:
        found = os.fstat(file)
        synced.append((found.st_ino, found.st_size))

    with closing(RocksStore(tmp_path)) as store:
        monkeypatch.setattr("os.fsync", sync)
        store.fingerprint()
        monkeypatch.undo()
        (manifest,) = (tmp_path / "db").glob("MANIFEST-*")
        assert synced == [(manifest.stat().st_ino, manifest.stat().st_size)]


def test_the_books_of_the_engine_are_read_before_or_after_it_is_revived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that syncs reads them, while the event loop may find room on a disk that was full."""
    store = RocksStore(tmp_path)
    reopen, enter = store._open, store._gate.enter
    has_gone_on, found = threading.Event(), list[object]()

    def read() -> None:
        try:
            found.append(store.fingerprint())
        except BaseException as error:
            found.append(error)
        has_gone_on.set()

    reader = threading.Thread(target=read)

    def entering() -> None:
        if threading.current_thread() is reader:
            has_gone_on.set()
        enter()

    def opening(access: AccessType) -> None:
        reader.start()
        assert has_gone_on.wait(30)
        reopen(access)

    monkeypatch.setattr(store._gate, "enter", entering)
    monkeypatch.setattr(store, "_open", opening)
    monkeypatch.setattr(store, "free_bytes", lambda: 1 << 40)
    store._failure = "No space left on device"
    store.revive()
    reader.join()
    assert found == [store.fingerprint()]
    store.close()


# --- the gate ----------------------------------------------------------------------------------------------------


def test_the_gate_waits_for_those_inside_and_lets_nobody_in() -> None:
    gate = Gate()
    order: list[str] = []
    gate.enter()
    shutting = threading.Event()

    def shut() -> None:
        shutting.set()
        with gate.shut(30):
            order.append("shut")

    def late() -> None:
        with gate.passing():
            order.append("late")

    shutter = threading.Thread(target=shut)
    shutter.start()
    shutting.wait(30)
    order.append("inside")
    gate.leave()
    shutter.join(30)
    latecomer = threading.Thread(target=late)
    latecomer.start()
    latecomer.join(30)
    assert order == ["inside", "shut", "late"]


def test_the_gate_opens_again_if_somebody_stays() -> None:
    gate = Gate()
    gate.enter()
    with pytest.raises(TimeoutError, match="1 are still inside"), gate.shut(0.01):
        pass
    with gate.passing():
        pass
    gate.leave()
    with gate.shut(0.01):
        pass


def test_a_small_memory_is_a_full_disk() -> None:
    store = MemoryStore(disk_bytes_max=10)
    store.put_batches([(b"a", b"12345678")])
    with pytest.raises(DiskFull, match=r"need 3, have 2"):
        store.put_batches([(b"b", b"123")])
    store.write([Delete(Space.BATCHES, b"a")])
    store.put_batches([(b"b", b"123")])


def log_in_use(path: Path) -> Path:
    """The write-ahead log with the highest number."""
    return max((path / "db").glob("*.log"))


def test_a_prepared_log_file_is_written_to_without_growing(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path / "store")) as store:
        store.write([Put(Space.BATCHES, b"before", b"1")])
        store.prepare(3 * MIB)
        in_use, size = log_in_use(tmp_path / "store"), log_in_use(tmp_path / "store").stat().st_size
        assert size >= 3 * MIB
        store.write([Put(Space.BATCHES, b"after", bytes(MIB))])
        store.sync()
        assert (log_in_use(tmp_path / "store"), in_use.stat().st_size) == (in_use, size)
        assert look_forward(store, Space.BATCHES, b"", b"\xff\xff") == [(b"after", bytes(MIB)), (b"before", b"1")]
        copy_live(tmp_path / "store", tmp_path / "copy")
    with closing(RocksStore(tmp_path / "copy")) as store:
        assert look_forward(store, Space.BATCHES, b"", b"\xff\xff") == [(b"after", bytes(MIB)), (b"before", b"1")]


@pytest.mark.parametrize(("free", "prepared"), [(10 * MIB, True), (5 * MIB, False)])
def test_a_log_file_is_prepared_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, prepared: bool
) -> None:
    monkeypatch.setattr(RocksStore, "free_bytes", lambda _: free)
    with closing(open_log(tmp_path, lambda: Epoch(1), disk_reserve_bytes=MIB, prepared_bytes=2 * MIB)):
        assert (log_in_use(tmp_path).stat().st_size >= 2 * MIB) is prepared
