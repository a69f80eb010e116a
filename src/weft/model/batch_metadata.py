"""Reading the numbers in the metadata of an Arrow record batch message, from a flatbuffer that anybody may have
written.

A flatbuffer is a graph of tables and vectors that point at each other. A table begins with its distance from its
vtable, which says where in the table each field is, if it is there at all. Two tables and two vectors matter here::

    vtable: vtable_bytes:u16 table_bytes:u16 slot:u16* (distance of the field from the start of the table; 0: absent)

    Message:     version:i16 header_type:u8 header:RecordBatch bodyLength:i64 custom_metadata:vector
    RecordBatch: length:i64 nodes:vector buffers:vector compression:table variadicBufferCounts:vector

    nodes:       count:u32 (length:i64 null_count:i64)*
    buffers:     count:u32 (offset:i64 length:i64)*

Everything else a message can have is refused: other kinds, other versions, compressed buffers, metadata of its own.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from weft.model.batch_header import BadBatch

METADATA_V5: Final = 4  # MetadataVersion counts from 0
RECORD_BATCH: Final = 3  # MessageHeader.RecordBatch

VTABLE_HEAD: Final = struct.Struct("<HH")
FIELDS: Final = 5  # of either table
SLOTS: Final = [struct.Struct(f"<{count}H") for count in range(FIELDS + 1)]
U8: Final = struct.Struct("<B")
U32: Final = struct.Struct("<I")
I16: Final = struct.Struct("<h")
I32: Final = struct.Struct("<i")
I64: Final = struct.Struct("<q")

# timestamp, key, headers, their entries, names and values, payload
NODES_COUNT: Final = 7
NODES: Final = struct.Struct(f"<{2 * NODES_COUNT}q")
# Validity and data of timestamp (2); validity, offsets and data of key (3); validity and offsets of headers (2);
# validity of their entries (1); validity, offsets and data of names, values and payload (9).
BUFFERS_COUNT: Final = 17
BUFFERS: Final = struct.Struct(f"<{2 * BUFFERS_COUNT}q")

# How pyarrow arranges all this for our schema: fixed pieces, and between them the numbers. Most batches come from
# pyarrow and need no walk. (form bodyLength form length form buffers form nodes)
USUAL: Final = struct.Struct(f"<32sq24sq8s{BUFFERS.size}s8s{NODES.size}s")
USUAL_FORM: Final = tuple(
    map(
        bytes.fromhex,
        (
            "14000000 00000000 0c001600 06000500 08000c00 0c000000 00030400 18000000",
            "00000a00 18000c00 04000800 0a000000 2c010000 10000000",
            "00000000 11000000",
            "00000000 07000000",
        ),
    )
)


class Numbers(NamedTuple):
    """What the metadata states. Nodes and buffers are flat lists: two numbers for each."""

    body_bytes: int
    rows: int
    buffers: tuple[int, ...]
    nodes: tuple[int, ...]


def read_untrusted(metadata: bytes) -> Numbers:
    """Read the numbers of a record batch with our columns; raise only BadBatch."""
    if len(metadata) == USUAL.size:
        parts = USUAL.unpack(metadata)
        if parts[::2] == USUAL_FORM:
            body_bytes, rows, buffers, nodes = parts[1::2]
            return Numbers(body_bytes, rows, BUFFERS.unpack(buffers), NODES.unpack(nodes))
    return walk_untrusted(metadata)


def walk_untrusted(metadata: bytes) -> Numbers:
    """Do the same for any arrangement."""
    walk = _Walk(metadata)
    version, kind, batch, body, custom = walk.fields(walk.target(0))
    if not version or walk.number(I16, version) != METADATA_V5:
        raise BadBatch("not a message of Arrow metadata version 5")
    if not kind or walk.number(U8, kind) != RECORD_BATCH:
        raise BadBatch("message is not a record batch", kind=walk.number(U8, kind) if kind else 0)
    if custom:
        raise BadBatch("message has metadata of its own")
    if not (batch and body):
        raise BadBatch("message without a record batch or a body")
    length, nodes, buffers, compression, variadic = walk.fields(walk.target(batch))
    if compression or variadic:
        raise BadBatch("compressed or variadic buffers")
    if not (length and nodes and buffers):
        raise BadBatch("record batch without rows or columns")
    return Numbers(
        walk.number(I64, body),
        walk.number(I64, length),
        walk.vector(buffers, BUFFERS_COUNT, BUFFERS),
        walk.vector(nodes, NODES_COUNT, NODES),
    )


class _Walk:
    """Reads what positions in a flatbuffer point at. Every position is checked; raises BadBatch."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: bytes) -> None:
        self.metadata = metadata

    def read(self, layout: struct.Struct, at: int) -> tuple[Any, ...]:
        if not 0 <= at <= len(self.metadata) - layout.size:
            raise BadBatch("metadata points outside of itself", at=at, need=layout.size, have=len(self.metadata))
        return layout.unpack_from(self.metadata, at)

    def number(self, layout: struct.Struct, at: int) -> int:
        return int(self.read(layout, at)[0])

    def target(self, at: int) -> int:
        """Where the table or vector is to which the reference at ``at`` points."""
        return at + self.number(U32, at)

    def fields(self, table: int) -> list[int]:
        """Where the five fields of the table are, 0 for an absent one."""
        vtable = table - self.number(I32, table)
        vtable_bytes, _ = self.read(VTABLE_HEAD, vtable)
        count, odd = divmod(vtable_bytes - VTABLE_HEAD.size, 2)
        if odd or not 0 <= count <= FIELDS:
            raise BadBatch("table with unknown fields", at=vtable, bytes=vtable_bytes)
        slots = self.read(SLOTS[count], vtable + VTABLE_HEAD.size)
        return [table + slot if slot else 0 for slot in slots] + [0] * (FIELDS - count)

    def vector(self, at: int, count: int, layout: struct.Struct) -> tuple[int, ...]:
        """The numbers of the vector to which the reference at ``at`` points; it must have ``count`` elements."""
        vector = self.target(at)
        found = self.number(U32, vector)
        if found != count:
            raise BadBatch("not the columns of a batch", at=vector, need=count, have=found)
        return self.read(layout, vector + U32.size)
