"""The files of a plain Parquet table of ours, as its decisions say, even those that are not carried out yet.

    TABLE/_weft/table.json               columns and partitions
    TABLE/_weft/staged/NAME.staged       written by tasks, not part of the table
    TABLE/_weft/decisions/QUERY.json     the last decision of each query
    TABLE/date=2026-11-15/NAME.parquet   the table

A writer first writes a *decision*, which names the files that become visible and the files that go. Then it carries
the decision out by moving and removing files (``weft.pipelines.lake.parquet``). A reader does not wait for that, nor
do it itself: it reads the files that were decided on, wherever they are now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from weft.lake.address import TableError
from weft.lake.files import NULL_PARTITION, DataFile, visible
from weft.lake.settings import TableSettings
from weft.lake.store import Content, Store

DESCRIPTION: Final = "_weft/table.json"  # Spark and Arrow skip names with a leading underscore
STAGED: Final = "_weft/staged"
STAGED_SUFFIX: Final = ".staged"  # tools that glob for *.parquet skip these
DECISIONS: Final = "_weft/decisions"
DECISION_SUFFIX: Final = ".json"


class Decision(msgspec.Struct, frozen=True):
    """Which files a batch adds and removes, by their paths within the table."""

    batch: int
    added: list[str]
    removed: list[str]


@dataclass(frozen=True, slots=True)
class Taken:
    """A decision that is stored in the table."""

    decision: Decision
    content: Content


class ParquetFiles:
    """Parquet files in a directory or in an object store."""

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings

    def exists(self) -> bool:
        return self._store.facts(DESCRIPTION) is not None

    def place(self, path: str) -> str:
        return f"{STAGED}/{path.rpartition('/')[2]}{STAGED_SUFFIX}"

    def files(self) -> list[DataFile]:
        self._described()
        # List first, then read decisions: a file that is moved or removed in between is named by a decision.
        found = {path: facts.size_bytes for path, facts in visible(self._store)}
        places = {path: path for path in found}
        for query in list(self._queries()):
            taken = self._taken(query)
            for path in () if taken is None else taken.decision.removed:
                found.pop(path, None)
            for path in () if taken is None else taken.decision.added:
                self._add(path, found, places)
        return [_data_file(path, places[path], size) for path, size in found.items()]

    def _add(self, path: str, found: dict[str, int], places: dict[str, str]) -> None:
        """Add a file that was decided on, at the place where it is now; do nothing if it was replaced since."""
        for place in () if path in found else (self.place(path), path):
            if (facts := self._store.facts(place)) is not None:
                found[path], places[path] = facts.size_bytes, place
                return

    # --- decisions -------------------------------------------------------------------------------------------------

    @cached_property
    def _store(self) -> Store:
        return self.settings.store()

    def _taken(self, query: str) -> Taken | None:
        """The last decision of a query."""
        content = self._store.read(decision_path(query))
        if content is None:
            return None
        try:
            return Taken(msgspec.json.decode(content.data, type=Decision), content)
        except msgspec.DecodeError as error:
            raise TableError(f"a decision is damaged: {error}", table=self.settings.path, query=query) from None

    def _queries(self) -> Iterator[str]:
        for path, _ in self._store.files(DECISIONS):
            if path.endswith(DECISION_SUFFIX):
                yield path.rpartition("/")[2].removesuffix(DECISION_SUFFIX)

    def _described(self) -> dict[str, Any]:
        content = self._store.read(DESCRIPTION)
        if content is None:
            raise TableError("there is no Parquet table that Weft has written", table=self.settings.path)
        described: dict[str, Any] = json.loads(content.data)
        return described


def decision_path(query: str) -> str:
    return f"{DECISIONS}/{query}{DECISION_SUFFIX}"


def visible_file(path: str, size_bytes: int) -> DataFile:
    """A file by its path in a table; the path says its partition."""
    return _data_file(path, path, size_bytes)


def _data_file(path: str, place: str, size_bytes: int) -> DataFile:
    steps = [step.partition("=") for step in path.split("/")[:-1]]
    partition = {name: None if value == NULL_PARTITION else unquote(value) for name, _, value in steps}
    return DataFile(place, size_bytes, partition)
