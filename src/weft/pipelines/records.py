"""Which pipelines run on this machine, and how they are doing: for each run a small file, and a lock while it runs.

A run is known by its name. To stop a run, a file is put beside its record. This works for any Spark master, and no
signal has to reach the driver.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from weft.errors import StorageError, UsageError

RECORD: Final = ".json"
LOCK: Final = ".lock"
STOP: Final = ".stop"


class QueryRecord(msgspec.Struct, frozen=True):
    """How one streaming query was doing when it last finished a batch."""

    query: str
    batch: int = -1
    rows: int = 0
    rows_per_s: float = 0.0
    batch_s: float = 0.0
    lag_events: int | None = None  # None: the source does not say
    rows_total: int = 0  # since this run began


class RunRecord(msgspec.Struct, frozen=True):
    """A run, as it was when this record was written."""

    name: str
    pipeline: str
    pid: int
    master: str
    config: str
    started_us: int
    updated_us: int
    state: str  # starting, running, ended, stopped or failed
    error: str | None = None
    queries: tuple[QueryRecord, ...] = ()


class Records:
    """The records of all runs in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.told: Callable[[RunRecord], None] = lambda record: None  # called with every record that is written

    @contextmanager
    def claim(self, name: str) -> Iterator[None]:
        """Be the only run of this name; raise UsageError if another one is alive. Drops an old request to stop."""
        with _translated(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._path(name, LOCK), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if not _locked(lock):
                raise UsageError(
                    f"a pipeline called '{name}' is running; give this one another name, or: weft pipeline stop {name}"
                )
            self._path(name, STOP).unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)

    def write(self, record: RunRecord) -> None:
        path = self._path(record.name, RECORD)
        fresh = path.with_suffix(f".{os.getpid()}")
        with _translated(path):
            fresh.write_bytes(msgspec.json.encode(record))
            fresh.replace(path)
        self.told(record)

    def all(self) -> list[tuple[RunRecord, bool]]:
        """Every run that left a record, and whether it is alive."""
        if not self.directory.is_dir():
            return []
        names = sorted(path.name.removesuffix(RECORD) for path in self.directory.glob(f"*{RECORD}"))
        return [self.get(name) for name in names]

    def get(self, name: str) -> tuple[RunRecord, bool]:
        path = self._path(name, RECORD)
        try:
            record = msgspec.json.decode(path.read_bytes(), type=RunRecord)
        except FileNotFoundError:
            raise UsageError(f"no pipeline called '{name}' has run here", directory=self.directory) from None
        except (OSError, msgspec.MsgspecError) as error:
            raise StorageError(f"cannot read {path}: {error}") from None
        return record, self.is_alive(name)

    def is_alive(self, name: str) -> bool:
        try:
            lock = os.open(self._path(name, LOCK), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not _locked(lock, shared=True)
        finally:
            os.close(lock)

    def ask_to_stop(self, name: str) -> None:
        with _translated(self.directory):
            self._path(name, STOP).touch()

    def is_asked_to_stop(self, name: str) -> bool:
        return self._path(name, STOP).exists()

    def _path(self, name: str, suffix: str) -> Path:
        return self.directory / f"{name}{suffix}"


def default_directory(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "weft" / "pipelines"


def _locked(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
