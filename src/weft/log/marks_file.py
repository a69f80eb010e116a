"""The file of marks beside the database. Every sync appends to it; now and then it is replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MARKS_FILE: Final = "promised"


class MarksFile:
    """It is opened when it is first written to, so that a mere reader creates no file."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / MARKS_FILE
        self._file: int | None = None
        self._size = 0
        self._unsettled = False

    def read(self) -> bytes | None:
        try:
            return self._path.read_bytes() or None
        except FileNotFoundError:
            return None

    def append(self, data: bytes) -> None:
        """Append all or nothing: what a full disk keeps of it is removed again, so that no later record stands behind
        half a one."""
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._size = os.fstat(self._file).st_size
        try:
            _write_all(self._file, data)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)
        self._unsettled = True

    def replace(self, data: bytes) -> None:
        fresh = self._path.with_suffix(".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            _write_all(file, data)
            os.fdatasync(file)
            fresh.rename(self._path)
        except OSError:
            os.close(file)
            fresh.unlink(missing_ok=True)
            raise
        if self._file is not None:
            os.close(self._file)
        self._file, self._size, self._unsettled = file, len(data), False
        sync_directory(self._path.parent)

    def settle(self) -> None:
        if self._file is not None and self._unsettled:
            self._unsettled = False
            try:
                os.fdatasync(self._file)
            except OSError:
                self._unsettled = True
                raise

    def close(self) -> None:
        if self._file is not None:
            try:
                self.settle()
            finally:
                os.close(self._file)
                self._file = None


def sync_directory(path: Path) -> None:
    """Make it durable which files were created, renamed or removed in a directory."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def sync_files(directory: Path) -> None:
    """Make all files in a directory durable, and their names in it, too."""
    for path in directory.iterdir():
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    sync_directory(directory)


def _write_all(file: int, data: bytes) -> None:
    written = os.write(file, data)  # mostly this writes all of it
    while written < len(data):
        written += os.write(file, memoryview(data)[written:])
