"""Compression of a whole batch: the body is then ``message_bytes:u32`` and the compressed Arrow message.

LZ4 uses the frame format, Zstandard one frame. The length is checked before a byte is allocated, and it must be exact.
"""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

from weft.model.batch_header import HEADER_BYTES, MESSAGE_BYTES_MAX, MESSAGE_LENGTH, BadBatch, Codec


def compress(message: pa.Buffer, codec: Codec) -> bytes:
    """Make the body that holds ``message``."""
    assert codec is not Codec.NONE, "an uncompressed body is the message itself"
    return MESSAGE_LENGTH.pack(message.size) + bytes(pa.compress(message, codec=codec.name.lower(), asbytes=True))


def decompress_untrusted(body: pa.Buffer, codec: Codec) -> pa.Buffer:
    """Take the message out of a body; raise only BadBatch."""
    if codec is Codec.NONE:
        return body
    if body.size < MESSAGE_LENGTH.size:
        raise BadBatch("compressed body is cut off", at=HEADER_BYTES, need=MESSAGE_LENGTH.size, have=body.size)
    (length,) = MESSAGE_LENGTH.unpack_from(body)
    if length > MESSAGE_BYTES_MAX:
        raise BadBatch("message too long", at=HEADER_BYTES, need=length, limit=MESSAGE_BYTES_MAX)
    try:
        message = _decompress(body.slice(MESSAGE_LENGTH.size), length, codec)
    except (pa.ArrowException, OSError) as error:
        raise BadBatch("body cannot be decompressed", codec=codec.name.lower(), reason=str(error)) from None
    if message.size != length:
        raise BadBatch("message is not as long as stated", at=HEADER_BYTES, need=length, have=message.size)
    return message


def _decompress(compressed: pa.Buffer, length: int, codec: Codec) -> pa.Buffer:
    match codec:
        case Codec.NONE:
            return compressed
        case Codec.LZ4:
            # Not pa.decompress: it does not say how much came out, and returns the rest of its buffer, with whatever
            # that memory held before, as if it were part of the message. This asks for one byte more, so that a message
            # longer than stated is noticed, too.
            return pa.CompressedInputStream(pa.BufferReader(compressed), "lz4").read_buffer(length + 1)
        case Codec.ZSTD:
            # Not a stream: that would allocate the window that a frame asks for, up to 128 MiB. Decompressing in one go
            # needs no window, and here Arrow does refuse any length but the stated one.
            return pa.decompress(compressed, length, codec="zstd")
        case _:
            assert_never(codec)
