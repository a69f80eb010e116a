"""Files of a table: their names, which of them readers see, and what a writer reports about a file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

if TYPE_CHECKING:
    from weft.lake.store import Facts, Store

SUFFIX: Final = ".parquet"
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
# query.batch.task.token.number.parquet, perhaps staged. A query is a UUID of Spark's or a token of ours: no dots.
NAME: Final = re.compile(r"(?P<query>[A-Za-z0-9-]+)\.(?P<batch>\d{1,19})\.\d+\.[0-9a-f]+\.\d+\.parquet(\.staged)?")
HIDDEN_PREFIXES: Final = ("_", ".")  # what Spark and Arrow leave out of a listing
SPECIAL: Final = re.compile(r"[^\w.-]", re.ASCII)

Value: TypeAlias = str | int | float | bool | date | datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One task's attempt to write its share of a batch. ``token`` makes it unique, because a restarted driver counts
    from the beginning again."""

    query: str
    batch: int
    task: int
    token: str

    def file_name(self, number: int) -> str:
        return f"{self.query}.{self.batch}.{self.task}.{self.token}.{number}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Range:
    """What is known of a column within a file."""

    least: Value | None
    most: Value | None
    nulls: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table: its path within the table, and its partition values as text (None for null)."""

    path: str
    size_bytes: int
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenFile(DataFile):
    """A file that a task has just written."""

    rows: int = 0
    ranges: Mapping[str, Range] = field(default_factory=dict)


def batch_of(path: str) -> tuple[str, int] | None:
    """The query and batch that a file was written for; None if its name is not ours."""
    match = NAME.fullmatch(path.rpartition("/")[2])
    return (match["query"], int(match["batch"])) if match else None


def directory(partition: Mapping[str, str | None]) -> str:
    """``date=2026-11-15/`` in Hive's style, for tools that read partitions from names; empty without partitions."""
    return "".join(f"{name}={_escaped(value)}/" for name, value in partition.items())


def _escaped(value: str | None) -> str:
    """Escape a value for a path. All readers unescape it, but Spark does so byte by byte: only ASCII survives that."""
    if value is None or value == "":
        return NULL_PARTITION
    return SPECIAL.sub(lambda found: quote(found[0], safe="") if found[0].isascii() else found[0], value)


def partition_text(value: Value | None) -> str | None:
    """A partition's value as text; dates in ISO 8601."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case date():
            return value.isoformat()
        case str() | int() | float():
            return str(value)


def visible(store: Store) -> Iterator[tuple[str, Facts]]:
    """What a reader sees that does not know the table's format: Parquet files, by their path within the table."""
    for path, facts in store.files():
        if path.endswith(SUFFIX) and not any(step.startswith(HIDDEN_PREFIXES) for step in path.split("/")):
            yield path, facts
