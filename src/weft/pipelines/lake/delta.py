"""Delta tables by ``deltalake``: no jar. Any Delta reader sees whole batches and nothing else.

A batch is one commit of the Delta log, with the query's id and batch number as an application transaction. Delta
refuses a second commit of the same batch, even if two drivers race. Statistics in the log let readers skip files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from math import ceil
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from weft.lake.delta import DeltaFiles, check_readable
from weft.lake.files import DataFile, Range, Value, WrittenFile
from weft.pipelines.lake.reading import nullable, read_files
from weft.pipelines.lake.table import TableChanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Two compactions that replace the same file would both succeed, because Delta checks for that only in its own
# operations. So each of our replacements increments this transaction, and of two at once Delta lets only one win.
REPLACING: Final = "weft.replace"


class DeltaLake(DeltaFiles):
    """A Delta table, in a directory or in an object store."""

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.load().schema().to_json()))

    def create(self, schema: StructType) -> None:
        self.settings.store().check(writing=True)
        with self._translated():
            DeltaTable.create(
                self.settings.path,
                Schema.from_json(nullable(schema).json()),
                mode="ignore",
                partition_by=list(self.settings.partition_by) or None,
                storage_options=self._options(),
            )

    def partition_by(self) -> tuple[str, ...]:
        return tuple(self.load().metadata().partition_columns)

    @property
    def takes_wider_types(self) -> bool:
        return False  # deltalake cannot write tables that use Delta's type widening

    def grow(self, schema: StructType) -> None:
        table = self.load()
        there = {each.name: each.type for each in table.schema().fields}
        wanted = Schema.from_json(nullable(schema).json()).fields
        more = [each for each in wanted if there.get(each.name) != each.type]
        try:
            if more:
                table.alter.add_columns(more)
        except CommitFailedError as error:
            raise TableChanged(f"Delta refused more columns: {error}", table=self.settings.path) from None

    def widen(self, schema: StructType, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> bool:
        table = self.load()
        self._check_there(table, removed)
        if len(self.files_of(table)) > len(removed):
            return False
        now_ms = _now_ms()
        try:
            table.create_write_transaction(
                [self._added(file, now_ms, changes_data=False) for file in added],
                mode="overwrite",  # removes all files of this version of the table
                schema=Schema.from_json(nullable(schema).json()),
                partition_by=table.metadata().partition_columns,
                commit_properties=CommitProperties(app_transactions=[Transaction(REPLACING, _next(table))]),
            )
        except CommitFailedError as error:
            raise TableChanged(f"Delta refused wider columns: {error}", table=self.settings.path) from None
        return True

    def place(self, path: str) -> str:
        return path  # no reader looks at files that the log does not name

    def committed(self, query: str) -> int | None:
        return self.load().transaction_version(query)

    def commit(self, files: Sequence[WrittenFile], query: str, batch: int) -> bool:
        table = self.load()
        if _has(table, query, batch):
            return False
        try:
            now_ms = _now_ms()
            added = [self._added(file, now_ms, changes_data=True) for file in files]
            self._write(table, added, Transaction(query, batch))
        except CommitFailedError as error:
            # A driver that was believed dead may have committed the same batch a moment ago.
            if _has(self.load(), query, batch):
                return False
            raise TableChanged(f"Delta refused batch {batch}: {error}", table=self.settings.path) from None
        return True

    def replace(self, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> None:
        table = self.load()
        self._check_there(table, removed)
        now_ms = _now_ms()
        actions: list[AddAction | RemoveAction] = [self._added(file, now_ms, changes_data=False) for file in added]
        # If nothing replaces the files, rows are gone. Otherwise rows are the same: followers can ignore the change.
        actions += [RemoveAction(file.path, not added, now_ms, file.size_bytes) for file in removed]
        try:
            self._write(table, actions, Transaction(REPLACING, _next(table)))
        except CommitFailedError as error:
            raise TableChanged(f"Delta refused to replace files: {error}", table=self.settings.path) from None

    def merge(self, rows: pa.Table, keys: Sequence[str], order_by: Sequence[str], query: str, batch: int) -> bool:
        """Insert rows with new keys, and replace earlier rows with the same keys; False if that was done already.

        The merge counts as a replacement, so it and a compaction of the same files cannot both succeed.
        """
        table = self.load()
        if _has(table, query, batch):
            return False
        replacing = Transaction(REPLACING, _next(table))
        properties = CommitProperties(app_transactions=[Transaction(query, batch), replacing])
        try:
            merging = table.merge(
                rows,
                " AND ".join(f"(target.{_name(key)} IS NOT DISTINCT FROM source.{_name(key)})" for key in keys),
                source_alias="source",
                target_alias="target",
                commit_properties=properties,
            )
            merging.when_matched_update_all(_later(order_by)).when_not_matched_insert_all().execute()
        except CommitFailedError as error:
            if _has(self.load(), query, batch):
                return False
            raise TableChanged(f"Delta refused batch {batch}: {error}", table=self.settings.path) from None
        return True

    def forget(self, now_s: float, grace_s: float) -> list[str]:
        del now_s  # Delta reads the clock itself
        hours = ceil(grace_s / 3600)
        found = self.load().vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        return list(dict.fromkeys(found))

    def read(self, spark: SparkSession, files: Sequence[DataFile] | None = None) -> DataFrame:
        check_readable(self.load())
        return read_files(spark, self.settings, self.schema(), self.files() if files is None else files)

    def _check_there(self, table: DeltaTable, removed: Sequence[DataFile]) -> None:
        there = {file.path for file in self.files_of(table)}
        if gone := [file.path for file in removed if file.path not in there]:
            raise TableChanged("files to be replaced are gone", table=self.settings.path, first=gone[0])

    def _write(self, table: DeltaTable, actions: Sequence[AddAction | RemoveAction], transaction: Transaction) -> None:
        table.create_write_transaction(
            list(actions),
            mode="append",
            schema=table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=CommitProperties(app_transactions=[transaction]),
        )

    def _added(self, file: WrittenFile, now_ms: int, *, changes_data: bool) -> AddAction:
        return AddAction(
            path=file.path,  # deltalake makes it a URL, as the log wants it
            size=file.size_bytes,
            partition_values=file.partition,
            modification_time=now_ms,
            data_change=changes_data,
            stats=_statistics(file.rows, file.ranges),
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _has(table: DeltaTable, query: str, batch: int) -> bool:
    last = table.transaction_version(query)
    return last is not None and last >= batch  # batch 0 is a batch: compare with None


def _next(table: DeltaTable) -> int:
    last = table.transaction_version(REPLACING)
    return 0 if last is None else last + 1


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _later(order_by: Sequence[str]) -> str:
    """SQL that says: the source's row is later than the target's, by the first column in which they differ."""
    later, same = [], ""
    for name in map(_name, order_by):
        later.append(f"({same}source.{name} > target.{name})")
        same += f"source.{name} = target.{name} AND "
    return " OR ".join(later)


def _statistics(rows: int, ranges: Mapping[str, Range]) -> str:
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {name: _json(each.least) for name, each in ranges.items() if each.least is not None},
            "maxValues": {name: _json(each.most) for name, each in ranges.items() if each.most is not None},
            "nullCount": {name: each.nulls for name, each in ranges.items()},
        }
    )


def _json(value: Value) -> str | int | float | bool:
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"  # ours are all UTC
        case date():
            return value.isoformat()
        case _:
            return value
