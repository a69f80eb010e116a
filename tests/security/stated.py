"""Statements on API keys for tests: of any node at any time, with signatures that nobody looks at."""

from __future__ import annotations

import hashlib

import msgspec

from weft.security.api_keys import Hash, KeyRecord, id_of
from weft.security.key_statements import KeyMade, KeyRevoked, Said, SignedText, Statement


def record(number: int, name: str = "test", **rights: object) -> KeyRecord:
    """Another secret for each number."""
    kept = Hash(hashlib.sha256(b"%d" % number).hexdigest()[:32], hashlib.sha256(b"d%d" % number).hexdigest())
    return msgspec.convert(
        {"id": id_of(kept), "name": name, "hash": msgspec.to_builtins(kept), "created_s": 0, "admin": True} | rights,
        KeyRecord,
    )


def made(key: KeyRecord, signer: str = "a", signed_s: int = 0) -> KeyMade:
    return KeyMade(key=key, signer=signer, signed_s=signed_s, by="a test")


def revoked(key: KeyRecord, signer: str = "a", signed_s: int = 0) -> KeyRevoked:
    name = key.key_name
    return KeyRevoked(
        id=name.id, mark=name.mark, expires_s=key.expires_s, signer=signer, signed_s=signed_s, by="a test"
    )


def statement(said: Said, signature: bytes = b"s") -> Statement:
    return Statement(said, SignedText(msgspec.json.encode(said), signature, b"chain of " + said.signer.encode()), 0)
