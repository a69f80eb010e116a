"""The history of streams in an archive table: which offsets it has, and the events as batches with their offsets.

A table may hold an event twice, and may have holes. A reader gets each event once, in the order of offsets. A hole is
reported (``Lacking``): nothing is ever skipped silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from weft.lake.event_files import EventFiles, FileDamaged, Part
from weft.lake.events import BadEvent, RowsDiffer, batches_of, without_repeats
from weft.lake.index import Index, Located, Page
from weft.lake.spans import Numbers, Span, StreamKey, following, stretches
from weft.limits import OFFSET_MAX
from weft.model import Batch, Pattern

WINDOW_ROWS: Final = 65_536  # of a stream, looked at in one read


class Found(NamedTuple):
    """Events from the offset that was asked for, up to the first hole or to the limit of one read."""

    batches: tuple[Batch, ...]


class Lacking(NamedTuple):
    """The table has no event at the offset that was asked for; ``following`` is the next that it has, if any."""

    following: int | None


class Damaged(NamedTuple):
    """The events from ``first`` up to but not including ``end`` are in a file that cannot be read."""

    first: int
    end: int
    reason: str


Answer: TypeAlias = Found | Lacking | Damaged


class History:
    """The history in one table: the index says which file has what, the files have the events."""

    def __init__(self, index: Index, files: EventFiles) -> None:
        self._index = index
        self._files = files

    def extents(self, pattern: Pattern, after: StreamKey | None, look_max: int) -> Page:
        """What the table has of the streams that match, a page at a time (``Index.extents``)."""
        return self._index.extents(pattern, after, look_max)

    def runs(self, key: StreamKey, count_max: int) -> list[int]:
        """All stretches that the table has of a stream, as first and end in turn; empty if there are too many."""
        found: list[int] = []
        for each in stretches(self._spans(key, 0)):
            found += each
            if len(found) > count_max:
                return []
        return found

    def read(self, key: StreamKey, first: int, end: int, bytes_max: int, *, with_gaps: bool = False) -> Answer:
        """Events from ``first`` up to but not including ``end``: about ``bytes_max`` bytes, at least one event."""
        covering, window = self._window(key, first, end)
        if not covering:
            later = following(self._spans(key, first), first)
            if later is None or later >= end or not with_gaps:
                return Lacking(later)
            return self.read(key, later, end, bytes_max, with_gaps=True)
        try:
            parts = [part for each in covering for part in self._files.parts(each.path, key, first, window)]
            batches = _batches(parts, first, bytes_max, with_gaps=with_gaps)
        except FileDamaged as error:
            return Damaged(first, window, str(error))
        except RowsDiffer as error:
            if error.offset > first:
                return self.read(key, first, error.offset, bytes_max, with_gaps=with_gaps)
            return Damaged(first, first + 1, str(error))
        except BadEvent as error:
            return Damaged(first, window, str(error))
        if not batches:  # the spans cover ``first``, but none of these files has a run there
            later = following(self._spans(key, first), first)
            if later is not None and later < end and with_gaps:
                return self.read(key, later, end, bytes_max, with_gaps=True)
            return Lacking(later)
        return Found(tuple(batches))

    def first_at(self, key: StreamKey, timestamp_us: int, end: int = OFFSET_MAX) -> int | None:
        """The first offset before ``end`` with an event at or after a time; None: there is none in the table."""
        found: int | None = None
        for span, path in self._index.spans(key, 0, end):
            if found is not None and span.first >= found:
                break
            if span.last_us < timestamp_us:
                continue
            for part in self._files.parts(path, key, span.first, min(span.end, end)):
                late = self._late(part, timestamp_us)
                found = late if found is None else found if late is None else min(found, late)
        return found

    def _late(self, part: Part, timestamp_us: int) -> int | None:
        times = part.take(np.arange(len(part.offsets))).column("timestamp").cast(pa.int64()).to_numpy()
        late = np.flatnonzero(times >= timestamp_us)
        return int(part.offsets[late[0]]) if len(late) else None

    def _spans(self, key: StreamKey, first: int) -> Iterator[Span]:
        return (located.span for located in self._index.spans(key, first))

    def _window(self, key: StreamKey, first: int, end: int) -> tuple[list[Located], int]:
        """The files that may have the event at ``first``, and the offset up to which no other file has events."""
        end = min(end, first + WINDOW_ROWS)
        covering: list[Located] = []
        for located in self._index.spans(key, first, end):
            if located.span.first > first:
                end = located.span.first
                break
            covering.append(located)
        return covering, min([end, *(each.span.end for each in covering)])


def _batches(parts: Sequence[Part], first: int, bytes_max: int, *, with_gaps: bool) -> list[Batch]:
    """The events from ``first`` on, from rows of several files; they end at the first gap unless ``with_gaps``."""
    if not parts:
        return []
    offsets = np.concatenate([part.offsets for part in parts])
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]
    is_new = np.concatenate(([True], offsets[1:] != offsets[:-1]))
    once = offsets[is_new]
    if not with_gaps:
        gaps = np.flatnonzero(once != first + np.arange(len(once)))
        once = once[: gaps[0]] if len(gaps) else once
    if not len(once):
        return []
    sizes = np.concatenate([part.sizes for part in parts])[order][is_new][: len(once)]
    count = max(int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")), 1)
    chosen = order[: int(np.searchsorted(offsets, once[min(count, len(once)) - 1], side="right"))]
    return list(batches_of(*without_repeats(offsets[: len(chosen)], _taken(parts, chosen))))


def _taken(parts: Sequence[Part], chosen: Numbers) -> pa.Table:
    """The chosen rows in this order. Rows are numbered through all parts."""
    if len(parts) == 1:
        return parts[0].take(chosen)
    ends = np.cumsum([len(part.offsets) for part in parts])
    owners = np.searchsorted(ends, chosen, side="right")
    rows = [
        part.take(chosen[owners == number] - (ends[number] - len(part.offsets))) for number, part in enumerate(parts)
    ]
    places = np.argsort(np.argsort(owners, kind="stable"), kind="stable")
    return pa.concat_tables(rows).take(pa.array(places))
