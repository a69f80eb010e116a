"""Plain Parquet in directories, for readers that know nothing else: a listing shows exactly the committed rows.

Tasks write hidden files. The driver then writes a *decision*, one file that names what is to become visible and what
is to go, and carries it out by renaming and removing. There is one decision for a batch, whoever tries; one that was
cut short is carried out by the next who opens the table. While it is carried out, for milliseconds, a listing
shows a part of it: readers who cannot bear that want Delta.

    TABLE/_weft/table.json                    columns and partitions
    TABLE/_weft/staged/NAME.staged            written by tasks, not part of the table
    TABLE/_weft/decisions/QUERY/BATCH.json    the last decision of each query
    TABLE/_weft/decisions/lock                held while one is taken
    TABLE/date=2026-11-15/NAME.parquet        the table
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from weft.pipelines.lake.files import NULL_PARTITION, DataFile, WrittenFile
from weft.pipelines.lake.listing import facts_of, visible
from weft.pipelines.lake.reading import nullable, read_files
from weft.pipelines.lake.settings import TableError, TableSettings
from weft.pipelines.lake.table import TableChanged
from weft.pipelines.lake.writing import sync

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

HIDDEN: Final = "_weft"  # Spark and Arrow skip names that begin with an underscore
STAGED_SUFFIX: Final = ".staged"  # and tools that glob for *.parquet skip these
REPLACING: Final = "replace"  # the query of decisions that compaction takes
PARTIAL: Final = ".partial"
LOCK: Final = "lock"


class ParquetLake:
    """A directory of Parquet files."""

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings
        hidden = settings.root / HIDDEN
        self._description = hidden / "table.json"
        self._staged = hidden / "staged"
        self._decisions = hidden / "decisions"

    def exists(self) -> bool:
        return self._description.is_file()

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._described()["schema"])

    def create(self, schema: StructType) -> None:
        described = {"schema": json.loads(nullable(schema).json()), "partition_by": self.settings.partition_by}
        self._staged.mkdir(parents=True, exist_ok=True)
        self._decisions.mkdir(parents=True, exist_ok=True)
        _write_once(self._description, described)

    def partition_by(self) -> tuple[str, ...]:
        return tuple(self._described()["partition_by"])

    def place(self, path: str) -> Path:
        return self._staged / (path.rpartition("/")[2] + STAGED_SUFFIX)

    def committed(self, query: str) -> int | None:
        self._carry_out(query)  # who hears that a batch is in does not commit it again: so it has to be in
        return max(self._decided(query), default=None)

    def commit(self, files: Sequence[WrittenFile], query: str, batch: int) -> bool:
        with self._alone():
            last = self.committed(query)
            if last is not None and last >= batch:  # the first batch is 0, which is not "none"
                return False
            self._decide(query, batch, [file.path for file in files], [])
            return True

    def files(self) -> list[DataFile]:
        self._carry_out_all()
        return [_data_file(path, facts.st_size) for path, facts in visible(self.settings.root)]

    def replace(self, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> None:
        with self._alone():
            there = {file.path for file in self.files()}
            if gone := [file.path for file in removed if file.path not in there]:
                raise TableChanged("files to be replaced are gone", table=self.settings.path, first=gone[0])
            last = self.committed(REPLACING)
            number = 0 if last is None else last + 1
            self._decide(REPLACING, number, [file.path for file in added], [file.path for file in removed])

    def forget(self, now_s: float, grace_s: float) -> list[str]:
        self._carry_out_all()
        return [
            f"{HIDDEN}/{self._staged.name}/{path.name}"
            for path in sorted(self._staged.iterdir())
            if (facts := facts_of(path)) and now_s - facts.st_mtime >= grace_s
        ]

    def read(self, spark: SparkSession, files: Sequence[DataFile] | None = None) -> DataFrame:
        return read_files(spark, self.settings.path, self.schema(), self.files() if files is None else files)

    # --- decisions -------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else decides meanwhile. The lock of a process that dies is gone with it."""
        with (self._decisions / LOCK).open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _decide(self, query: str, batch: int, added: list[str], removed: list[str]) -> None:
        """Write a decision down, then carry it out. ``committed`` saw to it that those before it were carried out."""
        before = self._decided(query)
        _write_once(self._decisions / query / f"{batch}.json", {"added": added, "removed": removed})
        for old in before:
            (self._decisions / query / f"{old}.json").unlink(missing_ok=True)
        self._carry_out(query)

    def _carry_out(self, query: str) -> None:
        for batch in self._decided(query):
            file = self._decisions / query / f"{batch}.json"
            try:
                decision = json.loads(file.read_bytes())
            except FileNotFoundError:
                continue  # carried out and forgotten by another
            # What is replaced goes first: rows that are missing for a moment do less harm than rows seen twice.
            for path in decision["removed"]:
                (self.settings.root / path).unlink(missing_ok=True)
            for path in decision["added"]:
                self._show(path)

    def _show(self, path: str) -> None:
        place, target = self.place(path), self.settings.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            place.rename(target)
        except FileNotFoundError:
            return  # visible already, or replaced since
        sync(target.parent)

    def _carry_out_all(self) -> None:
        self._described()
        for query in self._decisions.iterdir():
            if query.is_dir():
                self._carry_out(query.name)

    def _decided(self, query: str) -> list[int]:
        names = (path.name for path in (self._decisions / query).glob("*.json"))
        return sorted(int(name.removesuffix(".json")) for name in names)

    def _described(self) -> dict[str, Any]:
        try:
            described: dict[str, Any] = json.loads(self._description.read_bytes())
        except FileNotFoundError:
            raise TableError("there is no Parquet table of ours", table=self.settings.path) from None
        return described


def _write_once(file: Path, content: dict[str, Any]) -> bool:
    """Write a file in one step; False if there is one of that name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{secrets.token_hex(8)}{PARTIAL}")
    partial.write_text(json.dumps(content))
    sync(partial)
    try:
        os.link(partial, file)  # unlike a rename, this does not replace what is there
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    sync(file.parent)
    return True


def _data_file(path: str, size_bytes: int) -> DataFile:
    steps = [step.partition("=") for step in path.split("/")[:-1]]
    partition = {name: None if value == NULL_PARTITION else unquote(value) for name, _, value in steps}
    return DataFile(path, size_bytes, partition)
