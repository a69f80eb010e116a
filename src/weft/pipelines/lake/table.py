"""What a table can do, whatever its format. ``open_table`` gives the one that settings name.

A batch of a query is committed once: ``commit`` remembers (query, batch) in the same step that makes the files part of
the table, so a batch that a restarted driver writes again changes nothing. ``replace`` swaps files for others with the
same rows (or fewer, on purpose) and never touches what was committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, assert_never

from weft.pipelines.lake.address import TableError
from weft.pipelines.lake.files import DataFile, WrittenFile
from weft.pipelines.lake.settings import TableFormat, TableSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Where in a table its own files are, which no other format has.
MARKERS: Final = {
    TableFormat.DELTA: "_delta_log",
    TableFormat.ICEBERG: "metadata",
    TableFormat.PARQUET: "_weft",
}


class TableChanged(TableError):
    """Somebody else replaced or removed the same files. Look again and decide anew."""


class Table(Protocol):
    @property
    def settings(self) -> TableSettings:
        """Which one, with the path where it lies, once it is there."""

    def exists(self) -> bool: ...

    def schema(self) -> StructType:
        """Its columns, partitions included; TableError if there is no table."""

    def create(self, schema: StructType) -> None:
        """Make an empty table if there is none."""

    def partition_by(self) -> tuple[str, ...]:
        """The columns that make its partitions."""

    def place(self, path: str) -> str:
        """Where in the table a task writes the file that is to be at ``path`` once it is committed."""

    def committed(self, query: str) -> int | None:
        """The last batch of a query that is in the table. Batch 0 is one: compare with None."""

    def commit(self, files: Sequence[WrittenFile], query: str, batch: int) -> bool:
        """Make files part of the table; False if this batch, or a later one, is in it already."""

    def files(self) -> list[DataFile]:
        """What the table is made of now."""

    def replace(self, removed: Sequence[DataFile], added: Sequence[WrittenFile]) -> None:
        """Swap files for others in one step; TableChanged if one of them is gone."""

    def forget(self, now_s: float, grace_s: float) -> list[str]:
        """Let go of history older than ``grace_s``; paths of files on disk that the table then has no use for.

        Files of a batch that is just being written may be among them: ``vacuum`` spares those.
        """

    def read(self, spark: SparkSession, files: Sequence[DataFile] | None = None) -> DataFrame:
        """Its rows now, or those of some of its files."""


def open_table(settings: TableSettings) -> Table:
    """The table's own kind; nothing is read or made yet. Formats are imported when they are used."""
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


def check_place(settings: TableSettings, *, writing: bool) -> None:
    """What can be known before a table is used; TableError if its store or its catalog cannot be."""
    table = open_table(settings)
    if settings.catalog is not None:
        from weft.pipelines.lake.iceberg import IcebergLake

        IcebergLake(settings).check_catalog()
    if table.settings.path:  # else the catalog will say where it is to be
        table.settings.store().check(writing=writing)
        check_kind(table.settings)


def check_kind(settings: TableSettings) -> None:
    """TableError if there is a table of another format where this one is to be."""
    store = settings.store()
    for kind, marker in MARKERS.items():
        if kind is not settings.format and next(iter(store.files(marker)), None) is not None:
            wanted = MARKERS[settings.format]
            if next(iter(store.files(wanted)), None) is None:
                raise TableError(f"there is a {kind} table, not a {settings.format} table", table=settings.path)


def ensure(table: Table, schema: StructType) -> None:
    """Make the table if there is none; TableError if rows of this schema do not fit into the one there is."""
    if not table.exists():
        table.create(schema)
    if (by := table.partition_by()) != table.settings.partition_by:
        raise TableError(
            "the table is partitioned otherwise",
            table=table.settings.path,
            there=", ".join(by) or "not at all",
            coming=", ".join(table.settings.partition_by) or "not at all",
        )
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
