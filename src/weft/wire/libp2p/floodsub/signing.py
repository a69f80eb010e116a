"""Signed messages: what is signed, by which key, and why a message is not believed (COA-01: signatures required)."""

from __future__ import annotations

from enum import StrEnum

from weft.errors import UsageError
from weft.limits import FLOODSUB_DATA_BYTES_MAX
from weft.wire.libp2p import keys
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.floodsub.rpc import FLOODSUB_SEQNO_BYTES_MAX, Message, check_topic
from weft.wire.libp2p.private_keys import PrivateKey

SIGN_PREFIX = b"libp2p-pubsub:"  # keeps these signatures from meaning anything elsewhere


class Distrust(StrEnum):
    """Why a message is dropped. The values are metric labels: append, never rename."""

    UNSIGNED = "unsigned"
    NO_KEY = "no-key"  # neither in the message nor in the origin's peer id
    BAD_KEY = "bad-key"
    KEY_MISMATCH = "key-mismatch"  # the key is another peer's
    BAD_SIGNATURE = "bad-signature"
    OWN = "own"  # it claims to be ours: a forgery, or an echo of what we sent long ago or before a restart


def sign(identity: PrivateKey, topic: str, data: bytes, seqno: bytes) -> Message:
    """A message of ours. ``seqno`` must not have been used before: 8 random bytes by custom."""
    check_topic(topic)
    if len(data) > FLOODSUB_DATA_BYTES_MAX:
        raise UsageError("data is too long for one message", have=len(data), limit=FLOODSUB_DATA_BYTES_MAX)
    if not 0 < len(seqno) <= FLOODSUB_SEQNO_BYTES_MAX:
        raise UsageError("sequence number has an impossible size", have=len(seqno), limit=FLOODSUB_SEQNO_BYTES_MAX)
    unsigned = Message(identity.peer, data, seqno, (topic,), signature=None, key=None)
    signature = identity.sign(SIGN_PREFIX + unsigned.signed_part())
    # The key goes along always, as the reference does; an RSA key cannot be had from the peer id.
    return Message(identity.peer, data, seqno, (topic,), signature, identity.public.serialised)


def distrust(message: Message) -> Distrust | None:
    """Why ``message`` is not what its origin published, or None if it is."""
    if not message.signature:
        return Distrust.UNSIGNED
    serialised = message.key or message.origin.inlined_key
    if not serialised:
        return Distrust.NO_KEY
    try:
        key = keys.decode_untrusted(serialised)
    except BadFrame:
        return Distrust.BAD_KEY
    if key.peer != message.origin:
        return Distrust.KEY_MISMATCH
    if not key.verifies(SIGN_PREFIX + message.signed_part(), message.signature):
        return Distrust.BAD_SIGNATURE
    return None
