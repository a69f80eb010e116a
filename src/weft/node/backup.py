"""Backups of a node: its whole data directory, taken while it runs, and put back under a new epoch.

A backup is a directory. It holds a copy of the log, the node's other files (id, certificates, keys, trust), and
``backup.json``, which describes it. A node does not start on a backup, because it would give offsets again that the
original node has given to other events. ``restore`` begins a new epoch, so nothing can be mixed up.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from weft import __version__
from weft.errors import StorageError, UsageError
from weft.log.backup import copy_log, is_of_log
from weft.log.marks_file import MarksFile
from weft.log.recovery import FORMAT
from weft.log.rocks_store import holds_data
from weft.log.survey import Progress
from weft.model import Epoch
from weft.node.identity import FILE as NODE_ID_FILE
from weft.security.files import private_directory, read_file, sync_directory, write_private

BACKUP_FILE: Final = "backup.json"
MANIFEST_BYTES_MAX: Final = 64 * 1024
BACKUP_VERSION: Final = 1
PARTIAL: Final = ".partial"  # of a backup, or a data directory, that is not complete yet
OTHER_FILE_BYTES_MAX: Final = 256 << 20  # the replay journals of gateways are the largest


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``backup.json``."""

    version: int
    weft: str
    node: str
    taken_ms: int  # Unix time
    log_format: int
    epoch: int
    streams: int
    events: int
    files: int  # beside the log
    log_only: bool


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    backup: Backup
    epoch: int  # in which the node's streams go on


def take_backup(data: Path, target: Path, *, log_only: bool, now_ms: int, progress: Progress | None = None) -> Backup:
    """Copy a node's data directory, also while the node runs. The backup appears completely or not at all."""
    check_is_no_backup(data)
    if not (holds_data(data) or MarksFile(data).read() is not None):
        raise UsageError(f"{data} holds no log")
    with _whole(target, data) as fresh:
        copied = copy_log(data, fresh, progress=progress)
        names = [] if log_only else list(_other_files(data))
        _copy_files(data, fresh, names)
        backup = Backup(
            version=BACKUP_VERSION,
            weft=__version__,
            node=_node_id(data),
            taken_ms=now_ms,
            log_format=FORMAT,
            epoch=copied.epoch,
            streams=copied.streams,
            events=copied.events,
            files=len(names),
            log_only=log_only,
        )
        write_private(fresh / BACKUP_FILE, msgspec.json.format(msgspec.json.encode(backup)))
    return backup


def restore(source: Path, data: Path, *, now_ms: int, progress: Progress | None = None) -> Restored:
    """Make a data directory from a backup. The node's streams go on in a new epoch, so the offsets that it gave after
    the backup was taken are not given again."""
    backup = read_backup_untrusted(source)
    with _whole(data, source) as fresh:
        copied = copy_log(source, fresh, lambda epoch: Epoch(max(now_ms, epoch + 1)), progress)
        _copy_files(source, fresh, [name for name in _other_files(source) if name != Path(BACKUP_FILE)])
        if backup.log_only and backup.node:
            write_private(fresh / NODE_ID_FILE, f"{backup.node}\n".encode())
    return Restored(backup=backup, epoch=copied.epoch)


def read_backup_untrusted(path: Path) -> Backup:
    """Raise UsageError if the directory holds no backup, StorageError if this version of Weft cannot read it."""
    text = read_file(path / BACKUP_FILE, MANIFEST_BYTES_MAX) if path.is_dir() else None
    if text is None:
        raise UsageError(f"{path} is not a backup: it has no {BACKUP_FILE} (weft backup makes one)")
    try:
        backup = msgspec.json.decode(text, type=Backup)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(f"{path / BACKUP_FILE} is damaged: {error}") from None
    if backup.version != BACKUP_VERSION:
        raise StorageError(
            f"{path} was made by weft {backup.weft}; this is {__version__}, which does not know such backups",
            version=backup.version,
            known=BACKUP_VERSION,
        )
    return backup


def check_is_no_backup(data: Path) -> None:
    """Raise UsageError if this is a backup that somebody is about to use as a data directory."""
    if (data / BACKUP_FILE).exists():
        raise UsageError(f"{data} is a backup: make a data directory from it with `weft restore {data} --data DIR`")


@contextmanager
def _whole(target: Path, source: Path) -> Iterator[Path]:
    """A directory to fill, which becomes ``target`` at the end. If that fails, nothing of it stays."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} exists and is not empty: name a directory that is new")
    if target.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{target} is inside {source}: name a directory outside of it")
    fresh = target.with_name(target.name + PARTIAL)
    shutil.rmtree(fresh, ignore_errors=True)  # left by one that was killed
    private_directory(fresh)
    try:
        yield fresh
        sync_directory(fresh)
        fresh.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise StorageError(f"cannot write {target}: {error.strerror or error}") from None
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _other_files(data: Path) -> Iterator[Path]:
    """All files except the log, locks, and files that are just being replaced; as paths below ``data``."""
    for place, inner, files in os.walk(data):
        here = Path(place).relative_to(data)
        if here == Path():
            inner[:] = [name for name in inner if not is_of_log(name)]
            files = [name for name in files if not is_of_log(name)]
        for name in sorted(files):
            hidden = name.startswith(".") and name.endswith((".lock", ".new"))
            if not hidden and not (data / here / name).is_symlink():
                yield here / name


def _copy_files(source: Path, target: Path, names: list[Path]) -> None:
    """Every process that changes one of these files replaces it completely, so a copy is never half of one."""
    for name in names:
        content = read_file(source / name, OTHER_FILE_BYTES_MAX)
        if content is not None:  # None: gone meanwhile
            private_directory((target / name).parent)
            write_private(target / name, content)


def _node_id(data: Path) -> str:
    text = read_file(data / NODE_ID_FILE, 1024)
    return "" if text is None else text.decode("utf-8", "replace").strip()
