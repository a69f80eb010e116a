"""Who may write to a log: one process at a time, by a lock that ends with the process."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from weft.log.errors import LogInUse

CLAIM_FILE: Final = "claim"
LOOKS_MAX: Final = 10
LOOK_INTERVAL_S: Final = 0.1


class Claim:
    """The right to write to the log in ``path``. Raise LogInUse if another process has it."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = os.open(path / CLAIM_FILE, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise LogInUse(
                "another process has this log open; stop it, or use a command that only reads", path=path
            ) from None

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_claimed(path: Path) -> bool:
    """Whether some process is writing to the log just now."""
    try:
        file = os.open(path / CLAIM_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def looks(path: Path) -> Iterator[None]:
    """Yield once for each attempt to read a log that looks damaged: several if a process is writing to it, else one.

    The writing process moves events to new files and removes the old ones, even while others open them.
    """
    for look in range(LOOKS_MAX):
        if look:
            time.sleep(LOOK_INTERVAL_S)
        claimed = is_claimed(path)
        yield
        if not claimed:
            return
