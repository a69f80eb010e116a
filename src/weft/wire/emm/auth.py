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
NODE_ID, AUTH_KEY_ID, PUBLIC_KEY = int(Field.NODE_ID), int(Field.AUTH_KEY_ID), int(Field.PUBLIC_KEY)


class Verdict(StrEnum):
    """What is known of a packet's sender. The values are header values of mesh events: append, never rename."""

    VERIFIED = "verified"  # HMAC or signature, with a key that the trust store has for the node
    UNVERIFIED_IDENTITY = "unverified-identity"  # a good signature by a key that nobody vouches for (policy `any`)
    UNSIGNED = "unsigned"


def authenticate(packet: Packet, trust: TrustStore) -> Verdict:
    """Check the HMAC, then the signature, of what the packet has; raise BadPacket if either fails (EMM-15).

    A packet with neither is ``UNSIGNED``: the receiver decides whether that is good enough.
    """
    check_hmac(packet, trust)
    verdict = promised_verdict(packet, trust)
    check_signature(packet, trust)
    return verdict


def check_hmac(packet: Packet, trust: TrustStore) -> None:
    """Raise BadPacket if the packet has an HMAC and it does not fit (EMM-14)."""
    fields = packet.fields
    code = fields.get(HMAC)
    if code is None:
        return
    secret = trust.hmac_key(fields[NODE_ID], fields.get(AUTH_KEY_ID))  # the parser saw to the node id (EMM-16)
    if not hmac.compare_digest(code, hmac.digest(secret, canonical_bytes(packet), "sha256")):
        raise BadPacket(Reject.BAD_HMAC, "HMAC does not fit", node=packet.node_id)


def promised_verdict(packet: Packet, trust: TrustStore) -> Verdict:
    """What the verdict is if HMAC and signature fit; raise BadPacket for a signing key that is not known or trusted.

    A packet with both is verified by its HMAC, whatever its public key is worth.
    """
    fields = packet.fields
    if SIGNATURE in fields:
        _, vouched = _signing_key(packet, trust)
        return Verdict.VERIFIED if vouched or HMAC in fields else Verdict.UNVERIFIED_IDENTITY
    return Verdict.VERIFIED if HMAC in fields else Verdict.UNSIGNED


def check_signature(packet: Packet, trust: TrustStore) -> None:
    """Raise BadPacket if the packet has a signature and it does not fit. A good one may pin its key (EMM-17)."""
    fields = packet.fields
    signature = fields.get(SIGNATURE)
    if signature is None:
        return
    public_key, _ = _signing_key(packet, trust)
    if not is_signed(signature + canonical_bytes(packet), public_key):
        raise BadPacket(Reject.BAD_SIGNATURE, "signature does not fit", node=packet.node_id)
    if PUBLIC_KEY in fields:
        trust.remember_first_use(fields[NODE_ID], public_key)


def is_signed(signed: bytes, public_key: bytes) -> bool:
    """Whether a signature is valid for the message that follows it."""
    try:
        crypto_sign_open(signed, public_key)
    except CryptoError:
        return False
    return True


def _signing_key(packet: Packet, trust: TrustStore) -> tuple[bytes, bool]:
    """The key to check the signature with, and whether it stands for the node id."""
    fields = packet.fields
    carried = fields.get(PUBLIC_KEY)
    if carried is None:
        return trust.public_key(fields[NODE_ID], fields.get(AUTH_KEY_ID)), True
    return carried, trust.judge_carried_key(fields[NODE_ID], carried)


class SigningKey:
    """An Ed25519 private key, from its 32-byte seed (RFC 8032)."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise UsageError("an Ed25519 seed has the wrong size", need=SEED_BYTES, have=len(seed))
        self.public_key, self._secret_key = crypto_sign_seed_keypair(seed)

    def sign(self, message: bytes) -> bytes:
        signed: bytes = crypto_sign(message, self._secret_key)
        return signed[:crypto_sign_BYTES]
