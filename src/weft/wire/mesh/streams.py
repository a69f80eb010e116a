"""Streams and positions of mesh.proto as model values, and back. For nodes and clients alike."""

from __future__ import annotations

from weft.errors import UsageError
from weft.limits import OFFSET_MAX
from weft.model.stream import Epoch, Position, Stream, parse_node_id
from weft.model.topic import parse_topic
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.mesh_pb2 import StreamPosition, StreamRef


def stream_ref(stream: Stream, epoch: Epoch) -> StreamRef:
    return StreamRef(topic=stream.topic, origin=stream.origin, epoch=epoch, partition=stream.partition)


def stream_position(position: Position) -> StreamPosition:
    return StreamPosition(stream=stream_ref(position.stream, position.epoch), next_offset=position.offset)


def read_stream_untrusted(ref: StreamRef) -> tuple[Stream, Epoch]:
    """A stream and its epoch as model values; raise only BadMeshMessage."""
    if not 0 < ref.epoch <= OFFSET_MAX:
        raise BadMeshMessage("epoch out of range", epoch=ref.epoch, limit=OFFSET_MAX)
    try:
        return Stream(parse_topic(ref.topic), parse_node_id(ref.origin), ref.partition), Epoch(ref.epoch)
    except UsageError as error:
        raise BadMeshMessage(f"not a stream: {error}") from None


def read_position_untrusted(position: StreamPosition) -> Position:
    """A position as a model value; raise only BadMeshMessage."""
    stream, epoch = read_stream_untrusted(position.stream)
    if position.next_offset > OFFSET_MAX:
        raise BadMeshMessage("offset out of range", offset=position.next_offset, limit=OFFSET_MAX)
    return Position(stream, epoch, position.next_offset)
