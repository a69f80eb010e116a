"""The sections of a pipeline's file about typed tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import Field

from weft.configuration import Section
from weft.lake.settings import IDENTIFIER, IDENTIFIER_DEFAULT, TableSection, TableSettings
from weft.spark.connection import Connection
from weft.spark.options import SCHEMA_VERSION_MAX
from weft.spark.schemas import SchemaSource
from weft.spark.selection import parse_selection

BESIDE: Final = "_dead_letters"  # what the table's path, or its name in a catalog, ends with unless told otherwise
PARTITION_BY: Final = ("date",)
SORT_BY: Final = ("topic",)


class TypedSection(Section):
    """Payloads as columns, by the schemas of their topics."""

    strict: bool = Field(
        default=False,
        description="Put every event that breaks its schema among the dead letters, not only what cannot be read.",
    )
    schema_file: Path | None = Field(
        default=None, description="A file with the schema of all topics; unset: what the mesh has for them."
    )
    schema_version: int | None = Field(
        default=None, ge=1, le=SCHEMA_VERSION_MAX, description="Of the mesh's schema; unset: always the latest."
    )

    def source(self, connection: Connection, subscribe: str) -> SchemaSource:
        file = None if self.schema_file is None else str(self.schema_file)
        return SchemaSource(connection, parse_selection("subscribe", subscribe), file, self.schema_version)


class DeadLettersSection(TableSection):
    """The table of events that cannot be kept as columns. Unset: beside the table."""

    identifier: str = Field(
        default=f"{IDENTIFIER_DEFAULT}{BESIDE}",
        pattern=IDENTIFIER.pattern,
        description="Iceberg: its name in the catalog.",
    )


def dead_letters(section: DeadLettersSection | None, table: TableSection) -> TableSettings:
    """The table of dead letters. If it is not set, it is beside the other table and has the same format."""
    if section is not None:
        return section.settings(PARTITION_BY, SORT_BY)
    beside = table.settings(PARTITION_BY, SORT_BY)
    path = f"{beside.path}{BESIDE}" if beside.path else ""
    return replace(beside, path=path, identifier=f"{beside.identifier}{BESIDE}")
