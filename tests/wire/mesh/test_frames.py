"""Frames from untrusted bytes, and streams as model values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.stream import Epoch, NodeId, Position, Stream
from weft.model.topic import parse_topic
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.frames import read_peer_message_untrusted, write_peer_message
from weft.wire.mesh.mesh_pb2 import CODEC_ZSTD, StreamPosition, StreamRef
from weft.wire.mesh.peerlink_pb2 import Event, Heartbeat, PeerCompressed, PeerMessage
from weft.wire.mesh.streams import read_position_untrusted, read_stream_untrusted, stream_position

LONG = PeerMessage(event=Event(topic="t", payload=b"x" * 5000))


def test_compression_is_used_where_it_helps() -> None:
    assert len(write_peer_message(LONG, compressed=True)) < 100 < len(write_peer_message(LONG))
    assert read_peer_message_untrusted(write_peer_message(LONG, compressed=True)) == LONG
    short = PeerMessage(heartbeat=Heartbeat(timestamp=1))
    assert write_peer_message(short, compressed=True) == write_peer_message(short)


def compressed(data: bytes, plain_bytes: int, codec: int = CODEC_ZSTD) -> bytes:
    envelope = PeerCompressed(codec=codec, plain_bytes=plain_bytes, data=data)  # type: ignore[arg-type]
    return bytes(PeerMessage(compressed=envelope).SerializeToString())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"\xff", "not a PeerMessage"),
        (b"\x0a\x7f", "not a PeerMessage"),
        (b"\0" * 101, "size 101, limit 100"),
        (compressed(b"", 2**32 - 1), "size 4294967295, limit 100"),
        (compressed(b"garbage", 50), "cannot be decompressed"),
        (compressed(pa.compress(b"x" * 60, codec="zstd", asbytes=True), 50), "cannot be decompressed"),
        (compressed(pa.compress(b"x" * 40, codec="zstd", asbytes=True), 50), "cannot be decompressed"),
        (compressed(b"", 0, codec=9), "unknown compression"),
        (compressed(pa.compress(compressed(b"", 0), codec="zstd", asbytes=True), len(compressed(b"", 0))), "inside a"),
    ],
    ids=["bytes", "truncated", "long", "huge claim", "not zstd", "longer", "shorter", "codec", "nested"],
)
def test_hostile_frames(frame: bytes, message: str) -> None:
    with pytest.raises(BadMeshMessage, match=message):
        read_peer_message_untrusted(frame, bytes_max=100)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        message = read_peer_message_untrusted(data)
    except BadMeshMessage:
        return
    assert read_peer_message_untrusted(write_peer_message(message)) == message


@given(st.integers(1, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 65535))
def test_positions_survive_the_wire(epoch: int, offset: int, partition: int) -> None:
    position = Position(Stream(parse_topic("a.b"), NodeId("n1"), partition), Epoch(epoch), offset)
    data = stream_position(position).SerializeToString()
    assert read_position_untrusted(StreamPosition.FromString(data)) == position


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (StreamRef(), "epoch out of range"),
        (StreamRef(topic="a", origin="n1", epoch=2**63), "epoch out of range"),
        (StreamRef(topic="a..b", origin="n1", epoch=1), "not a stream"),
        (StreamRef(topic="a", origin="", epoch=1), "not a stream"),
        (StreamRef(topic="a", origin="n1", epoch=1, partition=65536), "not a stream"),
    ],
)
def test_bad_streams(ref: StreamRef, message: str) -> None:
    with pytest.raises(BadMeshMessage, match=message):
        read_stream_untrusted(ref)


def test_bad_offsets() -> None:
    good = StreamRef(topic="a", origin="n1", epoch=1)
    with pytest.raises(BadMeshMessage, match="offset out of range"):
        read_position_untrusted(StreamPosition(stream=good, next_offset=2**63))
