"""Merging small files into large ones: choosing files that belong together (pure), and rewriting them on executors.
Also removing files that nobody needs any longer: those that compaction replaced, and those of dead attempts."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.lake.files import Attempt, DataFile, WrittenFile, batch_of
from weft.lake.settings import TableSettings
from weft.pipelines.lake.reading import columns_of, file_rows
from weft.pipelines.lake.table import Table, open_table
from weft.pipelines.lake.writing import FileWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY: Final = "compact"  # stands for the query in names of files
LAKE_BATCH_S_MAX: Final = 7 * 86_400  # no batch runs longer, so files this old cannot belong to a running one
SMALL_SHARE: Final = 0.75  # of the target size: a file above this is left as it is


# --- small files to large ones ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bin:
    """Files of one partition that become one."""

    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def plan(files: Sequence[DataFile], target_bytes: int) -> list[Bin]:
    """Group small neighbouring files of a partition up to the target. Names sort by query and batch, so by time."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = {}
    for file in sorted(files, key=lambda each: each.path):
        if file.size_bytes < target_bytes * SMALL_SHARE:
            partitions.setdefault(tuple(file.partition.items()), []).append(file)
    return [each for small in partitions.values() for each in _bins(small, target_bytes)]


def _bins(files: Sequence[DataFile], target_bytes: int) -> Iterator[Bin]:
    together: list[DataFile] = []
    size_bytes = 0
    for file in files:
        if together and size_bytes + file.size_bytes > target_bytes:
            yield from _worth_it(together)
            together, size_bytes = [], 0
        together.append(file)
        size_bytes += file.size_bytes
    yield from _worth_it(together)


def _worth_it(files: Sequence[DataFile]) -> Iterator[Bin]:
    if len(files) > 1:
        yield Bin(tuple(files))


def rewrite(
    spark: SparkSession, table: Table, bins: Sequence[Bin], columns: pa.Schema | None = None
) -> list[WrittenFile]:
    """Write the rows of each bin to a new file that is not yet part of the table; a task per bin. ``columns``: the
    columns of the new files; unset: those that the table has."""
    if not bins:
        return []
    settings, schema = table.settings, columns_of(table.schema()) if columns is None else columns

    def rewritten(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            files = rewrite_bin(settings, schema, bins[number], secrets.token_hex(8))
            yield pa.record_batch({"files": pa.array([pickle.dumps(files)], pa.binary())})

    tasks = spark.range(0, len(bins), 1, len(bins))
    rows = tasks.mapInArrow(rewritten, "files binary").collect()
    return [file for row in rows for file in pickle.loads(row.files)]  # noqa: S301  from our own tasks


def rewrite_bin(settings: TableSettings, schema: pa.Schema, together: Bin, token: str) -> list[WrittenFile]:
    """Rewrite one bin; runs on an executor."""
    store = settings.store()
    rows = (batch for file in together.files for batch in file_rows(store, schema, file))
    attempt = Attempt(QUERY, 0, 0, token)
    return FileWriter(settings, schema, attempt, open_table(settings).place).write_all(rows)


# --- files that nobody needs -----------------------------------------------------------------------------------------


def vacuum(table: Table, *, now_s: float, grace_s: float) -> list[str]:
    """Remove files that the table has not needed for ``grace_s``, but none of a batch that may be running."""
    store = table.settings.store()
    queries = {batch[0] for path in table.forget(now_s, grace_s) if (batch := batch_of(path))}
    committed = {query: table.committed(query) for query in queries}
    # List files again, now that we know which batches are committed. Otherwise, if a batch was committed between the
    # first listing and the look at batches, its own files would be taken for those of a dead attempt.
    removed = []
    for path in table.forget(now_s, grace_s):
        facts = store.facts(path)
        if facts and is_dead(path, facts.written_s, committed, now_s):
            store.remove(path)
            removed.append(path)
    return removed


def is_dead(path: str, written_s: float, committed: Mapping[str, int | None], now_s: float) -> bool:
    """Whether nobody will ask for a file that is not part of the table.

    A batch that is in the table needs no other files. Files of a later batch may be about to be committed, and so may
    files of compactions and of other programs, whose names say nothing. They stay until no batch can run that long.
    """
    batch = batch_of(path)
    last = None if batch is None else committed.get(batch[0])
    if batch is not None and last is not None and batch[1] <= last:
        return True
    return now_s - written_s >= LAKE_BATCH_S_MAX
