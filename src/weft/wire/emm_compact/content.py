"""What a command's parameters and a join's status say, with encoding and compression undone (0xA1, 0xA5).

A sender first encodes text, then compresses the bytes. Readers get UTF-8, or the bytes unchanged if no encoding or
``raw`` is given. This happens only after a packet was authenticated: a sender without a key costs no memory.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterable
from typing import Final

from weft.limits import KIB
from weft.wire.emm_compact.body import Field, find
from weft.wire.emm_compact.codes import Compression, FieldType, PayloadEncoding
from weft.wire.reject import BadPacket, Reject

EMC_CONTENT_BYTES_MAX: Final = 64 * KIB  # what 255 bytes may come to; as much as an EMM packet may
DEFLATE_LEVEL: Final = 9  # of 31: contents are tiny
GZIP_WINDOW: Final = zlib.MAX_WBITS | 16

MARKS: Final = (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)
CODECS: Final = {
    PayloadEncoding.ASCII: "ascii",
    PayloadEncoding.UTF_8: "utf-8",
    PayloadEncoding.UTF_16: "utf-16",
    PayloadEncoding.ISO_8859_1: "iso-8859-1",
    PayloadEncoding.CP1252: "cp1252",
}


def content_untrusted(value: bytes, more: Iterable[Field]) -> bytes:
    """The content beside these fields; raise only BadPacket."""
    more = tuple(more)
    compression, encoding = find(more, FieldType.COMPRESSION), find(more, FieldType.PAYLOAD_ENCODING)
    if compression is not None:
        value = _decompressed_untrusted(value, Compression(compression[0]))
    if encoding is not None and encoding[0] != PayloadEncoding.RAW:
        try:
            return value.decode(_codec(PayloadEncoding(encoding[0]), value)).encode()
        except UnicodeError as error:
            raise BadPacket(Reject.TLV_VALUE, f"content is not in its encoding: {error}") from None
    return value


def _codec(encoding: PayloadEncoding, value: bytes) -> str:
    """UTF-16 without a byte order mark is in the order of the network, like every number in a packet (2)."""
    if encoding is PayloadEncoding.UTF_16 and not value.startswith(MARKS):
        return "utf-16-be"
    return CODECS[encoding]


def compressed_if_smaller(value: bytes) -> tuple[bytes, tuple[Field, ...]]:
    """The content deflated, with the fields that say so; unchanged and without fields if deflating does not make it
    smaller.
    """
    said = (
        Field(FieldType.COMPRESSION, bytes((Compression.DEFLATE,))),
        Field(FieldType.COMPRESSION_LEVEL, bytes((DEFLATE_LEVEL,))),
    )
    deflated = zlib.compress(value, DEFLATE_LEVEL)
    saved = len(value) - len(deflated) - sum(2 + len(each.value) for each in said)
    return (deflated, said) if saved > 0 else (value, ())


def _decompressed_untrusted(value: bytes, compression: Compression) -> bytes:
    match compression:
        case Compression.NONE:
            return value
        case Compression.DEFLATE:
            return _inflated_untrusted(value, zlib.MAX_WBITS)
        case Compression.GZIP:
            return _inflated_untrusted(value, GZIP_WINDOW)
        case Compression.ZSTD | Compression.LZ4:
            return _unpacked_untrusted(value, compression)


def _inflated_untrusted(value: bytes, window: int) -> bytes:
    inflater = zlib.decompressobj(window)
    try:
        plain = inflater.decompress(value, EMC_CONTENT_BYTES_MAX + 1)
    except zlib.error as error:
        raise BadPacket(Reject.COMPRESSION, f"content cannot be decompressed: {error}") from None
    _check_size(plain)
    if not inflater.eof or inflater.unused_data:
        raise BadPacket(Reject.COMPRESSION, "content is not one compressed stream")
    return plain


def _unpacked_untrusted(value: bytes, compression: Compression) -> bytes:
    import pyarrow as pa  # here alone: the codec does without Arrow, and these two are rare

    try:
        stream = pa.CompressedInputStream(pa.BufferReader(value), compression.name.lower())
        plain = bytes(stream.read(EMC_CONTENT_BYTES_MAX + 1))
    except (OSError, pa.ArrowException) as error:
        raise BadPacket(Reject.COMPRESSION, f"content cannot be decompressed: {error}") from None
    _check_size(plain)
    return plain


def _check_size(plain: bytes) -> None:
    if len(plain) > EMC_CONTENT_BYTES_MAX:
        raise BadPacket(Reject.BOMB, "content inflates past the limit", limit=EMC_CONTENT_BYTES_MAX)
