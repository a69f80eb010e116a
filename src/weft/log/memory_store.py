"""A store in memory, for simulations and tests. Like a power cut, ``crash`` can make it lose everything that was not
synced."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import assert_never

from weft.log.errors import DiskFull
from weft.log.store import Delete, DeleteRange, Put, Row, Space, Write

UNLIMITED = 1 << 60


Undo = list[tuple[Space, bytes, bytes | None]]  # what was under a key before a write


class _Map:
    """An ordered map: a dict and its sorted keys."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []

    def put(self, key: bytes, value: bytes | None) -> bytes | None:
        """Store a value (None deletes the key), and return what was there."""
        before = self.values.get(key)
        if value is None:
            if before is not None:
                del self.values[key]
                del self.keys[bisect_left(self.keys, key)]
            return before
        if before is None:
            insort(self.keys, key)
        self.values[key] = value
        return before

    def between(self, first: bytes, end: bytes) -> list[bytes]:
        return self.keys[bisect_left(self.keys, first) : bisect_left(self.keys, end)]


class MemoryStore:
    """``disk_bytes_max`` makes it a small disk; ``crash`` leaves what one would find after a power cut."""

    def __init__(self, disk_bytes_max: int = UNLIMITED) -> None:
        self.disk_bytes_max = disk_bytes_max
        self.damage_met = ""
        self._maps = {space: _Map() for space in Space}
        self._unsynced: list[Undo] = []
        self._written = 0
        self._marks: bytearray | None = None
        self._marks_settled = 0  # bytes that survive a power cut
        self._lock = threading.RLock()

    def crash(self, unsynced_kept: int = 0, marks_lost: int = 0) -> None:
        """Lose what was not synced, except the first ``unsynced_kept`` writes; lose the last bytes of the marks,
        too."""
        assert 0 <= marks_lost <= self.unsettled_marks, "settled marks outlive a power cut"
        if self._marks is not None:
            del self._marks[len(self._marks) - marks_lost :]
        for undo in reversed(self._unsynced[unsynced_kept:]):
            for space, key, value in reversed(undo):
                self._maps[space].put(key, value)
            self._written -= 1
        self._unsynced.clear()

    @property
    def unsynced_writes(self) -> int:
        return len(self._unsynced)

    @property
    def unsettled_marks(self) -> int:
        return len(self._marks or b"") - self._marks_settled

    def write(self, writes: Sequence[Write]) -> None:
        with self._lock:
            self._write(writes)

    def _write(self, writes: Sequence[Write]) -> None:
        size = sum(len(write.value) for write in writes if isinstance(write, Put))
        if size > self.free_bytes():
            raise DiskFull("no room in memory", need=size, have=self.free_bytes())
        undo: Undo = []
        for write in writes:
            target = self._maps[write.space]
            match write:
                case Put(space, key, value):
                    undo.append((space, key, target.put(key, value)))
                case Delete(space, key):
                    undo.append((space, key, target.put(key, None)))
                case DeleteRange(space, first, end):
                    undo += [(space, key, target.put(key, None)) for key in target.between(first, end)]
                case _:
                    assert_never(write)
        self._unsynced.append(undo)
        self._written += 1

    def put_batches(self, rows: Sequence[Row], others: Sequence[Write] = ()) -> None:
        self.write([*others, *(Put(Space.BATCHES, key, value) for key, value in rows)])

    def get(self, space: Space, key: bytes) -> bytes | None:
        return self._maps[space].values.get(key)

    def scan(self, space: Space, first: bytes, end: bytes, bytes_expected: int = 0) -> Iterator[Row]:
        return iter(self._rows(space, first, end))

    def scan_back(self, space: Space, first: bytes, end: bytes) -> Iterator[Row]:
        return reversed(self._rows(space, first, end))

    def scan_holding(self, space: Space, first: bytes, at: bytes, end: bytes, bytes_expected: int) -> Iterator[Row]:
        with self._lock:
            held = self._maps[space].between(first, at + b"\0")[-1:]
            return iter(self._rows(space, held[0], end) if held else [])

    def _rows(self, space: Space, first: bytes, end: bytes) -> list[Row]:
        with self._lock:
            source = self._maps[space]
            return [(key, source.values[key]) for key in source.between(first, end)]

    def revive(self) -> None:
        pass

    def sync(self) -> None:
        self._unsynced.clear()

    def flush(self, *, wait: bool = False) -> None:
        pass

    def is_flushing(self) -> bool:
        return False

    def background_failures(self) -> int:
        return 0

    def flushes_pending(self) -> int:
        return 0

    def reclaim(self, first: bytes, end: bytes) -> None:
        pass

    def sequence(self) -> int:
        return self._written

    def disk_bytes(self) -> int:
        with self._lock:
            return sum(len(value) for source in self._maps.values() for value in source.values.values())

    def free_bytes(self) -> int:
        return self.disk_bytes_max if self.disk_bytes_max == UNLIMITED else self.disk_bytes_max - self.disk_bytes()

    def read_marks(self) -> bytes | None:
        return None if self._marks is None else bytes(self._marks)

    def append_marks(self, data: bytes) -> None:
        if self._marks is None:
            self._marks = bytearray()
        self._marks += data

    def replace_marks(self, data: bytes) -> None:
        self._marks = bytearray(data)
        self.settle_marks()

    def settle_marks(self) -> None:
        self._marks_settled = len(self._marks or b"")

    def fingerprint(self) -> bytes:
        return b""

    def contradiction(self, fingerprint: bytes) -> str:
        return ""

    def close(self) -> None:
        pass
