"""Streams and positions of mesh.proto as values, and back.

Twins of the functions in ``weft.wire.mesh.frames``, which clients cannot import: it brings the generated messages of
peer links with it, and those have no package and could collide with the application's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.client.errors import BadNode
from weft.errors import UsageError
from weft.model import Epoch, Position, Stream, parse_node_id, parse_topic
from weft.wire.mesh.mesh_pb2 import StreamPosition, StreamRef


def stream_ref(stream: Stream, epoch: Epoch) -> StreamRef:
    return StreamRef(topic=stream.topic, origin=stream.origin, epoch=epoch, partition=stream.partition)


def stream_positions(positions: Iterable[Position]) -> list[StreamPosition]:
    return [
        StreamPosition(stream=stream_ref(place.stream, place.epoch), next_offset=place.offset) for place in positions
    ]


def read_stream_untrusted(ref: StreamRef) -> tuple[Stream, Epoch]:
    """A stream and its epoch; raise only BadNode."""
    place = read_place_untrusted(ref, 0)
    return place.stream, place.epoch


def read_place_untrusted(ref: StreamRef, offset: int) -> Position:
    """A place in a stream; raise only BadNode."""
    try:
        return Position(
            Stream(parse_topic(ref.topic), parse_node_id(ref.origin), ref.partition), Epoch(ref.epoch), offset
        )
    except UsageError as error:
        raise BadNode(f"the node named a place that cannot be: {error}") from None


def read_position_untrusted(position: StreamPosition) -> Position:
    return read_place_untrusted(position.stream, position.next_offset)
