"""What the log needs of a storage engine: two ordered maps, a write-ahead log, and a file beside them.

Two engines have this shape: RocksDB (``rocks_store``) and memory (``memory_store``), which tests and simulations crash
at will. What turns them into an event log is written once, in ``log``.
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
    """All keys from ``first`` up to but not including ``end``."""

    space: Space
    first: bytes
    end: bytes


Write = Put | Delete | DeleteRange
Row = tuple[bytes, bytes]


class Store(Protocol):
    """It raises StorageError: DiskFull where there is no room, StoreCorrupt where bytes differ from what was
    written."""

    def write(self, writes: Sequence[Write]) -> None:
        """Write all or nothing, visible at once, durable with the next ``sync``."""

    def put_batches(self, rows: Sequence[Row], others: Sequence[Write] = ()) -> None:
        """Put values into BATCHES where there are none yet, together with ``others``, all or nothing. This is the hot
        path, so it takes no object per write."""

    def get(self, space: Space, key: bytes) -> bytes | None: ...

    def scan(self, space: Space, first: bytes, end: bytes, bytes_expected: int = ...) -> Iterator[Row]:
        """Yield the keys from ``first`` up to but not including ``end``, as they were when the scan began.
        ``bytes_expected``: how far the caller means to go, so that a small read does not read ahead."""

    def scan_back(self, space: Space, first: bytes, end: bytes) -> Iterator[Row]:
        """Yield the same keys, the last one first."""

    def scan_holding(self, space: Space, first: bytes, at: bytes, end: bytes, bytes_expected: int) -> Iterator[Row]:
        """Yield keys from the last one at or before ``at``, if that is not before ``first``, up to but not including
        ``end``."""

    damage_met: str  # the damage that the engine has met in the background; empty if none

    def revive(self) -> None:
        """If writes have failed because the disk was full, make them work again; raise DiskFull if it still is."""

    def sync(self) -> None:
        """Make everything written before this call durable. Called by one thread; others may write meanwhile."""

    def flush(self, *, wait: bool = False) -> None:
        """Move everything written so far from the write-ahead log into table files, or at least begin to."""

    def is_flushing(self) -> bool: ...

    def background_failures(self) -> int:
        """How often the engine failed in the background since it was opened, in flushes above all."""

    def flushes_pending(self) -> int:
        """How many of the last flushes may still be running; they finish in order."""

    def reclaim(self, first: bytes, end: bytes) -> None:
        """Give back the space of deleted batches in a range of keys."""

    def sequence(self) -> int:
        """How many puts and deletes there have been; if writes were lost, fewer than before."""

    def disk_bytes(self) -> int:
        """How much room the store takes."""

    def free_bytes(self) -> int:
        """How much room there is left where the store is."""

    # --- the file beside it --------------------------------------------------------------------------------------

    def read_marks(self) -> bytes | None:
        """Read what ``append_marks`` and ``replace_marks`` wrote; None if there is no such file, or it is empty."""

    def append_marks(self, data: bytes) -> None:
        """Append all or nothing. The marks survive the process and, after ``settle_marks``, the machine."""

    def replace_marks(self, data: bytes) -> None:
        """Replace the marks, all or nothing, durable when this returns."""

    def settle_marks(self) -> None:
        """Make the marks durable."""

    def fingerprint(self) -> bytes:
        """Describe the engine's own books as they are now, to be noted in the marks."""

    def contradiction(self, fingerprint: bytes) -> str:
        """Say how the books that were found on opening contradict a fingerprint of them; empty if they do not."""

    def close(self) -> None: ...
