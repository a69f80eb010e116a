"""The identity of an agent on the network: a libp2p key, temporary or stored in a file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final, assert_never

import coincurve
import msgspec
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from weft.errors import UsageError
from weft.security.files import private_directory, read_private, write_private
from weft.wire.libp2p import KeyType, PrivateKey

RSA_BITS: Final = 2048  # what the reference generates
RSA_EXPONENT: Final = 65537


class _File(msgspec.Struct):
    """As JavaScript peers keep theirs; they have more in it, which follows from the key."""

    privKey: str  # noqa: N815
    id: str = ""


def new_identity(key_type: KeyType = KeyType.SECP256K1) -> PrivateKey:
    """A new key. The default is secp256k1, with which the reference takes the most messages per second from us."""
    match key_type:
        case KeyType.ED25519:
            return PrivateKey(ed25519.Ed25519PrivateKey.generate())
        case KeyType.SECP256K1:
            return PrivateKey(coincurve.PrivateKey())
        case KeyType.RSA:
            return PrivateKey(rsa.generate_private_key(RSA_EXPONENT, RSA_BITS))
        case _:
            assert_never(key_type)


def kept_identity(path: Path) -> PrivateKey:
    """The key in this file. Makes one if there is none. Raise UsageError or StorageError if that fails."""
    data = read_private(path)
    if data is not None:
        return _read(path, data)
    identity = new_identity()
    private_directory(path.parent)
    secret = base64.b64encode(identity.to_protobuf()).decode()
    write_private(path, msgspec.json.encode(_File(secret, str(identity.peer))))
    return identity


def _read(path: Path, data: bytes) -> PrivateKey:
    try:
        return PrivateKey.from_base64(msgspec.json.decode(data, type=_File).privKey)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is not an identity, a JSON object with a member privKey: {error}") from None
