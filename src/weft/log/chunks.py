"""Large batches in RocksDB: cut into chunks, each a row of its own.

RocksDB reads a row with its whole block, into memory that it has never used before, several times over: 40 ms of CPU
time for a batch of 15 MiB out of a table file, 4 in chunks. Only the store knows of chunks.

=========================  ===================================================================
key                        value
=========================  ===================================================================
the row's (``BATCH_KEY``)  the head: 194:u8 length:u32, of all chunks together
the row's, number:u16      a chunk
=========================  ===================================================================

So a range of rows is a range of their chunks, too. Chunks are written before their head and count only with it: a
crash in between leaves some that nobody sees. They are overwritten by the next batch at that place, or, if it has
fewer, go with the range that they are in. A head without all of its chunks is handed out as it is: that is no batch,
so it is found to be damaged.
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
KIND: Final = 194  # in the place of a batch's version, or of the kind of a note (``entries``)
NUMBER: Final = struct.Struct(">H")
KEY_BYTES: Final = BATCH_KEY.size + NUMBER.size
BEHIND: Final = b"\xff" * (NUMBER.size + 1)


def cut(key: bytes, value: bytes) -> Iterator[Row]:
    """The chunks of a large batch."""
    for number, at in enumerate(range(0, len(value), CHUNK_BYTES)):
        yield key + NUMBER.pack(number), value[at : at + CHUNK_BYTES]


def value_of_row(value: bytes) -> bytes:
    """What stands under the row's own key: the value, or the head of its chunks."""
    return value if len(value) <= CHUNK_BYTES else HEAD.pack(KIND, len(value))


def length_in(value: bytes) -> int | None:
    """If it is a head: of all its chunks together."""
    return HEAD.unpack(value)[1] if len(value) == HEAD.size and value[0] == KIND else None


def range_of(key: bytes) -> tuple[bytes, bytes]:
    """The head and all chunks that there can be."""
    return key, key + BEHIND


def seek_row_before(rows: Any) -> None:
    """From a chunk back to its head, or to what is before chunks without one."""
    while rows.valid() and len(key := rows.key()) == KEY_BYTES:
        rows.seek_for_prev(key[: BATCH_KEY.size])


def forward(rows: Any) -> Iterator[Row]:
    """Whole rows from where an iterator of RocksDB stands. It reads no further than it has to."""
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
                    continue  # it stands behind what there is of them
        rows.next()


def _chunks_behind(rows: Any, key: bytes, length: int) -> bytes | None:
    """The chunks of a head, joined; then the last of them is where the iterator stands."""
    # Room for all of it, filled in place: a list of chunks would be as much memory again.
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
    """The same, the last one first, down to ``first``."""
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
