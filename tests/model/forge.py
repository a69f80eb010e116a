"""Batches made without the code under test, right and wrong ones: header with struct, Arrow metadata by hand.

The metadata is arranged differently from pyarrow's (vtables apart from their tables, nodes before buffers), as another
writer might.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

import google_crc32c
import pyarrow as pa

HEADER = struct.Struct("<BBHIQIIqq16sQ")  # the table in weft/model/batch_header.py
NO_PRODUCER = bytes(16)

HEADERS_TYPE = pa.map_(pa.utf8(), pa.utf8())
SCHEMA = pa.schema(
    [
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)


def crc32c_bit_by_bit(data: bytes) -> int:
    """CRC-32C as RFC 3720 defines it: the polynomial 0x1EDC6F41, reflected, a bit at a time."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Head:
    """Every field of the header, the checksum apart."""

    version: int = 1
    flags: int = 0
    zero: int = 0
    base_offset: int = 0
    count: int = 1
    body_bytes: int | None = None
    timestamp_min: int = 0
    timestamp_max: int = 0
    producer: bytes = NO_PRODUCER
    sequence: int = 0


def seal(head: Head, body: bytes) -> bytes:
    """A whole batch with a right checksum, whatever else is wrong with it."""
    stated = len(body) if head.body_bytes is None else head.body_bytes
    rest = (head.base_offset, head.count, stated, head.timestamp_min, head.timestamp_max, head.producer, head.sequence)
    crc = google_crc32c.value(body + HEADER.pack(head.version, head.flags, head.zero, 0, *rest))
    return HEADER.pack(head.version, head.flags, head.zero, crc, *rest) + body


def head_of(data: bytes) -> Head:
    version, flags, zero, _, base_offset, count, body_bytes, least, greatest, producer, sequence = HEADER.unpack_from(
        data
    )
    return Head(version, flags, zero, base_offset, count, body_bytes, least, greatest, producer, sequence)


def reseal(data: bytes) -> bytes:
    """A spoilt batch with its length and checksum put right again, so that the rest of the reader gets to see it."""
    if len(data) < HEADER.size:
        return data
    return seal(replace(head_of(data), body_bytes=None), data[HEADER.size :])


