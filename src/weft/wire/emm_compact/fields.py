"""Every field of EMM-C with its size and range in one table, and the reader that holds packets to it (6.1, EMC-10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag, auto
from typing import Final, assert_never

from weft.wire import tlv
from weft.wire.emm_compact.codes import Compression, FieldType, PayloadEncoding, Priority, SupportedTypes, label
from weft.wire.emm_compact.text import label_untrusted
from weft.wire.emm_compact.values import PropagationMap, RateSignal, TopologyHint
from weft.wire.reject import BadPacket, Reject

EMC_TLVS_MAX: Final = 64  # parsing work per packet, sub-TLVs included; each of the 25 known types occurs at most once


class Kind(Enum):
    """How the bytes of a field are to be understood."""

    NUMBER = auto()  # unsigned, big-endian, within the rule's range
    ID = auto()  # 16 bytes, shown as a UUID
    BYTES = auto()  # shown in hexadecimal
    CONTENT = auto()  # whatever the application puts there
    LABEL = auto()  # one line of text
    RATE_SIGNAL = auto()
    PROPAGATION_MAP = auto()
    TOPOLOGY_HINT = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """The sizes in bytes that a field may have and, for a number, its range and the names in it."""

    kind: Kind
    sizes: Sequence[int]
    values: range = range(0)
    names: type[IntEnum] | type[IntFlag] | None = None


def _number(size: int) -> Rule:
    return Rule(Kind.NUMBER, (size,), range(1 << 8 * size))


def _small(values: range, names: type[IntEnum] | type[IntFlag] | None = None) -> Rule:
    return Rule(Kind.NUMBER, (1,), values, names)


def _bytes(*sizes: int) -> Rule:
    return Rule(Kind.BYTES, sizes)


_ID: Final = Rule(Kind.ID, (16,))
_CONTENT: Final = Rule(Kind.CONTENT, range(tlv.CHUNK_BYTES_MAX + 1))

# Sizes given in bits take one byte (EMC-10). The three informational signatures, which the document's table counts in
# bits and its text in bytes, may have either size: nothing is decided by them (EMC-05).
RULES: Final[Mapping[int, Rule]] = {
    FieldType.PAYLOAD_ENCODING: _small(range(1, 7), PayloadEncoding),
    FieldType.SIGNATURE_WEAK: _bytes(1, 4),
    FieldType.SIGNATURE_MODERATE: _bytes(1, 8),
    FieldType.SIGNATURE_STRONG: _bytes(1, 16),
    FieldType.COMPRESSION: _small(range(1, 6), Compression),
    FieldType.COMPRESSION_LEVEL: _small(range(32)),
    FieldType.EVENT_PRIORITY: _small(range(1, 8), Priority),
    FieldType.NODE_FINGERPRINT: _bytes(4),
    FieldType.NODE_ID: _ID,
    FieldType.REPLAY_NONCE_SHORT: _bytes(2),
    FieldType.REPLAY_NONCE_LONG: _bytes(8),
    FieldType.EXPIRY_HINT: _number(1),
    FieldType.TOPOLOGY_HINT: Rule(Kind.TOPOLOGY_HINT, range(tlv.CHUNK_BYTES_MAX + 1)),
    FieldType.TRACE_ID: _ID,
    FieldType.VENDOR_ID: _ID,
    FieldType.SUPPORTED_TYPES: _small(range(16), SupportedTypes),  # bits 4-7 are reserved
    FieldType.RELATIONSHIPS_MAX: _small(range(64)),  # 6 bits, the upper two reserved
    FieldType.HEARTBEAT_INTERVAL: _number(1),
    FieldType.UPTIME: _number(4),
    FieldType.EVENT_DIGEST: _bytes(16),
    FieldType.RATE_SIGNAL: Rule(Kind.RATE_SIGNAL, (6,)),
    FieldType.PROPAGATION_MAP: Rule(Kind.PROPAGATION_MAP, (6,)),
    FieldType.COMMAND_NAME: Rule(Kind.LABEL, range(1, tlv.CHUNK_BYTES_MAX + 1)),
    FieldType.COMMAND_PARAMETERS: _CONTENT,
    FieldType.STATUS: _CONTENT,
}


def read_untrusted(datagram: bytes, at: int) -> list[tlv.Tlv]:
    """The fields from ``at`` to the end, known ones valid and at most once each; raise only BadPacket.

    Fields of unknown type are in the list, too, so that nothing is lost: readers skip them.
    """
    fields = tlv.read_untrusted(datagram, at, len(datagram), EMC_TLVS_MAX)
    seen: set[int] = set()
    for field in fields:
        rule = RULES.get(field.type)
        if field.type == FieldType.SIGNATURE:
            raise BadPacket(Reject.TLV_DUPLICATE, "a second signature field", at=field.at)
        if rule is None:
            continue
        if field.type in seen:
            raise BadPacket(Reject.TLV_DUPLICATE, "field occurs twice", at=field.at, field=_name(field))
        seen.add(field.type)
        _check_untrusted(datagram, field, rule, sub_fields_max=EMC_TLVS_MAX - len(fields))
    return fields


def _check_untrusted(datagram: bytes, field: tlv.Tlv, rule: Rule, sub_fields_max: int) -> None:
    size = len(field.value)
    if size not in rule.sizes:
        raise BadPacket(Reject.TLV_SIZE, "field has the wrong size", at=field.at, field=_name(field), have=size)
    value_at = field.at + tlv.HEAD_BYTES
    match rule.kind:
        case Kind.NUMBER:
            number = int.from_bytes(field.value)
            if number not in rule.values:
                raise BadPacket(
                    Reject.TLV_VALUE, "number is out of range", at=value_at, field=_name(field), value=number
                )
        case Kind.LABEL:
            label_untrusted(field.value, value_at)
        case Kind.RATE_SIGNAL:
            RateSignal.decode_untrusted(field.value, value_at)
        case Kind.PROPAGATION_MAP:
            PropagationMap.decode_untrusted(field.value, value_at)
        case Kind.TOPOLOGY_HINT:
            TopologyHint.decode_untrusted(datagram, value_at, value_at + size, sub_fields_max)
        case Kind.ID | Kind.BYTES | Kind.CONTENT:
            pass
        case _:
            assert_never(rule.kind)


def _name(field: tlv.Tlv) -> str:
    return label(FieldType(field.type))
