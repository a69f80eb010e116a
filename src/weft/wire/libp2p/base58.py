"""Base58 as Bitcoin writes it: the text form of peer ids."""

from __future__ import annotations

from weft.wire.libp2p.errors import BadFrame

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
DIGITS = {character: value for value, character in enumerate(ALPHABET)}
TEXT_CHARACTERS_MAX = 128  # a peer id has at most 60; the work grows with the square


def encode(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))  # a leading zero byte is written as a leading "1"
    return "1" * zeros + "".join(reversed(digits))


def decode_untrusted(text: str) -> bytes:
    """The bytes ``text`` stands for; raise only BadFrame."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise BadFrame("base58 text is too long", have=len(text), limit=TEXT_CHARACTERS_MAX)
    number = 0
    for at, character in enumerate(text):
        digit = DIGITS.get(character)
        if digit is None:
            raise BadFrame("not a base58 character", at=at, character=repr(character))
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
