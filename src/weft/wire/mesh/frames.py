"""Frames to messages and back: PeerMessage from untrusted bytes, compressed ones opened."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from weft.limits import PEER_FRAME_BYTES_MAX
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.mesh_pb2 import CODEC_ZSTD
from weft.wire.mesh.peerlink_pb2 import PeerCompressed, PeerMessage

COMPRESS_BYTES_MIN: Final = 512  # below that zstd saves less than its envelope costs


def read_peer_message_untrusted(frame: bytes, bytes_max: int = PEER_FRAME_BYTES_MAX) -> PeerMessage:
    """One frame of a peer link, decompressed if it was compressed; raise only BadMeshMessage.

    A message of a kind that we do not know has no ``msg``: a later version's, to be ignored.
    """
    message = _parse_untrusted(frame, bytes_max)
    if message.WhichOneof("msg") != "compressed":
        return message
    inner = _parse_untrusted(_decompress_untrusted(message.compressed, bytes_max), bytes_max)
    if inner.WhichOneof("msg") == "compressed":
        raise BadMeshMessage("a compressed frame inside a compressed frame")
    return inner


def write_peer_message(message: PeerMessage, *, compressed: bool = False) -> bytes:
    """The frame of a message; compressed only where that makes it shorter."""
    frame = message.SerializeToString()
    if not compressed or len(frame) < COMPRESS_BYTES_MIN:
        return bytes(frame)
    import pyarrow as pa

    data = pa.compress(frame, codec="zstd", asbytes=True)
    smaller = PeerMessage(compressed=PeerCompressed(codec=CODEC_ZSTD, plain_bytes=len(frame), data=data))
    return bytes(min(smaller.SerializeToString(), frame, key=len))


def _parse_untrusted(data: bytes, bytes_max: int) -> PeerMessage:
    if len(data) > bytes_max:
        raise BadMeshMessage("frame is too large", size=len(data), limit=bytes_max)
    message = PeerMessage()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise BadMeshMessage(f"not a PeerMessage: {error}") from None
    return message


def _decompress_untrusted(compressed: PeerCompressed, bytes_max: int) -> bytes:
    if compressed.codec != CODEC_ZSTD:
        raise BadMeshMessage("unknown compression", codec=compressed.codec)
    if compressed.plain_bytes > bytes_max:
        raise BadMeshMessage("frame is too large", size=compressed.plain_bytes, limit=bytes_max)
    import pyarrow as pa

    try:
        # Arrow refuses a zstd frame that does not hold exactly so many bytes.
        return bytes(pa.decompress(compressed.data, compressed.plain_bytes, codec="zstd", asbytes=True))
    except (pa.ArrowException, OSError) as error:
        raise BadMeshMessage(f"frame cannot be decompressed: {error}") from None
