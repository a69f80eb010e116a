"""Reads the events of one stream from Parquet files, without reading the rest.

A row group holds many streams, and is decoded as a whole. So the groups decoded last are cached, sorted by stream: a
caller that reads a thousand streams side by side decodes each group once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.lake.address import TableError
from weft.lake.events import CONTENT, check_columns, sizes_of
from weft.lake.spans import IDENTITY, MEASURED, Numbers, Sorted, Span, StreamKey, joined, sort_rows, spans_of
from weft.lake.store import Store, StoreError
from weft.limits import MIB

GROUPS_BYTES_MAX: Final = 256 * MIB  # of decoded row groups: three of those that archive writes, with their order
GROUP_SHARE: Final = 2  # a group larger than this fraction of the cache is not cached: other writers make such
SLICE_ROWS: Final = 16_384  # of a large group, decoded at a time
SLICE_BYTES: Final = 16 * MIB  # roughly, of one stream out of a large group, cached for a reader that goes on
FOOTERS_MAX: Final = 256  # files whose footers are remembered: some 10 KB each


class FileGone(TableError):
    """A file of the table is no longer there: the table has changed."""


class FileDamaged(TableError):
    """A file of the table is damaged: it cannot be read."""


class Part(NamedTuple):
    """Rows of one stream in one row group, in the order of their offsets, and about how many bytes each takes. ``take``
    gives some of them, with all that an event has."""

    offsets: Numbers
    sizes: Numbers
    take: Callable[[Numbers], pa.Table]


@dataclass(frozen=True, slots=True)
class _Group:
    """A decoded row group."""

    rows: pa.Table
    sorted: Sorted
    sizes: Numbers  # in that order
    bytes: int


@dataclass(frozen=True, slots=True)
class _Slice:
    """Events of one stream out of a large row group."""

    place: tuple[str, int, StreamKey]
    offsets: Numbers
    rows: pa.Table


class EventFiles:
    """The files of one table. ``groups_bytes_max``: how many bytes of decoded row groups may be cached."""

    def __init__(self, store: Store, groups_bytes_max: int = GROUPS_BYTES_MAX) -> None:
        self._store = store
        self._groups_bytes_max = groups_bytes_max
        self._group_bytes_max = groups_bytes_max // GROUP_SHARE
        self._slice: _Slice | None = None  # the last
        self._groups: OrderedDict[tuple[str, int], _Group] = OrderedDict()
        self._footers: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self.groups_read = 0

    def spans(self, path: str) -> Iterator[list[Span]]:
        """The spans of a file, a row group at a time; ``joined`` puts them together."""
        for number in range(self._footer(path).num_row_groups):
            with self._opened(path) as file:
                yield spans_of(file.read_row_group(number, columns=list(MEASURED)))

    def parts(self, path: str, key: StreamKey, first: int, end: int) -> list[Part]:
        """The rows of a stream with offsets from ``first`` up to but not including ``end``."""
        found = []
        for number in self._candidates(path, key, first, end):
            part = self._part(path, number, key, first, end)
            if part is not None:
                found.append(part)
        return found

    def forget(self, paths: set[str]) -> None:
        """Drop what is cached of these files: they are no longer part of the table."""
        for place in [place for place in self._groups if place[0] in paths]:
            del self._groups[place]
        for path in paths & self._footers.keys():
            del self._footers[path]
        if self._slice is not None and self._slice.place[0] in paths:
            self._slice = None

    # --- row groups ------------------------------------------------------------------------------------------------

    def _candidates(self, path: str, key: StreamKey, first: int, end: int) -> list[int]:
        """The row groups that may have some of these events, judged by their statistics."""
        footer = self._footer(path)
        topic, offset = _leaf(footer, "topic"), _leaf(footer, "offset")
        return [
            number
            for number in range(footer.num_row_groups)
            if _may_have(footer, number, topic, key[0].topic, key[0].topic)
            and _may_have(footer, number, offset, first, end - 1)
        ]

    def _part(self, path: str, number: int, key: StreamKey, first: int, end: int) -> Part | None:
        if self._footer(path).row_group(number).total_byte_size > self._group_bytes_max:
            return self._sliced(path, number, key, first, end)
        group = self._group(path, number)
        begin, until = group.sorted.streams.get(key, (0, 0))
        skipped, count = np.searchsorted(group.sorted.offsets[begin:until], (first, end)).tolist()
        where = slice(begin + skipped, begin + count)
        places = group.sorted.order[where]
        if not len(places):
            return None
        return Part(
            group.sorted.offsets[where], group.sizes[where], lambda chosen: group.rows.take(pa.array(places[chosen]))
        )

    def _group(self, path: str, number: int) -> _Group:
        group = self._groups.get((path, number))
        if group is None:
            with self._opened(path) as file:
                rows = file.read_row_group(number, columns=[*IDENTITY, *CONTENT])
                self.groups_read += 1
                found = sort_rows(rows)
            content = rows.select(CONTENT).combine_chunks()
            size = content.nbytes + found.order.nbytes + 2 * found.offsets.nbytes
            group = _Group(content, found, sizes_of(content)[found.order], size)
            self._groups[path, number] = group
            while sum(each.bytes for each in self._groups.values()) > self._groups_bytes_max and len(self._groups) > 1:
                self._groups.popitem(last=False)
        self._groups.move_to_end((path, number))
        return group

    # --- row groups that are too large to be kept ------------------------------------------------------------------

    def _sliced(self, path: str, number: int, key: StreamKey, first: int, end: int) -> Part | None:
        """In a large group, the next events of a stream, which are cached for a reader that goes on."""
        place = (path, number, key)
        kept = self._slice
        if kept is None or kept.place != place or not kept.offsets[0] <= first <= kept.offsets[-1]:
            self._slice = kept = self._decoded_slice(place, first, end)
        if kept is None:
            return None
        skipped, count = np.searchsorted(kept.offsets, (first, end)).tolist()
        rows = kept.rows.slice(skipped, count - skipped)
        return Part(kept.offsets[skipped:count], sizes_of(rows), lambda chosen: rows.take(pa.array(chosen)))

    def _decoded_slice(self, place: tuple[str, int, StreamKey], first: int, end: int) -> _Slice | None:
        path, number, key = place
        offsets, places = self._located(path, number, key, first, end)
        if not len(offsets):
            return None
        group = self._footer(path).row_group(number)
        count = max(SLICE_BYTES * group.num_rows // max(group.total_byte_size, 1), 1)
        order = np.argsort(offsets, kind="stable")[:count]
        wanted = np.sort(places[order])
        rows: list[pa.Table] = []
        passed = 0
        with self._opened(path) as file:
            for batch in file.iter_batches(SLICE_ROWS, row_groups=[number], columns=list(CONTENT)):
                inside = wanted[(wanted >= passed) & (wanted < passed + batch.num_rows)] - passed
                rows += [pa.Table.from_batches([batch]).take(pa.array(inside))] if len(inside) else []
                passed += batch.num_rows
                if passed > wanted[-1]:
                    break
        self.groups_read += 1
        in_order = pa.concat_tables(rows).take(pa.array(np.searchsorted(wanted, places[order])))
        return _Slice(place, offsets[order], in_order.select(CONTENT).combine_chunks())

    def _located(self, path: str, number: int, key: StreamKey, first: int, end: int) -> tuple[Numbers, Numbers]:
        """The offsets of a stream in a row group, in file order, and the rows they are in."""
        offsets, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        passed = 0
        with self._opened(path) as file:
            for batch in file.iter_batches(SLICE_ROWS, row_groups=[number], columns=list(IDENTITY)):
                found = sort_rows(pa.Table.from_batches([batch]))
                begin, until = found.streams.get(key, (0, 0))
                inside = found.offsets[begin:until]
                wanted = (inside >= first) & (inside < end)
                offsets.append(inside[wanted])
                places.append(found.order[begin:until][wanted] + passed)
                passed += batch.num_rows
        return np.concatenate(offsets), np.concatenate(places)

    # --- files -----------------------------------------------------------------------------------------------------

    def _footer(self, path: str) -> pq.FileMetaData:
        footer = self._footers.get(path)
        if footer is None:
            with self._opened(path, coded=()) as file:
                footer = file.metadata
                check_columns(file.schema_arrow)
            self._footers[path] = footer
            if len(self._footers) > FOOTERS_MAX:
                self._footers.popitem(last=False)
        return footer

    @contextmanager
    def _opened(self, path: str, coded: Sequence[str] = ("topic", "origin")) -> Iterator[pq.ParquetFile]:
        """Open a file; its checksums are verified. Raises FileGone, FileDamaged or StoreError."""
        try:
            with (
                closing(self._store.reader(path)) as source,
                pq.ParquetFile(
                    source,
                    metadata=self._footers.get(path),
                    read_dictionary=list(coded),
                    page_checksum_verification=True,
                ) as file,
            ):
                yield file
        except (StoreError, OSError, pa.ArrowException) as error:
            self._check_there(path, error)
            if isinstance(error, StoreError):
                raise
            if isinstance(error, OSError) and error.errno is not None:
                raise StoreError(f"a file of the table cannot be read: {error.strerror}", file=path) from None
            what = str(error).partition("\n")[0]
            raise FileDamaged(f"a file of the table is damaged: {what}", file=path) from None

    def _check_there(self, path: str, error: Exception) -> None:
        """Raise FileGone if reading failed because the file is gone."""
        if isinstance(error, FileNotFoundError) or self._store.facts(path) is None:
            raise FileGone("a file of the table is gone", file=path) from None


def file_spans(files: EventFiles, path: str) -> list[Span]:
    """The spans of a whole file, at once."""
    return joined(span for group in files.spans(path) for span in group)


def _leaf(footer: pq.FileMetaData, name: str) -> int:
    return next(index for index in range(footer.num_columns) if footer.schema.column(index).path == name)


def _may_have(footer: pq.FileMetaData, group: int, column: int, least: object, most: object) -> bool:
    """Whether a column of a row group may have a value in this range. Without statistics it may."""
    statistics = footer.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= most and least <= statistics.max)
