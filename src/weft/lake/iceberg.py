"""The files of an Iceberg table, by ``pyiceberg``: no jar.

The catalog is SQLite beside the table, or one that pyiceberg is set up for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, NotInstalledError
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table as Loaded

from weft.lake.address import TableError, parse_address
from weft.lake.files import DataFile
from weft.lake.settings import CATALOG_FILE, TableSettings
from weft.lake.store import ERROR_CHARS_MAX


class IcebergFiles:
    """An Iceberg table whose files lie in a directory or in an object store."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings

    @property
    def settings(self) -> TableSettings:
        """The settings with the table's path, which only a catalog may know. Executors then need no catalog."""
        if not self._settings.path and self._catalog.table_exists(self._settings.identifier):
            self._settings = replace(self._settings, path=self._load().location())
        return self._settings

    def check_catalog(self) -> None:
        """Raise TableError if the catalog cannot be asked."""
        try:
            self.exists()
        except TableError:
            raise
        except Exception as error:  # errors of HTTP, SQL and AWS have no common base class
            said = self._settings.credentials().scrubbed(str(error).partition("\n")[0])[:ERROR_CHARS_MAX]
            raise TableError(f"the catalog cannot be asked: {said}", catalog=self._settings.catalog) from None

    def exists(self) -> bool:
        if self._settings.catalog is None and not self._own_catalog().is_file():
            return False
        return self._catalog.table_exists(self._settings.identifier)

    def files(self) -> list[DataFile]:
        table = self._load()
        return [
            DataFile(path, file.file_size_in_bytes, _partition(table, file))
            for path, file in self._active(table).items()
        ]

    @cached_property
    def _catalog(self) -> Catalog:
        wanted = self._settings
        if wanted.catalog is None:
            return SqlCatalog("weft", uri=f"sqlite:///{self._own_catalog()}", warehouse=wanted.path)
        try:
            return load_catalog(wanted.catalog, **wanted.credentials().iceberg())
        except (ValueError, NotInstalledError) as error:
            raise TableError(
                f"pyiceberg cannot open the catalog: set it up in .pyiceberg.yaml or by PYICEBERG_CATALOG__... in the "
                f"environment ({wanted.credentials().scrubbed(str(error))[:ERROR_CHARS_MAX]})",
                catalog=wanted.catalog,
            ) from None

    def _own_catalog(self) -> Path:
        """SQLite needs a directory."""
        if not self._settings.address.is_directory:
            raise TableError(
                "an Iceberg table in an object store needs a catalog: give catalog, the name of one that pyiceberg is "
                "set up for",
                table=self._settings.path,
            )
        return Path(self._settings.path) / CATALOG_FILE

    def _load(self) -> Loaded:
        try:
            if self.exists():
                return self._catalog.load_table(self._settings.identifier)
        except NoSuchTableError:
            pass
        wanted = self._settings
        raise TableError("there is no Iceberg table", table=wanted.path, identifier=wanted.identifier)

    def _active(self, table: Loaded) -> dict[str, IcebergFile]:
        return {self._within(task.file.file_path): task.file for task in table.scan().plan_files()}

    def _within(self, path: str) -> str:
        return parse_address(path).text.removeprefix(f"{self.settings.path}/")


def _partition(table: Loaded, file: IcebergFile) -> dict[str, str | None]:
    schema = table.schema()
    return {
        field.name: None
        if file.partition[place] is None
        else field.transform.to_human_string(schema.find_type(field.source_id), file.partition[place])
        for place, field in enumerate(table.spec().fields)
    }
