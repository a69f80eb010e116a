"""Reading streams: stored bytes, in order, without a silent gap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

from weft.limits import READ_BYTES_MAX
from weft.log import index, keys
from weft.log.entries import Entry, Kind, read_entry, rows_around_damage
from weft.log.errors import EventsLost, Loss, PositionAhead, PositionExpired, StoreCorrupt
from weft.log.records import StreamState
from weft.log.store import Space, Store
from weft.model.batch import Batch

TIMESTAMP_US_MAX = (1 << 63) - 1
DAMAGED = "the log is damaged there; see `weft log check`"
GIVEN_UP = "a repair has given them up"


def read_range(store: Store, state: StreamState, first: int, end: int, bytes_max: int) -> list[bytes]:
    """Read the stored batches that hold the offsets from ``first`` up to but not including ``end``, up to
    ``bytes_max``.

    The first batch may begin before ``first``. At least one batch is returned if there is one, however large it is.
    """
    _check_position(state, first)
    batches: list[bytes] = []
    size = 0
    try:
        with _naming_the_index():
            for entry in entries(store, state, first, min(end, state.durable), bytes_max):
                if entry.kind is Kind.BATCH:
                    if batches and size + len(entry.data) > bytes_max:
                        break
                    batches.append(entry.data)
                    size += len(entry.data)
                    if size >= bytes_max:
                        break  # before the next one is read, which may be large
    except (EventsLost, PositionExpired):  # retention may pass while we read
        if not batches:
            raise
    return batches


def read_appended(store: Store, state: StreamState, first: int, end: int) -> list[bytes]:
    """All batches that hold these offsets, synced or not; for the log's own use. Empty if some are gone or damaged."""
    if first < state.start:
        return []
    try:
        found = list(entries(store, state, first, end, READ_BYTES_MAX))
    except (EventsLost, PositionExpired):
        return []
    return [entry.data for entry in found if entry.kind is Kind.BATCH]


def seek_time(store: Store, state: StreamState, timestamp_us: int) -> int:
    """The offset of the first event at or after a time; the end of the stream if there is none yet.

    Timestamps need not be in order. All events before the answer are earlier than the time; events behind it may be
    earlier, too. If events that might be that late are lost, the answer is the first of those.
    """
    if timestamp_us > TIMESTAMP_US_MAX:
        return state.durable
    try:
        with _naming_the_index():
            return _seek_time(store, state, timestamp_us)
    except EventsLost as error:
        return error.loss.first
    except PositionExpired:  # retention passed while we were reading
        return seek_time(store, state, timestamp_us)


def _seek_time(store: Store, state: StreamState, timestamp_us: int) -> int:
    begin = max(state.start, index.offset_before_time(store, state.id, timestamp_us) or 0)
    for entry in entries(store, state, begin, state.durable, 1):
        if entry.kind is Kind.BATCH:
            batch = Batch.read_stored(entry.data)
            if batch.timestamp_us_max >= timestamp_us:
                late = batch.first_at(timestamp_us, begin)
                if late is not None:
                    return late
    return state.durable


@contextmanager
def _naming_the_index() -> Iterator[None]:
    """Damage to batches is already an EventsLost; any other damage must be in the index, and is named as that."""
    try:
        yield
    except StoreCorrupt as error:
        raise StoreCorrupt(f"the index is damaged; `weft log repair` makes it again: {error}") from error


def _check_position(state: StreamState, first: int) -> None:
    available = {"earliest": state.start, "latest": state.durable}
    if first < state.start:
        raise PositionExpired(f"{state.stream} no longer has offset {first}", **available)
    if first > state.durable:
        raise PositionAhead(f"{state.stream} has no offset {first} yet", **available)


def entries(store: Store, state: StreamState, first: int, end: int, bytes_expected: int) -> Iterator[Entry]:
    """Yield entries from the one that holds ``first``, each following the one before it; raise EventsLost at a gap."""
    at = first
    while at < end:
        for entry in _next_entries(store, state, at, end, bytes_expected):
            if entry.kind is Kind.LOST:
                raise EventsLost(Loss(state.stream, state.epoch, at, entry.end), GIVEN_UP, is_given_up=True)
            yield entry
            at = entry.end
            if at >= end:
                return


def _next_entries(store: Store, state: StreamState, first: int, end: int, bytes_expected: int) -> Iterator[Entry]:
    """Read at least one entry; the first one holds ``first``."""
    found = False
    for entry in _in_segment(store, state, first, end, bytes_expected):
        found = True
        yield entry
    if not found:
        yield _behind_damage(store, state, first)


def _in_segment(store: Store, state: StreamState, first: int, end: int, bytes_expected: int) -> Iterator[Entry]:
    """Yield entries that follow each other within one segment, from the one that holds ``first``."""
    point = index.point_at(store, state.id, first)
    if point is None:
        return
    low, holder, high = (keys.batch_key(point.segment, state.id, offset) for offset in (point.offset, first, end))
    at = first
    try:
        for row in store.scan_holding(Space.BATCHES, low, holder, high, bytes_expected):
            entry = read_entry(row)
            if entry is None or not entry.first <= at < entry.end:
                return
            yield entry
            at = entry.end
    except StoreCorrupt:
        return


def _behind_damage(store: Store, state: StreamState, offset: int) -> Entry:
    """Find the entry that holds ``offset``, though others in its segment cannot be read. If it cannot be read, say what
    is lost."""
    _check_position(state, offset)  # retention may have passed while we were reading
    entry = next_readable(store, state, offset)
    if entry is None or entry.first > offset:
        end = state.durable if entry is None else entry.first
        raise EventsLost(Loss(state.stream, state.epoch, offset, end), DAMAGED)
    return entry


def next_readable(store: Store, state: StreamState, offset: int) -> Entry | None:
    """Find the entry that holds ``offset``, or else the next one that can be read."""
    return next((entry for entry in _readable(store, state, offset) if entry.end > offset), None)


def _readable(store: Store, state: StreamState, offset: int) -> Iterator[Entry]:
    """Yield all entries of the stream that can be read, from the last index point before ``offset`` on."""
    begin = index.point_at(store, state.id, offset)
    first = 0 if begin is None else begin.offset
    for segment, points in groupby(index.points(store, state.id, first), lambda point: point.segment):
        offsets = [point.offset for point in points]
        for row in rows_around_damage(store, segment, state.id, offsets):
            entry = read_entry(row)
            if entry is not None:
                yield entry
