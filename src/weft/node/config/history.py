"""Archive tables that hold what is no longer in the log: ``[[history]]`` (LAK-04)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from weft.lake.settings import TablePlace, TableSettings
from weft.limits import MIB
from weft.model import Pattern
from weft.node.config.sections import Int, Seconds, Selection, knob, split_list

HISTORY_TABLES_MAX: Final = 16  # each has a process of its own, of 150 MB and more


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """One table. ``patterns``: the topics that are read from it."""

    table: TableSettings
    patterns: tuple[Pattern, ...]
    index: Path
    refresh_s: float
    timeout_s: float
    memory_bytes: int

    @property
    def name(self) -> str:
        """For people, logs and metrics."""
        return self.table.path or f"{self.table.catalog}.{self.table.identifier}"


class HistorySection(TablePlace):
    """An archive table: what the log's retention has cut is read from there ([more](lake.md#read-through)). For each
    topic, the first table whose patterns match counts."""

    patterns: Annotated[tuple[Selection, ...], BeforeValidator(split_list)] = Field(
        default=(Pattern(">"),), min_length=1, max_length=256, description="Topics that are read from it."
    )
    refresh_s: Seconds = knob(
        30.0,
        0.1,
        3600.0,
        "How old the list of its files may be. Who comes to its end looks again at once.",
    )
    timeout_s: Seconds = knob(
        10.0, 0.1, 300.0, "How long a reader waits for the table to be listed; then it is told that it cannot be asked."
    )
    memory_bytes: Int = knob(
        256 * MIB, 16 * MIB, 8192 * MIB, "What the process that reads it may keep of its files, decoded."
    )

    def reading(self, data: Path) -> HistorySettings:
        """``data``: the node's directory. What the index is called says which table it is of."""
        table = self.settings()
        name = f"{table.format} {table.path} {table.catalog} {table.identifier}"
        index = data / "history" / f"{zlib.crc32(name.encode()):08x}.db"
        return HistorySettings(table, self.patterns, index, self.refresh_s, self.timeout_s, self.memory_bytes)
