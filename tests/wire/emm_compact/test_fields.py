"""Sizes and ranges of every field, written down here once more from the document's section 6.1."""

from __future__ import annotations

import pytest

from tests.wire.emm_compact.packets import COMMAND, assemble, field
from weft.wire.emm_compact import (
    Compression,
    Ecn,
    EventType,
    FieldType,
    Format,
    PayloadEncoding,
    Priority,
    SupportedTypes,
    decode_untrusted,
)
from weft.wire.emm_compact.fields import RULES
from weft.wire.reject import BadPacket, Reject

# type: (name, sizes in bytes, lowest and highest number of one byte)
ONE_BYTE = {
    0xA1: ("PAYLOAD_ENCODING", 1, 6),
    0xA5: ("COMPRESSION", 1, 5),
    0xA6: ("COMPRESSION_LEVEL", 0, 31),
    0xA7: ("EVENT_PRIORITY", 1, 7),
    0xAC: ("EXPIRY_HINT", 0, 255),
    0xB0: ("SUPPORTED_TYPES", 0, 15),
    0xB1: ("RELATIONSHIPS_MAX", 0, 63),
    0xB2: ("HEARTBEAT_INTERVAL", 0, 255),
}
SIZES = {
    0xA2: ("SIGNATURE_WEAK", {1, 4}),
    0xA3: ("SIGNATURE_MODERATE", {1, 8}),
    0xA4: ("SIGNATURE_STRONG", {1, 16}),
    0xA8: ("NODE_FINGERPRINT", {4}),
    0xA9: ("NODE_ID", {16}),
    0xAA: ("REPLAY_NONCE_SHORT", {2}),
    0xAB: ("REPLAY_NONCE_LONG", {8}),
    0xAE: ("TRACE_ID", {16}),
    0xAF: ("VENDOR_ID", {16}),
    0xB3: ("UPTIME", {4}),
    0xB4: ("EVENT_DIGEST", {16}),
    0xB5: ("RATE_SIGNAL", {6}),
    0xB6: ("PROPAGATION_MAP", {6}),
}
VARIABLE = {0xAD: "TOPOLOGY_HINT", 0xB7: "COMMAND_NAME", 0xB8: "COMMAND_PARAMETERS", 0xB9: "STATUS"}


def reason(field_type: int, value: bytes) -> Reject | None:
    """Why a command with that field is refused, if it is."""
    try:
        decode_untrusted(assemble("21", *COMMAND, field(field_type, value)))
    except BadPacket as refusal:
        return refusal.reason
    return None


@pytest.mark.req("EMC-10")
def test_every_type_has_its_number_and_a_rule() -> None:
    names = {code: entry[0] for code, entry in {**ONE_BYTE, **SIZES}.items()} | VARIABLE
    assert set(names) == set(range(0xA1, 0xBA))
    assert {code: FieldType(code).name for code in names} == names
    assert set(RULES) == set(names)
    assert FieldType(0xFE).name == "SIGNATURE"


@pytest.mark.parametrize("code", ONE_BYTE, ids=hex)
@pytest.mark.req("EMC-10")
def test_numbers_of_one_byte(code: int) -> None:
    _, lowest, highest = ONE_BYTE[code]
    for number in range(256):
        expected = None if lowest <= number <= highest else Reject.TLV_VALUE
        assert reason(code, bytes((number,))) is expected, number
    for size in (0, 2, 3, 4):
        assert reason(code, bytes((lowest,)) * size) is Reject.TLV_SIZE


@pytest.mark.parametrize("code", SIZES, ids=hex)
@pytest.mark.req("EMC-10")
def test_fixed_sizes(code: int) -> None:
    _, sizes = SIZES[code]
    for size in range(20):
        assert reason(code, bytes(size)) is (None if size in sizes else Reject.TLV_SIZE), size


@pytest.mark.req("EMC-10")
def test_codes_of_the_document() -> None:
    assert [code.name for code in PayloadEncoding] == ["RAW", "ASCII", "UTF_8", "UTF_16", "ISO_8859_1", "CP1252"]
    assert list(PayloadEncoding) == [1, 2, 3, 4, 5, 6]
    assert [(code.name, code.value) for code in Compression] == [
        ("NONE", 1),
        ("ZSTD", 2),
        ("DEFLATE", 3),
        ("LZ4", 4),
        ("GZIP", 5),
    ]
    assert [code.name for code in Priority] == ["TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL"]
    assert list(Priority) == [1, 2, 3, 4, 5, 6, 7]
    assert (Ecn.NOT_ECT, Ecn.ECT_1, Ecn.ECT_0, Ecn.CE) == (0b00, 0b01, 0b10, 0b11)
    assert [bit.value for bit in SupportedTypes] == [1, 2, 4, 8]


@pytest.mark.req("EMC-03", "EMC-06")
def test_types_and_formats_of_the_document() -> None:
    assert (EventType.NOTIFICATION, EventType.COMMAND, EventType.HEARTBEAT, EventType.JOIN) == (0, 1, 2, 3)
    names = ["PLAIN_TEXT", "JSON", "XML", "BINARY", "YAML", "PROTOBUF", "MSGPACK", "CBOR", "AVRO", "THRIFT"]
    assert {code.name: code.value for code in Format} == {name: 0x21 + place for place, name in enumerate(names)}
