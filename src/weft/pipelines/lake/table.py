"""What a table can do, whatever its format. ``open_table`` opens the table that settings name.

A batch of a query is committed once. ``commit`` records (query, batch) in the same step that makes the files part of
the table, so if a restarted driver writes a batch again, nothing changes. ``replace`` swaps files for others with the
same rows (or fewer, on purpose) and never touches what was committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, assert_never

from weft.lake.address import TableError
from weft.lake.files import DataFile, WrittenFile
from weft.lake.settings import TableFormat, TableSettings
from weft.lake.tables import TableFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class TableChanged(TableError):
    """Somebody else replaced or removed the same files. Look again and decide again."""


class Table(TableFiles, Protocol):
    def schema(self) -> StructType:
        """The table's columns, partition columns included; TableError if there is no table."""

    def create(self, schema: StructType) -> None:
        """Make an empty table if there is none."""

    def partition_by(self) -> tuple[str, ...]:
        """The columns that the table is partitioned by."""

    @property
    def takes_wider_types(self) -> bool:
        """Whether ``grow`` also accepts wider types; otherwise ``widen`` does that, with new files."""

    def grow(self, schema: StructType) -> None:
        """Give the table these columns: all that it has, and more, also within structs. Files are not changed."""

    def widen(self, schema: StructType, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> bool:
        """Give the columns wider types, and swap all files for new ones with these types. False, with nothing changed,
        if the table got more files meanwhile, which would be lost; TableChanged if one of ``removed`` is gone."""

    def place(self, path: str) -> str:
        """Where in the table a task writes the file that is to be at ``path`` once it is committed."""

    def committed(self, query: str) -> int | None:
        """The last batch of a query that is in the table, or None. Batch 0 is a batch: compare with None."""

    def commit(self, files: Sequence[WrittenFile], query: str, batch: int) -> bool:
        """Make files part of the table; False if this batch, or a later one, is already in it."""

    def replace(self, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> None:
        """Swap files for others in one step; TableChanged if one of ``removed`` is gone."""

    def forget(self, now_s: float, grace_s: float) -> list[str]:
        """Forget history older than ``grace_s``; return paths of files on disk that the table then no longer needs."""

    def read(self, spark: SparkSession, files: Sequence[DataFile] | None = None) -> DataFrame:
        """The table's current rows, or those of some of its files."""


def open_table(settings: TableSettings) -> Table:
    """The table in the class of its format; nothing is read or created yet. Formats are imported when they are used."""
    match settings.format:
        case TableFormat.DELTA:
            from weft.pipelines.lake.delta import DeltaLake

            return DeltaLake(settings)
        case TableFormat.ICEBERG:
            from weft.pipelines.lake.iceberg import IcebergLake

            return IcebergLake(settings)
        case TableFormat.PARQUET:
            from weft.pipelines.lake.parquet import ParquetLake

            return ParquetLake(settings)
        case _:
            assert_never(settings.format)


def ensure(table: Table, schema: StructType) -> None:
    """Make the table if there is none; TableError if rows of this schema do not fit into the existing one."""
    if not table.exists():
        table.create(schema)
    check_partitions(table)
    there, coming = (
        {each.name: each.dataType.simpleString() for each in struct} for struct in (table.schema(), schema)
    )
    for name in sorted(there.keys() | coming.keys()):
        if there.get(name) != coming.get(name):
            raise TableError(
                "the table has other columns",
                table=table.settings.path,
                column=name,
                there=there.get(name, "missing"),
                coming=coming.get(name, "missing"),
            )


def check_columns(table: Table, needed: Iterable[str]) -> None:
    """Raise TableError unless the table has these columns, which tables of raw events have."""
    known = table.schema().names
    if missing := [name for name in needed if name not in known]:
        settings = table.settings
        raise TableError(
            "this is not a table of raw events", table=settings.path or settings.identifier, missing=missing[0]
        )


def check_partitions(table: Table) -> None:
    """Raise TableError if the existing table is not partitioned as the settings say."""
    if (by := table.partition_by()) != table.settings.partition_by:
        raise TableError(
            "the table is partitioned otherwise",
            table=table.settings.path,
            there=", ".join(by) or "not at all",
            coming=", ".join(table.settings.partition_by) or "not at all",
        )
