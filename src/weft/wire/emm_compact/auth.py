"""What proves a packet: group keys for notifications and heartbeats, the sender's own key for the rest (EMC-05).

A group key proves that some member of the mesh made the packet, not which one: the node id in a heartbeat is as good
as the members are. Commands and joins carry an Ed25519 signature, so they prove who made them.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, assert_never

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from weft.errors import UsageError
from weft.wire.emm_compact import packet as packets
from weft.wire.emm_compact.body import Body, Command, Heartbeat, Join, Notification, find, node_id_of
from weft.wire.emm_compact.codes import EventType, FieldType
from weft.wire.emm_compact.header import Header
from weft.wire.emm_compact.packet import SIGNATURE_BYTES, Packet
from weft.wire.emm_compact.values import FINGERPRINT_BYTES, NODE_ID_BYTES
from weft.wire.reject import BadPacket, Reject

EMC_GROUP_KEYS_MAX: Final = 8  # a forgery costs one HMAC per key; a rotation needs two at a time
EMC_GROUP_KEY_BYTES_MIN: Final = 16  # as strong as the shortest tag made with it
EMC_SENDER_KEYS_MAX: Final = 4  # Ed25519 keys tried for one sender: old and new, or owners of one 4-byte fingerprint
ED25519_KEY_BYTES: Final = 32  # of a public key, and of the seed of a private one


class Proof(Enum):
    """What a good signature proves."""

    GROUP = "group"  # a member of the mesh made it
    SENDER = "sender"  # the named node made it


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys a receiver believes. While a key is being replaced, the old and the new one are both in the ring."""

    group_keys: tuple[bytes, ...] = field(default=(), repr=False)
    by_node_id: Mapping[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    by_fingerprint: Mapping[bytes, tuple[bytes, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.group_keys) > EMC_GROUP_KEYS_MAX:
            raise UsageError("too many group keys", have=len(self.group_keys), limit=EMC_GROUP_KEYS_MAX)
        for key in self.group_keys:
            _check_group_key(key)
        for what, size, keys_by_name in (
            ("node id", NODE_ID_BYTES, self.by_node_id),
            ("fingerprint", FINGERPRINT_BYTES, self.by_fingerprint),
        ):
            for name, keys in keys_by_name.items():
                _check_size(f"a {what}", name, size)
                if len(keys) > EMC_SENDER_KEYS_MAX:
                    raise UsageError(f"too many keys of one {what}", have=len(keys), limit=EMC_SENDER_KEYS_MAX)
                for key in keys:
                    _check_size("an Ed25519 public key", key, ED25519_KEY_BYTES)


@dataclass(frozen=True, slots=True)
class Signer:
    """The keys a sender signs with: the newest group key, and its own private key (an Ed25519 seed)."""

    group_key: bytes = field(repr=False)
    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check_group_key(self.group_key)
        _check_size("an Ed25519 seed", self.seed, ED25519_KEY_BYTES)

    @property
    def public_key(self) -> bytes:
        return bytes(SigningKey(self.seed).verify_key)


def fingerprint(public_key: bytes) -> bytes:
    """Our reading of "pubkey hash" (0xA8): the first four bytes of the key's SHA-256."""
    return hashlib.sha256(public_key).digest()[:FINGERPRINT_BYTES]


def seal(header: Header, body: Body, signer: Signer) -> Packet:
    """The packet with the signature its type asks for."""
    blank = packets.encode(header, bytes(SIGNATURE_BYTES[header.type]), body)
    match header.type:
        case EventType.NOTIFICATION | EventType.HEARTBEAT:
            signature = _tag(signer.group_key, blank)
        case EventType.COMMAND | EventType.JOIN:
            signature = SigningKey(signer.seed).sign(blank.signed).signature
        case _:
            assert_never(header.type)
    at, end = packets.SIGNATURE_AT, packets.body_at(header.type)
    return replace(blank, signature=signature, raw=blank.raw[:at] + signature + blank.raw[end:])


def verify_untrusted(packet: Packet, ring: KeyRing) -> Proof:
    """What the packet's signature proves; raise only BadPacket when it proves nothing."""
    match packet.header.type:
        case EventType.NOTIFICATION | EventType.HEARTBEAT:
            _verify_tag(packet, ring.group_keys)
            return Proof.GROUP
        case EventType.COMMAND | EventType.JOIN:
            _verify_signature(packet, _sender_keys(packet.body, ring))
            return Proof.SENDER
        case _:
            assert_never(packet.header.type)


def _tag(group_key: bytes, packet: Packet) -> bytes:
    return hmac.digest(group_key, packet.signed, "sha256")[: SIGNATURE_BYTES[packet.header.type]]


def _verify_tag(packet: Packet, group_keys: tuple[bytes, ...]) -> None:
    if not group_keys:
        raise BadPacket(Reject.UNKNOWN_KEY, "no group key to check the packet with")
    if not any(hmac.compare_digest(_tag(key, packet), packet.signature) for key in group_keys):
        raise BadPacket(Reject.BAD_HMAC, "no group key fits the packet", at=packets.SIGNATURE_AT, keys=len(group_keys))


def _sender_keys(body: Body, ring: KeyRing) -> tuple[bytes, ...]:
    """The keys of the node that the body names.

    A fingerprint counts only where there is no node id: a key that is known by its fingerprint must not vouch for
    whatever node id its owner writes beside it.
    """
    node_id = node_id_of(body)
    mark = _fingerprint_of(body)
    if node_id is not None:
        keys, name = ring.by_node_id.get(node_id, ()), node_id
    elif mark is not None:
        keys, name = ring.by_fingerprint.get(mark, ()), mark
    else:
        raise BadPacket(Reject.ANONYMOUS, "signed, but without a node id or fingerprint of the signer")
    if not keys:
        raise BadPacket(Reject.UNKNOWN_KEY, "no key of this sender", sender=name.hex())
    return keys


def _fingerprint_of(body: Body) -> bytes | None:
    match body:
        case Command() | Heartbeat() | Join():
            return find(body.more, FieldType.NODE_FINGERPRINT)
        case Notification():
            return None
        case _:
            assert_never(body)


def _verify_signature(packet: Packet, keys: tuple[bytes, ...]) -> None:
    for key in keys:
        try:
            VerifyKey(key).verify(packet.signed, packet.signature)
        except BadSignatureError:
            continue
        return
    raise BadPacket(Reject.BAD_SIGNATURE, "no key of the sender fits the signature", at=packets.SIGNATURE_AT)


def _check_group_key(key: bytes) -> None:
    if len(key) < EMC_GROUP_KEY_BYTES_MIN:
        raise UsageError("group key is too short", have=len(key), need=EMC_GROUP_KEY_BYTES_MIN)


def _check_size(what: str, value: bytes, size: int) -> None:
    if len(value) != size:
        raise UsageError(f"{what} has {size} bytes", have=len(value))
