"""Which table, where, and laid out how. Pure values: Spark takes them to executors as options."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from weft.configuration import HiddenValue, Section
from weft.lake.access import Credentials, StoreAccess, StoreSection
from weft.lake.address import Address, StoreKind, TableError, parse_address
from weft.limits import KIB, MIB

if TYPE_CHECKING:  # loads Arrow, which a node without tables does not need
    from weft.lake.store import Store

LAKE_FILE_BYTES: Final = 256 * MIB  # large enough that a table of a terabyte has 4,000 files, and one task reads it
LAKE_FILE_BYTES_MIN: Final = 64 * KIB  # for tests; files near this size are what compaction exists to remove
LAKE_FILE_BYTES_MAX: Final = 8 * 1024 * MIB  # readers split files by row groups, but uploads and copies do not
IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+")
UNITS_BYTES: Final = {"KiB": KIB, "MiB": MIB, "GiB": 1024 * MIB}
SIZE: Final = re.compile(r"([0-9]{1,9}) ?(KiB|MiB|GiB)")
TABLE_NAME: Final = re.compile(r"(?P<catalog>[A-Za-z0-9_-]+)\.(?P<identifier>[A-Za-z0-9_]+\.[A-Za-z0-9_]+)")
IDENTIFIER_DEFAULT: Final = "weft.events"
NAMES_ARE_TAKEN: Final = (
    "catalogs are for Iceberg tables, and names for those and for the Delta tables of a Unity catalog, without a path. "
    "Any other table, also one of Hive, is given by the path where it lies"
)
CATALOG_FILE: Final = "catalog.db"


def _takes_name(kind: TableFormat, *, has_path: bool) -> bool:
    """Whether a table of this format may be called by its name in a catalog."""
    return kind is TableFormat.ICEBERG or (kind is TableFormat.DELTA and not has_path)


def _size(given: object) -> object:
    found = SIZE.fullmatch(given) if isinstance(given, str) else None
    return int(found[1]) * UNITS_BYTES[found[2]] if found else given


class TableFormat(StrEnum):
    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A table. ``partition_by`` makes directories, ``sort_by`` orders the rows within a file: both let readers skip."""

    path: str  # empty: where the catalog puts it
    format: TableFormat = TableFormat.DELTA
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_bytes: int = LAKE_FILE_BYTES  # a task begins the next file at this size; compaction aims at it
    catalog: str | None = None  # Iceberg: one that pyiceberg knows, or None: SQLite beside the table. Delta: Unity
    identifier: str = IDENTIFIER_DEFAULT  # what the table is called in its catalog
    access: StoreAccess = field(default_factory=StoreAccess)  # where the credentials of an object store are

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", TableFormat(self.format))
        if self.path or self.catalog is None:
            object.__setattr__(self, "path", parse_address(self.path).text)
        if self.catalog is not None and not _takes_name(self.format, has_path=bool(self.path)):
            raise TableError(NAMES_ARE_TAKEN, format=self.format, catalog=self.catalog)
        if not IDENTIFIER.fullmatch(self.identifier):
            raise TableError("a table of a catalog is called namespace.name", identifier=self.identifier)
        if both := set(self.partition_by) & set(self.sort_by):
            raise TableError("rows of a partition are not sorted by what they share", columns=", ".join(sorted(both)))

    @property
    def address(self) -> Address:
        return parse_address(self.path)

    def store(self) -> Store:
        """The table's files."""
        from weft.lake.store import open_store

        return open_store(self.address, self.access)

    def credentials(self) -> Credentials:
        """Credentials for libraries that reach the store by themselves; looked up here and now."""
        if self.path:
            return self.access.credentials(self.address.kind, os.environ)
        # Where the catalog will put the table is not known yet. If credentials are set, they are most likely for S3.
        is_set = self.access != StoreAccess()
        return self.access.credentials(StoreKind.S3 if is_set else StoreKind.DIRECTORY, os.environ)

    def options(self) -> dict[str, str]:
        """As options of ``format("weft-lake")``; ``weft.spark.table_options`` reads them."""
        named = {
            "table": self.path,
            "tableFormat": self.format.value,
            "partitionBy": ",".join(self.partition_by),
            "sortBy": ",".join(self.sort_by),
            "fileBytes": str(self.file_bytes),
            "catalog": self.catalog or "",
            "identifier": self.identifier,
            "store": self.access.text(),
        }
        return {name: value for name, value in named.items() if value}


