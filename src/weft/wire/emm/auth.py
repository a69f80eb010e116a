"""Who sent a packet: HMAC-SHA256 and Ed25519 over the canonical bytes (EMM-14 to EMM-18)."""

from __future__ import annotations

import hmac
from enum import StrEnum

from nacl.bindings import crypto_sign, crypto_sign_BYTES, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import CryptoError

from weft.errors import UsageError
from weft.wire.emm.canonical import canonical_bytes
from weft.wire.emm.fields import Field
from weft.wire.emm.packet import Packet
from weft.wire.emm.trust import TrustStore
from weft.wire.reject import BadPacket, Reject

SEED_BYTES = 32
# Plain numbers: an enum's member costs three times as much, and this is done for every packet.
HMAC, SIGNATURE = int(Field.HMAC), int(Field.SIGNATURE)
NODE_ID, AUTH_KEY_ID = int(Field.NODE_ID), int(Field.AUTH_KEY_ID)


class Verdict(StrEnum):
    """What is known of a packet's sender. The values are header values of mesh events: append, never rename."""

    VERIFIED = "verified"  # HMAC or signature, with a key that the trust store has for the node
    UNVERIFIED_IDENTITY = "unverified-identity"  # a good signature by a key that nobody vouches for (policy `any`)
    UNSIGNED = "unsigned"


def authenticate(packet: Packet, trust: TrustStore) -> Verdict:
    """Check the HMAC, then the signature, of what the packet has; raise BadPacket if either fails.

    A packet with neither is ``UNSIGNED``: whether that is good enough is for the receiver to say.
    """
    fields = packet.fields
    code = fields.get(HMAC)
    signature = fields.get(SIGNATURE)
    if code is None and signature is None:
        return Verdict.UNSIGNED
    node_id = fields[NODE_ID]  # the parser saw to it (EMM-16)
    key_id = fields.get(AUTH_KEY_ID)
    signed = canonical_bytes(packet)
    verdict = Verdict.VERIFIED
    if code is not None:
        secret = trust.hmac_key(node_id, key_id)
        if not hmac.compare_digest(code, hmac.digest(secret, signed, "sha256")):
            raise BadPacket(Reject.BAD_HMAC, "HMAC does not fit", node=packet.node_id)
    if signature is not None and not _check_signature(packet, signature, signed, trust) and code is None:
        verdict = Verdict.UNVERIFIED_IDENTITY
    return verdict


def _check_signature(packet: Packet, signature: bytes, signed: bytes, trust: TrustStore) -> bool:
    """Whether the signing key stands for the node id; raise BadPacket if the signature is wrong."""
    node_id = packet.fields[Field.NODE_ID]
    carried = packet.fields.get(Field.PUBLIC_KEY)
    if carried is None:
        public_key, vouched = trust.public_key(node_id, packet.fields.get(Field.AUTH_KEY_ID)), True
    else:
        public_key, vouched = carried, trust.judge_carried_key(node_id, carried)
    try:
        crypto_sign_open(signature + signed, public_key)
    except CryptoError:
        raise BadPacket(Reject.BAD_SIGNATURE, "signature does not fit", node=packet.node_id) from None
    if carried is not None:
        trust.remember_first_use(node_id, carried)
    return vouched


class SigningKey:
    """An Ed25519 private key, from its 32-byte seed (RFC 8032)."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise UsageError("an Ed25519 seed has the wrong size", need=SEED_BYTES, have=len(seed))
        self.public_key, self._secret_key = crypto_sign_seed_keypair(seed)

    def sign(self, message: bytes) -> bytes:
        signed: bytes = crypto_sign(message, self._secret_key)
        return signed[:crypto_sign_BYTES]
