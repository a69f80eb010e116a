"""The files of a Delta table, by ``deltalake``: no jar."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from weft.lake.address import TableError
from weft.lake.files import DataFile, partition_text
from weft.lake.settings import IDENTIFIER_DEFAULT, TableSettings
from weft.lake.store import ERROR_CHARS_MAX
from weft.lake.unity import location

UNREADABLE: Final = frozenset({"deletionVectors", "columnMapping"})  # with these, plain Parquet readers see wrong rows


class DeltaFiles:
    """A Delta table, in a directory or in an object store."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings

    @property
    def settings(self) -> TableSettings:
        """The settings with the table's path, which only a catalog may know. Executors then need no catalog."""
        wanted = self._settings
        if not wanted.path:
            path = location(f"{wanted.catalog}.{wanted.identifier}", os.environ)
            self._settings = replace(wanted, path=path, catalog=None, identifier=IDENTIFIER_DEFAULT)
        return self._settings

    def exists(self) -> bool:
        with self._translated():
            return DeltaTable.is_deltatable(self.settings.path, storage_options=self._options())

    def files(self) -> list[DataFile]:
        return self.files_of(self.load())

    def files_of(self, table: DeltaTable) -> list[DataFile]:
        """The files of one version of the table."""
        check_readable(table)
        names = table.metadata().partition_columns
        with self._translated():
            actions = pa.table(table.get_add_actions(flatten=True))
        wanted = ["path", "size_bytes", *(f"partition.{name}" for name in names)]
        columns = [actions.column(name).to_pylist() for name in wanted]
        return [
            DataFile(unquote(path), size, dict(zip(names, map(partition_text, values), strict=True)))
            for path, size, *values in zip(*columns, strict=True)
        ]

    def load(self) -> DeltaTable:
        """The table as it is now: a handle does not see later commits, not even those made through it."""
        try:
            with self._translated():
                return DeltaTable(self.settings.path, storage_options=self._options())
        except TableNotFoundError:
            raise TableError("there is no Delta table", table=self.settings.path) from None

    def _options(self) -> dict[str, str] | None:
        return self.settings.credentials().delta() or None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn a store's error into one sentence without secrets. The caller reports a missing table."""
        try:
            yield
        except TableNotFoundError:
            raise
        except (DeltaError, OSError) as error:
            said = self.settings.credentials().scrubbed(str(error).partition("\n")[0])
            raise TableError(
                f"Delta cannot use the table: {said[:ERROR_CHARS_MAX]}", table=self.settings.path
            ) from None


def check_readable(table: DeltaTable) -> None:
    """Raise TableError if the plain files do not have the same rows as the table."""
    if odd := UNREADABLE & set(table.protocol().reader_features or ()):
        raise TableError("the table uses Delta features that need Delta's own reader", features=", ".join(sorted(odd)))
