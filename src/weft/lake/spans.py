"""Which events a file holds: for each stream and epoch its offsets, as runs, and the times of its events. Pure.

Files of an archive table are sorted by topic, and each holds what one task wrote: mostly one run of offsets for each
stream. But the table is partitioned by day, and publishers choose timestamps, so a stream may also be scattered over
many files. Spans describe both cases exactly: where a table has a hole is known without reading an event.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.errors import UsageError
from weft.lake.address import TableError
from weft.limits import OFFSET_MAX
from weft.model import Epoch, Stream, parse_node_id, parse_topic
from weft.model.stream import check_place

IDENTITY: Final = ("topic", "origin", "epoch", "partition", "offset")
MEASURED: Final = (*IDENTITY, "timestamp")
CODES_MAX: Final = 1 << 31  # a code below this, multiplied by a row number within a group, fits 63 bits

StreamKey: TypeAlias = tuple[Stream, Epoch]
Numbers: TypeAlias = npt.NDArray[np.int64]


class Span(NamedTuple):
    """What one file has of a stream: ``first`` and ``end`` of its offsets, the least and the greatest timestamp, and
    the runs of offsets in between, packed. Without runs, the file has all offsets in between."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int
    first_us: int
    last_us: int
    runs: bytes = b""

    @property
    def key(self) -> StreamKey:
        return self.stream, self.epoch


class Sorted(NamedTuple):
    """Rows sorted by stream and offset: the row numbers in that order, and where each stream begins and ends."""

    order: Numbers
    offsets: Numbers  # in that order
    streams: dict[StreamKey, tuple[int, int]]


def sort_rows(rows: pa.Table) -> Sorted:
    """``rows`` have the columns of an event's identity; TableError if a row's identity is impossible."""
    named = [_coded(rows, name) for name in IDENTITY[:-1]]
    codes = _codes(named, rows.num_rows)
    offsets = _column(rows, "offset").to_numpy()
    behind = (codes[1:] > codes[:-1]) | ((codes[1:] == codes[:-1]) & (offsets[1:] >= offsets[:-1]))
    order = np.arange(len(codes)) if behind.all() else np.lexsort((offsets, codes))
    codes, offsets = codes[order], offsets[order]
    if offsets.size and (offsets.min() < 0 or offsets.max() >= OFFSET_MAX):
        raise TableError("a row of the table has an offset that there cannot be", limit=OFFSET_MAX)
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    ends = [*starts[1:], len(codes)]
    return Sorted(
        order,
        offsets,
        {_stream_of(named, int(order[start])): (start, end) for start, end in zip(starts, ends, strict=True)},
    )


def _codes(named: list[pa.DictionaryArray], count: int) -> Numbers:
    """A number for each row, the same for rows of one stream."""
    codes, bound = np.zeros(count, dtype=np.int64), 1
    for coded in named:
        size = max(len(coded.dictionary), 1)
        codes, bound = codes * size + coded.indices.to_numpy(), bound * size
        if bound > CODES_MAX:
            found, codes = np.unique(codes, return_inverse=True)
            bound = len(found)
    return codes


def spans_of(rows: pa.Table) -> list[Span]:
    """The span of each stream in these rows of one file. ``rows`` have the columns MEASURED."""
    found = sort_rows(rows)
    times = _column(rows, "timestamp").cast(pa.int64()).to_numpy()[found.order]
    spans = []
    for (stream, epoch), (start, end) in found.streams.items():
        offsets = found.offsets[start:end]
        first_us, last_us = int(times[start:end].min()), int(times[start:end].max())
        runs = runs_of(offsets)
        packed = b"" if len(runs) == 1 else pack_runs(runs)
        spans.append(Span(stream, epoch, int(offsets[0]), int(offsets[-1]) + 1, first_us, last_us, packed))
    return spans


