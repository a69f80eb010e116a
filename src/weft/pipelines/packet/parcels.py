"""Parcels: some thousand judged packets as bytes, with values that all of them have in common stored once. Pure.

Spark copies a parcel half a dozen times, between its processes and through a shuffle. When packets come together, most
columns have the same value in every row, or none: without them a parcel is a third as long. ::

    common:u64 common_bytes:u32 zero:u32   message: one row of the common columns   message: all rows of the others

Bit ``i`` of ``common`` is set if column ``i`` of ``JUDGED`` is a common one. Each message is an Arrow message with one
record batch. Its schema follows from ``common``, so it is not sent. Both ends are tasks of one job with one version of
Weft.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.pipelines.packet.schema import JUDGED

HEAD: Final = struct.Struct("<QII")
NEVER_COMMON: Final = "offset"  # so that at least one column shows how many rows there are


@dataclass(frozen=True, slots=True)
class Common:
    """What all packets of a batch have in common, ready to be sent."""

    columns: int  # a bit for each common column
    message: pa.Buffer

    def parcel(self, others: pa.RecordBatch) -> bytes:
        """A parcel of some of the packets; ``others`` has their rows of the columns that are not common."""
        return b"".join((HEAD.pack(self.columns, self.message.size, 0), self.message, others.serialize()))


def separated(packets: pa.RecordBatch) -> tuple[Common, pa.RecordBatch]:
    """Separate what these packets (at least one) have in common from the columns that differ."""
    common = sum(1 << index for index, name in enumerate(JUDGED.names) if _is_common(name, packets.column(name)))
    message = packets.slice(0, 1).select(_names(common)).serialize()
    return Common(common, message), packets.select(_names(~common))


def wrap(packets: pa.RecordBatch) -> bytes:
    common, others = separated(packets)
    return common.parcel(others)


def unwrap(parcel: bytes | pa.Buffer) -> pa.RecordBatch:
    return Parcel(parcel).packets()


def unwrap_all(parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: unwraps the packets in a column of parcels."""
    for batch in parcels:
        for parcel in batch.column("packets"):
            yield unwrap(parcel.as_buffer())


class Parcel:
    """A parcel whose columns are read one by one. Nothing is copied before that."""

    def __init__(self, data: bytes | pa.Buffer) -> None:
        buffer = pa.py_buffer(data)
        common, common_bytes, _ = HEAD.unpack_from(buffer)
        self._common = pa.ipc.read_record_batch(buffer.slice(HEAD.size, common_bytes), _schema(common))
        self._others = pa.ipc.read_record_batch(buffer.slice(HEAD.size + common_bytes), _schema(~common))

    def __len__(self) -> int:
        return int(self._others.num_rows)

    def column(self, name: str) -> pa.Array:
        if name in self._others.schema.names:
            return self._others.column(name)
        value = self._common.column(name)
        return pa.nulls(len(self), value.type) if value.null_count else pa.repeat(value[0], len(self))

    def packets(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(map(self.column, JUDGED.names)), schema=JUDGED)


def _is_common(name: str, column: pa.Array) -> bool:
    if name == NEVER_COMMON:
        return False
    if column.null_count:
        return bool(column.null_count == len(column))
    if pa.types.is_floating(column.type):
        column = column.view(pa.int32())  # compare bits: 0.0 and -0.0 are different values, and NaN equals NaN
    first = column[0]
    return column[-1] == first and pc.all(pc.equal(column, first)).as_py() is True


@functools.lru_cache(1024)
def _names(columns: int) -> tuple[str, ...]:
    return tuple(name for index, name in enumerate(JUDGED.names) if columns >> index & 1)


@functools.lru_cache(1024)
def _schema(columns: int) -> pa.Schema:
    return pa.schema([JUDGED.field(name) for name in _names(columns)])
