"""Files that hold secrets: for their owner only, replaced all at once, read again when another process changed them.
And where the directories with such files are.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

from weft.errors import StorageError, WeftError
from weft.limits import MIB, SECURITY_RELOAD_INTERVAL_S

SECURITY_FILE_BYTES_MAX: Final = 16 * MIB  # keys, trust, certificates: 40,000 keys of devices
PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
OTHERS: Final = 0o077  # group and everybody

T = TypeVar("T")
Stamp = tuple[int, int, int, int]  # inode, size, time of the last change, mode: chmod alone does not change the time


def private_directory(path: Path) -> Path:
    """Make the directory, for its owner only, if it is not there."""
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make {path}: {error.strerror}") from None
    return path


def stamp_of(path: Path) -> Stamp | None:
    """Changes when the file does; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def read_private(path: Path, bytes_max: int = SECURITY_FILE_BYTES_MAX) -> bytes | None:
    """Like ``read_file``; raise StorageError also if others may read it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
    if mode & OTHERS:
        raise StorageError(f"{path} holds secrets and is open to others: chmod 600 {path}", mode=oct(mode & 0o777))
    return read_file(path, bytes_max)


def read_file(path: Path, bytes_max: int = SECURITY_FILE_BYTES_MAX) -> bytes | None:
    """The content of the file, None if there is none; raise StorageError if it is too large."""
    try:
        with path.open("rb") as stream:
            data = stream.read(bytes_max + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > bytes_max:
        raise StorageError(f"{path} is too large", limit=bytes_max)
    return data


def write_private(path: Path, data: bytes) -> None:
    """Replace the file: a reader sees the old or the new one, and after a power cut it is one of the two."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None


def remove_private(path: Path) -> None:
    """Remove the file, if it exists; after a power cut it may exist again."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {error.strerror}") from None


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file between reading and replacing it."""
    try:
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    except OSError as error:
        raise StorageError(f"cannot lock {path}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Watched(Generic[T]):
    """A file's content as a value, read again when the file has changed.

    The file is checked at most once in SECURITY_RELOAD_INTERVAL_S. If it can no longer be read, the last good value
    stays in place, and ``problem`` says so: one slip in an editor must not lock everybody out.
    """

    def __init__(self, path: Path, read: Callable[[bytes | None], T], now_s: float) -> None:
        """Raise StorageError if the file is damaged from the start."""
        self._path = path
        self._read = read
        self._stamp = stamp_of(self._path)
        self._value = read(read_private(path))
        self._looked_s = now_s
        self.problem: str | None = None

    def get(self, now_s: float) -> T:
        """``now_s`` is of a monotonic clock."""
        if now_s - self._looked_s >= SECURITY_RELOAD_INTERVAL_S:
            self._looked_s = now_s
            self._reload()
        return self._value

    def get_anew(self, now_s: float) -> T:
        """Check the file first, for callers that miss something that may just have been written."""
        self._looked_s = now_s
        self._reload()
        return self._value

    def _reload(self) -> None:
        stamp = stamp_of(self._path)  # before reading: a change in between is noticed next time
        if stamp == self._stamp:
            self.problem = None  # if there was one, the file is again what it was
            return
        try:
            self._value = self._read(read_private(self._path))
        except WeftError as error:
            self.problem = str(error)
        else:
            self._stamp, self.problem = stamp, None


def ca_directory(data: Path) -> Path:
    """The embedded CA's, below the data directory of a node."""
    return data / "ca"


def tls_directory(data: Path) -> Path:
    """That of the node's own certificate."""
    return data / "tls"
