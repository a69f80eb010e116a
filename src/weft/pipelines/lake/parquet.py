"""Plain Parquet in directories, for readers that know nothing else: a listing shows exactly the committed rows.

Tasks write hidden files. Then the driver writes a *decision*, which names the files that become visible and the files
that go. It replaces the query's last decision by compare and set, so of two drivers at the same batch one wins. Then
the driver carries the decision out by moving and removing files. If it is interrupted, the next writer that opens the
table finishes the job, always before a new decision takes the old one's place.

While a decision is carried out, a listing shows only a part of it: for milliseconds in a directory, for a moment per
file in a store. Readers that cannot tolerate that should use Delta. (ADR 22, 42) ``weft.lake.parquet`` has the layout,
and reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from weft.lake.files import DataFile, WrittenFile, visible
from weft.lake.parquet import DESCRIPTION, STAGED, Decision, ParquetFiles, Taken, decision_path, visible_file
from weft.limits import LAKE_COMMIT_ATTEMPTS
from weft.pipelines.lake.reading import nullable, read_files
from weft.pipelines.lake.table import TableChanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

REPLACING: Final = "replace"  # stands for the query in compaction's decisions


class ParquetLake(ParquetFiles):
    """Parquet files in a directory or in an object store."""

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._described()["schema"])

    def create(self, schema: StructType) -> None:
        self._store.check(writing=True)
        self._store.swap(DESCRIPTION, _description(schema, self.settings.partition_by), None)

    @property
    def takes_wider_types(self) -> bool:
        return False  # a reader that lists files takes the types from one of them

    def grow(self, schema: StructType) -> None:
        was = self._store.read(DESCRIPTION)
        if not self._store.swap(DESCRIPTION, _description(schema, self.partition_by()), was):
            raise TableChanged("somebody else changed the table's columns", table=self.settings.path)

    def widen(self, schema: StructType, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> bool:
        # Files first: if we are killed in between, the next run finds the old description and repeats everything.
        self.replace(removed, added)
        self.grow(schema)
        return True

    def partition_by(self) -> tuple[str, ...]:
        return tuple(self._described()["partition_by"])

    def committed(self, query: str) -> int | None:
        last = self._carried_out(query)  # a caller never repeats a batch reported here, so it must be fully in
        return None if last is None else last.decision.batch

    def commit(self, files: Sequence[WrittenFile], query: str, batch: int) -> bool:
        for _ in range(LAKE_COMMIT_ATTEMPTS):
            last = self._carried_out(query)
            if last is not None and last.decision.batch >= batch:  # batch 0 is a batch: compare with None
                return False
            if self._decide(query, Decision(batch, [file.path for file in files], []), last):
                return True
        raise self._crowded()

    def files(self) -> list[DataFile]:
        self._carry_out_all()
        return [visible_file(path, facts.size_bytes) for path, facts in visible(self._store)]

    def replace(self, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> None:
        for _ in range(LAKE_COMMIT_ATTEMPTS):
            last = self._carried_out(REPLACING)
            there = {file.path for file in self.files()}
            if gone := [file.path for file in removed if file.path not in there]:
                raise TableChanged("files to be replaced are gone", table=self.settings.path, first=gone[0])
            number = 0 if last is None else last.decision.batch + 1
            decision = Decision(number, [file.path for file in added], [file.path for file in removed])
            if self._decide(REPLACING, decision, last):
                return
        raise self._crowded()

    def forget(self, now_s: float, grace_s: float) -> list[str]:
        self._carry_out_all()
        return [path for path, facts in self._store.files(STAGED) if now_s - facts.written_s >= grace_s]

    def read(self, spark: SparkSession, files: Sequence[DataFile] | None = None) -> DataFrame:
        return read_files(spark, self.settings, self.schema(), self.files() if files is None else files)

    # --- decisions -------------------------------------------------------------------------------------------------

    def _decide(self, query: str, decision: Decision, last: Taken | None) -> bool:
        """Replace the last decision by this one, then carry it out; False if another writer was faster."""
        content = None if last is None else last.content
        if not self._store.swap(decision_path(query), msgspec.json.encode(decision), content):
            return False
        self._carry_out(decision)
        return True

    def _carried_out(self, query: str) -> Taken | None:
        """Carry out the last decision of a query if that is not done, and return it."""
        taken = self._taken(query)
        if taken is not None:
            self._carry_out(taken.decision)
        return taken

    def _carry_out(self, decision: Decision) -> None:
        # Remove replaced files first: rows that are missing for a moment do less harm than rows seen twice.
        for path in decision.removed:
            self._store.remove(path)
        for path in decision.added:
            self._store.move(self.place(path), path)  # does nothing if it is visible already, or was replaced since

    def _carry_out_all(self) -> None:
        self._described()
        for query in list(self._queries()):
            self._carried_out(query)

    def _crowded(self) -> TableChanged:
        return TableChanged(
            "others keep committing to the table", table=self.settings.path, attempts=LAKE_COMMIT_ATTEMPTS
        )


def _description(schema: StructType, partition_by: Sequence[str]) -> bytes:
    return json.dumps({"schema": json.loads(nullable(schema).json()), "partition_by": list(partition_by)}).encode()
