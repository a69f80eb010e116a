"""Plain Parquet in directories, for readers that know nothing else: a listing shows exactly the committed rows.

Tasks write hidden files. The driver then puts down a *decision*, which names what is to become visible and what is to
go, in the place of the query's last one, by compare and set; then it carries it out by moving and removing files. One
of two drivers at the same batch wins. A decision that was cut short is carried out by the next who opens the table,
and always before the next decision takes its place. While it is carried out, for milliseconds in a directory and for
a moment per file in a store, a listing shows a part of it: readers who cannot bear that want Delta. (ADR 22, ADR 42)

    TABLE/_weft/table.json               columns and partitions
    TABLE/_weft/staged/NAME.staged       written by tasks, not part of the table
    TABLE/_weft/decisions/QUERY.json     the last decision of each query
    TABLE/date=2026-11-15/NAME.parquet   the table
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from weft.limits import LAKE_COMMIT_ATTEMPTS
from weft.pipelines.lake.address import TableError
from weft.pipelines.lake.files import NULL_PARTITION, DataFile, WrittenFile
from weft.pipelines.lake.listing import visible
from weft.pipelines.lake.reading import nullable, read_files
from weft.pipelines.lake.settings import TableSettings
from weft.pipelines.lake.store import Content, Store
from weft.pipelines.lake.table import TableChanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DESCRIPTION: Final = "_weft/table.json"  # Spark and Arrow skip names that begin with an underscore
STAGED: Final = "_weft/staged"
STAGED_SUFFIX: Final = ".staged"  # and tools that glob for *.parquet skip these
DECISIONS: Final = "_weft/decisions"
DECISION_SUFFIX: Final = ".json"
REPLACING: Final = "replace"  # the query of decisions that compaction takes


class Decision(msgspec.Struct, frozen=True):
    """What a batch is made of, by paths within the table."""

    batch: int
    added: list[str]
    removed: list[str]


@dataclass(frozen=True, slots=True)
class Taken:
    """A decision that is there."""

    decision: Decision
    content: Content


class ParquetLake:
    """Parquet files in a directory or in an object store."""

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings

    def exists(self) -> bool:
        return self._store.facts(DESCRIPTION) is not None

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._described()["schema"])

    def create(self, schema: StructType) -> None:
        described = {"schema": json.loads(nullable(schema).json()), "partition_by": self.settings.partition_by}
        self._store.check(writing=True)
        self._store.swap(DESCRIPTION, json.dumps(described).encode(), None)

    def partition_by(self) -> tuple[str, ...]:
        return tuple(self._described()["partition_by"])

    def place(self, path: str) -> str:
        return f"{STAGED}/{path.rpartition('/')[2]}{STAGED_SUFFIX}"

    def committed(self, query: str) -> int | None:
        last = self._carried_out(query)  # who hears that a batch is in does not commit it again: so it has to be in
        return None if last is None else last.decision.batch

    def commit(self, files: Sequence[WrittenFile], query: str, batch: int) -> bool:
        for _ in range(LAKE_COMMIT_ATTEMPTS):
            last = self._carried_out(query)
            if last is not None and last.decision.batch >= batch:  # the first batch is 0, which is not "none"
                return False
            if self._decide(query, Decision(batch, [file.path for file in files], []), last):
                return True
        raise self._crowded()

    def files(self) -> list[DataFile]:
        self._carry_out_all()
        return [_data_file(path, facts.size_bytes) for path, facts in visible(self._store)]

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

    @cached_property
    def _store(self) -> Store:
        return self.settings.store()

    def _decide(self, query: str, decision: Decision, last: Taken | None) -> bool:
        """Put a decision in the place of the last one, then carry it out; False if another was faster."""
        content = None if last is None else last.content
        if not self._store.swap(_decision_path(query), msgspec.json.encode(decision), content):
            return False
        self._carry_out(decision)
        return True

    def _carried_out(self, query: str) -> Taken | None:
        """The last decision of a query, which is carried out when this returns."""
        content = self._store.read(_decision_path(query))
        if content is None:
            return None
        try:
            decision = msgspec.json.decode(content.data, type=Decision)
        except msgspec.DecodeError as error:
            raise TableError(f"a decision is damaged: {error}", table=self.settings.path, query=query) from None
        self._carry_out(decision)
        return Taken(decision, content)

    def _carry_out(self, decision: Decision) -> None:
        # What is replaced goes first: rows that are missing for a moment do less harm than rows seen twice.
        for path in decision.removed:
            self._store.remove(path)
        for path in decision.added:
            self._store.move(self.place(path), path)  # of no effect if it is visible already, or replaced since

    def _carry_out_all(self) -> None:
        self._described()
        for query in list(self._queries()):
            self._carried_out(query)

    def _queries(self) -> Iterator[str]:
        for path, _ in self._store.files(DECISIONS):
            if path.endswith(DECISION_SUFFIX):
                yield path.rpartition("/")[2].removesuffix(DECISION_SUFFIX)

    def _described(self) -> dict[str, Any]:
        content = self._store.read(DESCRIPTION)
        if content is None:
            raise TableError("there is no Parquet table of ours", table=self.settings.path)
        described: dict[str, Any] = json.loads(content.data)
        return described

    def _crowded(self) -> TableChanged:
        return TableChanged(
            "others keep committing to the table", table=self.settings.path, attempts=LAKE_COMMIT_ATTEMPTS
        )


def _decision_path(query: str) -> str:
    return f"{DECISIONS}/{query}{DECISION_SUFFIX}"


def _data_file(path: str, size_bytes: int) -> DataFile:
    steps = [step.partition("=") for step in path.split("/")[:-1]]
    partition = {name: None if value == NULL_PARTITION else unquote(value) for name, _, value in steps}
    return DataFile(path, size_bytes, partition)
