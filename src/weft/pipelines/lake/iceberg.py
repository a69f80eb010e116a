"""Iceberg tables by ``pyiceberg``: no jar. The catalog is SQLite beside the table, or one that pyiceberg is set up for.

A batch is one snapshot; the same transaction sets a property of the table that says which batch of the query it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.table import Table as Loaded

from weft.lake.files import DataFile, WrittenFile, visible
from weft.lake.iceberg import IcebergFiles
from weft.limits import LAKE_COMMIT_ATTEMPTS
from weft.pipelines.lake.reading import columns_of, read_files
from weft.pipelines.lake.table import TableChanged
from weft.pipelines.lake.writing import has_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
METRICS_PROPERTY: Final = "write.metadata.metrics.column."  # and the column's name
BATCH_PROPERTY: Final = "weft.batch."  # and the query's id
PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",  # a metadata file per batch would fill the directory
    "write.metadata.previous-versions-max": "100",
    # pyiceberg would try again without asking whether somebody else committed this very batch: we ask.
    "commit.retry.num-retries": "0",
}


class IcebergLake(IcebergFiles):
    """An Iceberg table whose files lie in a directory or in an object store."""

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self._load().schema().as_arrow())

    def create(self, schema: StructType) -> None:
        wanted = self._settings
        if wanted.path:
            wanted.store().check(writing=True)
        catalog = self._catalog
        catalog.create_namespace_if_not_exists(wanted.identifier.rpartition(".")[0])
        columns = columns_of(schema)
        properties = PROPERTIES | _metrics(columns)
        try:
            with (
                catalog.create_table_transaction(
                    wanted.identifier, columns, location=wanted.path or None, properties=properties
                ) as transaction,
                transaction.update_spec() as spec,
            ):
                for name in wanted.partition_by:
                    spec.add_identity(name)
        except (TableAlreadyExistsError, CommitFailedException):
            pass  # another query created it first

    def partition_by(self) -> tuple[str, ...]:
        return tuple(field.name for field in self._load().spec().fields)

    @property
    def takes_wider_types(self) -> bool:
        return True

    def grow(self, schema: StructType) -> None:
        columns = columns_of(schema)
        for _ in range(LAKE_COMMIT_ATTEMPTS):
            try:
                with self._load().transaction() as transaction:
                    transaction.set_properties(_metrics(columns))
                    with transaction.update_schema() as update:
                        update.union_by_name(columns)
            except CommitFailedException:
                continue
            return
        raise self._crowded()

    def widen(self, schema: StructType, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> bool:
        raise AssertionError("grow does it")

    def place(self, path: str) -> str:
        return path  # no reader looks at files that no snapshot names

    def committed(self, query: str) -> int | None:
        return _committed(self._load(), query)

    def commit(self, files: Sequence[WrittenFile], query: str, batch: int) -> bool:
        for _ in range(LAKE_COMMIT_ATTEMPTS):
            table = self._load()
            last = _committed(table, query)
            if last is not None and last >= batch:  # batch 0 is a batch: compare with None
                return False
            try:
                with table.transaction() as transaction:
                    transaction.set_properties({BATCH_PROPERTY + query: str(batch)})
                    transaction.add_files([self._named(file) for file in files], check_duplicate_files=False)
            except (CommitFailedException, CommitStateUnknownException):
                continue  # somebody else committed, perhaps this very batch; or we did, and the answer was lost
            return True
        raise self._crowded()

    def replace(self, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> None:
        places = [self._named(file) for file in added]
        for _ in range(LAKE_COMMIT_ATTEMPTS):
            table = self._load()
            active = self._active(table)
            if gone := [file.path for file in removed if file.path not in active]:
                raise TableChanged("files to be replaced are gone", table=self.settings.path, first=gone[0])
            try:
                with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
                    for file in removed:
                        snapshot.delete_data_file(active[file.path])
                    for each in parquet_files_to_data_files(table.io, table.metadata, iter(places)):
                        snapshot.append_data_file(each)
            except (CommitFailedException, ValidationException):
                continue  # somebody else committed: they may have added files, or replaced the same ones
            return
        raise self._crowded()

    def forget(self, now_s: float, grace_s: float) -> list[str]:
        table = self._load()
        with suppress(CommitFailedException):  # a writer was faster: do it next time
            table.maintenance.expire_snapshots().older_than(_first_kept(table, now_s - grace_s)).commit()
        named = self._load().inspect.all_files().column("file_path").to_pylist()
        needed = {self._within(path) for path in named}
        return [
            path
            for path, facts in visible(self.settings.store())
            if path not in needed and now_s - facts.written_s >= grace_s
        ]

    def read(self, spark: SparkSession, files: Sequence[DataFile] | None = None) -> DataFrame:
        return read_files(spark, self.settings, self.schema(), self.files() if files is None else files)

    def _named(self, file: DataFile) -> str:
        return f"{self.settings.path}/{file.path}"

    def _crowded(self) -> TableChanged:
        return TableChanged(
            "others keep committing to the table", table=self.settings.path, attempts=LAKE_COMMIT_ATTEMPTS
        )


def _committed(table: Loaded, query: str) -> int | None:
    text = table.properties.get(BATCH_PROPERTY + query)
    return None if text is None else int(text)


def _first_kept(table: Loaded, since_s: float) -> datetime:
    """When the snapshot was made that was current at that time. Readers that began then still use its files, however
    old the snapshot is."""
    since_ms = int(since_s * 1000)
    made_ms = max((each.timestamp_ms for each in table.history() if each.timestamp_ms <= since_ms), default=since_ms)
    return EPOCH + timedelta(milliseconds=made_ms)


def _metrics(columns: pa.Schema) -> dict[str, str]:
    """Properties of a table with these columns."""
    unmeasured = (name for each in columns for name in _unmeasured(each.name, each.type))
    return {f"{METRICS_PROPERTY}{name}": "none" for name in unmeasured}


def _unmeasured(name: str, kind: pa.DataType) -> Iterator[str]:
    """This column's or its fields' names for which Parquet has no statistics: pyiceberg would warn for each file."""
    if pa.types.is_map(kind):
        yield from _unmeasured(f"{name}.key", kind.key_type)
        yield from _unmeasured(f"{name}.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _unmeasured(f"{name}.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for each in kind:
            yield from _unmeasured(f"{name}.{each.name}", each.type)
    elif "." in name or not has_range(kind):
        yield name
