"""Getting as much as possible out of a damaged database: open it as it is, or open a copy in which RocksDB repairs its
own books.

The log itself stays as it is. Table files, which never change, are linked into the copy; the rest is copied.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from rocksdict import Rdict

from weft.log import keys
from weft.log.claim import looks
from weft.log.errors import StoreCorrupt
from weft.log.marks_file import MARKS_FILE, MarksFile
from weft.log.promises import decode
from weft.log.rocks_options import database_options
from weft.log.rocks_store import DATABASE_DIR, Fingerprint, RocksStore, holds_data, manifest_number, translated
from weft.log.store import Put, Space

COPY_PREFIX: Final = "diagnosis-"


@contextmanager
def opened_for_looking(path: Path) -> Iterator[tuple[RocksStore, str]]:
    """Open as much of the log as can be read, and say why it does not open as it is, if it does not. Nothing is
    changed."""
    store, trouble = _open(path)
    if store is not None:
        with closing(store):
            yield store, _lost_writes(path, store)
        return
    with copied(path) as copy, closing(RocksStore(copy, skip_damage=True)) as store:
        yield store, trouble


def _lost_writes(path: Path, store: RocksStore) -> str:
    """Say that a write-ahead log is damaged. ``store`` has everything that is left of it, so it cannot tell by
    itself."""
    marks = store.read_marks()
    promised = 0 if marks is None else decode(marks).sequence
    try:
        with closing(RocksStore(path, read_only=True)) as before_damage:
            missing = promised - before_damage.sequence()
    except StoreCorrupt as error:
        return str(error)
    if missing <= 0:
        return ""
    return (
        f"the write-ahead log is damaged, {missing} writes before its end; positions of groups and peers may be older "
        "than they were"
    )


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """Make a copy of the log that opens, with what is left."""
    with translated():
        place = tempfile.TemporaryDirectory(prefix=COPY_PREFIX, dir=path, ignore_cleanup_errors=True)
    with place as name:
        copy = Path(name)
        with translated():
            if (path / DATABASE_DIR).exists():
                shutil.copytree(path / DATABASE_DIR, copy / DATABASE_DIR, copy_function=_link_or_copy)
            if (path / MARKS_FILE).exists():
                shutil.copy2(path / MARKS_FILE, copy / MARKS_FILE)
            _mend(copy)
        yield copy


def forget_copies(path: Path) -> None:
    """Remove the copies that a killed diagnosis has left behind."""
    for left in path.glob(f"{COPY_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def _open(path: Path) -> tuple[RocksStore | None, str]:
    """Open the log read-only, if it opens and its books are the ones that were noted."""
    trouble = ""
    for _ in looks(path):
        try:
            store = RocksStore(path, read_only=True, skip_damage=True)
        except StoreCorrupt as error:
            trouble = str(error)
        else:
            trouble = store.contradiction(_fingerprint(store.read_marks()))
            if not trouble:
                return store, ""
            store.close()
    return None, trouble


def _fingerprint(marks: bytes | None) -> bytes:
    return b"" if marks is None else decode(marks).fingerprint


def _mend(copy: Path) -> None:
    """Make a copy openable: with another CURRENT, if that is enough, or with books that RocksDB writes again."""
    if not holds_data(copy) or _opens(copy):
        return
    database = copy / DATABASE_DIR
    manifests = sorted(database.glob("MANIFEST-*"), key=lambda file: manifest_number(file.name))
    if manifests:
        (database / "CURRENT").write_text(f"{manifests[-1].name}\n")
        if _opens(copy):
            return
    _remove_old_logs(copy)
    _add_table_file(copy)
    with translated(StoreCorrupt):
        Rdict.repair(str(database), database_options(skip_damage=True)[0])
    shutil.rmtree(database / "lost", ignore_errors=True)


def _opens(copy: Path) -> bool:
    store, _ = _open(copy)
    if store is not None:
        store.close()
    return store is not None


def _remove_old_logs(copy: Path) -> None:
    """Remove write-ahead logs that wait to be recycled: RocksDB's repair would take them for new ones."""
    fingerprint = _fingerprint(MarksFile(copy).read())
    if fingerprint:
        oldest = msgspec.msgpack.decode(fingerprint, type=Fingerprint).oldest_wal
        for log in (copy / DATABASE_DIR).glob("*.log"):
            if int(log.stem) < oldest:
                log.unlink()


def _add_table_file(copy: Path) -> None:
    """RocksDB's repair learns of the space TABLES from its table files only. If none is left, it would throw away what
    the write-ahead log has for that space, and everything written together with that. So lend it a table file from
    another log."""
    with tempfile.TemporaryDirectory(dir=copy) as place:
        with closing(RocksStore(Path(place))) as other:
            other.write([Put(Space.TABLES, keys.meta_key("lent"), b"0")])
            other.flush(wait=True)
        number = max((int(file.stem) for file in (copy / DATABASE_DIR).iterdir() if file.stem.isdigit()), default=0)
        for file in (Path(place) / DATABASE_DIR).glob("*.sst"):
            number += 1
            shutil.copy2(file, copy / DATABASE_DIR / f"{number:06d}.sst")


def _link_or_copy(source: str, target: str) -> str:
    with translated():  # here, because ``copytree`` would try all the other files before it raises an OSError
        if source.endswith(".sst"):
            try:
                os.link(source, target)
            except OSError:  # not every file system has links
                shutil.copy2(source, target)
        else:
            shutil.copy2(source, target)
    return target
