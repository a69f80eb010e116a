"""How the log's keys and values look. Integers are big-endian, so that bytes sort as numbers do.

=========  ==============================================  ==================================================
space      key                                             value
=========  ==============================================  ==================================================
BATCHES    segment:u32 stream:u64 first_offset:u64         the batch, or what stands for one (``entries``); RocksDB
                                                           has large ones in rows behind it (``chunks``)
TABLES     ``m`` name                                      a number of the log itself, as text
TABLES     ``s`` stream:u64                                the stream's record (``records.StreamRecord``)
TABLES     ``i`` stream:u64 offset:u64                     index point: segment:u32 bytes_before:i64 latest_us:i64
TABLES     ``t`` stream:u64 latest_us:u64 offset:u64       (nothing) the time index points there
TABLES     ``p`` stream:u64 producer:16                    what is remembered of a producer (``producers``)
TABLES     ``q`` segment:u32 stream:u64 offset:u64         the batches that the one there is made of (``gathering``)
TABLES     ``g`` group ``\\0`` stream text                  next_offset:u64
TABLES     ``l`` peer ``\\0`` stream text                   next_offset:u64
=========  ==============================================  ==================================================

Every flush, of about 64 MiB, begins a new segment number, so that a table file holds one segment and is never
rewritten. A stream gets an index point where it enters a segment, and then one for every mebibyte. ``latest_us`` is the
greatest timestamp before that point: it never falls, so a time can be looked up like an offset.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

BATCH_KEY: Final = struct.Struct(">IQQ")
STREAM_KEY: Final = struct.Struct(">cQ")
STREAM_OFFSET_KEY: Final = struct.Struct(">cQQ")
TIME_KEY: Final = struct.Struct(">cQQQ")
PRODUCER_KEY: Final = struct.Struct(">cQ16s")
PIECES_KEY: Final = struct.Struct(">cIQQ")
PLACE: Final = struct.Struct(">QQ")  # the end of that key; up to format 4, all that followed the table
POINT: Final = struct.Struct(">Iqq")
U64: Final = struct.Struct(">Q")

META, STREAMS, INDEX, TIMES, PRODUCERS, PIECES, GROUPS, LINKS = b"m", b"s", b"i", b"t", b"p", b"q", b"g", b"l"
U64_MAX: Final = (1 << 64) - 1
NO_TIME_US: Final = -(1 << 63)  # before any event
_TIME_BIAS: Final = 1 << 63  # makes signed times sort as unsigned numbers


class Point(NamedTuple):
    """Where a stream's offset lies: in which segment, and how many of the stream's bytes and which latest time come
    before it."""

    offset: int
    segment: int
    bytes_before: int
    latest_us: int


def batch_key(segment: int, stream_id: int, offset: int) -> bytes:
    return BATCH_KEY.pack(segment, stream_id, offset)


def segment_range(first: int, end: int) -> tuple[bytes, bytes]:
    """The range of all batches in the segments from ``first`` up to but not including ``end``."""
    return BATCH_KEY.pack(first, 0, 0), BATCH_KEY.pack(end, 0, 0)


def meta_key(name: str) -> bytes:
    return META + name.encode()


def stream_key(stream_id: int) -> bytes:
    return STREAM_KEY.pack(STREAMS, stream_id)


def index_key(stream_id: int, offset: int) -> bytes:
    return STREAM_OFFSET_KEY.pack(INDEX, stream_id, offset)


def time_key(stream_id: int, latest_us: int, offset: int) -> bytes:
    return TIME_KEY.pack(TIMES, stream_id, latest_us + _TIME_BIAS, offset)


def producer_key(stream_id: int, producer: bytes) -> bytes:
    return PRODUCER_KEY.pack(PRODUCERS, stream_id, producer)


def pieces_key(segment: int, stream_id: int, offset: int) -> bytes:
    return PIECES_KEY.pack(PIECES, segment, stream_id, offset)


def pieces_place(key: bytes) -> tuple[int, int]:
    """Read the stream and offset from a key of PIECES, also from one of format 4."""
    stream_id, offset = PLACE.unpack(key[-PLACE.size :])
    return stream_id, offset


def pieces_until(segment: int) -> tuple[bytes, bytes]:
    """The range of all keys of PIECES up to this segment. Keys of format 4 have no segment; they are in the range,
    because their first four bytes are those of a stream's number below 2**32, which are zero."""
    return PIECES, PIECES_KEY.pack(PIECES, segment + 1, 0, 0)


def named_key(table: bytes, owner: str, text: str = "") -> bytes:
    """The key of a group or link. Owners hold no NUL, so that all keys of one owner stand together."""
    return table + owner.encode() + b"\0" + text.encode()


def table_range(table: bytes) -> tuple[bytes, bytes]:
    return table, bytes((table[0] + 1,))


def stream_range(table: bytes, stream_id: int) -> tuple[bytes, bytes]:
    """All keys of one stream in a table whose keys begin with the stream."""
    return STREAM_KEY.pack(table, stream_id), STREAM_KEY.pack(table, stream_id + 1)


def owner_range(table: bytes, owner: str) -> tuple[bytes, bytes]:
    prefix = table + owner.encode()
    return prefix + b"\0", prefix + b"\1"


def pack_point(point: Point) -> bytes:
    return POINT.pack(point.segment, point.bytes_before, point.latest_us)


def unpack_point(key: bytes, value: bytes) -> Point:
    _, _, offset = STREAM_OFFSET_KEY.unpack(key)
    return Point(offset, *POINT.unpack(value))


def offset_of_time_key(key: bytes) -> int:
    return int(TIME_KEY.unpack(key)[3])
