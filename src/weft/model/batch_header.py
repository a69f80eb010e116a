"""The 64 bytes in front of every batch. Little-endian, as Arrow is; 64, so that what follows stays aligned.

======  ====  =====================================================================================================
at      type  meaning
======  ====  =====================================================================================================
0       u8    format version, 1
1       u8    flags: bits 0-1 are the codec of the body (0 none, 1 LZ4 frame, 2 Zstandard), bits 2-7 are zero
2       u16   zero
4       u32   CRC-32C of the body followed by this header with these four bytes zero
8       u64   offset of the first event; 0 until the origin has placed the batch
16      u32   number of events, at least 1
20      u32   length of the body in bytes: all that follows this header
24      i64   the smallest timestamp of the events, in µs since 1970 (UTC)
32      i64   the greatest
40      16    producer id; all zero: none
56      u64   producer sequence, the producer's number for this batch; 0 without a producer
======  ====  =====================================================================================================

The timestamps are the extremes, not those of the first and last event: events of a batch need not be ordered by time,
and a time index has to know which batches hold nothing after (or before) a moment.

The checksum covers the body first: placing a batch at an offset changes only the header, so the sum of the body need
not be computed again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

import google_crc32c

from weft.errors import PeerError
from weft.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, OFFSET_MAX

# version:u8 flags:u8 zero:u16 crc32c:u32 base_offset:u64 count:u32 body_bytes:u32
# timestamp_us_min:i64 timestamp_us_max:i64 producer:16s sequence:u64
LAYOUT: Final = struct.Struct("<BBHIQIIqq16sQ")
FIELDS: Final = struct.Struct("<IIQIIqq16sQ")  # the same, with the first four bytes as one number
HEADER_BYTES: Final = LAYOUT.size
FLAGS_AT: Final = 1
MESSAGE_LENGTH: Final = struct.Struct("<I")  # before a compressed message: its length when it is not compressed
MESSAGE_BYTES_MAX: Final = BATCH_BYTES_MAX - HEADER_BYTES  # a batch is bounded as if it were not compressed
CRC_AT: Final = 4
CRC_BYTES: Final = 4
CHECKED: Final = struct.Struct("<4sI56s")  # the header around its checksum
PLACE: Final = struct.Struct("<QI")  # base_offset and count
PLACE_AT: Final = 8
TIMESTAMPS_AT: Final = 24
EXTENT: Final = struct.Struct("<QIIq")  # from PLACE_AT on: base_offset, count, body_bytes, timestamp_us_min
PRODUCER_AT: Final = 40
VERSION: Final = 1
PRODUCER_BYTES: Final = 16
NO_PRODUCER: Final = bytes(PRODUCER_BYTES)
SEQUENCE_MAX: Final = (1 << 64) - 1
NOBODYS: Final = bytes(HEADER_BYTES - PRODUCER_AT)  # no producer and no sequence
NOBODYS_CRC: Final = google_crc32c.value(NOBODYS)


class BadBatch(PeerError):
    """Bytes that are not a batch. ``at``, if given, counts from the start of the batch or of its Arrow message."""


class Codec(IntEnum):
    """How the body is compressed: bits 0-1 of the flags."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


CODECS: Final = {VERSION | codec << 8: codec for codec in Codec}  # by the first four bytes


class BatchHeader(NamedTuple):
    """What the header says. It is a tuple because one is made for every batch read, and one more for every batch
    placed."""

    codec: Codec
    base_offset: int
    event_count: int
    body_bytes: int
    timestamp_us_min: int
    timestamp_us_max: int
    producer: bytes | None
    sequence: int

    def pack(self, body_crc: int) -> bytes:
        """Make the header in front of a body with this CRC-32C."""
        return self.pack_at(self.base_offset, body_crc)

    def pack_at(self, offset: int, body_crc: int) -> bytes:
        """Make the header of the same batch at this offset."""
        codec, _, count, size, least, greatest, producer, sequence = self
        return packed_header(codec, offset, count, size, least, greatest, producer or NO_PRODUCER, sequence, body_crc)


def packed_header(
    codec: int,
    offset: int,
    count: int,
    size: int,
    least_us: int,
    greatest_us: int,
    producer: bytes,
    sequence: int,
    body_crc: int,
) -> bytes:
    """Make the bytes in front of a body with this CRC-32C."""
    fields = (offset, count, size, least_us, greatest_us, producer, sequence)
    crc = google_crc32c.extend(body_crc, LAYOUT.pack(VERSION, codec, 0, 0, *fields))
    return LAYOUT.pack(VERSION, codec, 0, crc, *fields)