@dataclass(frozen=True)
class Metadata:
    """A Message with a RecordBatch, or something that is nearly that. Defaults describe one row of our schema."""

    body_bytes: int
    rows: int
    nodes: list[tuple[int, int]]
    buffers: list[tuple[int, int]]
    version: int = 4
    kind: int = 3
    has: frozenset[str] = field(default=frozenset())  # of "custom", "compression", "variadic", "more"
    lacks: frozenset[str] = field(default=frozenset())  # of "version", "kind", "header", "body", "length", "nodes", ...

    def pack(self) -> bytes:
        """Layout: root, vtable and table of Message, vtable and table of RecordBatch, nodes, buffers, odds and ends."""
        nodes = b"".join(struct.pack("<qq", *node) for node in self.nodes)
        buffers = b"".join(struct.pack("<qq", *buffer) for buffer in self.buffers)
        nodes_at, buffers_at = 100, 100 + 4 + len(nodes) + 4
        odds_at = buffers_at + 4 + len(buffers)

        def slot(name: str, at: int, present: bool = True) -> int:
            return at if present and name not in self.lacks else 0

        # Message at 24: vtable distance, header, bodyLength, version, header_type, custom_metadata
        message_slots = [slot("version", 16), slot("kind", 18), slot("header", 4), slot("body", 8)]
        message_slots += [slot("custom", 20, "custom" in self.has)]
        message = struct.pack("<iIqhBxI", 20, 64 - 28, self.body_bytes, self.version, self.kind, odds_at - 44)
        # RecordBatch at 64: vtable distance, nodes, length, buffers, compression, variadicBufferCounts
        batch_slots = [slot("length", 8), slot("nodes", 4), slot("buffers", 16)]
        batch_slots += [
            slot("compression", 20, "compression" in self.has),
            slot("variadic", 24, "variadic" in self.has),
        ]
        if "more" in self.has:
            batch_slots.append(28)
        batch = struct.pack("<iIqIII", 16, nodes_at - 68, self.rows, buffers_at - 80, odds_at + 8 - 84, odds_at - 88)
        # odds: an empty vector, then a BodyCompression table (codec and method absent: LZ4, by buffer) and its vtable
        odds = struct.pack("<Ixxxx", 0) + struct.pack("<iHH", -4, 4, 4)
        parts = struct.pack("<I", 24) + struct.pack(f"<HH{len(message_slots)}H", 14, 24, *message_slots)
        parts = parts.ljust(24, b"\0") + message
        parts += struct.pack(f"<HH{len(batch_slots)}H", 4 + 2 * len(batch_slots), 32, *batch_slots)
        parts = parts.ljust(64, b"\0") + batch
        parts = parts.ljust(nodes_at, b"\0") + struct.pack("<I", len(self.nodes)) + nodes
        parts = parts.ljust(buffers_at, b"\0") + struct.pack("<I", len(self.buffers)) + buffers + odds
        return parts.ljust(-(-len(parts) // 8) * 8, b"\0")


def message(metadata: bytes, body: bytes) -> bytes:
    return struct.pack("<Ii", 0xFFFFFFFF, len(metadata)) + metadata + body


@dataclass(frozen=True)
class Columns:
    """The 17 buffers of a batch, to be laid out one behind the other, and the 7 nodes that go with them."""

    rows: int
    entries: int
    buffers: list[bytes]
    key_nulls: int = 0
    header_nulls: int = 0

    @property
    def nodes(self) -> list[tuple[int, int]]:
        rows, entries = self.rows, self.entries
        counts = [(rows, 0), (rows, self.key_nulls), (rows, self.header_nulls)]
        return [*counts, (entries, 0), (entries, 0), (entries, 0), (rows, 0)]

    @property
    def body(self) -> bytes:
        return b"".join(buffer.ljust(-(-len(buffer) // 8) * 8, b"\0") for buffer in self.buffers)

    @property
    def places(self) -> list[tuple[int, int]]:
        places, at = [], 0
        for buffer in self.buffers:
            places.append((at, len(buffer)))
            at += -(-len(buffer) // 8) * 8
        return places

    def metadata(self) -> Metadata:
        return Metadata(len(self.body), self.rows, self.nodes, self.places)

    def spoilt(self, index: int, buffer: bytes) -> Columns:
        return replace(self, buffers=[*self.buffers[:index], buffer, *self.buffers[index + 1 :]])

    def batch(self, head: Head, metadata: Metadata | None = None) -> bytes:
        return seal(head, message((metadata or self.metadata()).pack(), self.body))


# Where a buffer is in Columns.buffers.
TIMES, KEY_VALIDITY, KEY_OFFSETS, KEY_DATA = 1, 2, 3, 4
MAP_VALIDITY, MAP_OFFSETS, ENTRY_VALIDITY = 5, 6, 7
NAME_VALIDITY, NAME_OFFSETS, NAME_DATA, VALUE_VALIDITY, VALUE_OFFSETS, VALUE_DATA = 8, 9, 10, 11, 12, 13
PAYLOAD_VALIDITY, PAYLOAD_OFFSETS, PAYLOAD_DATA = 14, 15, 16


def int32s(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


# Three events: (7, b"k", {"a": "b", "c": "dé"}, b"one"), (5, None, None, b""), (9, b"", {}, b"three")
THREE = Columns(
    rows=3,
    entries=2,
    buffers=[
        *(b"", struct.pack("<3q", 7, 5, 9)),
        *(b"\x05", int32s(0, 1, 1, 1), b"k"),
        *(b"\x05", int32s(0, 2, 2, 2)),
        b"",
        *(b"", int32s(0, 1, 2), b"ac"),
        *(b"", int32s(0, 1, 4), "bdé".encode()),
        *(b"", int32s(0, 3, 3, 8), b"onethree"),
    ],
    key_nulls=1,
    header_nulls=1,
)
THREE_HEAD = Head(count=3, timestamp_min=5, timestamp_max=9)
