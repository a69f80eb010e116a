"""The parts of a batch that need Arrow: rows from its bytes, and its bytes from rows.

Loading pyarrow takes 0.15 s and 35 MB, and a few small events do without it (batch_few). So ``batch`` imports this
module only when it needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Final, Literal, NamedTuple

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import UsageError
from weft.model import batch_message
from weft.model.batch_columns import Headers, rows_of_arrow, rows_of_lists
from weft.model.batch_compression import compress, decompress_untrusted
from weft.model.batch_header import HEADER_BYTES, MESSAGE_BYTES_MAX, BatchHeader, Codec
from weft.model.batch_schema import time_range
from weft.model.event import Event

__all__ = [
    "Body", "Compression", "body_crc", "concat", "events_of", "header_values", "make_body", "read_rows",
    "read_rows_untrusted", "rows_of_arrow", "rows_of_lists",
]  # fmt: skip

Compression = Literal["lz4", "zstd"] | None
CODEC_OF: Final[dict[Compression, Codec]] = {None: Codec.NONE, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
WORTHWHILE: Final = 15 / 16  # compression must save at least this much; otherwise readers would pay for nothing


class Body(NamedTuple):
    """What follows the header of a batch, and what the header says about it."""

    codec: Codec
    event_count: int
    data: pa.Buffer | bytes
    time_range: tuple[int, int]


def make_body(rows: pa.RecordBatch, compression: Compression) -> Body:
    message = batch_message.write(rows)
    if message.size > MESSAGE_BYTES_MAX:
        raise UsageError("too much for one batch", events=rows.num_rows, bytes=message.size, limit=MESSAGE_BYTES_MAX)
    codec, data = _compressed(message, compression)
    return Body(codec, rows.num_rows, data, time_range(rows.column(0).to_numpy()))


def _compressed(message: pa.Buffer, compression: Compression) -> tuple[Codec, pa.Buffer | bytes]:
    if compression not in CODEC_OF:
        raise UsageError("no such compression", compression=compression, known="None, lz4, zstd")
    codec = CODEC_OF[compression]
    if codec is not Codec.NONE:
        body = compress(message, codec)
        if len(body) <= message.size * WORTHWHILE:
            return codec, body
    return Codec.NONE, message


def body_crc(data: bytes) -> int:
    """The CRC-32C of everything behind the header, without a copy, although the checksum takes no memoryview."""
    return int(google_crc32c.value(pa.py_buffer(data).slice(HEADER_BYTES)))


def read_rows(head: BatchHeader, data: bytes) -> pa.RecordBatch:
    """The rows of a batch that is known to be good."""
    return batch_message.read(decompress_untrusted(pa.py_buffer(data).slice(HEADER_BYTES), head.codec))


def read_rows_untrusted(head: BatchHeader, data: bytes) -> pa.RecordBatch:
    """Read the rows and check every rule of the format. Raise only BadBatch, whatever the bytes."""
    message = decompress_untrusted(pa.py_buffer(data).slice(HEADER_BYTES), head.codec)
    return batch_message.read_untrusted(message, head.event_count, head.timestamp_us_min, head.timestamp_us_max)


def concat(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join all rows; UsageError if they are too many for one batch."""
    size = sum(rows.nbytes for rows in parts)
    if size > 2 * MESSAGE_BYTES_MAX:  # before it is copied; the exact bound of a batch is checked at the end
        count = sum(rows.num_rows for rows in parts)
        raise UsageError("too much for one batch", events=count, bytes=size, limit=MESSAGE_BYTES_MAX)
    (rows,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return rows


def events_of(rows: pa.RecordBatch) -> list[Event]:
    timestamps, keys, headers, payloads = rows.columns
    return list(
        map(
            Event,
            payloads.to_pylist(),
            timestamps.to_pylist(),
            keys.to_pylist() if keys.null_count < len(rows) else repeat(None),
            _header_dicts(headers) if headers.null_count < len(rows) else repeat(None),
        )
    )


def header_values(headers: pa.MapArray, name: str) -> list[str]:
    """The values of one header in these events, each once, in the order of the events; nothing is made per event."""
    if headers.null_count == len(headers):
        return []
    first, end = headers.offsets[0].as_py(), headers.offsets[-1].as_py()  # in a slice, only its own entries
    names, values = headers.keys.slice(first, end - first), headers.items.slice(first, end - first)
    found: list[str] = values.filter(pc.equal(names, name)).unique().to_pylist()
    return found


def _header_dicts(headers: pa.MapArray) -> list[Headers | None]:
    return [None if pairs is None else dict(pairs) for pairs in headers.to_pylist()]
