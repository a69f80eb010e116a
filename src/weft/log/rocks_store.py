"""The store on RocksDB, through rocksdict. It translates errors and works around these traps:

- RocksDB takes no more writes after one has failed because the disk was full. The store reopens it once there is room.
- The same happens when RocksDB meets a damaged block while it compacts in the background. A bad block must not stop a
  node, so the store reopens the database without compaction, and says so in ``damage_met``.
- An iterator that meets damage just ends: ``scan`` checks its status.
- rocksdict's ``set_iterate_lower_bound`` sets the upper bound: ``scan_back`` looks at the keys.
- If a directory without CURRENT is opened for writing, RocksDB makes a new database of it and deletes its files. The
  store refuses to open such a directory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, assert_never

import google_crc32c
import msgspec
from rocksdict import AccessType, Rdict, ReadOptions, WriteBatch

from weft.errors import StorageError
from weft.limits import MIB
from weft.log import chunks
from weft.log.claim import Claim, is_claimed
from weft.log.errors import DiskFull, LogInUse, ReadOnly, StoreCorrupt
from weft.log.gate import Gate
from weft.log.marks_file import MARKS_FILE, MarksFile
from weft.log.rocks_options import ALL_FILES, OPEN_FILES_MAX, OPEN_FILES_MIN, OTHER_FILES, database_options
from weft.log.store import Delete, DeleteRange, Put, Row, Space, Write

__all__ = ["DATABASE_DIR", "MARKS_FILE", "RocksStore"]

DATABASE_DIR: Final = "db"
READAHEAD_BYTES: Final = 2 * MIB
REVIVAL_ROOM_BYTES: Final = 16 * MIB  # beyond what is in the write-ahead log, for RocksDB's own new files
REVIVAL_INTERVAL_S: Final = 1.0
FILLING_KEY: Final = b"\xff"  # sorts behind every batch
FILLING_BYTES: Final = 1 * MIB
TAKE_UP_TRIES: Final = 50  # mostly the first one succeeds; if none does, syncs are only slower
TAKE_UP_PAUSE_S: Final = 0.01
READERS_LEAVE_S: Final = 1.0  # a read takes milliseconds; if one takes longer, the next attempt waits
FULL_WORDS: Final = ("No space left", "Disk quota exceeded", "File too large")
LOCK_WORDS: Final = ("lock hold by current process", "While lock file", "Resource temporarily unavailable")
REFUSED_WORDS: Final = ("Permission denied", "Read-only file system")
DAMAGE_WORDS: Final = ("Corruption", "No such file", "Input/output error", "Column family not found")


def files_for_log(limit: int) -> int:
    """How many files a log has open at most, in a process that may open ``limit``. A node keeps that many free."""
    return _table_files(limit) + OTHER_FILES


def _table_files(limit: int) -> int:
    if limit == resource.RLIM_INFINITY:
        return OPEN_FILES_MAX
    return min(OPEN_FILES_MAX, max(OPEN_FILES_MIN, limit // 4))


class Fingerprint(msgspec.Struct, array_like=True):
    """What MANIFEST looked like (it only grows), and which write-ahead log was the oldest in use. Older logs wait to be
    recycled, and must not be read."""

    manifest: str
    bytes: int
    crc: int
    oldest_wal: int


class RocksStore:
    """``path`` holds the database in ``db`` and the marks in ``promised``. ``claim``: the caller's, if it has one."""

    def __init__(
        self, path: Path, *, read_only: bool = False, skip_damage: bool = False, claim: Claim | None = None
    ) -> None:
        self.path = path
        self._database_path = path / DATABASE_DIR
        self._read_only = read_only
        self._beside_writer = read_only and claim is None and is_claimed(path)
        self._skip_damage = skip_damage
        self._gate = Gate()
        self.damage_met = ""
        self._failure: str | None = None  # why RocksDB takes no more writes
        self._failed_sequence = 0
        self._revival_at_s = 0.0
        self._marks = MarksFile(path)
        # Another process may be writing. What the marks promise now is in the database that is opened after this.
        self._marks_found = self._marks.read() if read_only else None
        self._claim: Claim | None = None
        if not read_only:
            path.mkdir(parents=True, exist_ok=True)
            self._claim = claim or Claim(path)
        try:
            self._open(AccessType.read_only() if read_only else AccessType.read_write())
        except BaseException:
            if self._claim is not None:
                self._claim.release()
            raise

    def _open(self, access: AccessType) -> None:
        if (self._read_only or holds_data(self.path)) and not (self._database_path / "CURRENT").exists():
            raise StoreCorrupt("the database has no file CURRENT")
        batches, tables = database_options(
            skip_damage=self._skip_damage, compaction=not self.damage_met, open_files_max=self._open_files_max()
        )
        with translated(StoreCorrupt):
            self._batches = Rdict(
                str(self._database_path), batches, column_families={Space.TABLES.value: tables}, access_type=access
            )
            self._tables = self._batches.get_column_family(Space.TABLES.value)
            self._tables_handle = self._batches.get_column_family_handle(Space.TABLES.value)

    def _open_files_max(self) -> int:
        """All of them beside a node that has the log open, if the process may open so many: the node removes files once
        it has merged them."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if self._beside_writer and sum(name.endswith(".sst") for name, _ in self._files()) < limit // 2:
            return ALL_FILES
        return _table_files(limit)

    # --- writing -------------------------------------------------------------------------------------------------

    def write(self, writes: Sequence[Write]) -> None:
        self.revive()
        self._attempt(lambda: self._batches.write(self._write_batch(writes)))

    def _write_batch(self, writes: Sequence[Write]) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        for write in writes:
            handle = self._tables_handle if write.space is Space.TABLES else None
            match write:
                case Put(Space.BATCHES, key, value):
                    self._delete_chunks(batch, key)
                    for chunk in chunks.cut(key, value) if len(value) > chunks.CHUNK_BYTES else ():
                        batch.put(*chunk)
                    batch.put(key, chunks.value_of_row(value))
                case Put(_, key, value):
                    batch.put(key, value, handle)
                case Delete(_, key):
                    if handle is None:
                        self._delete_chunks(batch, key)
                    batch.delete(key, handle)
                case DeleteRange(_, first, end):
                    batch.delete_range(first, end, handle)
                case _:
                    assert_never(write)
        return batch

    def _delete_chunks(self, batch: WriteBatch, key: bytes) -> None:
        """Delete the chunks of the batch under this key, if it is a large one."""
        there = self._batches.get(key)
        if there is not None and chunks.length_in(there) is not None:
            batch.delete_range(*chunks.range_of(key))

    def put_batches(self, rows: Sequence[Row], others: Sequence[Write] = ()) -> None:
        if self._failure is not None or self._read_only:
            self.revive()
        try:  # not through _attempt: one more function call costs a tenth of the put
            self._put_rows(rows, others)
        except Exception as error:
            _raise_unless_foreign(error)
            self._attempt(lambda: self._put_rows(rows, others))

    def _put_rows(self, rows: Sequence[Row], others: Sequence[Write]) -> None:
        if len(rows) == 1 and not others and len(rows[0][1]) <= chunks.CHUNK_BYTES:
            self._batches.put(*rows[0])
            return
        for key, value in rows:
            if len(value) > chunks.CHUNK_BYTES:
                for chunk in chunks.cut(key, value):
                    self._batches.put(*chunk)
        batch = self._write_batch(others)
        for key, value in rows:
            batch.put(key, chunks.value_of_row(value))
        self._batches.write(batch)

    def sync(self) -> None:
        failure = self._failure  # read once: another thread may be reviving the store
        if failure is not None:  # a sync that succeeds now would not cover the write that failed before
            raise _meaning(failure)
        self._gate.enter()  # not through ``passing``: a generator would double the cost
        try:
            self._batches.flush_wal(True)  # the only call that releases the GIL
        except Exception as error:
            _raise_unless_foreign(error)
            raise self._failed(error) from error
        finally:
            self._gate.leave()

    def prepare(self, size: int) -> None:
        """Get a write-ahead log that is already ``size`` bytes long: a sync that makes a file longer also writes the
        file system's metadata, and takes twice as long.

        RocksDB recycles a write-ahead log once everything in it is in table files. So fill one with data that the same
        write deletes, and flush. With the next flush, RocksDB writes into the recycled file. Its own thread hands the
        file over a moment after the first flush, so a third flush may be needed. Every start of RocksDB discards the
        files from before.
        """
        with contextlib.suppress(DiskFull):  # then syncs are only slower
            self._attempt(lambda: self._fill(size))
            for _ in range(TAKE_UP_TRIES):
                self._attempt(lambda: self._fill(1))
                newest = max(file for file in self._files() if file[0].endswith(".log"))
                if newest[1] >= size:
                    return
                time.sleep(TAKE_UP_PAUSE_S)

    def _fill(self, size: int) -> None:
        for at in range(0, size, FILLING_BYTES):
            filling = WriteBatch(raw_mode=True)
            filling.put(FILLING_KEY, bytes(min(FILLING_BYTES, size - at)))
            filling.delete(FILLING_KEY)
            self._batches.write(filling)
        self._batches.flush(True)

    def flush(self, *, wait: bool = False) -> None:
        self._attempt(lambda: self._tables.flush(wait))
        self._attempt(lambda: self._batches.flush(wait))

    def is_flushing(self) -> bool:
        return self.flushes_pending() > 0

    def background_failures(self) -> int:
        return sum(self._property(space, "rocksdb.background-errors") for space in Space)

    def flushes_pending(self) -> int:
        """RocksDB may have begun flushes by itself; then fewer of ours are pending."""
        return max(self._property(space, "rocksdb.num-immutable-mem-table") for space in Space)

    def reclaim(self, first: bytes, end: bytes) -> None:
        with self._gate.passing(), translated():
            self._batches.compact_range(first, end)

    def sequence(self) -> int:
        return int(self._batches.latest_sequence_number())

    # --- after a failed write ------------------------------------------------------------------------------------

    def _attempt(self, action: Callable[[], object]) -> None:
        """Do something that writes. If RocksDB refuses it because of damage elsewhere, do it again without
        compaction."""
        try:
            action()
        except Exception as error:
            _raise_unless_foreign(error)
            meaning = self._failed(error)
            if not isinstance(meaning, StoreCorrupt) or self.damage_met:
                raise meaning from error
            self.damage_met = str(error)
            self.revive()
            with translated():
                action()

    def _failed(self, error: Exception) -> StorageError:
        if self._failure is None:
            self._failure = str(error)
            self._failed_sequence = self.sequence()
        return _meaning(str(error))

    def revive(self) -> None:
        """Reopen RocksDB if it takes no more writes and reopening can help."""
        self._refuse_if_read_only()
        if self._failure is None:
            return
        match _meaning(self._failure):
            case DiskFull():
                need, free, now_s = self._wal_bytes() + REVIVAL_ROOM_BYTES, self.free_bytes(), time.monotonic()
                if free < need or now_s < self._revival_at_s:
                    raise DiskFull(f"the disk was full: {self._failure}", free=free, need=need)
                self._revival_at_s = now_s + REVIVAL_INTERVAL_S
            case StoreCorrupt():
                pass
            case other:
                raise other
        try:
            with self._gate.shut(READERS_LEAVE_S):
                self._reopen()
        except TimeoutError as error:
            raise DiskFull(f"writes have failed, and readers are in the way of going on: {error}") from None

    def _refuse_if_read_only(self) -> None:
        if self._read_only:
            raise ReadOnly("the log was opened for looking only")

    def _reopen(self) -> None:
        """Close RocksDB and open it again. What was written before the failure is in the write-ahead log, and nobody
        else can change it meanwhile."""
        self._shut()
        try:
            self._open(AccessType.read_write())
        except StorageError:
            self._open(AccessType.read_only())  # so that at least reading still works
            raise
        if self.sequence() < self._failed_sequence:
            raise StoreCorrupt("writes were lost", had=self._failed_sequence, have=self.sequence())
        self._failure = None

    def _wal_bytes(self) -> int:
        return sum(size for name, size in self._files() if name.endswith(".log"))

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, space: Space, key: bytes) -> bytes | None:
        with self._gate.passing(), translated():
            value: bytes | None = self._map(space).get(key)
        if space is Space.BATCHES and value is not None and chunks.length_in(value) is not None:
            return next((found for _, found in self.scan(space, *chunks.range_of(key))), None)
        return value

    def scan(self, space: Space, first: bytes, end: bytes, bytes_expected: int = READAHEAD_BYTES) -> Iterator[Row]:
        options = _read_options(end, bytes_expected)
        self._gate.enter()
        try:
            with translated():
                rows: Any = self._map(space).iter(options)
                rows.seek(first)
            yield from _forward(space, rows)
            _check(rows)
        finally:
            rows = None  # an iterator keeps the database open
            self._gate.leave()

    def scan_holding(self, space: Space, first: bytes, at: bytes, end: bytes, bytes_expected: int) -> Iterator[Row]:
        options = _read_options(end, bytes_expected)
        self._gate.enter()
        try:
            with translated():
                rows: Any = self._map(space).iter(options)
                rows.seek_for_prev(at)
                if space is Space.BATCHES:
                    chunks.seek_row_before(rows)
            if rows.valid() and rows.key() >= first:
                yield from _forward(space, rows)
            _check(rows)
        finally:
            rows = None
            self._gate.leave()

    def scan_back(self, space: Space, first: bytes, end: bytes) -> Iterator[Row]:
        self._gate.enter()
        try:
            with translated():
                rows: Any = self._map(space).iter()
                rows.seek_for_prev(end)
                if rows.valid() and rows.key() == end:
                    rows.prev()
            yield from _backward(space, rows, first)
            _check(rows)
        finally:
            rows = None
            self._gate.leave()

    def disk_bytes(self) -> int:
        """The size of all files, including the write-ahead log."""
        return sum(size for _, size in self._files())

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free

    # --- marks ---------------------------------------------------------------------------------------------------

    def read_marks(self) -> bytes | None:
        return self._marks_found if self._read_only else self._marks.read()

    def append_marks(self, data: bytes) -> None:
        self._refuse_if_read_only()
        try:  # not through ``translated``: this runs once for every sync
            self._marks.append(data)
        except OSError as error:
            raise _meaning(str(error)) from error

    def replace_marks(self, data: bytes) -> None:
        self._refuse_if_read_only()
        with translated():
            self._marks.replace(data)

    def settle_marks(self) -> None:
        with translated():
            self._marks.settle()

    def fingerprint(self) -> bytes:
        with self._gate.passing(), translated():  # another thread may be about to revive the store
            name = (self._database_path / "CURRENT").read_text().strip()
            with (self._database_path / name).open("rb") as file:
                manifest = file.read()
                os.fsync(file.fileno())  # RocksDB syncs it later; after a power cut, it must not lack what we noted
            oldest_wal = self._property(Space.BATCHES, "rocksdb.min-log-number-to-keep")
        return msgspec.msgpack.encode(Fingerprint(name, len(manifest), int(google_crc32c.value(manifest)), oldest_wal))

    def contradiction(self, fingerprint: bytes) -> str:
        if not fingerprint:
            return ""
        noted = msgspec.msgpack.decode(fingerprint, type=Fingerprint)
        name = (self._database_path / "CURRENT").read_text().strip()
        if manifest_number(name) < manifest_number(noted.manifest):
            return f"CURRENT names {name}, which is older than {noted.manifest}"
        if name == noted.manifest:
            manifest = (self._database_path / name).read_bytes()[: noted.bytes]
            if len(manifest) < noted.bytes or google_crc32c.value(manifest) != noted.crc:
                return f"{name} is not what it was"
        return ""

    def close(self) -> None:
        """When this returns, everything that was written is durable and others may open the database."""
        try:
            with translated():
                self._marks.close()
        finally:
            self._shut()
            if self._claim is not None:
                self._claim.release()

    def _shut(self) -> None:
        """RocksDB moves everything to table files. After a failure it raises an error, and closes all the same."""
        del self._tables_handle
        for column_family in (self._tables, self._batches):
            with contextlib.suppress(Exception):
                column_family.close()

    def _map(self, space: Space) -> Rdict:
        return self._tables if space is Space.TABLES else self._batches

    def _property(self, space: Space, name: str) -> int:
        return self._map(space).property_int_value(name) or 0

    def _files(self) -> Iterator[tuple[str, int]]:
        for entry in os.scandir(self._database_path):
            with contextlib.suppress(FileNotFoundError):  # RocksDB may remove files while we look
                yield entry.name, entry.stat().st_size


def holds_data(path: Path) -> bool:
    """Whether there is, or was, a database in ``path``."""
    files = (path / DATABASE_DIR).glob("*")
    return any(file.name == "CURRENT" or file.suffix in (".sst", ".log") for file in files)


def manifest_number(manifest: str) -> int:
    return int(manifest.rpartition("-")[2])


def _forward(space: Space, rows: Any) -> Iterator[Row]:
    """Yield rows from where an iterator stands."""
    if space is Space.BATCHES:
        yield from chunks.forward(rows)
        return
    while rows.valid():
        yield rows.key(), rows.value()
        rows.next()


def _backward(space: Space, rows: Any, first: bytes) -> Iterator[Row]:
    if space is Space.BATCHES:
        yield from chunks.backward(rows, first)
        return
    while rows.valid() and (key := rows.key()) >= first:
        yield key, rows.value()
        rows.prev()


def _read_options(end: bytes, bytes_expected: int) -> ReadOptions:
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    options.set_readahead_size(min(bytes_expected, READAHEAD_BYTES))
    options.fill_cache(bytes_expected < READAHEAD_BYTES)  # type: ignore[call-arg]
    return options


def _check(rows: Any) -> None:
    """Raise the error of an iterator that has ended, if there is one: when it meets damage, it just ends."""
    with translated():
        rows.status()


@contextmanager
def translated(unknown: type[StorageError] = StorageError) -> Iterator[None]:
    """Translate RocksDB's errors, which are sentences, into ours. ``unknown``: the class for any other sentence."""
    try:
        yield
    except Exception as error:
        _raise_unless_foreign(error)
        raise _meaning(str(error), unknown) from error


def _raise_unless_foreign(error: Exception) -> None:
    """rocksdict raises plain Exception, and the file of marks raises OSError. Any other error is ours, or a bug of
    ours."""
    if type(error) is not Exception and not isinstance(error, OSError):
        raise error


def _meaning(text: str, unknown: type[StorageError] = StorageError) -> StorageError:
    if any(words in text for words in FULL_WORDS):
        return DiskFull(f"there is no room for the log: {text}")
    if any(words in text for words in LOCK_WORDS):
        return LogInUse("another process has this log open; stop it, or use a command that only reads")
    if any(words in text for words in REFUSED_WORDS):
        return StorageError(text)
    if any(words in text for words in DAMAGE_WORDS):
        return StoreCorrupt(text)
    return unknown(text)
