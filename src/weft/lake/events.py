"""Events as rows of a table, and back. Pure.

A row has an event's identity (topic, origin, epoch, partition, offset), and the event: timestamp, key, value, headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from weft.errors import UsageError
from weft.lake.address import TableError
from weft.lake.spans import Numbers
from weft.limits import BATCH_EVENTS_MAX
from weft.model import Batch

HEADERS: Final = pa.map_(pa.utf8(), pa.utf8())
TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.utf8(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS,
    "origin": pa.utf8(),
    "epoch": pa.int64(),
}
STORED: Final = {"timestamp": "timestamp", "key": "key", "headers": "headers", "value": "payload"}
CONTENT: Final = tuple(STORED)  # the columns of an event besides its identity
ROW_BYTES: Final = 32  # what an event takes beside key, value and headers, roughly
HEADER_BYTES: Final = 16  # and a header, beside its name and value


class RowsDiffer(TableError):
    """The table has two different events under one identity."""

    def __init__(self, offset: int) -> None:
        super().__init__("the table has different events under one offset", offset=offset)
        self.offset = offset


class BadEvent(TableError):
    """A row of the table cannot be an event."""


def check_columns(schema: pa.Schema) -> None:
    """Raise TableError unless the columns that ``archive`` writes are there; further columns do no harm."""
    for name, kind in TYPES.items():
        if name not in schema.names:
            raise TableError("the table is not one that archive wrote: it lacks a column of events", column=name)
        have = schema.field(name).type
        have = have.value_type if pa.types.is_dictionary(have) else have
        if not _is_like(have, kind):
            raise TableError("a column of the table is not what archive writes", column=name, have=have, need=kind)


def _is_like(have: pa.DataType, need: pa.DataType) -> bool:
    """Whether one type converts to the other without loss: other writers use other zones, units and text sizes."""
    types = pa.types
    if types.is_timestamp(need):
        return bool(types.is_timestamp(have) and have.unit == "us")
    if types.is_map(need):
        return bool(types.is_map(have))
    if types.is_integer(need):
        return bool(types.is_integer(have))
    if types.is_binary(need):
        return bool(types.is_binary(have) or types.is_large_binary(have))
    return bool(types.is_string(have) or types.is_large_string(have))


def sizes_of(rows: pa.Table) -> Numbers:
    """About how many bytes each event takes."""
    import pyarrow.compute as pc  # loads as slowly as everything else that Spark's planning needs from this room

    sizes = np.full(rows.num_rows, ROW_BYTES, dtype=np.int64)
    for name in ("key", "value"):
        lengths = pc.binary_length(rows.column(name)).combine_chunks()
        sizes += lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    headers = rows.column("headers").combine_chunks()
    if headers.null_count < len(headers):
        of_headers = np.full(len(headers.keys), HEADER_BYTES, dtype=np.int64)
        for texts in (headers.keys, headers.items):
            of_headers += pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
        before = np.concatenate(([0], np.cumsum(of_headers)))  # the bytes of all headers before each, and of all
        of_rows = np.diff(before[headers.offsets.to_numpy()])
        sizes += np.where(headers.is_valid().to_numpy(zero_copy_only=False), of_rows, 0)
    return sizes


def without_repeats(offsets: Numbers, rows: pa.Table) -> tuple[Numbers, pa.Table]:
    """Drop repeated rows; ``offsets`` ascend. RowsDiffer if two rows with one identity are different events."""
    repeats = np.flatnonzero(offsets[1:] == offsets[:-1]) + 1
    if not len(repeats):
        return offsets, rows
    one, other = rows.take(pa.array(repeats - 1)), rows.take(pa.array(repeats))
    if not one.select(CONTENT).equals(other.select(CONTENT)):
        pairs = zip(one.select(CONTENT).to_pylist(), other.select(CONTENT).to_pylist(), strict=True)
        differing = next(index for index, (left, right) in enumerate(pairs) if left != right)
        raise RowsDiffer(int(offsets[repeats[differing]]))
    kept = np.delete(np.arange(len(offsets)), repeats)
    return offsets[kept], rows.take(pa.array(kept))


def batches_of(offsets: Numbers, rows: pa.Table) -> Iterator[Batch]:
    """Rows with ascending offsets as batches without gaps inside; BadEvent if a row cannot be an event."""
    starts = np.concatenate(([0], np.flatnonzero(np.diff(offsets) > 1) + 1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(offsets)], strict=True):
        for first in range(start, end, BATCH_EVENTS_MAX):
            part = rows.slice(first, min(end - first, BATCH_EVENTS_MAX)).select(CONTENT)
            try:
                yield Batch.restored(part.rename_columns(list(STORED.values())), int(offsets[first]))
            except UsageError as error:
                raise BadEvent(f"a row of the table is not an event: {error}", first=int(offsets[first])) from None
