"""The books of segments that have ended: the records of the streams in them, and what is remembered of producers.

They are written some at a time, while events go into the next segment: 20,000 records take 70 ms, in which nobody
could append. A record says how its stream is when it is written, and is written behind the batches that it counts; so
it may be newer than the end of its segment. That does no harm: recovery takes a stream up at its first batch in the
segments that are not known to be in table files. A segment does not count as such before its books are written, so
what a crash leaves unwritten is found again in its batches.
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
    """Guarded by the log's lock. ``closed``: up to which segment all is written."""

    def __init__(self, store: Store, states: Mapping[int, StreamState], producers: Producers, closed: int) -> None:
        self._store = store
        self._states = states
        self._producers = producers
        self._ended = closed  # up to which segment they have ended
        self._streams: list[int] = []  # whose records are still to be written
        self._keys: list[Key] = []  # producers, likewise
        self.closed = closed

    @property
    def are_open(self) -> bool:
        return self.closed < self._ended

    def end(self, segment: int, touched: Iterable[int]) -> None:
        """A segment has ended, with these streams in it."""
        self._streams += touched
        self._keys += self._producers.take_touched()
        self._ended = segment

    def write_some(self) -> None:
        """The next ones, if there are any."""
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
    """What was gathered up to the end of a segment is in the books of the producers now."""
    return DeleteRange(Space.TABLES, *keys.pieces_until(segment))
