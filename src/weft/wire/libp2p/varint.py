"""Unsigned varints: seven bits a byte, lowest first, the high bit set on all but the last."""

from __future__ import annotations

from typing import Final

from weft.wire.libp2p.errors import BadFrame

VARINT_BYTES_MAX: Final = 10  # 64 bits in groups of seven
VALUE_MAX = (1 << 64) - 1


def encode(value: int) -> bytes:
    assert 0 <= value <= VALUE_MAX, "only our own small numbers and lengths are written"
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def prefixed(body: bytes) -> bytes:
    """``body`` behind its length, as multistream-select, identify and Floodsub send messages."""
    return encode(len(body)) + body


def read_partial_untrusted(data: bytes | bytearray, at: int, end: int) -> tuple[int, int] | None:
    """The value at ``at`` and where it ends; None if ``data[at:end]`` stops inside it. Raise only BadFrame."""
    if at < end and data[at] < 0x80:
        return data[at], at + 1  # nearly all of them
    value = 0
    for position in range(at, min(end, at + VARINT_BYTES_MAX)):
        byte = data[position]
        value |= (byte & 0x7F) << 7 * (position - at)
        if byte < 0x80:
            if value > VALUE_MAX:
                raise BadFrame("varint exceeds 64 bits", at=at)
            return value, position + 1
    if end - at >= VARINT_BYTES_MAX:
        raise BadFrame("varint does not end", at=at, limit=VARINT_BYTES_MAX)
    return None


def read_untrusted(data: bytes | bytearray, at: int, end: int) -> tuple[int, int]:
    """The value at ``at`` and where it ends, all within ``data[at:end]``; raise only BadFrame."""
    read = read_partial_untrusted(data, at, end)
    if read is None:
        raise BadFrame("varint is cut off", at=at, have=end - at)
    return read
