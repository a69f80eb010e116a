"""The books of segments that have ended: the records of their streams, and what is remembered of their producers.

The books of a segment are written in parts, while events already go into the next segment: to write 20,000 records at
once would take 70 ms, and nobody could append meanwhile. A record describes its stream at the moment when it is
written, so it may be newer than the end of its segment. That does no harm: recovery continues each stream from its
first batch in the segments that are not known to be in table files. A segment is not known to be there before its books
are written. So if a crash prevents that, recovery finds the same facts in the batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from weft.log import keys
from weft.log.producers import Key, Producers
from weft.log.records import StreamState
from weft.log.store import DeleteRange, Space, Store, Write

AT_ONCE: Final = 512  # records and producers in one write: 2 ms


class Books:
    """Guarded by the log's lock. ``closed``: the last segment whose books are written."""

    def __init__(self, store: Store, states: Mapping[int, StreamState], producers: Producers, closed: int) -> None:
        self._store = store
        self._states = states
        self._producers = producers
        self._ended = closed  # the last segment that has ended
        self._streams: list[int] = []  # streams whose records are still to be written
        self._keys: list[Key] = []  # producers whose rows are still to be written
        self.closed = closed

    @property
    def are_open(self) -> bool:
        return self.closed < self._ended

    def end(self, segment: int, touched: Iterable[int]) -> None:
        """Note that a segment has ended, with these streams in it."""
        self._streams += touched
        self._keys += self._producers.take_touched()
        self._ended = segment

    def write_some(self) -> None:
        """Write the next part of the books, if anything is left to write."""
        if not self.are_open:
            return
        streams = self._streams[-AT_ONCE:]
        producers = self._keys[-(AT_ONCE - len(streams)) :] if len(streams) < AT_ONCE else []
        writes = [self._states[number].record_write() for number in streams]
        writes += self._producers.writes(producers, self._ended)
        is_last = len(streams) == len(self._streams) and len(producers) == len(self._keys)
        if is_last:
            writes.append(_forget_pieces(self._ended))
        self._store.write(writes)
        del self._streams[len(self._streams) - len(streams) :], self._keys[len(self._keys) - len(producers) :]
        if is_last:
            self.closed = self._ended


def _forget_pieces(segment: int) -> Write:
    """Delete the pieces of gathered batches up to this segment: the rows of the producers have them now."""
    return DeleteRange(Space.TABLES, *keys.pieces_until(segment))
