"""The identity of a node among devices: a node id and an Ed25519 key, made once and kept in ``<data>/emm.json``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import msgspec
from structlog.stdlib import BoundLogger

from weft.errors import StorageError, UsageError
from weft.security import Secret, Trust
from weft.security.files import Watched, alone, private_directory, read_private, write_private
from weft.security.trust_file import KeyKind
from weft.wire import emm, emm_compact

FILE: Final = "emm.json"
SEED_BYTES: Final = 32
FRESH_BYTES: Final = SEED_BYTES + 16  # random bytes for a new identity


@dataclass(frozen=True, slots=True)
class Identity:
    """``next_seed``: of the key that takes over once others know it."""

    node_id: UUID
    seed: Secret[bytes]
    next_seed: Secret[bytes] | None = None

    @property
    def public_key(self) -> bytes:
        return emm.SigningKey(self.seed.reveal()).public_key

    @property
    def key_id(self) -> bytes:
        """How packets name the key: the first bytes of its hash."""
        return emm_compact.fingerprint(self.public_key)

    def credentials(self, trust: Trust) -> emm.Credentials:
        """What EMM packets are signed with: an HMAC key that the trust store has for us, or else our own key."""
        shared = [each for each in trust.devices if each.node_id == self.node_id and each.kind is KeyKind.HMAC]
        if shared:
            return emm.Credentials(shared[-1].key_id, hmac_key=shared[-1].key.reveal())
        return emm.Credentials(self.key_id, signing_key=emm.SigningKey(self.seed.reveal()))

    def signer(self, trust: Trust) -> emm_compact.Signer | None:
        """What EMM-C packets are signed with; None while there is no group key."""
        if not trust.groups:
            return None
        return emm_compact.Signer(trust.groups[-1].reveal(), self.seed.reveal())


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node_id: UUID
    seed: str
    next_seed: str | msgspec.UnsetType = msgspec.UNSET
    version: Literal[1] = 1

    def __repr__(self) -> str:
        return f"_Document({self.node_id})"


class IdentityFile:
    """The identity as a running node sees it: its key may be replaced, its node id may not."""

    def __init__(self, data: Path, now_s: float) -> None:
        self._watched = Watched(data / FILE, lambda found: _parse(found, data / FILE), now_s)
        self._problem: str | None = None  # as it was logged

    def current(self, now_s: float, before: Identity, logger: BoundLogger) -> Identity:
        """``before`` as long as nothing has changed, or the file cannot be used."""
        found = self._watched.get(now_s)
        problem = self._watched.problem
        if problem is None and found.node_id != before.node_id:
            problem = "the node id has changed: restart the node to use it"
        if problem not in (None, self._problem):
            logger.error("emm_identity_not_taken", reason=problem)
        self._problem = problem
        return before if problem is not None or found == before else found


def settle_identity(data: Path, chance: bytes) -> Identity:
    """The identity that is stored there, or a new one from these random bytes. StorageError if the file is damaged."""
    found = read_private(data / FILE)
    if found is None:
        assert len(chance) == FRESH_BYTES, "a node id and a seed"
        fresh = Identity(UUID(bytes=chance[SEED_BYTES:], version=4), Secret(chance[:SEED_BYTES]))
        private_directory(data)
        _write(data, fresh)
        return fresh
    return _parse(found, data / FILE)


# --- another key ---------------------------------------------------------------------------------------------------


def prepare_next(data: Path, seed: bytes) -> Identity:
    """The identity with the node's next key: the one that is prepared already, or else this one. Others can trust it
    before it is used."""
    with alone(data / FILE):
        identity = _parse(read_private(data / FILE), data / FILE)
        following = identity.next_seed or Secret(seed)
        _write(data, replace(identity, next_seed=following))
    return replace(identity, seed=following, next_seed=None)


def use_next(data: Path) -> Identity:
    """The prepared key is the node's from now on; UsageError if there is none. A running node notices."""
    with alone(data / FILE):
        identity = _parse(read_private(data / FILE), data / FILE)
        if identity.next_seed is None:
            raise UsageError("no next key is prepared: weft emm identity --prepare-key")
        changed = replace(identity, seed=identity.next_seed, next_seed=None)
        _write(data, changed)
    return changed


def _write(data: Path, identity: Identity) -> None:
    following = msgspec.UNSET if identity.next_seed is None else identity.next_seed.reveal().hex()
    document = _Document(identity.node_id, identity.seed.reveal().hex(), following)
    write_private(data / FILE, msgspec.json.format(msgspec.json.encode(document)))


def _parse(found: bytes | None, file: Path) -> Identity:
    if found is None:
        raise StorageError(f"{file} is missing")
    try:
        document = msgspec.json.decode(found, type=_Document)
        seeds = [bytes.fromhex(each) for each in (document.seed, document.next_seed) if isinstance(each, str)]
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise StorageError(f"{file} is damaged: {error}") from None
    for seed in seeds:
        if len(seed) != SEED_BYTES:
            raise StorageError(f"{file} is damaged: the seed has the wrong size", need=SEED_BYTES, have=len(seed))
    return Identity(document.node_id, Secret(seeds[0]), Secret(seeds[1]) if len(seeds) > 1 else None)
