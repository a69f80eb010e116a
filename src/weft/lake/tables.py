"""Which files make up a table now, whatever its format. It writes nothing, so the right to read is enough."""

from __future__ import annotations

from typing import Final, Protocol, assert_never

from weft.lake.address import TableError
from weft.lake.files import DataFile
from weft.lake.settings import TableFormat, TableSettings

# For each format, a path in the table that no other format has.
MARKERS: Final = {
    TableFormat.DELTA: "_delta_log",
    TableFormat.ICEBERG: "metadata",
    TableFormat.PARQUET: "_weft",
}


class TableFiles(Protocol):
    @property
    def settings(self) -> TableSettings:
        """The table's settings; once the table exists, with the path where it lies."""

    def exists(self) -> bool: ...

    def files(self) -> list[DataFile]:
        """The files that make up the table now; TableError if there is no table, or it cannot be reached."""


def open_files(settings: TableSettings) -> TableFiles:
    """The class for the table's format; nothing is read yet. TableError if that format's library is not installed."""
    match settings.format:
        case TableFormat.DELTA:
            try:
                from weft.lake.delta import DeltaFiles
            except ImportError:
                raise TableError("Delta tables need deltalake here: pip install 'weft[archive]'") from None
            return DeltaFiles(settings)
        case TableFormat.ICEBERG:
            return _open_iceberg(settings)
        case TableFormat.PARQUET:
            from weft.lake.parquet import ParquetFiles

            return ParquetFiles(settings)
        case _:
            assert_never(settings.format)


def _open_iceberg(settings: TableSettings) -> TableFiles:
    try:
        from weft.lake.iceberg import IcebergFiles
    except ImportError:
        raise TableError("Iceberg tables need pyiceberg here: pip install 'weft[iceberg]'") from None
    return IcebergFiles(settings)


def check_place(settings: TableSettings, *, writing: bool) -> None:
    """Check what can be checked before a table is used; TableError if its store or its catalog cannot be used."""
    table = open_files(settings)
    if settings.catalog is not None and settings.format is TableFormat.ICEBERG:
        from weft.lake.iceberg import IcebergFiles

        IcebergFiles(settings).check_catalog()
    if table.settings.path:  # else the catalog will say where it is to be
        table.settings.store().check(writing=writing)
        check_kind(table.settings)


def check_kind(settings: TableSettings) -> None:
    """Raise TableError if a table of another format is at this place."""
    store = settings.store()
    for kind, marker in MARKERS.items():
        if kind is not settings.format and next(iter(store.files(marker)), None) is not None:
            wanted = MARKERS[settings.format]
            if next(iter(store.files(wanted)), None) is None:
                raise TableError(f"there is a {kind} table, not a {settings.format} table", table=settings.path)
