"""What is stored under the keys of batches: batches, and notes in the place of events that are gone.

Every offset of a stream, from its start to its end, is in exactly one entry. So a gap is always damage, wherever it is:
compaction and repair leave notes where they took events away or gave them up.

======  ====  =====================================================================================================
at      type  a note (a batch begins with its format version, which is below 128)
======  ====  =====================================================================================================
0       u8    192: compaction has taken these events, here or at their source; 193: a repair has given them up
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
    """Offsets from ``first`` up to, not including, ``end``. A tuple: one is made for every batch read."""

    first: int
    end: int
    kind: Kind
    data: bytes

    @property
    def events(self) -> int:
        return self.end - self.first if self.kind is Kind.BATCH else 0


def note(kind: Kind, first: int, end: int) -> Entry:
    """The entry that stands for events that are gone."""
    return Entry(first, end, kind, NOTE.pack(kind, end))


def read_entry(row: Row) -> Entry | None:
    """What is stored in a row of BATCHES; None if it is neither a batch nor a note, or one of another place."""
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
    """The same, and None also if the batch's checksum does not fit."""
    entry = read_entry(row)
    if entry is not None and entry.kind is Kind.BATCH and not Batch.read_stored(entry.data).intact:
        return None
    return entry


def rows_around_damage(store: Store, segment: int, stream_id: int, points: Sequence[int]) -> Iterator[Row]:
    """The rows of a stream in a segment that can be read, though some between them cannot, from the first point on.

    Behind a damaged block, keys are not known; but the stream's index points are. So each stretch between two points is
    read from its beginning, and, where that breaks off, from its end.
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
    """The rows of a range that can be read from its end on, in the order of their keys."""
    rows: list[Row] = []
    try:
        for row in store.scan_back(space, first, end):
            rows.append(row)
    except StoreCorrupt:
        pass  # that is the other side of the damage
    rows.reverse()
    return rows
