"""Fields with an inside: event digest, rate signal, propagation map and topology hint (6.1, EMC-08, EMC-10)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm_compact.codes import Ecn, TopologyField
from weft.wire.emm_compact.header import Triple
from weft.wire.emm_compact.text import encode_text, label_untrusted
from weft.wire.reject import BadPacket, Reject

DIGEST_BYTES: Final = 16
DIGEST_HASHES: Final = 4  # 16 recent events: 2 % false "seen"; 32: 16 %

FINGERPRINT_BYTES: Final = 4
NODE_ID_BYTES: Final = 16

COUNT_MAX: Final = 31  # EMC-08: writers clamp to the range the document names, although a rate has seven bits
RATE_MAX: Final = 127  # what those seven bits can say; readers take it
HOP_DISTANCE_MAX: Final = 255
TOPOLOGY_FIELD_TYPES: Final = frozenset(TopologyField)

# event_id:u16 epoch:u16 offset:u16
TRIPLE: Final = struct.Struct("!HHH")
# ecn:2 sent:7 received:7, zero:4 bytes
RATE_SIGNAL: Final = struct.Struct("!H4s")
# hops:5 ttl:5 reserved:6, origin fingerprint:4 bytes
PROPAGATION_MAP: Final = struct.Struct("!H4s")


@dataclass(frozen=True, slots=True)
class EventDigest:
    """A 128-bit Bloom filter over event triples: "no" is certain, "yes" is probable.

    An event sets the bits named by the first four bytes of SHA-256 over its triple as six bytes, each modulo 128. Bit
    0 is the highest bit of the first byte, as the document counts bits in its drawings.
    """

    bits: bytes = bytes(DIGEST_BYTES)

    def __post_init__(self) -> None:
        if len(self.bits) != DIGEST_BYTES:
            raise UsageError("a digest has 16 bytes", have=len(self.bits))

    @classmethod
    def of(cls, triples: Iterable[Triple]) -> Self:
        """The digest of these events."""
        bits = 0
        for triple in triples:
            bits |= _digest_bits(triple)
        return cls(bits.to_bytes(DIGEST_BYTES))

    def add(self, triple: Triple) -> EventDigest:
        """The digest with one more event in it."""
        return EventDigest((int.from_bytes(self.bits) | _digest_bits(triple)).to_bytes(DIGEST_BYTES))

    def __contains__(self, triple: Triple) -> bool:
        wanted = _digest_bits(triple)
        return int.from_bytes(self.bits) & wanted == wanted


def _digest_bits(triple: Triple) -> int:
    bits = 0
    for byte in hashlib.sha256(TRIPLE.pack(*triple)).digest()[:DIGEST_HASHES]:
        bits |= 1 << (DIGEST_BYTES * 8 - 1 - byte % (DIGEST_BYTES * 8))
    return bits


@dataclass(frozen=True, slots=True)
class RateSignal:
    """What a node sent and received in its last interval, and whether it sees congestion.

    Nodes describe themselves with ``measured``; the plain constructor also takes what others dared to write.
    """

    ecn: Ecn
    sent: int
    received: int

    def __post_init__(self) -> None:
        _check_count("sent", self.sent, RATE_MAX)
        _check_count("received", self.received, RATE_MAX)

    @classmethod
    def measured(cls, ecn: Ecn, sent: int, received: int) -> Self:
        """Counts of any size, clamped to what a writer may express (EMC-08)."""
        return cls(ecn, min(sent, COUNT_MAX), min(received, COUNT_MAX))

    def encode(self) -> bytes:
        return RATE_SIGNAL.pack(self.ecn << 14 | self.sent << 7 | self.received, bytes(4))

    @classmethod
    def decode_untrusted(cls, value: bytes, at: int) -> Self:
        """Six bytes found at ``at``; raise only BadPacket."""
        _check_size(value, RATE_SIGNAL.size, at)
        packed, zero = RATE_SIGNAL.unpack(value)
        if any(zero):
            raise BadPacket(Reject.TLV_VALUE, "rate signal does not end in zeros", at=at + 2)
        return cls(Ecn(packed >> 14), packed >> 7 & RATE_MAX, packed & RATE_MAX)


@dataclass(frozen=True, slots=True)
class PropagationMap:
    """How far a node is from where its events come from. Nodes describe themselves with ``measured``."""

    hops: int
    ttl: int
    origin: bytes

    def __post_init__(self) -> None:
        _check_count("hops", self.hops, COUNT_MAX)
        _check_count("ttl", self.ttl, COUNT_MAX)
        if len(self.origin) != FINGERPRINT_BYTES:
            raise UsageError("an origin fingerprint has 4 bytes", have=len(self.origin))

    @classmethod
    def measured(cls, hops: int, ttl: int, origin: bytes) -> Self:
        """Counts of any size (a fresh TTL is 64), clamped to what five bits can express."""
        return cls(min(hops, COUNT_MAX), min(ttl, COUNT_MAX), origin)

    def encode(self) -> bytes:
        return PROPAGATION_MAP.pack(self.hops << 11 | self.ttl << 6, self.origin)

    @classmethod
    def decode_untrusted(cls, value: bytes, at: int) -> Self:
        """Six bytes found at ``at``; raise only BadPacket."""
        _check_size(value, PROPAGATION_MAP.size, at)
        packed, origin = PROPAGATION_MAP.unpack(value)
        if packed & 0b111111:
            raise BadPacket(Reject.TLV_VALUE, "reserved bits of the propagation map are set", at=at + 1)
        return cls(packed >> 11, packed >> 6 & COUNT_MAX, origin)


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """A node's place in the topology: sub-TLVs of 0xAD, each optional. Sub-TLVs we do not know are skipped."""

    known_peers: tuple[bytes, ...] | None = None
    hop_distance: int | None = None
    region: str | None = None

    def encode(self) -> bytes:
        parts = []
        if self.known_peers is not None:
            if any(len(peer) != NODE_ID_BYTES for peer in self.known_peers):
                raise UsageError("a known peer is a node id of 16 bytes")
            parts.append(_sub_field(TopologyField.KNOWN_PEERS, b"".join(self.known_peers)))
        if self.hop_distance is not None:
            _check_count("hop_distance", self.hop_distance, HOP_DISTANCE_MAX)
            parts.append(_sub_field(TopologyField.HOP_DISTANCE, bytes((self.hop_distance,))))
        if self.region is not None:
            parts.append(_sub_field(TopologyField.REGION, encode_text("region", self.region)))
        return b"".join(parts)

    @classmethod
    def decode_untrusted(cls, datagram: bytes, at: int, end: int, count_max: int) -> Self:
        """The sub-TLVs in ``datagram[at:end]``, at most ``count_max``; raise only BadPacket."""
        found: dict[int, tlv.Tlv] = {}
        for field in tlv.read_untrusted(datagram, at, end, count_max):
            if field.type in found:
                raise BadPacket(Reject.TLV_DUPLICATE, "sub-field occurs twice", at=field.at, type=hex(field.type))
            if field.type in TOPOLOGY_FIELD_TYPES:
                found[field.type] = field
        peers = found.get(TopologyField.KNOWN_PEERS)
        distance = found.get(TopologyField.HOP_DISTANCE)
        region = found.get(TopologyField.REGION)
        return cls(
            known_peers=_peers_untrusted(peers) if peers else None,
            hop_distance=_distance_untrusted(distance) if distance else None,
            region=label_untrusted(region.value, region.at + tlv.HEAD_BYTES) if region else None,
        )


