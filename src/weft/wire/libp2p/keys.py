"""Public keys of peers: read from the network, named by a peer id, checked against signatures."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final, assert_never

import coincurve
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from weft.limits import KIB
from weft.wire.libp2p import peer_id, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.peer_id import PeerId

PUBLIC_KEY_BYTES_MAX: Final = 2 * KIB  # an RSA key of 8192 bits takes 1,067
RSA_KEY_BITS_MIN: Final = 2048  # what the reference generates; less is within reach of a patient attacker
RSA_KEY_BITS_MAX: Final = 8192  # verifying takes 0.4 ms at this size and grows with the square
RSA_EXPONENT_MAX: Final = (1 << 32) - 1  # all use 65537; a full-size exponent would make verifying as dear as signing
SIGNATURE_BYTES_MAX: Final = 1 * KIB  # of an RSA key of 8192 bits
PARSED_KEYS_MAX = 256  # keys kept ready: reading an RSA key costs as much as verifying with it


class KeyType(IntEnum):
    RSA = 0
    ED25519 = 1
    SECP256K1 = 2


KEY_TYPES: dict[int | None, KeyType] = {kind.value: kind for kind in KeyType}

# message PublicKey { Type = 1; Data = 2 }, and PrivateKey alike
TYPE = 1
DATA = 2

# secp256k1 by libsecp256k1, as the reference has it: OpenSSL takes ten times as long for this curve.
Backend = rsa.RSAPublicKey | ed25519.Ed25519PublicKey | coincurve.PublicKey


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key and its one serialised form, from which the peer id follows."""

    serialised: bytes
    type: KeyType
    _backend: Backend = field(repr=False, compare=False)

    @property
    def peer(self) -> PeerId:
        return peer_id.of_public_key(self.serialised)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's over ``message``, whatever the bytes."""
        if len(signature) > SIGNATURE_BYTES_MAX:
            return False
        try:
            match self._backend:
                case rsa.RSAPublicKey() as key:
                    key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
                case ed25519.Ed25519PublicKey() as key:
                    key.verify(signature, message)
                case coincurve.PublicKey() as key:
                    # A high s is refused: without that rule anybody could turn one valid signature into another.
                    return bool(key.verify(signature, message))
                case _:
                    assert_never(self._backend)
        except (InvalidSignature, ValueError):
            return False
        return True


def of_backend(backend: Backend) -> PublicKey:
    match backend:
        case rsa.RSAPublicKey():
            kind, data = KeyType.RSA, backend.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        case ed25519.Ed25519PublicKey():
            kind, data = KeyType.ED25519, backend.public_bytes(Encoding.Raw, PublicFormat.Raw)
        case coincurve.PublicKey():
            kind, data = KeyType.SECP256K1, backend.format(compressed=True)
        case _:
            assert_never(backend)
    return PublicKey(protobuf.encode([(TYPE, kind), (DATA, data)]), kind, backend)


@lru_cache(maxsize=PARSED_KEYS_MAX)
def decode_untrusted(serialised: bytes) -> PublicKey:
    """The key in ``serialised``; raise only BadFrame.

    Only the canonical form is taken: a second way to write the same key would be a second peer id for its owner.
    """
    if len(serialised) > PUBLIC_KEY_BYTES_MAX:
        raise BadFrame("public key is too long", have=len(serialised), limit=PUBLIC_KEY_BYTES_MAX)
    message = protobuf.read_untrusted("public key", serialised, (TYPE, DATA))
    code, data = message.uint(TYPE), message.required_blob(DATA, PUBLIC_KEY_BYTES_MAX)
    kind = KEY_TYPES.get(code)
    if kind is None:
        raise BadFrame("unknown type of public key", type=code)
    try:
        key = of_backend(_load(kind, data))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadFrame(f"public key is malformed: {error}") from None
    if key.serialised != serialised:
        raise BadFrame("public key is not in canonical form", type=key.type.name)
    return key


def _load(kind: KeyType, data: bytes) -> Backend:
    """The key in the form its type has; raise ValueError, UnsupportedAlgorithm or BadFrame."""
    match kind:
        case KeyType.RSA:
            key = load_der_public_key(data)
            if not isinstance(key, rsa.RSAPublicKey):
                raise BadFrame("key inside is not an RSA key")
            check_rsa(key)
            return key
        case KeyType.ED25519:
            return ed25519.Ed25519PublicKey.from_public_bytes(data)
        case KeyType.SECP256K1:
            return coincurve.PublicKey(data)
        case _:
            assert_never(kind)


def check_rsa(key: rsa.RSAPublicKey) -> None:
    """Raise BadFrame for a key that is weak, or so large that checking it costs too much."""
    if not RSA_KEY_BITS_MIN <= key.key_size <= RSA_KEY_BITS_MAX:
        raise BadFrame(
            "RSA key size is out of bounds", have=key.key_size, least=RSA_KEY_BITS_MIN, most=RSA_KEY_BITS_MAX
        )
    exponent = key.public_numbers().e
    if exponent > RSA_EXPONENT_MAX:
        raise BadFrame("RSA exponent is too large", bits=exponent.bit_length())
