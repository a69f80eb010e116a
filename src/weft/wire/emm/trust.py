"""A trust store: keys by (node id, auth key id), and whether to trust keys inside packets (EMM-17).

The store here is memory only; ``security`` fills it from disk. Node ids and key ids are the raw bytes of the wire.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from uuid import UUID

from weft.errors import UsageError
from weft.wire.emm.fields import SIZES, Field
from weft.wire.reject import BadPacket, Reject

EMM_FIRST_USE_KEYS_MAX: Final = 100_000  # trust on first use; nodes past that are refused, none is forgotten
HMAC_KEY_BYTES_MIN = 16  # shorter secrets can be guessed


class TrustPolicy(StrEnum):
    """What a public key inside a packet is worth. It proves possession of a key, not an identity."""

    PINNED = "pinned"  # it must be a key that the store has for that node
    FIRST_USE = "first-use"  # the first key that a node signs with is kept; later ones must be the same
    ANY = "any"  # taken as it is, and the packet marked as of unverified identity


class TrustStore:
    """Secrets and public keys of other nodes. Looked up for every packet, so each look-up is one dict access."""

    def __init__(
        self, policy: TrustPolicy = TrustPolicy.PINNED, first_use_keys_max: int = EMM_FIRST_USE_KEYS_MAX
    ) -> None:
        self.policy = policy
        self._first_use_keys_max = first_use_keys_max
        self._secrets: dict[bytes, dict[bytes, bytes]] = {}  # node id -> auth key id -> secret
        self._public: dict[bytes, dict[bytes, bytes]] = {}  # node id -> auth key id -> Ed25519 public key
        self._first_use: dict[bytes, bytes] = {}  # node id -> the key it was first seen with
        self._new_pins: dict[bytes, bytes] = {}  # keys of these that nobody has stored yet

    def add_hmac_key(self, node_id: UUID, auth_key_id: bytes, secret: bytes) -> None:
        if len(secret) < HMAC_KEY_BYTES_MIN:
            raise UsageError("HMAC key is too short", need=HMAC_KEY_BYTES_MIN, have=len(secret))
        self._secrets.setdefault(node_id.bytes, {})[_checked(Field.AUTH_KEY_ID, auth_key_id)] = secret

    def add_public_key(self, node_id: UUID, auth_key_id: bytes, public_key: bytes) -> None:
        key = _checked(Field.PUBLIC_KEY, public_key)
        self._public.setdefault(node_id.bytes, {})[_checked(Field.AUTH_KEY_ID, auth_key_id)] = key

    def remove(self, node_id: UUID, auth_key_id: bytes | None = None) -> None:
        """Forget one key of a node, or, without a key id, everything about it, its first-use key included."""
        for keys in (self._secrets, self._public):
            if auth_key_id is None:
                keys.pop(node_id.bytes, None)
            else:
                keys.get(node_id.bytes, {}).pop(auth_key_id, None)
        if auth_key_id is None:
            self.unpin(node_id)

    def hmac_key(self, node_id: bytes, auth_key_id: bytes | None) -> bytes:
        """The shared secret for this packet; raise BadPacket if there is none."""
        return _find(self._secrets.get(node_id), auth_key_id, node_id, "HMAC")

    def public_key(self, node_id: bytes, auth_key_id: bytes | None) -> bytes:
        """The sender's public key when the packet brings none; raise BadPacket if it is not known."""
        keys = self._public.get(node_id)
        if not keys and node_id in self._first_use:
            return self._first_use[node_id]  # there is one per node, whatever id the node gives it
        return _find(keys, auth_key_id, node_id, "signature")

    def judge_carried_key(self, node_id: bytes, public_key: bytes) -> bool:
        """Whether a key inside a packet stands for its node id; raise BadPacket if the policy refuses it.

        Does not remember anything: the signature has not been checked yet. See ``remember_first_use``.
        """
        known = set(self._public.get(node_id, {}).values())
        if node_id in self._first_use:
            known.add(self._first_use[node_id])
        if public_key in known:
            return True
        match self.policy:
            case TrustPolicy.ANY:
                return False
            case TrustPolicy.FIRST_USE if not known and len(self._first_use) < self._first_use_keys_max:
                return True
            case TrustPolicy.FIRST_USE | TrustPolicy.PINNED:
                why = "is not the one known for" if known else "is not known for"
                raise BadPacket(Reject.UNTRUSTED_KEY, f"the public key in the packet {why} node {UUID(bytes=node_id)}")

    def remember_first_use(self, node_id: bytes, public_key: bytes) -> None:
        """Pin a key that has just verified a signature, if the policy says so and nothing was known of the node."""
        if self.policy is TrustPolicy.FIRST_USE and not self._public.get(node_id) and node_id not in self._first_use:
            self._first_use[node_id] = self._new_pins[node_id] = public_key

    def pin(self, node_id: UUID, public_key: bytes) -> None:
        """Pin a key that this store, or the one it follows, pinned before. Does nothing under another policy."""
        if self.policy is TrustPolicy.FIRST_USE:
            self._first_use[node_id.bytes] = _checked(Field.PUBLIC_KEY, public_key)

    def unpin(self, node_id: UUID) -> None:
        """Forget the key that a node was first seen with: the next one counts as the first."""
        self._first_use.pop(node_id.bytes, None)
        self._new_pins.pop(node_id.bytes, None)

    def take_new_pins(self) -> dict[UUID, bytes]:
        """The keys pinned since the last call, to be stored."""
        taken, self._new_pins = self._new_pins, {}
        return {UUID(bytes=node_id): key for node_id, key in taken.items()}


def _find(keys: dict[bytes, bytes] | None, auth_key_id: bytes | None, node_id: bytes, purpose: str) -> bytes:
    """Find a key by its id, or for a packet that names none, the node's only key."""
    if keys:
        if auth_key_id is not None:
            key = keys.get(auth_key_id)
            if key is not None:
                return key
        elif len(keys) == 1:
            return next(iter(keys.values()))
    named = "no key id" if auth_key_id is None else f"key id {auth_key_id.hex()}"
    raise BadPacket(Reject.UNKNOWN_KEY, f"no {purpose} key for node {UUID(bytes=node_id)} with {named}")


def _checked(field: Field, value: bytes) -> bytes:
    if len(value) != SIZES[field]:
        raise UsageError(
            f"{field.name.lower().replace('_', ' ')} has the wrong size", need=SIZES[field], have=len(value)
        )
    return value
