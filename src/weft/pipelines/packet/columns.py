"""Arrow and numpy pieces for packets on their way: blocks of what came in, columns of what goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.pipelines.packet.judging import TIME_S_MAX, US_PER_S
from weft.pipelines.packet.schema import CONTENT, MARKS, REFUSAL, TIME
from weft.wire.columns import Mask, Positions, nullify, validity

VERDICT: Final = pa.schema([*CONTENT, *REFUSAL[:2], *MARKS])  # what judging adds to what came in

Rows = Positions  # numbers of rows
Times = npt.NDArray[np.int64]

_HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
_UUID_TEXT: Final = 36
_UUID_PARTS: Final = ((0, 0, 8), (9, 8, 12), (14, 12, 16), (19, 16, 20), (24, 20, 32))  # to, from, until


@dataclass(frozen=True, slots=True)
class Sightings:
    """Some thousand packets of ``INPUT``; the bytes of row i are ``data[starts[i]:ends[i]]``."""

    packets: pa.RecordBatch
    datagrams: pa.Array
    data: npt.NDArray[np.uint8]
    starts: Positions
    ends: Positions
    arrived_us: Times
    has_arrived: Mask

    @classmethod
    def of(cls, packets: pa.RecordBatch) -> Self:
        datagrams = packets.column("datagram")
        if datagrams.null_count:
            datagrams = datagrams.fill_null(b"")
        _, offsets_buffer, data_buffer = datagrams.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32, len(datagrams) + 1, datagrams.offset * 4).astype(np.int64)
        data = np.frombuffer(data_buffer or b"", np.uint8)
        arrived = packets.column("arrived")
        return cls(packets, datagrams, data, offsets[:-1], offsets[1:], numbers(arrived), valid(arrived))

    def __len__(self) -> int:
        return len(self.starts)

    def firsts(self) -> npt.NDArray[np.uint8]:
        """The first byte of each, which tells the protocol (ADR 12); zero, which is neither, of an empty one."""
        there = self.ends > self.starts
        firsts = np.zeros(len(self), np.uint8)
        firsts[there] = self.data[self.starts[there]]
        return firsts

    def only(self, rows: Mask) -> Self:
        return self if rows.all() else type(self).of(self.packets.filter(pa.array(rows)))

    def datagram(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]].tobytes()


# --- reading columns ---------------------------------------------------------------------------------------------


def valid(column: pa.Array) -> Mask:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    found: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The numbers of a column as they lie in memory: anything where it is null."""
    kind = pa.int64() if pa.types.is_timestamp(column.type) else column.type
    return np.frombuffer(column.buffers()[1], np.dtype(str(kind)), len(column), column.offset * kind.byte_width)


def raw_bytes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """A column of fixed size as a matrix of bytes."""
    size = column.type.byte_width
    found = np.frombuffer(column.buffers()[1], np.uint8, len(column) * size, column.offset * size)
    return found.reshape(len(column), size)


def same(digests: Sequence[bytes], codes: npt.NDArray[np.uint8]) -> Mask:
    """Which digests equal their row of ``codes``: every byte is looked at, whatever the others are (EMM-14)."""
    made = np.frombuffer(b"".join(digests), np.uint8).reshape(codes.shape)
    differs: Mask = np.bitwise_or.reduce(made ^ codes, axis=1).astype(np.bool_)
    return ~differs


# --- making columns ----------------------------------------------------------------------------------------------


def verdict_batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """Accepted packets; what is not among ``columns`` is null, and nothing is late."""
    columns["late"] = pa.array(np.zeros(count, np.bool_))
    filled = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in VERDICT]
    return pa.RecordBatch.from_arrays(filled, schema=VERDICT)


def named(names: pa.Array, places: npt.NDArray[Any]) -> pa.Array:
    """For each row the name at its place."""
    return pa.DictionaryArray.from_arrays(pa.array(places), names).dictionary_decode()


def hex_column(column: pa.Array) -> pa.Array:
    """Bytes of fixed size in hexadecimal."""
    return _texts(_HEX[raw_bytes(column)].view(np.uint8), column)


def uuid_column(column: pa.Array) -> pa.Array:
    """Node ids as people write them."""
    digits = _HEX[raw_bytes(column)].view(np.uint8)
    texts = np.full((len(column), _UUID_TEXT), ord("-"), np.uint8)
    for at, begin, end in _UUID_PARTS:
        texts[:, at : at + end - begin] = digits[:, begin:end]
    return _texts(texts, column)


def _texts(rows: npt.NDArray[np.uint8], like: pa.Array) -> pa.Array:
    count, size = rows.shape
    offsets = pa.py_buffer(np.arange(0, (count + 1) * size, size, dtype=np.int32)[: count + 1])
    return pa.Array.from_buffers(pa.string(), count, [validity(valid(like)), offsets, pa.py_buffer(rows)])


def time_column(seconds: pa.Array) -> pa.Array:
    """Seconds since 1970 as a time; null beyond the year 9999."""
    there, found = valid(seconds), numbers(seconds)
    there &= found <= TIME_S_MAX
    if not there.any():
        return pa.nulls(len(seconds), TIME)
    times_us = np.where(there, found, 0).astype(np.int64) * US_PER_S
    return nullify(pa.array(times_us, TIME), there)
