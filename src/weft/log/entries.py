"""What is stored under the keys of batches: batches, and notes in the place of events that are gone.

Every offset of a stream, from its start to its end, is in exactly one entry. So a gap is always damage: where
compaction deletes events or repair gives them up, they leave notes.

======  ====  =====================================================================================================
at      type  a note (a batch begins with its format version, which is below 128)
======  ====  =====================================================================================================
0       u8    192: compaction has taken these events, 193: a repair has given them up; here or at their source
1       u64   the offset behind the last of them
======  ====  =====================================================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from weft.log import keys
from weft.log.errors import StoreCorrupt
from weft.log.keys import U64_MAX
from weft.log.store import Row, Space, Store
from weft.model.batch import Batch
from weft.model.batch_header import BadBatch, unpack_untrusted

NOTE: Final = struct.Struct(">BQ")


class Kind(IntEnum):
    BATCH = 1
    COMPACTED = 192
    LOST = 193


class Entry(NamedTuple):
    """Offsets from ``first`` up to but not including ``end``. It is a tuple because one is made for every batch that is
    read."""

    first: int
    end: int
    kind: Kind
    data: bytes

    @property
    def events(self) -> int:
        return self.end - self.first if self.kind is Kind.BATCH else 0


def note(kind: Kind, first: int, end: int) -> Entry:
    """Make the entry that stands for events that are gone."""
    return Entry(first, end, kind, NOTE.pack(kind, end))


def read_entry(row: Row) -> Entry | None:
    """Read what a row of BATCHES stores; None if it is neither a batch nor a note, or belongs elsewhere."""
    key, data = row
    first = keys.BATCH_KEY.unpack(key)[2]
    if len(data) == NOTE.size:
        kind, end = NOTE.unpack(data)
        return Entry(first, end, Kind(kind), data) if kind in (Kind.COMPACTED, Kind.LOST) and end > first else None
    try:
        head = unpack_untrusted(data)
    except BadBatch:
        return None
    return Entry(first, first + head.event_count, Kind.BATCH, data) if head.base_offset == first else None


def read_sound_entry(row: Row) -> Entry | None:
    """Do the same, and return None also if the batch's checksum does not fit."""
    entry = read_entry(row)
    if entry is not None and entry.kind is Kind.BATCH and not Batch.read_stored(entry.data).intact:
        return None
    return entry


def rows_around_damage(store: Store, segment: int, stream_id: int, points: Sequence[int]) -> Iterator[Row]:
    """Yield the readable rows of a stream in a segment with damage in it, beginning at the first point.

    Keys behind a damaged block are unknown, but the stream's index points are known. So each stretch between two points
    is read forwards from its beginning and, where that breaks off, backwards from its end.
    """
    for first, end in pairwise((*points, U64_MAX)):
        low, high = keys.batch_key(segment, stream_id, first), keys.batch_key(segment, stream_id, end)
        try:
            for row in store.scan(Space.BATCHES, low, high):
                yield row
                low = row[0] + b"\0"
        except StoreCorrupt:
            yield from rows_from_the_end(store, Space.BATCHES, low, high)


def rows_from_the_end(store: Store, space: Space, first: bytes, end: bytes) -> list[Row]:
    """Read a range backwards from its end as far as possible, and return those rows in the order of their keys."""
    rows: list[Row] = []
    try:
        for row in store.scan_back(space, first, end):
            rows.append(row)
    except StoreCorrupt:
        pass  # we have reached the other side of the damage
    rows.reverse()
    return rows