_make_header = partial(tuple.__new__, BatchHeader)  # from a tuple, without the slow constructor in Python


def unpack_untrusted(data: bytes, known_as: Callable[[bytes], bytes] | None = None) -> BatchHeader:
    """Read the header of a whole batch, and check everything except its checksum. Raise only BadBatch.

    ``known_as`` returns the id that its producer has from here on. If it is given, the batch counts as not placed,
    whatever the header says.
    """
    if not HEADER_BYTES < len(data) <= BATCH_BYTES_MAX:
        raise BadBatch("not the size of a batch", bytes=len(data), least=HEADER_BYTES + 1, limit=BATCH_BYTES_MAX)
    form, _, offset, count, body_bytes, least, greatest, producer, sequence = FIELDS.unpack_from(data)
    codec = CODECS.get(form)
    if codec is None:
        raise _bad_form(form & 0xFF, form >> 8 & 0xFF)
    if body_bytes != len(data) - HEADER_BYTES:
        raise BadBatch("not the length the header says", at=20, need=body_bytes, have=len(data) - HEADER_BYTES)
    if not 1 <= count <= BATCH_EVENTS_MAX:
        raise BadBatch("impossible number of events", at=16, count=count, limit=BATCH_EVENTS_MAX)
    if offset > OFFSET_MAX - count:
        raise BadBatch("offsets run past their limit", at=8, offset=offset, count=count, limit=OFFSET_MAX)
    if least > greatest:
        raise BadBatch("least timestamp after the greatest", at=24, least=least, greatest=greatest)
    if producer == NO_PRODUCER:
        if sequence:
            raise BadBatch("a sequence without a producer", at=56, sequence=sequence)
        producer = None
    elif known_as is not None:
        offset, producer = 0, known_as(producer)
    return _make_header((codec, offset, count, body_bytes, least, greatest, producer, sequence))


def _bad_form(version: int, flags: int) -> BadBatch:
    if version != VERSION:
        return BadBatch("unknown format version", at=0, version=version)
    if VERSION | flags << 8 not in CODECS:
        return BadBatch("unknown codec or flags", at=1, flags=hex(flags))
    return BadBatch("reserved bytes are not zero", at=2)


def end_offset(data: bytes) -> int:
    """The offset after the last event of a batch that was checked before."""
    base, count = PLACE.unpack_from(data, PLACE_AT)
    return int(base + count)


def events_from(data: bytes, offset: int) -> int:
    """How many events of such a batch are at this offset or behind it."""
    base, count = PLACE.unpack_from(data, PLACE_AT)
    return int(count if offset <= base else base + count - offset)


def extent(data: bytes) -> tuple[int, int, int]:
    """The offset of such a batch's first event, the number of its events, and their smallest timestamp."""
    base, count, _, least_us = EXTENT.unpack_from(data, PLACE_AT)
    return base, count, least_us


def header_without_producer(data: bytes) -> bytes:
    """The header of a batch that was checked before, without the producer; the body stays as it is.

    The checksums of two texts of the same length differ by the checksum of their difference. Producer and sequence are
    the last bytes that the checksum covers, so only these have to be computed, and not the body.
    """
    named = data[PRODUCER_AT:HEADER_BYTES]
    if named == NOBODYS:
        return data[:HEADER_BYTES]
    stated = int.from_bytes(data[CRC_AT : CRC_AT + CRC_BYTES], "little")
    crc = int(stated ^ google_crc32c.value(named) ^ NOBODYS_CRC)
    return data[:CRC_AT] + crc.to_bytes(CRC_BYTES, "little") + data[CRC_AT + CRC_BYTES : PRODUCER_AT] + NOBODYS


def crc_fits(data: bytes, body_crc: int) -> bool:
    """Whether the checksum in the header is right, given the checksum of the body."""
    before, stated, after = CHECKED.unpack_from(data)
    return bool(google_crc32c.extend(body_crc, b"%b\0\0\0\0%b" % (before, after)) == stated)


def message_bytes_untrusted(data: bytes) -> int:
    """How long a batch claims to be when it is not compressed, which is what reading it costs. Nothing is checked."""
    if len(data) < HEADER_BYTES + MESSAGE_LENGTH.size or data[FLAGS_AT] == Codec.NONE:
        return len(data)
    (length,) = MESSAGE_LENGTH.unpack_from(data, HEADER_BYTES)
    return max(len(data), min(int(length), MESSAGE_BYTES_MAX))