def joined(spans: Iterable[Span]) -> list[Span]:
    """Join the spans of one file's row groups into one span for each stream."""
    by_key: dict[StreamKey, list[Span]] = {}
    for span in spans:
        by_key.setdefault(span.key, []).append(span)
    return [parts[0] if len(parts) == 1 else _joined(parts) for parts in by_key.values()]


def _joined(parts: list[Span]) -> Span:
    runs = merge_runs([runs_of_span(part) for part in parts])
    packed = b"" if len(runs) == 1 else pack_runs(runs)
    return Span(
        *parts[0].key,
        int(runs[0, 0]),
        int(runs[-1, 1]),
        min(part.first_us for part in parts),
        max(part.last_us for part in parts),
        packed,
    )


# --- runs: an array with a row (first, end) per run; end is not included; in order; no run touches the next ----------


def runs_of(offsets: Numbers) -> Numbers:
    """The runs of ascending offsets, which may have repeats."""
    breaks = np.flatnonzero(np.diff(offsets) > 1)
    firsts = offsets[np.concatenate(([0], breaks + 1))]
    ends = offsets[np.concatenate((breaks, [len(offsets) - 1]))] + 1
    return np.stack((firsts, ends), axis=1)


def runs_of_span(span: Span) -> Numbers:
    return np.array([[span.first, span.end]], dtype=np.int64) if not span.runs else unpack_runs(span.runs)


def merge_runs(parts: list[Numbers]) -> Numbers:
    """The offsets that are in any of these."""
    runs = np.concatenate(parts)
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    ends = np.maximum.accumulate(runs[:, 1])
    begins = np.concatenate(([True], runs[1:, 0] > ends[:-1]))
    starts = np.flatnonzero(begins)
    last = np.concatenate((starts[1:] - 1, [len(runs) - 1]))
    return np.stack((runs[starts, 0], ends[last]), axis=1)


def pack_runs(runs: Numbers) -> bytes:
    return zlib.compress(np.diff(runs.reshape(-1), prepend=0).astype("<i8").tobytes(), 1)


def unpack_runs(packed: bytes) -> Numbers:
    return np.cumsum(np.frombuffer(zlib.decompress(packed), "<i8")).reshape(-1, 2)


# --- what several files have between them ----------------------------------------------------------------------------


class Stretch(NamedTuple):
    """Offsets from ``first`` up to but not including ``end``, all of them there."""

    first: int
    end: int


def stretches(spans: Iterable[Span]) -> Iterator[Stretch]:
    """The stretches that these spans of one stream cover together. They come in the order of their first offsets."""
    waiting: list[Numbers] = []  # runs that later spans may touch
    for span in spans:
        if waiting:
            runs = merge_runs(waiting)
            done = runs[:, 1] < span.first
            for first, end in runs[done].tolist():
                yield Stretch(first, end)
            waiting = [runs[~done]] if not done.all() else []
        waiting.append(runs_of_span(span))
    if waiting:
        for first, end in merge_runs(waiting).tolist():
            yield Stretch(first, end)


def following(spans: Iterable[Span], first: int) -> int | None:
    """The first existing offset from ``first`` on; None: there is none."""
    return next((max(each.first, first) for each in stretches(spans) if each.end > first), None)


# --- rows to values --------------------------------------------------------------------------------------------------


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name).combine_chunks()
    if column.null_count:
        raise TableError("the table has rows without an identity: it is not one that archive wrote", column=name)
    return column


def _coded(rows: pa.Table, name: str) -> pa.DictionaryArray:
    column = _column(rows, name)
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _stream_of(named: list[pa.DictionaryArray], row: int) -> StreamKey:
    topic, origin, epoch, partition = (coded[row].as_py() for coded in named)
    try:
        check_place(epoch, 0)
        return Stream(parse_topic(topic), parse_node_id(origin), partition), Epoch(epoch)
    except UsageError as error:
        raise TableError(f"a row of the table has an identity that there cannot be: {error}") from None
