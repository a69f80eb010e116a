"""For a log that has lost something: say what, and, on request, go on with what is left.

Repair invents nothing. Lost offsets are never given again: the log's own streams go on under a new epoch, in which
offsets begin at 0 again. What is left of the old epoch stays readable, with notes where events are missing. A copy of
another node's stream that has lost its end is cut there: its origin has the rest, and the link fetches it again.

A repair works on a copy, which replaces the log when the copy is complete. A repair that was killed before that starts
again; one that was killed later is finished by the next process that opens the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.log.claim import Claim, looks
from weft.log.errors import DiskFull, LogDamaged, Loss
from weft.log.marks_file import MARKS_FILE, MarksFile, sync_directory, sync_files
from weft.log.rebuild import Rebuild, Repaired
from weft.log.recovery import find_trouble, read_promises
from weft.log.rocks_store import DATABASE_DIR, RocksStore
from weft.log.salvage import copied, forget_copies, opened_for_looking
from weft.log.store import Store
from weft.log.survey import Progress, Survey, losses
from weft.model.stream import Epoch

__all__ = ["Health", "Repaired", "check", "diagnose", "examine", "finish_repair", "place_of", "repair"]

REPAIRED_DIR: Final = "repaired"  # the complete copy
DAMAGED_DIR: Final = "damaged"  # the database that it replaces
READY_FILE: Final = "ready"


@dataclass(frozen=True, slots=True)
class Health:
    """What a log promised, what it has, and what is wrong with it."""

    epoch: Epoch | None
    streams: int
    events: int
    bytes: int
    losses: tuple[Loss, ...]
    damaged: tuple[Loss, ...]  # batches that are there, but differ from what was stored
    trouble: str = ""  # why the log does not open, or cannot be read everywhere

    @property
    def damage(self) -> tuple[object, ...]:
        return (self.losses, self.damaged, self.trouble)

    @property
    def is_sound(self) -> bool:
        return not any(self.damage)


def check(path: Path, progress: Progress | None = None) -> Health:
    """Read all of a log without changing it, even one that does not open, or that a node has open."""
    before: Health | None = None
    for _ in looks(path):
        with opened_for_looking(place_of(path)) as (store, trouble):
            health = examine(store, progress, trouble)
        if health.is_sound or (before is not None and health.damage == before.damage):
            break  # the damaged parts stay damaged
        before = health
    return health


def diagnose(path: Path, error: LogDamaged) -> LogDamaged:
    """Return the same error with what the log has lost, as a repair would find it."""
    try:
        return LogDamaged(error.what, check(path).losses)
    except DiskFull as full:
        return LogDamaged(f"{error.what}. What it has lost cannot be told, because that takes a copy: {full}")


def examine(store: Store, progress: Progress | None = None, trouble: str = "") -> Health:
    """Compare what is there with what was promised."""
    promises = read_promises(store)
    survey = Survey(store, promises, progress)
    found = survey.found()
    survey.read_tables()
    if not trouble and survey.unreadable:
        trouble = survey.unreadable[0]
    elif not trouble and (survey.epoch() is not None or survey.streams):
        trouble = find_trouble(store, promises, survey.meta("epoch"))
    damaged = [
        Loss(survey.streams[number].stream, survey.streams[number].epoch, first, end)
        for number, each in found.items()
        if number in survey.streams
        for first, end in each.damaged
    ]
    return Health(
        survey.epoch(),
        len(survey.streams),
        sum(each.events for each in found.values()),
        sum(each.bytes for each in found.values()),
        tuple(losses(survey, found)),
        tuple(damaged),
        trouble,
    )


def repair(path: Path, mint_epoch: Callable[[], Epoch], progress: Progress | None = None) -> Repaired:
    """Make a damaged log usable again, without what it has lost."""
    with Claim(path):
        finish_repair(path)
        forget_copies(path)
        with copied(path) as copy:
            with closing(RocksStore(copy, skip_damage=True)) as store:
                survey = Survey(store, read_promises(store), progress)
                found = survey.found()
                survey.read_tables()
                if survey.unreadable:  # RocksDB cannot delete what it cannot read, so the rest moves to a new database
                    with closing(RocksStore(path / REPAIRED_DIR)) as fresh:
                        repaired = Rebuild(survey, found, fresh).run(mint_epoch)
                else:
                    repaired = Rebuild(survey, found, store).run(mint_epoch)
            if not survey.unreadable:
                copy.rename(path / REPAIRED_DIR)
        sync_files(path / REPAIRED_DIR / DATABASE_DIR)  # some were copied, and RocksDB syncs only what it writes
        (path / REPAIRED_DIR / READY_FILE).touch()
        sync_directory(path / REPAIRED_DIR)
        finish_repair(path)
    return repaired


def place_of(path: Path) -> Path:
    """Where the log of a directory is: in the complete copy, if a repair was killed before the copy replaced it."""
    copy = path / REPAIRED_DIR
    return copy if (copy / READY_FILE).exists() and (copy / DATABASE_DIR).exists() else path


def finish_repair(path: Path) -> None:
    """Put a complete copy in the place of the log; remove an incomplete one.

    The database comes last: until it is in its place, the copy has all there is (``place_of``).
    """
    copy = place_of(path)
    if copy != path:
        marks = MarksFile(path)
        marks.replace((copy / MARKS_FILE).read_bytes())
        marks.close()
        if (path / DATABASE_DIR).exists():
            shutil.rmtree(path / DAMAGED_DIR, ignore_errors=True)
            (path / DATABASE_DIR).rename(path / DAMAGED_DIR)
        (copy / DATABASE_DIR).rename(path / DATABASE_DIR)
        sync_directory(path)
    for done in (path / REPAIRED_DIR, path / DAMAGED_DIR):
        shutil.rmtree(done, ignore_errors=True)
