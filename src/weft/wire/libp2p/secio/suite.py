"""SECIO's algorithms: what can be agreed on, who decides, and the keys that follow from the shared secret."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from weft.wire.libp2p.errors import BadFrame


class Exchange(StrEnum):
    P256 = "P-256"
    P384 = "P-384"
    P521 = "P-521"


class CipherName(StrEnum):
    AES256 = "AES-256"
    AES128 = "AES-128"


class HashName(StrEnum):
    SHA256 = "SHA256"
    SHA512 = "SHA512"


CURVES: dict[Exchange, ec.EllipticCurve] = {
    Exchange.P256: ec.SECP256R1(),
    Exchange.P384: ec.SECP384R1(),
    Exchange.P521: ec.SECP521R1(),
}
CIPHER_KEY_BYTES = {CipherName.AES256: 32, CipherName.AES128: 16}
MAC_BYTES = {HashName.SHA256: 32, HashName.SHA512: 64}
HASHLIB_NAMES = {HashName.SHA256: "sha256", HashName.SHA512: "sha512"}

IV_BYTES = 16
MAC_KEY_BYTES = 20  # whatever the hash
STRETCH_SEED = b"key expansion"
# Bytes of chance beyond the size of the scalar, so that taking the remainder favours no value (FIPS 186-4, B.4.1).
SPARE_ENTROPY_BYTES = 8

Name = TypeVar("Name", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Offer:
    """The algorithms that one side accepts, best first."""

    exchanges: tuple[Exchange, ...] = tuple(Exchange)
    ciphers: tuple[CipherName, ...] = tuple(CipherName)
    hashes: tuple[HashName, ...] = tuple(HashName)


@dataclass(frozen=True, slots=True)
class Suite:
    """What both sides agreed on."""

    exchange: Exchange
    cipher: CipherName
    hash: HashName


@dataclass(frozen=True, slots=True)
class Keys:
    """What one direction is encrypted and authenticated with."""

    iv: bytes
    cipher_key: bytes
    mac_key: bytes


def agree_untrusted(offer: Offer, exchanges: str, ciphers: str, hashes: str, *, we_lead: bool) -> Suite:
    """What both sides find in our offer and in the peer's three lists; raise only BadFrame."""
    return Suite(
        _choose_untrusted(offer.exchanges, exchanges, we_lead),
        _choose_untrusted(offer.ciphers, ciphers, we_lead),
        _choose_untrusted(offer.hashes, hashes, we_lead),
    )


def _choose_untrusted(ours: Sequence[Name], theirs: str, we_lead: bool) -> Name:
    """Of the algorithms that both sides have, the one that the leading side prefers; raise BadFrame if there is
    none."""
    their_names = theirs.split(",")
    common = [name for name in ours if name in their_names]
    if not common:
        raise BadFrame("no algorithm in common", ours=",".join(ours), theirs=repr(theirs[:80]))
    return common[0] if we_lead else min(common, key=their_names.index)


def leads(our_key: bytes, our_nonce: bytes, their_key: bytes, their_nonce: bytes) -> bool:
    """Whether our preferences count and we send with the first half of the keys. The other side finds the opposite."""
    ours = hashlib.sha256(their_key + our_nonce).digest()
    theirs = hashlib.sha256(our_key + their_nonce).digest()
    assert ours != theirs, "equal only for equal keys, which were refused before"
    return ours > theirs


def ephemeral_key(exchange: Exchange, entropy: Callable[[int], bytes]) -> ec.EllipticCurvePrivateKey:
    """A key for one connection, made from fresh chance."""
    curve = CURVES[exchange]
    scalar_bytes = (curve.key_size + 7) // 8
    number = int.from_bytes(entropy(scalar_bytes + SPARE_ENTROPY_BYTES), "big")
    return ec.derive_private_key(number % (curve.group_order - 1) + 1, curve)


def public_point(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def shared_secret_untrusted(exchange: Exchange, ours: ec.EllipticCurvePrivateKey, point: bytes) -> bytes:
    """The x coordinate at the full length of the field, leading zeros kept; raise only BadFrame."""
    try:
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(CURVES[exchange], point)
        return ours.exchange(ec.ECDH(), theirs)
    except ValueError as error:
        raise BadFrame(f"ephemeral key is not a point on {exchange}: {error}") from None


def stretch(suite: Suite, secret: bytes) -> tuple[Keys, Keys]:
    """The keys of the leading side's direction, and of the other one's (the expansion of TLS 1.0)."""
    cipher_end = IV_BYTES + CIPHER_KEY_BYTES[suite.cipher]
    half_bytes = cipher_end + MAC_KEY_BYTES

    def mac(data: bytes) -> bytes:
        return hmac.digest(secret, data, HASHLIB_NAMES[suite.hash])

    stretched = b""
    link = mac(STRETCH_SEED)
    while len(stretched) < 2 * half_bytes:
        stretched += mac(link + STRETCH_SEED)
        link = mac(link)

    def cut(half: bytes) -> Keys:
        return Keys(half[:IV_BYTES], half[IV_BYTES:cipher_end], half[cipher_end:])

    return cut(stretched[:half_bytes]), cut(stretched[half_bytes : 2 * half_bytes])