def _peers_untrusted(field: tlv.Tlv) -> tuple[bytes, ...]:
    # The document gives the number of peers as the length; a reader that does not know the type could not skip that.
    size = len(field.value)
    if size % NODE_ID_BYTES:
        raise BadPacket(Reject.TLV_SIZE, "known peers are not whole node ids", at=field.at, have=size)
    return tuple(field.value[i : i + NODE_ID_BYTES] for i in range(0, size, NODE_ID_BYTES))


def _distance_untrusted(field: tlv.Tlv) -> int:
    _check_size(field.value, 1, field.at)
    return field.value[0]


def _sub_field(field_type: TopologyField, value: bytes) -> bytes:
    if len(value) > tlv.CHUNK_BYTES_MAX:
        raise UsageError(f"{field_type.name} is too long", have=len(value), limit=tlv.CHUNK_BYTES_MAX)
    return tlv.encode(field_type, value)


def _check_count(name: str, value: int, limit: int) -> None:
    if not 0 <= value <= limit:
        raise UsageError(f"{name} is out of range", value=value, limit=limit)


def _check_size(value: bytes, size: int, at: int) -> None:
    if len(value) != size:
        raise BadPacket(Reject.TLV_SIZE, "field has the wrong size", at=at, need=size, have=len(value))
