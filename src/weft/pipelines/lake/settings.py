"""Which table, where, and laid out how. Pure values: they travel to executors as options of ``format("weft-lake")``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from weft.configuration import Section
from weft.errors import UsageError
from weft.limits import KIB, MIB
from weft.spark.option_values import BadOption, by_name, parse_count, parse_list

LAKE_FILE_BYTES: Final = 256 * MIB  # large enough that a table of a terabyte has 4,000 files, and one task reads it
LAKE_FILE_BYTES_MIN: Final = 64 * KIB  # for tests; anything near it is what compaction is there against
LAKE_FILE_BYTES_MAX: Final = 8 * 1024 * MIB  # readers split files by row groups, but uploads and copies do not
OPTIONS: Final = ("table", "tableFormat", "partitionBy", "sortBy", "fileBytes", "catalog", "identifier")
SPARKS_OWN: Final = frozenset({"queryname", "checkpointlocation"})  # stand among the options of a streaming write
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+")
IDENTIFIER_DEFAULT: Final = "weft.events"
CATALOG_FILE: Final = "catalog.db"


class TableError(UsageError):
    """A table that cannot be read or written like this; says which one and why."""


class TableFormat(StrEnum):
    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A table. ``partition_by`` makes directories, ``sort_by`` orders the rows within a file: both let readers skip."""

    path: str
    format: TableFormat = TableFormat.DELTA
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_bytes: int = LAKE_FILE_BYTES  # a task begins another file at this size; compaction aims at it
    catalog: str | None = None  # Iceberg: a catalog of pyiceberg's own configuration; none: SQLite beside the table
    identifier: str = IDENTIFIER_DEFAULT  # Iceberg: what the table is called in its catalog

    def __post_init__(self) -> None:
        path = self.path.removeprefix("file://")
        if SCHEME.match(path):
            raise TableError("a table is a directory that driver and executors see: mount it", table=self.path)
        if not path:
            raise TableError("a table needs a directory")
        object.__setattr__(self, "path", str(Path(path).expanduser().absolute()))
        object.__setattr__(self, "format", TableFormat(self.format))
        if not IDENTIFIER.fullmatch(self.identifier):
            raise TableError("an Iceberg table is called namespace.name", identifier=self.identifier)
        if both := set(self.partition_by) & set(self.sort_by):
            raise TableError("rows of a partition are not sorted by what they share", columns=", ".join(sorted(both)))

    @property
    def root(self) -> Path:
        return Path(self.path)

    def options(self) -> dict[str, str]:
        """As options of ``format("weft-lake")``."""
        named = {
            "table": self.path,
            "tableFormat": self.format.value,
            "partitionBy": ",".join(self.partition_by),
            "sortBy": ",".join(self.sort_by),
            "fileBytes": str(self.file_bytes),
            "catalog": self.catalog or "",
            "identifier": self.identifier,
        }
        return {name: value for name, value in named.items() if value}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> TableSettings:
        """What ``options`` gives, in whatever case Spark made of the names."""
        ours = {name: value for name, value in options.items() if name.lower() not in SPARKS_OWN}
        given = by_name(ours, OPTIONS)
        if "table" not in given:
            raise BadOption("option table is missing: the table's directory")
        formats = [each.value for each in TableFormat]
        if (wanted := given.get("tableFormat", TableFormat.DELTA.value).lower()) not in formats:
            raise BadOption(f"option tableFormat is one of {', '.join(formats)}, not {wanted!r}")
        size = given.get("fileBytes", str(LAKE_FILE_BYTES))
        return cls(
            path=given["table"],
            format=TableFormat(wanted),
            partition_by=parse_list(given.get("partitionBy", "")),
            sort_by=parse_list(given.get("sortBy", "")),
            file_bytes=parse_count("fileBytes", size, LAKE_FILE_BYTES_MIN, LAKE_FILE_BYTES_MAX),
            catalog=given.get("catalog"),
            identifier=given.get("identifier", IDENTIFIER_DEFAULT),
        )


class TableSection(Section):
    """A table in a pipeline's configuration."""

    path: Path = Field(description="The table's directory; driver and executors have to see it.")
    format: TableFormat = Field(default=TableFormat.DELTA, description="`delta`, `iceberg` or `parquet`.")
    file_bytes: int = Field(
        default=LAKE_FILE_BYTES,
        ge=LAKE_FILE_BYTES_MIN,
        le=LAKE_FILE_BYTES_MAX,
        description="How large a file may grow before a task begins the next one.",
    )
    catalog: str | None = Field(
        default=None, description="Iceberg: a catalog of `.pyiceberg.yaml`; unset: SQLite beside the table."
    )
    identifier: str = Field(
        default=IDENTIFIER_DEFAULT, pattern=IDENTIFIER.pattern, description="Iceberg: its name in the catalog."
    )

    @field_validator("path", mode="before")
    @classmethod
    def _is_directory(cls, path: object) -> object:
        """A Path has lost what tells a store from a directory."""
        text = str(path).removeprefix("file://")
        if found := SCHEME.match(text):
            raise ValueError(
                f"tables are in directories that driver and executors see; {found[0]} is not supported: mount the store"
            )
        return text if isinstance(path, str) else path

    @classmethod
    def is_input(cls) -> bool:
        """Whether the table is read, so that it has to be there."""
        return False

    def settings(self, partition_by: tuple[str, ...] = (), sort_by: tuple[str, ...] = ()) -> TableSettings:
        """The table as a pipeline lays it out."""
        return TableSettings(
            path=str(self.path),
            format=self.format,
            partition_by=partition_by,
            sort_by=sort_by,
            file_bytes=self.file_bytes,
            catalog=self.catalog,
            identifier=self.identifier,
        )
