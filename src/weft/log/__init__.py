"""The event log: durable streams of batches, on RocksDB or in memory.

- ``open_log(path, mint_epoch)`` opens one on disk, or says exactly what it has lost (``LogDamaged``);
  ``open_read_only(path)`` reads one without changing it, also while a node has it open.
- ``Log``: append, sync, read, seek, positions of groups and peers. ``Syncer`` is the thread that syncs over and over.
- ``retention`` and ``compaction`` delete what nobody needs; ``survey`` and ``repair`` deal with damage.

What was acknowledged is still there after kill -9, a power cut or a torn write. If some of it cannot be read, the log
says exactly what.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from weft.errors import UsageError
from weft.limits import DISK_RESERVE_BYTES, SEGMENT_BYTES
from weft.log.catalogue import StreamInfo
from weft.log.claim import Claim, looks
from weft.log.errors import LogDamaged, StoreCorrupt
from weft.log.log import RECENT_BYTES_MAX, Appended, Log
from weft.log.marks_file import MarksFile
from weft.log.memory_store import MemoryStore
from weft.log.promises import Promises, decode
from weft.log.recovery import Recovered, create, read_promises, recover
from weft.log.repair import diagnose, examine, finish_repair, place_of
from weft.log.rocks_store import RocksStore, holds_data
from weft.log.salvage import forget_copies
from weft.log.store import Store
from weft.model.stream import Epoch

__all__ = ["Appended", "Log", "MemoryStore", "RocksStore", "StreamInfo", "open_log", "open_read_only", "open_store"]


def open_store(
    store: Store,
    mint_epoch: Callable[[], Epoch],
    *,
    segment_bytes: int = SEGMENT_BYTES,
    disk_reserve_bytes: int = DISK_RESERVE_BYTES,
    recent_bytes: int = RECENT_BYTES_MAX,
) -> Log:
    """Open the log in a store, and recover it. Raise LogDamaged, and change nothing, if it has less than it
    promised."""
    try:
        recovered = recover(store, read_promises(store)) or create(store, mint_epoch)
    except LogDamaged as error:
        raise LogDamaged(error.what, examine(store).losses) from None
    return Log(
        store,
        recovered,
        segment_bytes=segment_bytes,
        disk_reserve_bytes=disk_reserve_bytes,
        recent_bytes=recent_bytes,
    )


def open_log(
    path: Path,
    mint_epoch: Callable[[], Epoch],
    *,
    segment_bytes: int = SEGMENT_BYTES,
    disk_reserve_bytes: int = DISK_RESERVE_BYTES,
    recent_bytes: int = RECENT_BYTES_MAX,
    prepared_bytes: int = 0,
) -> Log:
    """Open the log in a directory; make one if there is none. ``mint_epoch`` gives the epoch of a new log.
    ``prepared_bytes``: see ``RocksStore.prepare``. This is skipped where the disk has no room for it beside its
    reserve.

    Raise LogDamaged, with every stream and offset that is gone, if it has less than it promised. The log is checked
    before it is opened for writing, because RocksDB throws away what it cannot recover, and a repair may still need
    that.
    """
    path.mkdir(parents=True, exist_ok=True)
    claim = Claim(path)
    try:
        finish_repair(path)
        forget_copies(path)
        recovered = _look(path, claim)
        if recovered is None:
            _begin(path)
    except BaseException:
        claim.release()
        raise
    store = RocksStore(path, claim=claim)
    try:
        recovered = recovered or create(store, mint_epoch)
        if prepared_bytes and store.free_bytes() > 2 * prepared_bytes + disk_reserve_bytes:
            store.prepare(prepared_bytes)
        return Log(
            store,
            recovered,
            segment_bytes=segment_bytes,
            disk_reserve_bytes=disk_reserve_bytes,
            recent_bytes=recent_bytes,
        )
    except BaseException:
        store.close()
        raise


def open_read_only(path: Path) -> Log:
    """Open the log in a directory read-only, as it is now, also while a node has it open. Raise LogDamaged as
    ``open_log`` does."""
    damage = LogDamaged("")
    for _ in looks(path):
        try:
            return _open_read_only(place_of(path))
        except StoreCorrupt as error:
            damage = LogDamaged(f"the log does not open: {error}")
        except LogDamaged as error:
            damage = error
    raise diagnose(path, damage)


def _open_read_only(path: Path) -> Log:
    store = RocksStore(path, read_only=True)
    try:
        recovered = recover(store, read_promises(store))
        if recovered is None:
            raise UsageError(f"{path} holds no log")
        return Log(store, recovered, read_only=True)
    except BaseException:
        store.close()
        raise


def _look(path: Path, claim: Claim) -> Recovered | None:
    """Recover what there is without changing it; None if there is nothing yet."""
    marks = MarksFile(path).read()
    promises = None if marks is None else decode(marks)
    promised = promises is not None and bool(promises.streams or promises.damaged_at is not None)
    if not holds_data(path) and not promised:
        return None
    try:
        with closing(RocksStore(path, read_only=True, claim=claim)) as store:
            return recover(store, promises)
    except StoreCorrupt as error:
        if promises is not None and not promised:
            return None  # a new log whose process was killed while RocksDB was making it
        raise diagnose(path, LogDamaged(f"the log does not open: {error}")) from error
    except LogDamaged as error:
        raise diagnose(path, error) from None


def _begin(path: Path) -> None:
    """Write the marks before the database exists: so a database without marks has lost them."""
    marks = MarksFile(path)
    if marks.read() is None:
        marks.replace(Promises().encode())
        marks.close()
