"""Adds up events over stretches of offsets, in the tasks that read them: their number, and a sum of digests that does
not depend on their order. Nothing here handles single events, and no event goes through Spark. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

AUDIT_STRETCH_BITS: Final = 16  # 65,536 offsets are added up together; sums of halves of digests fit 48 bits
STREAM: Final = ("topic", "origin", "epoch", "partition")
COMPARED: Final = ("timestamp", "key", "value", "headers")
SUMS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("origin", pa.string()),
        ("epoch", pa.int64()),
        ("partition", pa.int32()),
        ("stretch", pa.int64()),
        ("count", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
    ]
)
HALF_BITS: Final = 32
Digests: TypeAlias = npt.NDArray[np.uint64]

# Constants of SplitMix64, in which every bit of the input affects all of the output.
STEP: Final = np.uint64(0x9E3779B97F4A7C15)
FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
NULL: Final = np.uint64(0x6E756C6C)


def added_up(events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each stream and stretch of each batch, in the columns of ``SUMS``."""
    for batch in events:
        if not batch.num_rows:
            continue
        digests, offsets = event_digests(batch), batch.column("offset")
        halves = {
            "low": pa.array((digests & np.uint64(0xFFFFFFFF)).astype(np.int64)),
            "high": pa.array((digests >> np.uint64(HALF_BITS)).astype(np.int64)),
        }
        rows = {name: batch.column(name) for name in STREAM}
        rows |= {"stretch": pc.shift_right(offsets, AUDIT_STRETCH_BITS), "offset": offsets} | halves
        wanted = [("offset", "count"), ("offset", "min"), ("offset", "max"), ("low", "sum"), ("high", "sum")]
        found = pa.table(rows).group_by([*STREAM, "stretch"], use_threads=False).aggregate(wanted)
        names = [*STREAM, "stretch", "offset_count", "offset_min", "offset_max", "low_sum", "high_sum"]
        yield from found.select(names).rename_columns(SUMS.names).cast(SUMS).combine_chunks().to_batches()


def event_digests(events: pa.RecordBatch) -> Digests:
    """For each event one number, made from its content and its place in the stream. Null and empty values differ."""
    digests = _mixed(_numbers(events.column("offset")))
    for name in COMPARED:
        column = events.column(name)
        kind = column.type
        if pa.types.is_map(kind):
            found = _of_headers(column)
        elif pa.types.is_binary(kind):
            found = _of_bytes(column)
        else:
            found = _numbers(column)
        digests = _mixed(digests * STEP + found)
    return digests


def _numbers(column: pa.Array) -> Digests:
    """Digests of whole numbers and times."""
    values = column.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return _with_nulls(_mixed(values), column)


def _of_bytes(column: pa.Array) -> Digests:
    return _with_nulls(_hashed(column.fill_null(b"")), column)


def _of_headers(column: pa.Array) -> Digests:
    """Digests of maps: the digests of the entries are added, because a map has no order."""
    places = column.offsets.to_numpy()
    first, count = int(places[0]), int(places[-1] - places[0])  # skip entries of events outside this slice
    names, values = column.keys.slice(first, count).dictionary_encode(), column.items.slice(first, count)
    of_names = _hashed(names.dictionary.cast(pa.binary()))[names.indices.to_numpy()]
    of_values = _with_nulls(_hashed(values.cast(pa.binary()).fill_null(b"")), values)
    passed = np.zeros(count + 1, np.uint64)
    np.cumsum(_mixed(of_names * STEP + of_values), out=passed[1:])
    ends, begins = places[1:] - first, places[:-1] - first
    sums = passed[ends] - passed[begins] + (ends - begins).astype(np.uint64)
    return _with_nulls(_mixed(sums), column)


def _hashed(column: pa.Array) -> Digests:
    """Digests of bytes, the same in every process: pandas hashes with a fixed key, and without a loop in Python."""
    from pandas.util import hash_array  # type: ignore[import-untyped]  # loaded by audits only

    found: Digests = hash_array(column.to_numpy(zero_copy_only=False), categorize=False)
    return found


def _with_nulls(digests: Digests, column: pa.Array) -> Digests:
    if not column.null_count:
        return digests
    return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, digests)


def _mixed(numbers: Digests) -> Digests:
    mixed = numbers + STEP
    mixed = (mixed ^ (mixed >> SHIFTS[0])) * FACTORS[0]
    mixed = (mixed ^ (mixed >> SHIFTS[1])) * FACTORS[1]
    return mixed ^ (mixed >> SHIFTS[2])
