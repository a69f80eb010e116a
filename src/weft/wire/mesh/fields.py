"""Fields of protobuf messages, written by hand where there are so many that making objects of them would be most of the
work. What comes out is what protobuf writes for the same values."""

from __future__ import annotations

from typing import Final

ONE_DIGIT: Final = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    if value < 0x80:
        return ONE_DIGIT[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
