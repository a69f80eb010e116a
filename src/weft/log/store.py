"""What the log needs of a storage engine: two ordered maps, a write-ahead log, and a file beside them.

Two engines have this shape: RocksDB (``rocks_store``) and memory (``memory_store``), which tests and simulations crash
at will. Everything that makes them an event log is in ``log``, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Space(Enum):
    """The two maps. Batches are many and large, and never rewritten; tables are small and change."""

    BATCHES = "default"
    TABLES = "tables"


@dataclass(frozen=True, slots=True)
class Put:
    space: Space
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    space: Space
    key: bytes


@dataclass(frozen=True, slots=True)
class DeleteRange:
    """All keys from ``first`` up to, not including, ``end``."""

    space: Space
    first: bytes
    end: bytes


Write = Put | Delete | DeleteRange
Row = tuple[bytes, bytes]


class Store(Protocol):
    """Errors are StorageError: DiskFull where there is no room, StoreCorrupt where bytes are not what was written."""

    def write(self, writes: Sequence[Write]) -> None:
        """All or nothing, visible at once, durable with the next ``sync``."""

    def put_batches(self, rows: Sequence[Row], others: Sequence[Write] = ()) -> None:
        """Puts into BATCHES where nothing is yet, all or nothing, together with ``others``: the hot path, without an
        object per write."""

    def get(self, space: Space, key: bytes) -> bytes | None: ...

    def scan(self, space: Space, first: bytes, end: bytes, bytes_expected: int = ...) -> Iterator[Row]:
        """Keys from ``first`` up to, not including, ``end``, as they were when the scan began. ``bytes_expected``: how
        far the caller means to go, so that a small read does not read ahead."""

    def scan_back(self, space: Space, first: bytes, end: bytes) -> Iterator[Row]:
        """The same keys, the last one first."""

    def scan_holding(self, space: Space, first: bytes, at: bytes, end: bytes, bytes_expected: int) -> Iterator[Row]:
        """Keys from the last one at or before ``at``, if it is not before ``first``, up to, not including, ``end``."""

    damage_met: str  # that the engine has met in the background; empty if none

    def revive(self) -> None:
        """If writes have failed for want of room, see to it that they work again; DiskFull if there still is none."""

    def sync(self) -> None:
        """Make everything written before this call durable. Called by one thread; others may write meanwhile."""

    def flush(self, *, wait: bool = False) -> None:
        """Move everything written so far from the write-ahead log into table files, or at least begin to."""

    def is_flushing(self) -> bool: ...

    def flushes_pending(self) -> int:
        """How many of the last flushes may not be done yet; they are done in order."""

    def reclaim(self, first: bytes, end: bytes) -> None:
        """Give back the space of deleted batches in a range of keys."""

    def sequence(self) -> int:
        """How many puts and deletes there ever were; fewer than before if writes were lost."""

    def disk_bytes(self) -> int:
        """How much room the store takes."""

    def free_bytes(self) -> int:
        """How much room there is left where the store is."""

    # --- the file beside it --------------------------------------------------------------------------------------

    def read_marks(self) -> bytes | None:
        """What ``append_marks`` and ``replace_marks`` wrote; None if there is no such file, or nothing in it."""

    def append_marks(self, data: bytes) -> None:
        """All or nothing; outlives the process, and with ``settle_marks`` the machine."""

    def replace_marks(self, data: bytes) -> None:
        """All or nothing, and durable."""

    def settle_marks(self) -> None:
        """Make the marks durable."""

    def fingerprint(self) -> bytes:
        """What the engine's own books look like now, to be noted in the marks."""

    def contradiction(self, fingerprint: bytes) -> str:
        """In what the books that were found on opening contradict a fingerprint of them; empty if in nothing."""

    def close(self) -> None: ...