class TablePlace(Section):
    """Which table, and where it is."""

    path: str | None = Field(
        default=None,
        description="The table's directory, which driver and executors have to see, or `s3://`, `gs://`, `abfss://`.",
    )
    name: str | None = Field(
        default=None,
        description="`catalog.namespace.table`, instead of a path, and of `catalog` and `identifier`: an Iceberg "
        'table, or with `format = "delta"` one of a Unity catalog.',
    )
    format: TableFormat = Field(default=TableFormat.DELTA, description="`delta`, `iceberg` or `parquet`.")
    catalog: str | None = Field(
        default=None, description="Iceberg: a catalog of `.pyiceberg.yaml`; unset: SQLite beside the table."
    )
    identifier: str = Field(
        default=IDENTIFIER_DEFAULT, pattern=IDENTIFIER.pattern, description="Iceberg: its name in the catalog."
    )

    store: StoreSection = Field(default=StoreSection(), description="How to reach an object store.")

    @field_validator("path", mode="before")
    @classmethod
    def _is_address(cls, path: object) -> object:
        try:
            return parse_address(str(path)).text if isinstance(path, str | Path) else path
        except TableError as error:
            kind = HiddenValue if "@" in str(path) else ValueError  # people write keys before an @
            raise kind(str(error)) from None  # what pydantic collects

    @field_validator("name")
    @classmethod
    def _is_name(cls, name: str | None) -> str | None:
        if name is not None and not TABLE_NAME.fullmatch(name):
            raise ValueError("has to be catalog.namespace.table, of letters, digits and '_'")
        return name

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if self.path is None and self.name is None:
            raise ValueError("give path, or name, which is catalog.namespace.table")
        given = self.model_fields_set
        if self.name is not None and given & {"catalog", "identifier"}:
            raise ValueError("name says catalog and identifier: give one or the other")
        if self.name is not None and "format" in given:
            is_taken = _takes_name(self.format, has_path=self.path is not None)
        else:
            is_taken = self.catalog is None or "format" not in given or self.format is TableFormat.ICEBERG
        if not is_taken:
            raise ValueError(NAMES_ARE_TAKEN)
        return self

    def settings(self, partition_by: tuple[str, ...] = (), sort_by: tuple[str, ...] = ()) -> TableSettings:
        """The table as a value that can be sent; the writer decides how the table is laid out."""
        found = None if self.name is None else TABLE_NAME.fullmatch(self.name)
        catalog, identifier = (self.catalog, self.identifier) if found is None else found.group("catalog", "identifier")
        return TableSettings(
            path=self.path or "",
            format=self.format if catalog is None or "format" in self.model_fields_set else TableFormat.ICEBERG,
            partition_by=partition_by,
            sort_by=sort_by,
            catalog=catalog,
            identifier=identifier,
            access=self.store.access(),
        )


class TableSection(TablePlace):
    """A table in a pipeline's configuration."""

    file_bytes: Annotated[int, BeforeValidator(_size)] = Field(
        default=LAKE_FILE_BYTES,
        ge=LAKE_FILE_BYTES_MIN,
        le=LAKE_FILE_BYTES_MAX,
        description='How large files are to be: a number of bytes, or "128MiB".',
    )

    @classmethod
    def is_input(cls) -> bool:
        """Whether the table is an input, and so has to exist."""
        return False

    def settings(self, partition_by: tuple[str, ...] = (), sort_by: tuple[str, ...] = ()) -> TableSettings:
        """The table as a pipeline lays it out."""
        return replace(super().settings(partition_by, sort_by), file_bytes=self.file_bytes)
