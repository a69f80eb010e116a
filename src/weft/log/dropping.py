"""Dropping the beginning of a stream, for retention and for copies that begin again."""

from __future__ import annotations

from weft.log import index, keys
from weft.log.store import DeleteRange, Space, Store, Write


def dropping(store: Store, stream_id: int, end: int, latest_us: int, flushed: int) -> tuple[list[Write], list[int]]:
    """Return the writes that delete the offsets before ``end`` and their index, and the segments after ``flushed`` that
    hold some of these offsets. ``latest_us`` is the greatest timestamp among them.

    Those segments are left as they are: until they are in table files, recovery counts what is in them
    (``promises.Tally``).
    """
    segments = sorted({point.segment for point in index.points(store, stream_id, 0, end)})
    writes = [drop_from_segment(segment, stream_id, end) for segment in segments if segment <= flushed]
    for table, behind in (
        (keys.INDEX, keys.index_key(stream_id, end)),
        (keys.TIMES, keys.time_key(stream_id, latest_us, end)),
    ):
        writes.append(DeleteRange(Space.TABLES, keys.stream_range(table, stream_id)[0], behind))
    return writes, [segment for segment in segments if segment > flushed]


def drop_from_segment(segment: int, stream_id: int, end: int) -> Write:
    first, behind = keys.batch_key(segment, stream_id, 0), keys.batch_key(segment, stream_id, end)
    return DeleteRange(Space.BATCHES, first, behind)
