"""A node's own identity: the private key behind its peer id. Keys are made elsewhere, since that takes chance."""

from __future__ import annotations

import base64
import binascii
from typing import assert_never

import coincurve
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from weft.errors import UsageError
from weft.wire.libp2p import keys, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.keys import DATA, KEY_TYPES, TYPE, KeyType, PublicKey
from weft.wire.libp2p.peer_id import PeerId

PRIVATE_KEY_BYTES_MAX = 8 * 1024  # an RSA key of 8192 bits takes 4,650
SEED_BYTES = 32

Backend = rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | coincurve.PrivateKey


class PrivateKey:
    """Signs as the peer it names. ``repr`` does not show the secret."""

    def __init__(self, backend: Backend) -> None:
        if isinstance(backend, rsa.RSAPrivateKey):
            try:
                keys.check_rsa(backend.public_key())
            except BadFrame as error:
                raise UsageError(error.what, **error.facts) from None
        self._backend = backend
        public = backend.public_key if isinstance(backend, coincurve.PrivateKey) else backend.public_key()
        self.public: PublicKey = keys.of_backend(public)
        self.peer: PeerId = self.public.peer

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.type.name}, {self.peer})"

    @classmethod
    def from_base64(cls, text: str) -> PrivateKey:
        """The key in the ``privKey`` field of a JavaScript peer-id file."""
        try:
            return cls.from_protobuf(base64.b64decode(text, validate=True))
        except binascii.Error as error:
            raise UsageError(f"private key is not base64: {error}") from None

    @classmethod
    def from_protobuf(cls, serialised: bytes) -> PrivateKey:
        """The key in libp2p's own form: ``{Type, Data}`` as for public keys."""
        try:
            message = protobuf.read_untrusted("private key", serialised, (TYPE, DATA))
            code, data = message.uint(TYPE), message.required_blob(DATA, PRIVATE_KEY_BYTES_MAX)
        except BadFrame as error:
            raise UsageError(error.what, **error.facts) from None
        kind = KEY_TYPES.get(code)
        if kind is None:
            raise UsageError("unknown type of private key", type=code)
        try:
            return cls(_load(kind, data))
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise UsageError(f"private key is malformed: {error}") from None

    def to_protobuf(self) -> bytes:
        """The secret itself, in libp2p's own form."""
        return protobuf.encode([(TYPE, int(self.public.type)), (DATA, self._secret())])

    def _secret(self) -> bytes:
        match self._backend:
            case rsa.RSAPrivateKey() as key:
                return key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())  # PKCS #1
            case ed25519.Ed25519PrivateKey() as key:
                return key.private_bytes_raw() + key.public_key().public_bytes_raw()
            case coincurve.PrivateKey() as key:
                return key.secret
            case _:
                assert_never(self._backend)

    def sign(self, message: bytes) -> bytes:
        match self._backend:
            case rsa.RSAPrivateKey() as key:
                return key.sign(message, padding.PKCS1v15(), hashes.SHA256())
            case ed25519.Ed25519PrivateKey() as key:
                return key.sign(message)
            case coincurve.PrivateKey() as key:
                return key.sign(message)  # RFC 6979: no chance involved, and the same signature as the reference's
            case _:
                assert_never(self._backend)


def _load(kind: KeyType, data: bytes) -> Backend:
    match kind:
        case KeyType.RSA:
            key = load_der_private_key(data, password=None)  # PKCS #1
            if not isinstance(key, rsa.RSAPrivateKey):
                raise UsageError("key inside is not an RSA key")
            return key
        case KeyType.ED25519:
            return _load_ed25519(data)
        case KeyType.SECP256K1:
            if len(data) != SEED_BYTES:
                raise UsageError("secp256k1 key has the wrong length", need=SEED_BYTES, have=len(data))
            return coincurve.PrivateKey(data)
        case _:
            assert_never(kind)


def _load_ed25519(data: bytes) -> ed25519.Ed25519PrivateKey:
    # seed:32 public:32, and in older files the public key once more
    if len(data) not in (2 * SEED_BYTES, 3 * SEED_BYTES):
        raise UsageError("Ed25519 key has the wrong length", need=2 * SEED_BYTES, have=len(data))
    key = ed25519.Ed25519PrivateKey.from_private_bytes(data[:SEED_BYTES])
    if data[SEED_BYTES : 2 * SEED_BYTES] != key.public_key().public_bytes_raw():
        raise UsageError("the two halves of the Ed25519 key do not belong together")
    return key
