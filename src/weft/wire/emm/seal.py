"""Compression and encryption of the data fields, and rules for which events must be encrypted (EMM-22 to EMM-24).

The data TLVs are serialized, compressed if wanted, then encrypted if wanted, and the result travels as one binary
value. The first 15 bytes of the header (all but the length, which is not known before) and the node id are
authenticated with it, so that a ciphertext cannot be moved into another packet.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from weft.errors import UsageError
from weft.model import Pattern, Topic, matches
from weft.wire import tlv
from weft.wire.emm.encryption import IV_BYTES, KEY_ID_BYTES, Encryption, read_encryption_untrusted
from weft.wire.emm.fields import (
    ANY_SIZE,
    DATA_LAST,
    DEFAULT_RULES,
    SIZE_BY_TYPE,
    Algorithm,
    Field,
    Rules,
    Value,
    type_name,
)
from weft.wire.emm.packet import Packet
from weft.wire.emm.parse import check_core_values
from weft.wire.emm.values import decode_values_untrusted, join_chunks
from weft.wire.reject import BadPacket, Reject

HEADER_AUTHENTICATED_BYTES = 15
KEY_BYTES = 32

# Key id as the packet gives it (sub-field 0x05, else field 0x17, else the node id, else empty) -> 32-byte key or None.
KeyFinder = Callable[[bytes], bytes | None]


@dataclass(frozen=True, slots=True)
class Seal:
    """How to encrypt: never use one (key, iv) pair twice."""

    encryption: Encryption
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise UsageError("an encryption key has the wrong size", need=KEY_BYTES, have=len(self.key))

    def encrypt(self, plain: bytes, header: bytes, node_id: bytes) -> bytes:
        cipher = _cipher(self.encryption.algorithm, self.key)
        return cipher.encrypt(self.encryption.iv, plain, _associated(header, node_id))


@dataclass(frozen=True, slots=True)
class SealRule:
    """Events whose name matches ``pattern`` travel encrypted. A sender uses the key with that id."""

    pattern: Pattern
    key_id: bytes
    algorithm: Algorithm = Algorithm.AES_256_GCM

    def __post_init__(self) -> None:
        if len(self.key_id) != KEY_ID_BYTES:
            raise UsageError("the id of an encryption key has the wrong size", need=KEY_ID_BYTES, have=len(self.key_id))


def rule_for(rules: Sequence[SealRule], name: str) -> SealRule | None:
    """The first rule that matches."""
    return next((rule for rule in rules if matches(rule.pattern, Topic(name))), None)


def seal_for(rules: Sequence[SealRule], name: str, find_key: KeyFinder, chance: Callable[[int], int]) -> Seal | None:
    """How to encrypt an event of that name; None if it may go in the clear. UsageError if there is no such key.
    ``chance(n)`` returns n random bits: an IV must never be used twice with one key.
    """
    rule = rule_for(rules, name)
    if rule is None:
        return None
    key = find_key(rule.key_id)
    if key is None:
        raise UsageError(
            f"events named {name!r} must be encrypted, and there is no key with that id: "
            "weft trust add --encryption-key",
            key_id=rule.key_id.hex(),
        )
    return Seal(Encryption(rule.algorithm, chance(8 * IV_BYTES).to_bytes(IV_BYTES), rule.key_id), key)


def compress(plain: bytes) -> bytes:
    return zlib.compress(plain)


def no_keys(_key_id: bytes) -> bytes | None:
    """A key finder that knows nothing."""
    return None


def unseal_untrusted(packet: Packet, find_key: KeyFinder = no_keys, rules: Rules = DEFAULT_RULES) -> Packet:
    """The packet with its data values readable; raise only BadPacket. One that is not sealed comes back as it is."""
    if not (packet.encrypted or packet.compressed):
        return packet
    data = packet.values[0][1]
    assert isinstance(data, bytes), "the parser lets only one binary value through in a sealed packet"
    if packet.encrypted:
        data = _decrypt_untrusted(packet, data, find_key)
    if packet.compressed:
        data = _inflate_untrusted(data, rules.inflated_bytes_max)
    opened = packet._replace(values=_read_data_untrusted(data, rules))
    check_core_values(opened)
    return opened


def _decrypt_untrusted(packet: Packet, data: bytes, find_key: KeyFinder) -> bytes:
    encryption = read_encryption_untrusted(packet, subs_max=len(packet.raw))
    fields = packet.fields
    node_id = fields.get(Field.NODE_ID, b"")
    key_id = encryption.key_id or fields.get(Field.KEY_ID) or node_id
    key = find_key(key_id)
    if key is None:
        raise BadPacket(Reject.UNDECRYPTABLE, "no key to decrypt with", key_id=key_id.hex())
    assert len(key) == KEY_BYTES, "a key finder gives keys of 32 bytes"
    try:
        return _cipher(encryption.algorithm, key).decrypt(encryption.iv, data, _associated(packet.raw, node_id))
    except InvalidTag:
        raise BadPacket(Reject.UNDECRYPTABLE, "wrong key, or the packet was changed", key_id=key_id.hex()) from None


def _inflate_untrusted(data: bytes, bytes_max: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise BadPacket(Reject.COMPRESSION, f"not a zlib stream: {error}") from None
    if len(plain) > bytes_max:
        raise BadPacket(Reject.BOMB, "inflates past the limit", limit=bytes_max)
    if not inflater.eof or inflater.unused_data:
        raise BadPacket(Reject.COMPRESSION, "zlib stream is cut off or has bytes behind it")
    return plain


def _read_data_untrusted(data: bytes, rules: Rules) -> tuple[tuple[int, Value], ...]:
    """Data fields inside a seal. The TLV limit counts values here: a value over 255 bytes has many chunks, and the
    bytes are bounded already."""
    chunks = tlv.read_untrusted(data, 0, len(data), count_max=len(data))
    rank = 0
    for kind, value, at in chunks:
        if not 0 < kind <= DATA_LAST:
            raise BadPacket(Reject.TLV_VALUE, f"field {type_name(kind)} inside a seal", at=at)
        if kind < rank:
            raise BadPacket(Reject.TLV_ORDER, f"field {type_name(kind)} out of order inside a seal", at=at)
        if SIZE_BY_TYPE[kind] not in (ANY_SIZE, len(value)):
            raise BadPacket(Reject.TLV_SIZE, f"field {type_name(kind)} has the wrong size", at=at, have=len(value))
        rank = kind
    joined = join_chunks(chunks)
    if len(joined) > rules.tlvs_max:
        raise BadPacket(Reject.TLV_COUNT, "too many values inside a seal", have=len(joined), limit=rules.tlvs_max)
    return decode_values_untrusted(joined)


def _cipher(algorithm: Algorithm, key: bytes) -> AESGCM | ChaCha20Poly1305:
    match algorithm:
        case Algorithm.AES_256_GCM:
            return AESGCM(key)
        case Algorithm.CHACHA20_POLY1305:
            return ChaCha20Poly1305(key)


def _associated(header: bytes, node_id: bytes) -> bytes:
    return header[:HEADER_AUTHENTICATED_BYTES] + node_id
