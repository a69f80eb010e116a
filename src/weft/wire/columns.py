"""Arrow and numpy pieces for decoding many datagrams at once: no Python loop over packets anywhere.

A ``Block`` holds some thousand datagrams in one padded buffer. Fields at positions that differ from row to row are
read with overlapping views (an array of, say, big-endian u32 that starts at every byte), so one fancy index gathers a
field of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.errors import UsageError
from weft.wire.reject import REASONS

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

BLOCK_ROWS = 8192  # a block's working arrays stay in the second-level cache
PADDING_BYTES = 64  # the largest fixed field; gathers at the last byte stay inside the buffer
# Made once: each pa.array of a Python sequence looks for pandas, which takes longer than a small column.
REASON_NAMES: Final = pa.array([str(reason) for reason in REASONS])
# Not kind.to_pandas_dtype(): older Arrows import pandas for it.
_NUMPY = {
    pa.int8(): np.int8,
    pa.uint8(): np.uint8,
    pa.int16(): np.int16,
    pa.uint16(): np.uint16,
    pa.int32(): np.int32,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
    pa.float32(): np.float32,
}
_HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
_UUID_TEXT: Final = 36
_UUID_PARTS: Final = ((0, 0, 8), (9, 8, 12), (14, 12, 16), (19, 16, 20), (24, 20, 32))  # to, from, until
_ZEROS = pa.py_buffer(bytes(BLOCK_ROWS * PADDING_BYTES))  # a column without any value shares it


@dataclass(frozen=True, slots=True)
class Block:
    """Datagrams side by side: row i is ``data[starts[i]:ends[i]]``."""

    data: npt.NDArray[np.uint8]
    starts: Positions
    ends: Positions

    def __len__(self) -> int:
        return len(self.starts)

    def gather(self, at: Positions, dtype: str) -> npt.NDArray[Any]:
        """A value of ``dtype`` (such as ``>u4``, or ``V16`` for raw bytes) from each position."""
        kind = np.dtype(dtype)
        view: npt.NDArray[Any] = np.ndarray(
            shape=(len(self.data) - kind.itemsize + 1,), dtype=kind, buffer=self.data, strides=(1,)
        )
        return view[at]


def blocks(datagrams: pa.Array | pa.ChunkedArray) -> Iterator[Block]:
    """Cut a binary column into blocks; nulls are empty datagrams."""
    chunks = datagrams.chunks if isinstance(datagrams, pa.ChunkedArray) else [datagrams]
    for chunk in chunks:
        if chunk.type not in (pa.binary(), pa.large_binary()):
            raise UsageError("datagrams must be a binary column", got=chunk.type)
        for first in range(0, len(chunk), BLOCK_ROWS):
            yield _block(chunk.slice(first, BLOCK_ROWS))


def _block(rows: pa.Array) -> Block:
    if rows.null_count:
        rows = rows.fill_null(b"")
    wide = rows.type == pa.large_binary()
    _, offsets_buffer, data_buffer = rows.buffers()
    dtype = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(offsets_buffer, dtype, len(rows) + 1, rows.offset * dtype.itemsize).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + PADDING_BYTES, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8, last - first, first)
    offsets -= first
    return Block(data, offsets[:-1], offsets[1:])


def validity(valid: Mask) -> pa.Buffer | None:
    """The null bitmap of a column, or None when nothing is null."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def number_column(values: npt.NDArray[Any], valid: Mask, kind: pa.DataType) -> pa.Array:
    """Numbers in native order, null where not valid."""
    if kind == pa.bool_():
        return pa.array(values, kind, mask=None if valid.all() else ~valid)
    native = np.ascontiguousarray(values, dtype=_NUMPY[kind])
    return pa.Array.from_buffers(kind, len(native), [validity(valid), pa.py_buffer(native)])


