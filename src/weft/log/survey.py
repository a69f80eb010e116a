"""Reading everything: which offsets of which streams are really there, and which are damaged.

``weft log check`` is this; recovery does it when something does not add up, and repair to know what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from weft.log import keys
from weft.log.entries import Entry, read_sound_entry, rows_around_damage, rows_from_the_end
from weft.log.errors import Loss, StoreCorrupt
from weft.log.keys import Point
from weft.log.promises import Promises
from weft.log.records import StreamState, decode_record, new_record
from weft.log.store import Row, Space, Store
from weft.model.stream import Epoch

Progress = Callable[[int], None]  # bytes read so far
Range = tuple[int, int]  # offsets from the first up to but not including the second

PROGRESS_BYTES: Final = 16 << 20
SEGMENT_END: Final = (1 << 32) - 1


class Stored(NamedTuple):
    """An entry and where it is. ``entry`` is None if its bytes differ from what was stored."""

    segment: int
    stream_id: int
    offset: int
    entry: Entry | None


@dataclass(slots=True)
class Found:
    """What there is of one stream: runs of offsets that are accounted for, and batches with wrong bytes."""

    runs: list[Range] = field(default_factory=list)
    damaged: list[Range] = field(default_factory=list)
    events: int = 0
    bytes: int = 0

    def add(self, entry: Entry) -> None:
        self.events += entry.events
        if entry.events:
            self.bytes += len(entry.data)
        if self.runs and self.runs[-1][1] == entry.first:
            self.runs[-1] = (self.runs[-1][0], entry.end)
        else:
            self.runs.append((entry.first, entry.end))

    def missing(self, first: int, end: int) -> list[Range]:
        """Return the parts of ``first`` to ``end`` that are not in the runs."""
        gaps: list[Range] = []
        at = first
        for begin, stop in sorted(self.runs):
            if begin >= end:
                break
            if begin > at:
                gaps.append((at, begin))
            at = max(at, stop)
        if at < end:
            gaps.append((at, end))
        return gaps


class Survey:
    """Reads all of a store, as far as possible.

    ``unreadable``: where the store itself cannot read on. A repair has to leave these places out.
    """

    def __init__(self, store: Store, promises: Promises | None, progress: Progress | None = None) -> None:
        self.store = store
        self._progress = progress
        self.marks_missing = promises is None
        self.promises = promises = promises or Promises()
        self.unreadable: list[str] = []
        self.streams = {each.id: each for each in map(_state, self.table(keys.STREAMS))}
        for number, each in promises.streams.items():
            if number not in self.streams:
                self.streams[number] = StreamState(number, new_record(each.stream, each.epoch, each.start))
            else:
                self.streams[number].start = max(self.streams[number].start, each.start)

    def table(self, table: bytes) -> Iterator[Row]:
        """The rows of a table that can be read, before and behind the damage."""
        first, end = keys.table_range(table)
        try:
            for row in self.store.scan(Space.TABLES, first, end):
                yield row
                first = row[0] + b"\0"
        except StoreCorrupt as error:
            self.unreadable.append(str(error))
            yield from rows_from_the_end(self.store, Space.TABLES, first, end)

    def read_tables(self) -> None:
        """Find damage in the tables that nothing else reads as a whole."""
        for table in (keys.INDEX, keys.TIMES, keys.PRODUCERS, keys.PIECES, keys.GROUPS, keys.LINKS):
            for _ in self.table(table):
                pass

    def meta(self, name: str) -> int | None:
        return next((int(value) for key, value in self.table(keys.META) if key == keys.meta_key(name)), None)

    def epoch(self) -> Epoch | None:
        """The epoch of the log, from its books or else from its promises."""
        epoch = self.meta("epoch") or self.promises.epoch
        return Epoch(epoch) if epoch else None

    def found(self) -> dict[int, Found]:
        """What there is of each stream. All batches are read and checked."""
        found = {stream_id: Found() for stream_id in self.streams}
        for stored in self.batches():
            stream = found.setdefault(stored.stream_id, Found())
            if stored.stream_id in self.streams and stored.offset < self.streams[stored.stream_id].start:
                continue  # of a copy that was restarted
            if stored.entry is None:
                stream.damaged.append((stored.offset, stored.offset + 1))
            else:
                stream.add(stored.entry)
        return found

    def batches(self) -> Iterator[Stored]:
        """Yield every entry that the store can read, segment by segment, whatever is damaged between them."""
        read = told = 0
        for segment in range(1, self.last_segment() + 1):
            for row in self._rows(segment):
                _, stream_id, offset = keys.BATCH_KEY.unpack(row[0])
                yield Stored(segment, stream_id, offset, read_sound_entry(row))
                read += len(row[1])
                if self._progress is not None and read - told >= PROGRESS_BYTES:
                    told = read
                    self._progress(read)

    def last_segment(self) -> int:
        """The last segment that may hold anything."""
        known = [self.meta("segment") or 1, self.promises.settled, *self.promises.tallies]
        try:
            rows = self.store.scan_back(Space.BATCHES, *keys.segment_range(0, SEGMENT_END))
            known += [keys.BATCH_KEY.unpack(key)[0] for key, _ in islice(rows, 1)]
        except StoreCorrupt:
            known += [point.segment for _, point in self._points()]
        return max(known)

    def _rows(self, segment: int) -> Iterator[Row]:
        last = keys.batch_key(segment, 0, 0)
        try:
            for row in self.store.scan(Space.BATCHES, *keys.segment_range(segment, segment + 1)):
                last = row[0]
                yield row
        except StoreCorrupt as error:
            self.unreadable.append(str(error))
            yield from self._rows_around_damage(segment, last)

    def _rows_around_damage(self, segment: int, last: bytes) -> Iterator[Row]:
        """Yield what can be read behind ``last`` in its segment, stream by stream."""
        _, last_id, last_offset = keys.BATCH_KEY.unpack(last)
        offsets = self._offsets_in(segment)
        for stream_id in sorted(offsets):
            if stream_id >= last_id:
                first = last_offset + 1 if stream_id == last_id else 0
                points = [first, *(offset for offset in offsets[stream_id] if offset > first)]
                yield from rows_around_damage(self.store, segment, stream_id, points)

    def _offsets_in(self, segment: int) -> dict[int, list[int]]:
        """The streams that may be in a segment, with their index points there."""
        offsets: dict[int, list[int]] = {}
        damage = len(self.unreadable)
        for stream_id, point in self._points():
            if point.segment == segment:
                offsets.setdefault(stream_id, []).append(point.offset)
        if len(self.unreadable) > damage:  # the index is damaged, so any stream may be there
            offsets = {stream_id: offsets.get(stream_id, []) for stream_id in self.streams}
        return offsets

    def _points(self) -> Iterator[tuple[int, Point]]:
        for key, value in self.table(keys.INDEX):
            yield keys.STREAM_OFFSET_KEY.unpack(key)[1], keys.unpack_point(key, value)


def losses(survey: Survey, found: Mapping[int, Found]) -> list[Loss]:
    """Return what was promised, not deleted by retention, and is missing."""
    return [
        Loss(each.stream, each.epoch, first, end)
        for number, each in survey.promises.streams.items()
        for first, end in found.get(number, Found()).missing(survey.streams[number].start, each.end)
    ]


def _state(row: Row) -> StreamState:
    key, value = row
    return StreamState(keys.STREAM_KEY.unpack(key)[1], decode_record(value))
