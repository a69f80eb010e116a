"""The batches that were appended last, in memory.

Readers at the end of a stream read each batch right after its sync. Here that takes 2 µs; RocksDB would take 50.
"""

from __future__ import annotations

from collections import deque
from typing import Final

ENTRY_BYTES: Final = 300  # of memory beside the data of a batch


class Recent:
    """Batches by stream and first offset. Appended under the log's lock, read by any thread without one.

    Offsets are never given twice, so a batch here is right as long as the stream has it. Compaction, which replaces
    batches, calls ``forget``.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._batches: dict[int, dict[int, tuple[int, bytes]]] = {}  # stream -> first offset -> end, data
        self._order: deque[tuple[int, int]] = deque()  # the oldest batches come first

    def add(self, stream_id: int, first: int, end: int, data: bytes) -> None:
        self._batches.setdefault(stream_id, {})[first] = (end, data)
        self._order.append((stream_id, first))
        self._bytes += len(data) + ENTRY_BYTES
        while self._bytes > self._bytes_max:
            self._remove(*self._order.popleft())

    def forget(self, stream_id: int) -> None:
        if stream_id in self._batches:
            for _, data in self._batches.pop(stream_id).values():
                self._bytes -= len(data) + ENTRY_BYTES
            self._order = deque(each for each in self._order if each[0] != stream_id)

    def _remove(self, stream_id: int, first: int) -> None:
        batches = self._batches[stream_id]
        _, data = batches.pop(first)
        self._bytes -= len(data) + ENTRY_BYTES
        if not batches:
            del self._batches[stream_id]

    def read(self, stream_id: int, first: int, end: int, bytes_max: int) -> list[bytes]:
        """The batches from ``first`` up to but not including ``end``, up to ``bytes_max``, but at least one.

        Empty if they are not all here, or none begins at ``first``.
        """
        batches = self._batches.get(stream_id)
        found: list[bytes] = []
        if batches is None:
            return found
        at, size = first, 0
        while at < end:
            entry = batches.get(at)
            if entry is None:
                return []
            at, data = entry
            size += len(data)
            if found and size > bytes_max:
                break
            found.append(data)
        return found