def fixed_column(block: Block, at: Positions, valid: Mask, size: int) -> pa.Array:
    """``size`` raw bytes from each position, null where not valid."""
    if not valid.any():
        return pa.Array.from_buffers(pa.binary(size), len(at), [_ZEROS, _ZEROS])
    gathered = block.gather(np.where(valid, at, 0), f"V{size}")
    return pa.Array.from_buffers(pa.binary(size), len(at), [validity(valid), pa.py_buffer(gathered)])


def binary_column(block: Block, at: Positions, sizes: Positions, valid: Mask) -> pa.Array:
    """Byte strings of varying size, null where not valid.

    Rows stand one behind the other in the buffer, so (begin, end, begin, end, ...) are valid offsets of a binary array
    over the very same bytes; every second element of it is what we want, and Arrow copies those in one go.
    """
    count = len(at)
    if not valid.any():
        return pa.nulls(count, pa.binary())
    begin = np.where(valid, at, block.starts)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = begin
    offsets[1::2] = np.where(valid, begin + sizes, begin)
    every = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(block.data)])
    return nullify(every.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))), valid)


def nullify(values: pa.Array, valid: Mask) -> pa.Array:
    """``values`` (without an offset) with null wherever not valid."""
    assert values.offset == 0, "the bitmap begins at the first row"
    return pa.Array.from_buffers(values.type, len(values), [validity(valid), *values.buffers()[1:]])


# --- reading columns ---------------------------------------------------------------------------------------------


def valid(column: pa.Array) -> Mask:
    """Where the column is not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    found: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The numbers of a column as they lie in memory: anything where it is null."""
    kind = pa.int64() if pa.types.is_timestamp(column.type) else column.type
    return np.frombuffer(column.buffers()[1], np.dtype(str(kind)), len(column), column.offset * kind.byte_width)


def raw_bytes(column: pa.Array) -> Bytes:
    """A column of fixed size as a matrix of bytes: anything where it is null."""
    size = column.type.byte_width
    found = np.frombuffer(column.buffers()[1], np.uint8, len(column) * size, column.offset * size)
    return found.reshape(len(column), size)


def cells(matrix: Bytes) -> list[bytes]:
    """The rows of a matrix as byte strings; ten times as fast as ``to_pylist`` of a column."""
    found: list[bytes] = np.ascontiguousarray(matrix).view(f"V{matrix.shape[1]}").ravel().tolist()
    return found


def side_by_side(datagrams: pa.BinaryArray) -> tuple[bytes, Positions]:
    """Row i of a binary column is ``data[offsets[i]:offsets[i + 1]]``. Bytes: slices of them cost the least."""
    _, offsets_buffer, data_buffer = datagrams.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(datagrams) + 1, datagrams.offset * 4).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return bytes(memoryview(data_buffer or b"")[first:last]), offsets - first


# --- columns of text ---------------------------------------------------------------------------------------------


def hex_column(raw: Bytes, like: pa.Array | None = None) -> pa.StringArray:
    """Rows of equally many bytes as hexadecimal text; null where ``like`` is."""
    return _texts(_HEX[raw].view(np.uint8), like)


def uuid_column(raw: Bytes, like: pa.Array | None = None) -> pa.StringArray:
    """Rows of 16 bytes as UUIDs; null where ``like`` is."""
    digits = _HEX[raw].view(np.uint8)
    texts = np.full((len(raw), _UUID_TEXT), ord("-"), np.uint8)
    for at, begin, end in _UUID_PARTS:
        texts[:, at : at + end - begin] = digits[:, begin:end]
    return _texts(texts, like)


def _texts(rows: Bytes, like: pa.Array | None) -> pa.StringArray:
    count, size = rows.shape
    offsets = pa.py_buffer(np.arange(0, (count + 1) * size, size, dtype=np.int32)[: count + 1])
    bitmap = None if like is None else validity(valid(like))
    return pa.Array.from_buffers(pa.string(), count, [bitmap, offsets, pa.py_buffer(np.ascontiguousarray(rows))])
