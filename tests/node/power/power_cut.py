"""A power cut, after the fact: a killed process's files get back what they held before writes that were never synced.

``unsynced.c`` notes every write with what it overwrote, every sync, rename and removal. Of the writes that no finished
sync covers, a disk without power keeps what it likes. Here each file keeps some of the first ones, whatever the others
keep: the order within a file is that of the journal of the file system, that between files is nobody's.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

SOURCE: Final = Path(__file__).with_name("unsynced.c")
RECORD: Final = struct.Struct("=BIQQQQQ")
WRITE, SYNC, SYNCED, RENAME, REMOVE = range(1, 6)
COMPILER: Final = shutil.which("cc") or shutil.which("gcc")


def build(directory: Path) -> Path:
    """The library to preload."""
    assert COMPILER is not None, "whoever has none skips"
    library = directory / "unsynced.so"
    subprocess.run(
        [COMPILER, "-O1", "-Wall", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True, timeout=60
    )
    return library


def environment(library: Path, directory: Path, journal: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "POWER_DIR": str(directory), "POWER_LOG": str(journal)}


@dataclass(frozen=True)
class Overwritten:
    """One write: where, how long the file was, and what was there before."""

    number: int
    offset: int
    size: int
    old: bytes


@dataclass(frozen=True)
class Cut:
    """What a power cut has taken."""

    writes_unsynced: int
    writes_lost: int


def cut_power(journal: Path, chance: Random) -> Cut:
    """Take back what the disk did not keep. The process is gone."""
    unsynced = _unsynced(journal.read_bytes())
    lost = 0
    for path, writes in unsynced.items():
        kept = chance.randint(0, len(writes))
        for write in reversed(writes[kept:]):
            _take_back(Path(path), write)
        lost += len(writes) - kept
    return Cut(sum(map(len, unsynced.values())), lost)


def _unsynced(journal: bytes) -> dict[str, list[Overwritten]]:
    unsynced: dict[str, list[Overwritten]] = {}
    for kind, path, number, offset, size, old in _records(journal):
        if kind == WRITE:
            unsynced.setdefault(path, []).append(Overwritten(number, offset, size, old))
        elif kind == SYNCED:  # with the number of its beginning: later writes are not covered
            unsynced[path] = [write for write in unsynced.get(path, []) if write.number > number]
        elif kind == RENAME:
            unsynced[old.decode()] = unsynced.pop(path, [])
        elif kind == REMOVE:
            unsynced.pop(path, None)
    return {path: writes for path, writes in unsynced.items() if writes and Path(path).exists()}


def _records(journal: bytes) -> Iterator[tuple[int, str, int, int, int, bytes]]:
    """Until the end, or the one in which the process was killed: that write has not begun."""
    at = 0
    while at + RECORD.size <= len(journal):
        kind, path_bytes, number, offset, _, size, old_bytes = RECORD.unpack_from(journal, at)
        at += RECORD.size
        end = at + path_bytes + old_bytes
        if end > len(journal):
            return
        yield kind, journal[at : at + path_bytes].decode(), number, offset, size, journal[at + path_bytes : end]
        at = end


def _take_back(path: Path, write: Overwritten) -> None:
    with path.open("r+b") as file:
        file.seek(write.offset)
        file.write(write.old)
        file.truncate(write.size)
