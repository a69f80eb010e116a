"""Making EMM packets: fields in wire order, sealed if wanted, then authenticated."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from uuid import UUID

from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm.auth import SigningKey
from weft.wire.emm.canonical import canonical_payload
from weft.wire.emm.fields import (
    DEFAULT_RULES,
    HEADER,
    HEADER_BYTES,
    RANK_BY_TYPE,
    SIZES,
    VERSION,
    EventType,
    Field,
    Flags,
    Rules,
    Value,
    type_name,
)
from weft.wire.emm.packet import TIMESTAMP
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.seal import Seal, compress
from weft.wire.emm.values import encode_values
from weft.wire.reject import BadPacket
from weft.wire.tlv import Tlv

# Field types that the builder makes itself, from values, credentials and the seal.
_MADE_HERE = frozenset(Field) - {Field.TIMESTAMP, Field.NONCE, Field.KEY_ID}
_HMAC_TLV_BYTES = tlv.HEAD_BYTES + SIZES[Field.HMAC]
_SIGNATURE_TLV_BYTES = tlv.HEAD_BYTES + SIZES[Field.SIGNATURE]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys that a node authenticates its packets with: an HMAC secret, a signing key, or both.

    ``carry_public_key`` puts the public key into the packet, for receivers that may not have it yet.
    """

    auth_key_id: bytes | None = None
    hmac_key: bytes | None = None
    signing_key: SigningKey | None = None
    carry_public_key: bool = False

    def __post_init__(self) -> None:
        if self.auth_key_id is not None and len(self.auth_key_id) != SIZES[Field.AUTH_KEY_ID]:
            raise UsageError(
                "auth key id has the wrong size", need=SIZES[Field.AUTH_KEY_ID], have=len(self.auth_key_id)
            )
        if self.carry_public_key and self.signing_key is None:
            raise UsageError("there is no signing key whose public key could be carried")


@dataclass(frozen=True, slots=True)
class Draft:
    """A packet before it is sealed and signed. ``message_id`` must come from a cryptographic source (EMM-02)."""

    event_type: EventType
    message_id: int
    timestamp_s: int
    values: tuple[Value, ...] = ()
    node_id: UUID | None = None
    urgent: bool = False
    compressed: bool = False
    extra: tuple[tuple[int, bytes], ...] = ()  # further fields: 0x15 to 0x17, or types that a later version defines

    def __post_init__(self) -> None:
        for kind, value in self.extra:
            if kind in _MADE_HERE or not 0 <= kind <= 255:
                raise UsageError(f"field {type_name(kind)} cannot be given as an extra field")
            if len(value) > tlv.CHUNK_BYTES_MAX:
                raise UsageError(f"field {type_name(kind)} is too long", size=len(value), limit=tlv.CHUNK_BYTES_MAX)


def draft_hello(message_id: int, timestamp_s: int, node_id: UUID, capabilities: bytes) -> Draft:
    return Draft(EventType.HELLO, message_id, timestamp_s, (capabilities,), node_id)


def draft_heartbeat(message_id: int, timestamp_s: int, node_id: UUID) -> Draft:
    sent_at = (int(Field.TIMESTAMP), TIMESTAMP.pack(timestamp_s))
    return Draft(EventType.HEARTBEAT, message_id, timestamp_s, (), node_id, extra=(sent_at,))


def draft_event(message_id: int, timestamp_s: int, name: str, *values: Value, node_id: UUID | None = None) -> Draft:
    return Draft(EventType.EVENT, message_id, timestamp_s, (name, *values), node_id)


def compressed_if_smaller(draft: Draft) -> Draft:
    """The draft, to be compressed if that makes its packet smaller (EMM-24)."""
    plain = encode_values(draft.values)
    return replace(draft, compressed=len(encode_values([compress(plain)])) < len(plain))


