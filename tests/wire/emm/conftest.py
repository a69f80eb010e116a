"""Keys and the hand-made packets that the EMM tests share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from weft.wire.emm import Credentials, SigningKey, TrustStore

VECTORS = Path(__file__).parents[2] / "vectors" / "emm" / "emm.json"


@dataclass(frozen=True)
class Keys:
    node_id: UUID
    auth_key_id: bytes
    hmac_key: bytes
    seed: bytes
    public_key: bytes
    encryption_key: bytes

    def trust(self) -> TrustStore:
        store = TrustStore()
        store.add_hmac_key(self.node_id, self.auth_key_id, self.hmac_key)
        store.add_public_key(self.node_id, self.auth_key_id, self.public_key)
        return store

    def hmac_credentials(self) -> Credentials:
        return Credentials(self.auth_key_id, hmac_key=self.hmac_key)

    def signing_credentials(self, *, carry_public_key: bool = False) -> Credentials:
        return Credentials(self.auth_key_id, signing_key=SigningKey(self.seed), carry_public_key=carry_public_key)


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(VECTORS.read_text())
    return loaded


@pytest.fixture(scope="session")
def keys(document: dict[str, Any]) -> Keys:
    return Keys(
        node_id=UUID(hex=document["node_id"]),
        auth_key_id=bytes.fromhex(document["auth_key_id"]),
        hmac_key=bytes.fromhex(document["hmac_key"]),
        seed=bytes.fromhex(document["seed"]),
        public_key=bytes.fromhex(document["public_key"]),
        encryption_key=bytes.fromhex(document["encryption_key"]),
    )


@pytest.fixture(scope="session")
def packets(document: dict[str, Any]) -> dict[str, bytes]:
    return {vector["name"]: bytes.fromhex(vector["hex"]) for vector in document["vectors"]}
