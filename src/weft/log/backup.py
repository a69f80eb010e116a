"""A copy of a whole log, taken while a node writes to it, and checked batch by batch.

The copy holds everything that was promised when the copying began, and perhaps some of what came later. It is a
complete log, with its own books, and shares no file with the original.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from weft.errors import UsageError
from weft.log.claim import CLAIM_FILE, looks
from weft.log.errors import LogDamaged
from weft.log.marks_file import MARKS_FILE
from weft.log.rebuild import Rebuild, Repaired
from weft.log.recovery import find_trouble, read_meta, read_promises
from weft.log.repair import DAMAGED_DIR, REPAIRED_DIR, place_of
from weft.log.rocks_store import DATABASE_DIR, RocksStore
from weft.log.salvage import COPY_PREFIX, opened_for_looking
from weft.log.survey import Found, Progress, Survey, losses
from weft.model.stream import Epoch

LOG_NAMES: Final = frozenset({DATABASE_DIR, MARKS_FILE, f"{MARKS_FILE}.new", CLAIM_FILE, REPAIRED_DIR, DAMAGED_DIR})


def is_of_log(name: str) -> bool:
    """Whether a name at the top of a data directory belongs to the log."""
    return name in LOG_NAMES or name.startswith(COPY_PREFIX)


def copy_log(
    source: Path,
    target: Path,
    epoch_after: Callable[[Epoch], Epoch] | None = None,
    progress: Progress | None = None,
) -> Repaired:
    """Copy the log of one directory into another, which must not have one. Raise LogDamaged if it is not sound.

    ``epoch_after`` takes the epoch of the log and returns the epoch in which the copy goes on; by default the same one.
    """
    damage = LogDamaged("")
    for _ in looks(source):
        with opened_for_looking(place_of(source)) as (store, trouble):
            survey = Survey(store, read_promises(store), progress)
            found = survey.found()
            survey.read_tables()
            epoch = survey.epoch()
            if epoch is None:
                raise UsageError(f"{source} holds no log")
            fault = trouble or _fault(survey, found)
            if not fault:
                with closing(RocksStore(target)) as fresh:
                    return Rebuild(survey, found, fresh).run(epoch if epoch_after is None else epoch_after(epoch))
            damage = LogDamaged(fault, tuple(losses(survey, found)))
    raise damage


def _fault(survey: Survey, found: dict[int, Found]) -> str:
    """Say why what was read is not a sound log; empty if it is one."""
    if survey.unreadable:
        return survey.unreadable[0]
    promises = None if survey.marks_missing else survey.promises
    if trouble := find_trouble(survey.store, promises, survey.meta("epoch")):
        return trouble
    if losses(survey, found):
        return "the log has less than it promised"
    if any(each.damaged for each in found.values()):
        return "a batch is not what was stored"
    return ""


def format_of(path: Path) -> int | None:
    """Return the format of the log in a directory; None if it does not say."""
    with closing(RocksStore(place_of(path), read_only=True)) as store:
        return read_meta(store, "format")
