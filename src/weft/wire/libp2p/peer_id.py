"""Peer ids: the multihash of a peer's public key, written in base58."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from weft.wire.libp2p.errors import BadFrame

PEER_ID_KEY_BYTES_MAX: Final = 42  # longer keys are hashed into the peer id; an Ed25519 key (36) stands in it as it is


# A multihash is code:uvarint length:uvarint digest. Both codes in use, and all lengths they allow, are single bytes.
IDENTITY = 0x00
SHA2_256 = 0x12
SHA2_256_BYTES = 32
HEAD_BYTES = 2

# Base58 as Bitcoin writes it.
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
DIGITS = {character: value for value, character in enumerate(ALPHABET)}
TEXT_CHARACTERS_MAX = 128  # a peer id has at most 60; the work grows with the square


@dataclass(frozen=True, slots=True)
class PeerId:
    """Who a peer is. Made from network bytes or text by the functions below, or from a public key."""

    multihash: bytes

    def __str__(self) -> str:
        return encode_base58(self.multihash)

    @property
    def inlined_key(self) -> bytes | None:
        """The public key itself (serialised) if it is short enough to stand in the id, else None."""
        return self.multihash[HEAD_BYTES:] if self.multihash[0] == IDENTITY else None


def of_public_key(serialised: bytes) -> PeerId:
    if len(serialised) <= PEER_ID_KEY_BYTES_MAX:
        return PeerId(bytes((IDENTITY, len(serialised))) + serialised)
    return PeerId(bytes((SHA2_256, SHA2_256_BYTES)) + hashlib.sha256(serialised).digest())


def from_bytes_untrusted(multihash: bytes) -> PeerId:
    """The id with this multihash, whether or not anybody has such a key; raise only BadFrame."""
    if len(multihash) < HEAD_BYTES:
        raise BadFrame("peer id is cut off", need=HEAD_BYTES, have=len(multihash))
    code, length = multihash[0], multihash[1]
    if length != len(multihash) - HEAD_BYTES:
        raise BadFrame("peer id has the wrong length", need=length, have=len(multihash) - HEAD_BYTES)
    if code == IDENTITY:
        if not 1 <= length <= PEER_ID_KEY_BYTES_MAX:
            raise BadFrame("key inside the peer id has the wrong length", have=length, limit=PEER_ID_KEY_BYTES_MAX)
    elif code != SHA2_256:
        raise BadFrame("peer id is hashed with an unknown function", at=0, code=hex(code))
    elif length != SHA2_256_BYTES:
        raise BadFrame("SHA-256 digest has the wrong length", need=SHA2_256_BYTES, have=length)
    return PeerId(multihash)


def from_text_untrusted(text: str) -> PeerId:
    """The id written as ``text`` in base58; raise only BadFrame."""
    return from_bytes_untrusted(decode_base58_untrusted(text))


def encode_base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))  # a leading zero byte is written as a leading "1"
    return "1" * zeros + "".join(reversed(digits))


def decode_base58_untrusted(text: str) -> bytes:
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
