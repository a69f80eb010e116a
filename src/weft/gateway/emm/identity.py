"""Who a node is among devices: a node id and an Ed25519 key of its own, made once and kept in ``<data>/emm.json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import msgspec

from weft.errors import StorageError
from weft.security import Secret, Trust
from weft.security.files import private_directory, read_private, write_private
from weft.security.trust_file import KeyKind
from weft.wire import emm, emm_compact

FILE: Final = "emm.json"
SEED_BYTES: Final = 32
FRESH_BYTES: Final = SEED_BYTES + 16  # random ones for a new identity


@dataclass(frozen=True, slots=True)
class Identity:
    node_id: UUID
    seed: Secret[bytes]

    @property
    def public_key(self) -> bytes:
        return emm.SigningKey(self.seed.reveal()).public_key

    @property
    def key_id(self) -> bytes:
        """What the key is called in packets: the first bytes of its hash."""
        return emm_compact.fingerprint(self.public_key)

    def credentials(self, trust: Trust) -> emm.Credentials:
        """What to sign EMM packets with: an HMAC key that the trust store has for us, or else our own key."""
        shared = [each for each in trust.devices if each.node_id == self.node_id and each.kind is KeyKind.HMAC]
        if shared:
            return emm.Credentials(shared[-1].key_id, hmac_key=shared[-1].key.reveal())
        return emm.Credentials(self.key_id, signing_key=emm.SigningKey(self.seed.reveal()))

    def signer(self, trust: Trust) -> emm_compact.Signer | None:
        """What to sign EMM-C packets with; None as long as there is no group key."""
        if not trust.groups:
            return None
        return emm_compact.Signer(trust.groups[-1].reveal(), self.seed.reveal())


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node_id: UUID
    seed: str
    version: Literal[1] = 1

    def __repr__(self) -> str:
        return f"_Document({self.node_id})"


def settle_identity(data: Path, chance: bytes) -> Identity:
    """The identity that is kept there, or a new one of these random bytes. StorageError if the file is damaged."""
    found = read_private(data / FILE)
    if found is None:
        assert len(chance) == FRESH_BYTES, "a node id and a seed"
        fresh = Identity(UUID(bytes=chance[SEED_BYTES:], version=4), Secret(chance[:SEED_BYTES]))
        private_directory(data)
        document = _Document(fresh.node_id, fresh.seed.reveal().hex())
        write_private(data / FILE, msgspec.json.format(msgspec.json.encode(document)))
        return fresh
    try:
        document = msgspec.json.decode(found, type=_Document)
        seed = bytes.fromhex(document.seed)
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise StorageError(f"{data / FILE} is damaged: {error}") from None
    if len(seed) != SEED_BYTES:
        raise StorageError(f"{data / FILE} is damaged: the seed has the wrong size", need=SEED_BYTES, have=len(seed))
    return Identity(document.node_id, Secret(seed))
