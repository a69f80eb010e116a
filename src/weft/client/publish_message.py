"""A PublishRequest with batches, as protobuf has it, put together piece by piece.

A lone event is a message of its own: to make one of protobuf's objects and have it written would take as long as to
make the batch. Large batches are copied once.
"""

from __future__ import annotations

from typing import Final

from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.fields import varint

BATCHES_FIELD: Final = bytes([3 << 3 | 2])  # PublishRequest.batches
BATCH_FIELD: Final = bytes([1 << 3 | 2])  # PublishBatches.batches
REQUEST_FIELD: Final = bytes([1 << 3 | 0])  # of PublishBatch, as those that follow
DATA_FIELD: Final = bytes([4 << 3 | 2])
COPIES_FIELD: Final = bytes([5 << 3 | 0])


class PublishMessage:
    """Falsy as long as there is nothing in it."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, request: int, place: bytes, data: bytes, copies: int) -> None:
        """A batch. ``place``: see ``place_bytes``; the same for every batch that goes there."""
        copied = COPIES_FIELD + varint(copies) if copies else b""
        head = b"".join((REQUEST_FIELD, varint(request), place, copied, DATA_FIELD, varint(len(data))))
        self._parts += (BATCH_FIELD, varint(len(head) + len(data)), head, data)

    def to_bytes(self) -> bytes:
        size = sum(map(len, self._parts))
        return b"".join((BATCHES_FIELD, varint(size), *self._parts))


def place_bytes(topic: str, partition: int, later: bool) -> bytes:
    """Where a batch goes, as its message says it."""
    return bytes(pb.PublishBatch(topic=topic, partition=partition, later=later).SerializeToString())
