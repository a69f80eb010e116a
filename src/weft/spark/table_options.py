"""A table as options of Spark: ``TableSettings.options`` gives them, ``table_of`` reads them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.lake.access import StoreAccess
from weft.lake.settings import (
    IDENTIFIER_DEFAULT,
    LAKE_FILE_BYTES,
    LAKE_FILE_BYTES_MAX,
    LAKE_FILE_BYTES_MIN,
    TableFormat,
    TableSettings,
)
from weft.spark.option_values import BadOption, by_name, parse_count, parse_list

OPTIONS: Final = ("table", "tableFormat", "partitionBy", "sortBy", "fileBytes", "catalog", "identifier", "store")
SPARKS_OWN: Final = frozenset({"queryname", "checkpointlocation"})  # Spark adds them to a streaming write's options


def table_of(options: Mapping[str, str]) -> TableSettings:
    """The table that options name, in whatever case Spark hands the names over. Raises BadOption or TableError."""
    given = by_name({name: value for name, value in options.items() if name.lower() not in SPARKS_OWN}, OPTIONS)
    if "table" not in given and "catalog" not in given:
        raise BadOption("option table is missing: the table's directory, or its place in an object store")
    size = given.get("fileBytes", str(LAKE_FILE_BYTES))
    return TableSettings(
        path=given.get("table", ""),
        format=parse_format("tableFormat", given.get("tableFormat", TableFormat.DELTA.value)),
        partition_by=parse_list(given.get("partitionBy", "")),
        sort_by=parse_list(given.get("sortBy", "")),
        file_bytes=parse_count("fileBytes", size, LAKE_FILE_BYTES_MIN, LAKE_FILE_BYTES_MAX),
        catalog=given.get("catalog"),
        identifier=given.get("identifier", IDENTIFIER_DEFAULT),
        access=StoreAccess.from_text(given.get("store", "")),
    )


def parse_format(name: str, value: str) -> TableFormat:
    formats = [each.value for each in TableFormat]
    if value.lower() not in formats:
        raise BadOption(f"option {name} is one of {', '.join(formats)}, not {value!r}")
    return TableFormat(value.lower())
