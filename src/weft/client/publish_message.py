"""Encoding a PublishRequest with batches for protobuf by hand, piece by piece.

A single event is a message of its own: making a protobuf object and serialising it would take as long as making the
batch. Large batches are copied once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.fields import varint

BATCHES_FIELD: Final = bytes([3 << 3 | 2])  # PublishRequest.batches
BATCH_FIELD: Final = bytes([1 << 3 | 2])  # PublishBatches.batches
REQUEST_FIELD: Final = bytes([1 << 3 | 0])  # of PublishBatch, like those below
DATA_FIELD: Final = bytes([4 << 3 | 2])
COPIES_FIELD: Final = bytes([5 << 3 | 0])
AFTER_FIELD: Final = bytes([7 << 3 | 0])
LENGTHS_KEPT: Final = 4096  # of batches and of what they are in: single events of an application have a few lengths


class PublishMessage:
    """A message is false as long as it is empty."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, request: int, place: bytes, data: bytes, copies: int, after: int) -> None:
        """Add a batch. ``place``: see ``place_bytes``; it is the same for every batch that goes there. ``after``: the
        unanswered request that it must not overtake, or 0."""
        more = COPIES_FIELD + varint(copies) if copies else b""
        if after:
            more += AFTER_FIELD + varint(after)
        head = b"".join((REQUEST_FIELD, varint(request), place, more, _begin(DATA_FIELD, len(data))))
        self._parts += (_begin(BATCH_FIELD, len(head) + len(data)), head, data)

    def to_bytes(self) -> bytes:
        return b"".join((_begin(BATCHES_FIELD, sum(map(len, self._parts))), *self._parts))


@lru_cache(LENGTHS_KEPT)
def _begin(field: bytes, size: int) -> bytes:
    """Encode what comes before the content of a field."""
    return field + varint(size)


def place_bytes(topic: str, partition: int, later: bool) -> bytes:
    """Encode where a batch goes."""
    return bytes(pb.PublishBatch(topic=topic, partition=partition, later=later).SerializeToString())
