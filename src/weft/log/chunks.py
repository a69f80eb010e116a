"""Large batches in RocksDB: cut into chunks, each a row of its own.

To read a row, RocksDB copies its whole block several times, each time into memory that it has not used before. For a
batch of 15 MiB in a table file, that takes 40 ms of CPU time; in chunks, it takes 4 ms. Only the store knows of chunks.

=========================  ===================================================================
key                        value
=========================  ===================================================================
the row's (``BATCH_KEY``)  the head: 194:u8 length:u32, of all chunks together
the row's, number:u16      a chunk
=========================  ===================================================================

So a range of rows also covers their chunks. Chunks are written before their head and count only with it: a crash in
between leaves chunks that no reader sees. The next batch at that place overwrites them. If it has fewer chunks, the
others are deleted together with the range that holds them. A head that lacks some of its chunks is returned as it is:
it is not a batch, so readers find it damaged.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from weft.limits import BATCH_BYTES_MAX, KIB
from weft.log.keys import BATCH_KEY
from weft.log.store import Row

CHUNK_BYTES: Final = 256 * KIB
HEAD: Final = struct.Struct(">BI")
KIND: Final = 194  # the first byte, where a batch has its version and a note its kind (``entries``)
NUMBER: Final = struct.Struct(">H")
KEY_BYTES: Final = BATCH_KEY.size + NUMBER.size
BEHIND: Final = b"\xff" * (NUMBER.size + 1)


def cut(key: bytes, value: bytes) -> Iterator[Row]:
    """Yield the chunks of a large batch."""
    for number, at in enumerate(range(0, len(value), CHUNK_BYTES)):
        yield key + NUMBER.pack(number), value[at : at + CHUNK_BYTES]


def value_of_row(value: bytes) -> bytes:
    """Return what is stored under the row's own key: the value, or the head of its chunks."""
    return value if len(value) <= CHUNK_BYTES else HEAD.pack(KIND, len(value))


def length_in(value: bytes) -> int | None:
    """Return the length of all chunks together if the value is a head, else None."""
    return HEAD.unpack(value)[1] if len(value) == HEAD.size and value[0] == KIND else None


def range_of(key: bytes) -> tuple[bytes, bytes]:
    """Return the range of a head and of all the chunks that it can have."""
    return key, key + BEHIND


def seek_row_before(rows: Any) -> None:
    """Move an iterator from a chunk back to its head, or, if the head is missing, to the row before it."""
    while rows.valid() and len(key := rows.key()) == KEY_BYTES:
        rows.seek_for_prev(key[: BATCH_KEY.size])


def forward(rows: Any) -> Iterator[Row]:
    """Yield whole rows from where an iterator of RocksDB stands, and read no further than necessary."""
    while rows.valid():
        key = rows.key()
        if len(key) != KEY_BYTES:
            value = rows.value()
            length = length_in(value)
            if length is None:
                yield key, value
            else:
                chunks = _chunks_behind(rows, key, length)
                yield key, value if chunks is None else chunks
                if chunks is None:
                    continue  # the iterator stands behind those chunks that are there
        rows.next()


def _chunks_behind(rows: Any, key: bytes, length: int) -> bytes | None:
    """Join the chunks of a head, and leave the iterator at the last of them. None if the chunks do not fit the head."""
    # The whole length is allocated and filled in place: a list of chunks would take as much memory again.
    found = io.BytesIO(bytes(min(length, BATCH_BYTES_MAX)))
    number = 0
    while found.tell() < length:
        rows.next()
        if not rows.valid() or rows.key() != key + NUMBER.pack(number):
            return None
        found.write(rows.value())
        number += 1
    return found.getvalue() if found.tell() == length else None


def backward(rows: Any, first: bytes) -> Iterator[Row]:
    """Yield whole rows from where an iterator of RocksDB stands, the last one first, down to ``first``."""
    chunks: dict[bytes, bytes] = {}
    while rows.valid() and (key := rows.key()) >= first:
        value = rows.value()
        if len(key) == KEY_BYTES:
            chunks[key] = value
        else:
            length = length_in(value)
            yield key, value if length is None else _joined(key, length, chunks) or value
            chunks.clear()
        rows.prev()


def _joined(key: bytes, length: int, chunks: Mapping[bytes, bytes]) -> bytes | None:
    found: list[bytes] = []
    left = length
    while left > 0:
        chunk = chunks.get(key + NUMBER.pack(len(found)))
        if chunk is None:
            return None
        found.append(chunk)
        left -= len(chunk)
    return b"".join(found) if not left else None
