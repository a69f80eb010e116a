"""The log: whether everything that was promised is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.cli.examination import Finding, Patient, bad, ok, warning
from weft.cli.tables import human_bytes
from weft.limits import MIB
from weft.log import repair
from weft.log.marks_file import MarksFile
from weft.log.rocks_store import holds_data

READ_BYTES_MAX: Final = 1024 * MIB  # a few seconds; ``weft log check`` reads logs of any size


def log(patient: Patient) -> Iterator[Finding]:
    """Read all of it, also while a node writes to it."""
    data = patient.config.node.data
    if not data.is_dir() or not (holds_data(data) or MarksFile(data).read() is not None):
        yield ok("log", "there is none yet")
        return
    size = sum(each.stat().st_size for each in _files(data))
    if size > READ_BYTES_MAX:
        yield warning("log", f"{human_bytes(size)}, too much to read all of it here", f"weft log check --data {data}")
        return
    health = repair.check(data)
    if health.is_sound:
        yield ok("log", f"{human_bytes(size)}, everything that was promised is there")
    else:
        yield bad(
            "log",
            "acknowledged data is lost or damaged",
            f"weft log check --data {data} says which, weft log repair continues with the rest",
        )


def _files(data: Path) -> Iterator[Path]:
    return (each for each in data.rglob("*") if each.is_file() and not each.is_symlink())
