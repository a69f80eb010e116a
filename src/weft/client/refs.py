"""Streams and positions that a node named, as values. Impossible ones are the node's fault."""

from __future__ import annotations

from collections.abc import Iterable

from weft.client.errors import BadNode
from weft.errors import UsageError
from weft.model import Epoch, Position, Stream
from weft.wire.mesh import BadMeshMessage, streams
from weft.wire.mesh.mesh_pb2 import StreamPosition, StreamRef
from weft.wire.mesh.streams import stream_position, stream_ref

__all__ = [
    "read_place_untrusted",
    "read_position_untrusted",
    "read_stream_untrusted",
    "stream_positions",
    "stream_ref",
]


def stream_positions(positions: Iterable[Position]) -> list[StreamPosition]:
    return [stream_position(place) for place in positions]


def read_stream_untrusted(ref: StreamRef) -> tuple[Stream, Epoch]:
    """A stream and its epoch; raise only BadNode."""
    try:
        return streams.read_stream_untrusted(ref)
    except BadMeshMessage as error:
        raise BadNode(f"the node named a place that cannot be: {error}") from None


def read_place_untrusted(ref: StreamRef, offset: int) -> Position:
    """A place in a stream; raise only BadNode."""
    stream, epoch = read_stream_untrusted(ref)
    try:
        return Position(stream, epoch, offset)
    except UsageError as error:
        raise BadNode(f"the node named a place that cannot be: {error}") from None


def read_position_untrusted(position: StreamPosition) -> Position:
    return read_place_untrusted(position.stream, position.next_offset)
