"""The index: where the offsets and times of a stream lie. Points are sparse, one for about 1 MiB (``keys.Point``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.log import keys
from weft.log.keys import U64_MAX, Point
from weft.log.store import Put, Space, Store, Write


def point_writes(stream_id: int, point: Point) -> list[Write]:
    return [
        Put(Space.TABLES, keys.index_key(stream_id, point.offset), keys.pack_point(point)),
        Put(Space.TABLES, keys.time_key(stream_id, point.latest_us, point.offset), b""),
    ]


def points(store: Store, stream_id: int, first: int = 0, end: int = U64_MAX) -> Iterator[Point]:
    """Yield the points at offsets from ``first`` up to but not including ``end``."""
    low, high = keys.index_key(stream_id, first), keys.index_key(stream_id, end)
    return (keys.unpack_point(*row) for row in store.scan(Space.TABLES, low, high))


def points_back(store: Store, stream_id: int, end: int) -> Iterator[Point]:
    """Yield the points before ``end``, the last one first."""
    low, high = keys.index_key(stream_id, 0), keys.index_key(stream_id, end)
    return (keys.unpack_point(*row) for row in store.scan_back(Space.TABLES, low, high))


def point_at(store: Store, stream_id: int, offset: int) -> Point | None:
    """Find the last point at or before an offset: its segment holds the offset."""
    return next(points_back(store, stream_id, offset + 1), None)


def offset_before_time(store: Store, stream_id: int, timestamp_us: int) -> int | None:
    """Find the last point before which every event is earlier than a time."""
    if timestamp_us <= keys.NO_TIME_US:
        return None
    low, _ = keys.stream_range(keys.TIMES, stream_id)
    high = keys.time_key(stream_id, timestamp_us, 0)
    return next((keys.offset_of_time_key(key) for key, _ in store.scan_back(Space.TABLES, low, high)), None)


def last_point_where(
    store: Store, stream_id: int, first: int, end: int, holds: Callable[[Point], bool]
) -> Point | None:
    """Find the last point from ``first`` up to but not including ``end`` for which a condition holds. Once it does not
    hold at a point, it must not hold at any later one."""
    found = None
    while first < end:
        middle = (first + end) // 2
        point = point_at(store, stream_id, middle)
        if point is None or point.offset < first:
            first = middle + 1  # there is no point from first to middle
        elif holds(point):
            found, first = point, middle + 1
        else:
            end = point.offset
    return found