def build(
    draft: Draft,
    credentials: Credentials | None = None,
    *,
    seal: Seal | None = None,
    signed_at_s: int | None = None,
    rules: Rules = DEFAULT_RULES,
) -> bytes:
    """The packet's bytes. Raise UsageError for a packet that a receiver with the same rules would refuse.

    ``signed_at_s``: when it is signed, if that is not when the event was created; the packet then says so (EMM-21).
    """
    credentials = credentials or Credentials()
    flags = _flags(draft, seal)
    data = _data_fields(draft, seal, _header(draft, flags, 0))
    fields = tlv.read_untrusted(data, 0, len(data), count_max=len(data))
    fields += [Tlv(kind, value, 0) for kind, value in _other_fields(draft, credentials, seal, signed_at_s)]
    fields.sort(key=lambda field: RANK_BY_TYPE[field.type])
    payload = b"".join(tlv.encode(field.type, field.value) for field in fields)
    size = HEADER_BYTES + len(payload) + _authenticator_bytes(credentials)
    if size > rules.packet_bytes_max:
        raise UsageError("EMM packet is too large", size=size, limit=rules.packet_bytes_max)
    header = _header(draft, flags, size - HEADER_BYTES)
    packet = header + payload + _authenticators(header + canonical_payload(fields), credentials)
    assert len(packet) == size, "the payload length was computed before the authenticators were made"
    try:
        parse_untrusted(packet, rules)
    except BadPacket as error:
        raise UsageError(f"no receiver would take this packet: {error}") from error
    return packet


def _header(draft: Draft, flags: int, payload_length: int) -> bytes:
    for name, value, bits in (("message id", draft.message_id, 32), ("timestamp", draft.timestamp_s, 64)):
        if not 0 <= value < 1 << bits:
            raise UsageError(f"{name} does not fit {bits} bits", value=value)
    return HEADER.pack(VERSION, draft.message_id, flags, draft.event_type, draft.timestamp_s, payload_length)


def _flags(draft: Draft, seal: Seal | None) -> int:
    flags = Flags.NONE
    if draft.urgent:
        flags |= Flags.URGENT
    if seal is not None:
        flags |= Flags.ENCRYPTED
    if draft.compressed:
        flags |= Flags.COMPRESSED
    return int(flags)


def _data_fields(draft: Draft, seal: Seal | None, header: bytes) -> bytes:
    """The data TLVs, or the binary TLVs that they are sealed in."""
    data = encode_values(draft.values)
    if draft.compressed:
        data = compress(data)
    if seal is not None:
        data = seal.encrypt(data, header, draft.node_id.bytes if draft.node_id else b"")
    return encode_values([data]) if draft.compressed or seal is not None else data


def _other_fields(
    draft: Draft, credentials: Credentials, seal: Seal | None, signed_at_s: int | None
) -> list[tuple[int, bytes]]:
    """Everything but data and authenticators."""
    fields = list(draft.extra)
    if draft.node_id is not None:
        fields.append((Field.NODE_ID, draft.node_id.bytes))
    if seal is not None:
        fields.append((Field.ENCRYPTION, seal.encryption.encode()))
    if signed_at_s is not None and signed_at_s != draft.timestamp_s:
        fields.append((Field.TIMESTAMP, TIMESTAMP.pack(signed_at_s)))
    if credentials.carry_public_key and credentials.signing_key is not None:
        fields.append((Field.PUBLIC_KEY, credentials.signing_key.public_key))
    if credentials.auth_key_id is not None:
        fields.append((Field.AUTH_KEY_ID, credentials.auth_key_id))
    return fields


def _authenticator_bytes(credentials: Credentials) -> int:
    size = 0
    if credentials.hmac_key is not None:
        size += _HMAC_TLV_BYTES
    if credentials.signing_key is not None:
        size += _SIGNATURE_TLV_BYTES
    return size


def _authenticators(signed: bytes, credentials: Credentials) -> bytes:
    """HMAC, then signature, over the same canonical bytes (EMM-14, EMM-15)."""
    made = b""
    if credentials.hmac_key is not None:
        made += tlv.encode(Field.HMAC, hmac.digest(credentials.hmac_key, signed, "sha256"))
    if credentials.signing_key is not None:
        made += tlv.encode(Field.SIGNATURE, credentials.signing_key.sign(signed))
    return made
