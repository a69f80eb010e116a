"""Removing files that nobody needs any longer: those that compaction replaced, and those that dead attempts left
behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.lake.files import batch_of
from weft.pipelines.lake.table import Table

LAKE_BATCH_S_MAX: Final = 7 * 86_400  # no batch runs longer; files that may belong to a running one are left so long


def vacuum(table: Table, *, now_s: float, grace_s: float) -> list[str]:
    """Remove what the table has no use for since ``grace_s``, and nothing of a batch that may be running."""
    store = table.settings.store()
    queries = {batch[0] for path in table.forget(now_s, grace_s) if (batch := batch_of(path))}
    committed = {query: table.committed(query) for query in queries}
    # Looked for once more, now that it is known which batches are in: a batch that was committed between a listing and
    # that knowledge would have its own files taken for those of a dead attempt.
    removed = []
    for path in table.forget(now_s, grace_s):
        facts = store.facts(path)
        if facts and is_dead(path, facts.written_s, committed, now_s):
            store.remove(path)
            removed.append(path)
    return removed


def is_dead(path: str, written_s: float, committed: Mapping[str, int | None], now_s: float) -> bool:
    """Whether nobody will ask for a file that is not part of the table.

    A batch that is in the table needs no other files. Those of a later batch may be on their way in; so may be files
    of compactions and of other programs, whose names say nothing. They are left until no batch can run that long.
    """
    batch = batch_of(path)
    last = None if batch is None else committed.get(batch[0])
    if batch is not None and last is not None and batch[1] <= last:
        return True
    return now_s - written_s >= LAKE_BATCH_S_MAX
