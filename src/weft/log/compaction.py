"""Compaction to the latest event per key. Offsets stay as they are; notes say which events are gone (``entries``).

An event with a key and an empty payload is a tombstone: it removes the older events of its key, and is removed itself
when it is so old that every reader has seen it. Events without a key stay. Like retention, compaction touches only what
is in table files.

What is left of a batch becomes one batch for each run of offsets, and each batch costs some 600 bytes: if batches lose
every other event, they take more bytes than before. So compact topics whose keys come again often.

A stream is rewritten stretch by stretch, from one index point to the next, each in one write. The next round repeats
one that was cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from weft.log import index, keys
from weft.log.entries import Entry, Kind, note, read_sound_entry
from weft.log.errors import EventsLost, Loss, StoreCorrupt
from weft.log.keys import Point
from weft.log.log import Log
from weft.log.reading import next_readable
from weft.log.records import StreamState
from weft.log.store import Delete, Put, Space, Write
from weft.model import Batch, Epoch, Stream

KEYS_MAX: Final = 2_000_000  # keys in memory in one round, about 300 MB; events behind them wait for the next round
TOMBSTONE_AGE_US: Final = 24 * 3600 * 1_000_000  # one day, so that every reader sees that a key is gone


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a round has done to a stream, up to but not including ``end``."""

    stream: Stream
    epoch: Epoch
    end: int
    events_removed: int
    events_kept: int
    bytes_removed: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The offsets from an index point up to the next one."""

    point: Point
    end: int


def compact(
    log: Log, state: StreamState, now_us: int, *, keys_max: int = KEYS_MAX, tombstone_age_us: int = TOMBSTONE_AGE_US
) -> Compacted | None:
    """Compact a stream once. None if nothing was added to its table files since the last round, or if it is a copy that
    was restarted meanwhile.

    Raise EventsLost where the stream is damaged; what was compacted before that point stays compacted.
    """
    with log.maintenance:
        start = state.start
        try:
            return _compact(log, state, start, now_us - tombstone_age_us, keys_max)
        except EventsLost:
            if state.start != start:
                return None
            raise


def _compact(log: Log, state: StreamState, start: int, tombstones_before_us: int, keys_max: int) -> Compacted | None:
    stretches = settled(log, state)
    latest, end = _latest_offsets(log, state, stretches, keys_max)
    if end <= max(state.compacted, start):
        return None
    return rewrite(log, state, start, stretches, end, lambda batch: _stays(batch, latest, tombstones_before_us))


def rewrite(
    log: Log, state: StreamState, start: int, stretches: list[Stretch], end: int, stays: Callable[[Batch], list[bool]]
) -> Compacted | None:
    """Delete the superseded events of these stretches, up to ``end``. None if the stream no longer begins at ``start``.

    The caller holds ``log.maintenance``.
    """
    kept = removed = 0
    saved: list[tuple[Point, int]] = []
    for stretch in stretches:
        before = _entries(log, state, stretch)
        after = list(_joined(_compacted(before, end, stays)))
        kept += sum(entry.events for entry in after if entry.end <= end)
        removed += sum(entry.events for entry in before) - sum(entry.events for entry in after)
        if after != before and not log.change(state, start, _replace(state, stretch.point.segment, before, after)):
            return None
        saved.append((stretch.point, _size(before) - _size(after)))
    size = sum(bytes_saved for _, bytes_saved in saved)
    bytes_start = state.bytes_start + size
    if not log.change(state, start, _moved_points(state, saved), compacted=end, bytes_start=bytes_start):
        return None
    log.forget_recent(state)
    return Compacted(state.stream, state.epoch, end, removed, kept, size)


def settled(log: Log, state: StreamState) -> list[Stretch]:
    """Return the stretches of a stream that are in table files."""
    durable = state.durable  # read first: events appended from now on get points of their own
    points = list(index.points(log.store, state.id))
    ends = [*(point.offset for point in points), durable][1:]
    settled = zip(points, ends, strict=True) if points else ()
    return [Stretch(point, end) for point, end in settled if point.segment <= log.flushed_segment]


def _entries(log: Log, state: StreamState, stretch: Stretch) -> list[Entry]:
    low, high = (keys.batch_key(stretch.point.segment, state.id, each) for each in (stretch.point.offset, stretch.end))
    found: list[Entry] = []
    at = stretch.point.offset
    with suppress(StoreCorrupt):  # then some of them are missing
        for row in log.store.scan(Space.BATCHES, low, high):
            entry = read_sound_entry(row)
            if entry is None or entry.first != at:
                break
            found.append(entry)
            at = entry.end
    if at != stretch.end:
        raise EventsLost(_loss(log, state, at, stretch.end), "compaction found the log damaged there")
    return found


def _loss(log: Log, state: StreamState, first: int, end: int) -> Loss:
    """Say what cannot be read in a stretch, from ``first`` up to ``end``."""
    following = next_readable(log.store, state, first)
    if following is not None and following.first > first:
        end = min(end, following.first)
    elif following is not None:  # its bytes are wrong, but its header says how far it goes
        end = min(end, following.end)
    return Loss(state.stream, state.epoch, first, end)


def _latest_offsets(
    log: Log, state: StreamState, stretches: list[Stretch], keys_max: int
) -> tuple[dict[bytes, int], int]:
    """Find the last offset of each key among the events that no round has seen yet, and where these events end.

    In what an earlier round has seen, every key stands once, and only a newer event can supersede it.
    """
    latest: dict[bytes, int] = {}
    seen = end = max(state.compacted, state.start)
    for stretch in stretches:
        if stretch.end <= seen:
            continue
        for entry in _entries(log, state, stretch):
            if entry.end <= seen:
                continue
            if entry.kind is Kind.BATCH:
                if latest and len(latest) + entry.events > keys_max:
                    return latest, end
                names = Batch.read_stored(entry.data).keys.to_pylist()
                latest.update((name, offset) for offset, name in enumerate(names, entry.first) if name is not None)
            end = entry.end
    return latest, end


def _compacted(before: list[Entry], end: int, stays_of: Callable[[Batch], list[bool]]) -> Iterator[Entry]:
    """Yield the entries, with notes in the place of superseded events."""
    for entry in before:
        if entry.kind is not Kind.BATCH or entry.end > end:
            yield entry
            continue
        batch = Batch.read_stored(entry.data)
        stays = stays_of(batch)
        if all(stays):
            yield entry
            continue
        for kept, run in groupby(enumerate(stays, entry.first), key=lambda pair: pair[1]):
            offsets = [offset for offset, _ in run]
            first, behind = offsets[0], offsets[-1] + 1
            if kept:
                part = batch.slice(first, behind, compression=batch.compression)
                yield Entry(first, behind, Kind.BATCH, part.data)
            else:
                yield note(Kind.COMPACTED, first, behind)


def _stays(batch: Batch, latest: dict[bytes, int], tombstones_before_us: int) -> list[bool]:
    """Say for each event whether it stays. A Python loop will do: this runs in the background, and keys are looked up
    one by one."""
    import numpy as np

    ends = np.frombuffer(batch.payloads.buffers()[1], np.int32, len(batch) + 1)
    empty = (ends[1:] == ends[:-1]).tolist()
    stamps = batch.timestamps.to_pylist()
    return [
        name is None or not (latest.get(name, offset) > offset or (is_empty and stamp < tombstones_before_us))
        for offset, (name, is_empty, stamp) in enumerate(
            zip(batch.keys.to_pylist(), empty, stamps, strict=True), batch.base_offset
        )
    ]


def _joined(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield the same entries with neighbouring notes of compaction joined."""
    pending: Entry | None = None
    for entry in entries:
        if pending is not None and entry.kind is Kind.COMPACTED:
            pending = note(Kind.COMPACTED, pending.first, entry.end)
            continue
        if pending is not None:
            yield pending
        pending = entry if entry.kind is Kind.COMPACTED else None
        if pending is None:
            yield entry
    if pending is not None:
        yield pending


def _replace(state: StreamState, segment: int, before: list[Entry], after: list[Entry]) -> list[Write]:
    def key(entry: Entry) -> bytes:
        return keys.batch_key(segment, state.id, entry.first)

    left = {entry.first for entry in after}
    same = set(before)
    writes: list[Write] = [Delete(Space.BATCHES, key(entry)) for entry in before if entry.first not in left]
    writes += [Put(Space.BATCHES, key(entry), entry.data) for entry in after if entry not in same]
    return writes


def _size(entries: list[Entry]) -> int:
    return sum(len(entry.data) for entry in entries if entry.kind is Kind.BATCH)


def _moved_points(state: StreamState, saved: list[tuple[Point, int]]) -> list[Write]:
    """Correct the index points: bytes that were saved behind a point now count as lying before it.

    ``bytes_start`` has grown by everything saved, so the sizes between points, and the end, stay as they are.
    """
    writes: list[Write] = []
    behind = sum(size for _, size in saved)
    for point, size in saved:
        if behind:
            moved = point._replace(bytes_before=point.bytes_before + behind)
            writes.append(Put(Space.TABLES, keys.index_key(state.id, point.offset), keys.pack_point(moved)))
        behind -= size
    return writes
