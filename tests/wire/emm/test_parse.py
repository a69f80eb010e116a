"""Every way in which a packet can be malformed, and the reason that is given for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.emm.strategies import mangled_packets, packets
from weft.errors import UsageError
from weft.wire.emm import Profile, Rules, canonical_bytes, parse_untrusted
from weft.wire.emm.canonical import canonical_payload
from weft.wire.emm.fields import HEADER_BYTES
from weft.wire.reject import BadPacket, Reject

NODE = "14 10 00112233445566778899aabbccddeeff"
NAME = "01 01 6e"  # the event name "n"
KEY_ID = "18 04 6b657931"
HMAC = "10 20" + "00" * 32
SIGNATURE = "12 40" + "00" * 64
PUBLIC_KEY = "13 20" + "00" * 32
SENT_AT = "15 08 000000006553f100"
TWELVE = "00" * 12
AES = "11 14  010101 02010c 030c000102030405060708090a0b"  # algorithm, IV length, IV


def packet(*payload: str, version: int = 1, flags: int = 0, kind: int = 3, length: int | None = None) -> bytes:
    """A packet from its payload in hex: message id 1, timestamp 1,700,000,000."""
    body = bytes.fromhex("".join(payload).replace(" ", ""))
    size = len(body) if length is None else length
    return (
        bytes((version,))
        + bytes.fromhex("00000001")
        + bytes((flags, kind))
        + ((1_700_000_000).to_bytes(8, "big") + size.to_bytes(2, "big") + body)
    )


def sealed(*metadata: str) -> bytes:
    """A packet with the encrypted flag and one byte of ciphertext."""
    return packet("04 01 00", *metadata, flags=2)


# (what, requirement, packet, reason)
REJECTIONS = [
    ("nothing", "EMM-01", b"", Reject.TRUNCATED),
    ("a header less a byte", "EMM-01", packet()[:16], Reject.TRUNCATED),
    ("version 0", "EMM-01", packet(NAME, version=0), Reject.VERSION),
    ("version 2", "EMM-01", packet(NAME, version=2), Reject.VERSION),
    ("reserved flag 3", "EMM-03", packet(NAME, flags=0x08), Reject.RESERVED_FLAGS),
    ("reserved flag 7", "EMM-03", packet(NAME, flags=0x80), Reject.RESERVED_FLAGS),
    ("549 bytes", "EMM-04", packet("04 ff", "00" * 255, "04 ff", "00" * 255, "01 10", "6e" * 16), Reject.OVERSIZE),
    ("payload length 532", "EMM-04", packet(NAME, length=532), Reject.OVERSIZE),
    ("a byte left over", "EMM-05", packet(NAME, "00", length=3), Reject.LENGTH_MISMATCH),
    ("a byte short", "EMM-05", packet(NAME, length=4), Reject.LENGTH_MISMATCH),
    ("a lone type byte", "EMM-05", packet(NAME, "02"), Reject.TLV_OVERRUN),
    ("a value that overruns", "EMM-05", packet("01 05 6e"), Reject.TLV_OVERRUN),
    ("a string that is not UTF-8", "EMM-07", packet("01 01 ff"), Reject.TLV_VALUE),
    ("a surrogate in UTF-8", "EMM-07", packet("01 03 eda080"), Reject.TLV_VALUE),
    ("an integer of 3 bytes", "EMM-07", packet(NAME, "02 03 000001"), Reject.TLV_SIZE),
    ("a float of 8 bytes", "EMM-07", packet(NAME, "03 08 0000000000000000"), Reject.TLV_SIZE),
    ("JSON that is not JSON", "EMM-07", packet(NAME, "05 02 7b7b"), Reject.TLV_VALUE),
    ("JSON that is a list", "EMM-07", packet(NAME, "05 02 5b5d"), Reject.TLV_VALUE),
    ("JSON with a NaN", "EMM-07", packet(NAME, "05 09", b'{"a":NaN}'.hex()), Reject.TLV_VALUE),
    ("no JSON at all", "EMM-07", packet(NAME, "05 00"), Reject.TLV_VALUE),
    ("two node ids", "EMM-09", packet(NAME, NODE, NODE), Reject.TLV_DUPLICATE),
    ("two node ids apart", "EMM-09", packet(NAME, NODE, SENT_AT, NODE), Reject.TLV_DUPLICATE),
    ("two HMACs", "EMM-09", packet(NAME, NODE, HMAC, HMAC), Reject.TLV_DUPLICATE),
    ("two signatures", "EMM-09", packet(NAME, NODE, SIGNATURE, SIGNATURE), Reject.TLV_DUPLICATE),
    ("two encryption metadata", "EMM-09", sealed(AES, AES), Reject.TLV_DUPLICATE),
    ("two public keys", "EMM-09", packet(NAME, NODE, PUBLIC_KEY, PUBLIC_KEY), Reject.TLV_DUPLICATE),
    ("two timestamps", "EMM-09", packet(NAME, SENT_AT, SENT_AT), Reject.TLV_DUPLICATE),
    ("two nonces", "EMM-09", packet(NAME, "16 0c", TWELVE, "16 0c", TWELVE), Reject.TLV_DUPLICATE),
    ("two key identifiers", "EMM-09", packet(NAME, "17 10", "00" * 16, "17 10", "00" * 16), Reject.TLV_DUPLICATE),
    ("two auth key ids", "EMM-09", packet(NAME, KEY_ID, KEY_ID), Reject.TLV_DUPLICATE),
    ("65 fields", "EMM-10", packet(NAME, "40 00" * 64), Reject.TLV_COUNT),
    ("65 fields with the sub-fields", "EMM-10", packet("04 00" * 61, AES, flags=2), Reject.TLV_COUNT),
    ("an HMAC of 31 bytes", "EMM-11", packet(NAME, NODE, "10 1f", "00" * 31), Reject.TLV_SIZE),
    ("a signature of 63 bytes", "EMM-11", packet(NAME, NODE, "12 3f", "00" * 63), Reject.TLV_SIZE),
    ("a public key of 33 bytes", "EMM-11", packet(NAME, NODE, "13 21", "00" * 33), Reject.TLV_SIZE),
    ("a node id of 15 bytes", "EMM-11", packet(NAME, "14 0f", "00" * 15), Reject.TLV_SIZE),
    ("a timestamp of 4 bytes", "EMM-11", packet(NAME, "15 04 00000000"), Reject.TLV_SIZE),
    ("a nonce of 11 bytes", "EMM-11", packet(NAME, "16 0b", "00" * 11), Reject.TLV_SIZE),
    ("a key identifier of 0 bytes", "EMM-11", packet(NAME, "17 00"), Reject.TLV_SIZE),
    ("an auth key id of 5 bytes", "EMM-11", packet(NAME, "18 05 0000000000"), Reject.TLV_SIZE),
    ("data that descends", "EMM-13", packet("02 04 00000001", NAME), Reject.TLV_ORDER),
    ("data behind security", "EMM-13", packet(NODE, NAME), Reject.TLV_ORDER),
    ("a public key before a node id", "EMM-13", packet(NAME, PUBLIC_KEY, NODE), Reject.TLV_ORDER),
    ("an auth key id before a public key", "EMM-13", packet(NAME, NODE, KEY_ID, PUBLIC_KEY), Reject.TLV_ORDER),
    ("an HMAC before an auth key id", "EMM-13", packet(NAME, NODE, HMAC, KEY_ID), Reject.TLV_ORDER),
    ("a signature before an HMAC", "EMM-13", packet(NAME, NODE, SIGNATURE, HMAC), Reject.TLV_ORDER),
    ("a field behind an HMAC", "EMM-13", packet(NAME, NODE, HMAC, "40 00"), Reject.TLV_ORDER),
    ("a field behind a signature", "EMM-13", packet(NAME, NODE, SIGNATURE, "ff 00"), Reject.TLV_ORDER),
    ("an HMAC by nobody", "EMM-16", packet(NAME, HMAC), Reject.ANONYMOUS),
    ("a signature by nobody", "EMM-16", packet(NAME, SIGNATURE), Reject.ANONYMOUS),
    ("metadata, not encrypted", "EMM-22", packet(NAME, AES), Reject.ENCRYPTION),
    ("metadata, compressed only", "EMM-22", packet("04 01 00", AES, flags=4), Reject.ENCRYPTION),
    ("encrypted, no metadata", "EMM-22", packet("04 01 00", flags=2), Reject.ENCRYPTION),
    ("metadata with no algorithm", "EMM-22", sealed("11 0e 030c", TWELVE), Reject.ENCRYPTION),
    ("neither IV nor nonce", "EMM-22", sealed("11 03 010101"), Reject.ENCRYPTION),
    ("IV and nonce", "EMM-22", sealed("11 1f 010101 030c", TWELVE, "040c", TWELVE), Reject.ENCRYPTION),
    ("an IV length that lies", "EMM-22", sealed("11 14 010101 02010b 030c", TWELVE), Reject.ENCRYPTION),
    ("an IV length with its top bit", "EMM-22", sealed("11 14 010101 02018c 030c", TWELVE), Reject.ENCRYPTION),
    ("an IV length without an IV", "EMM-22", sealed("11 14 010102 02010c 040c", TWELVE), Reject.ENCRYPTION),
    ("a sub-field that overruns", "EMM-22", sealed("11 04 010101 03"), Reject.TLV_OVERRUN),
    ("a sub-field past its parent", "EMM-22", sealed("11 05 010101 030c", NODE), Reject.TLV_OVERRUN),
    ("two algorithms", "EMM-22", sealed("11 06 010101 010101"), Reject.TLV_DUPLICATE),
    ("an algorithm of 2 bytes", "EMM-22", sealed("11 04 01020101"), Reject.TLV_SIZE),
    ("a nonce sub-field of 8 bytes", "EMM-22", sealed("11 0d 010102 0408", "00" * 8), Reject.TLV_SIZE),
    ("a key id sub-field of 4 bytes", "EMM-22", sealed("11 17 010101 030c", TWELVE, "0504 00000000"), Reject.TLV_SIZE),
    ("an unknown algorithm", "EMM-23", sealed("11 11 010103 030c", TWELVE), Reject.ENCRYPTION),
    ("AES with a nonce", "EMM-23", sealed("11 11 010101 040c", TWELVE), Reject.ENCRYPTION),
    ("ChaCha20 with an IV", "EMM-23", sealed("11 11 010102 030c", TWELVE), Reject.ENCRYPTION),
    ("AES with an IV of 8 bytes", "EMM-23", sealed("11 0d 010101 0308", "00" * 8), Reject.ENCRYPTION),
    ("plain data beside ciphertext", "EMM-23", packet(NAME, "04 01 00", AES, flags=2), Reject.ENCRYPTION),
    ("encrypted nothing", "EMM-23", packet(AES, flags=2), Reject.ENCRYPTION),
    ("compressed with plain data", "EMM-24", packet(NAME, flags=4), Reject.COMPRESSION),
    ("event type 0", "EMM-25", packet(NAME, kind=0), Reject.EVENT_TYPE),
    ("event type 4", "EMM-25", packet(NAME, kind=4), Reject.EVENT_TYPE),
    ("an Event without a name", "EMM-25", packet("02 04 00000001"), Reject.MISSING_FIELD),
    ("a Hello without a node id", "EMM-25", packet("04 01 00", kind=1), Reject.MISSING_FIELD),
    ("a Hello without capabilities", "EMM-25", packet(NODE, kind=1), Reject.MISSING_FIELD),
    ("a Heartbeat without a node id", "EMM-25", packet(SENT_AT, kind=2), Reject.MISSING_FIELD),
    ("a Heartbeat without a time", "EMM-25", packet(NODE, kind=2), Reject.MISSING_FIELD),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(data, reason, id=what, marks=pytest.mark.req(requirement))
        for what, requirement, data, reason in REJECTIONS
    ],
)
def test_rejections(data: bytes, reason: Reject) -> None:
    with pytest.raises(BadPacket) as caught:
        parse_untrusted(data)
    assert caught.value.reason is reason


ACCEPTED = {
    "64 fields": packet(NAME, "40 00" * 63),
    "548 bytes": packet("01 0f", "6e" * 15, "04 ff", "00" * 255, "04 ff", "00" * 255),
    "unknown fields": packet(NAME, "06 01 00", "40 02 abcd", KEY_ID),
    "a type zero field first": packet("00 00", NAME),
    "repeated data": packet(NAME, NAME, "02 04 00000001", "02 04 00000002"),
    "everything in order": packet(NAME, NODE, SENT_AT, "40 00", PUBLIC_KEY, KEY_ID, HMAC, SIGNATURE),
    "AES metadata": sealed(AES),
    "sub-fields in another order": sealed("11 11 030c", TWELVE, "010101"),
    "no payload but a heartbeat's": packet(NODE, SENT_AT, kind=2),
}


@pytest.mark.req("EMM-04", "EMM-08", "EMM-09", "EMM-10", "EMM-13")
@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_allowed(data: bytes) -> None:
    assert parse_untrusted(data).raw == data


@pytest.mark.req("EMM-08")
def test_unknown_fields_are_skipped_but_signed() -> None:
    parsed = parse_untrusted(packet(NAME, "06 01 aa"))
    assert [value for _, value in parsed.values] == ["n"]
    assert canonical_bytes(parsed) == parsed.raw


@pytest.mark.req("EMM-12")
def test_canonical_bytes_sort_sub_fields() -> None:
    iv = "030c 000102030405060708090a0b"
    sorted_ = parse_untrusted(sealed("11 11 010101", iv))
    shuffled = parse_untrusted(sealed("11 11", iv, "010101"))
    assert shuffled.raw != sorted_.raw
    assert canonical_bytes(shuffled) == canonical_bytes(sorted_)


@pytest.mark.req("EMM-12")
@given(packets())
def test_canonical_prefix_equals_the_definition(data: bytes) -> None:
    parsed = parse_untrusted(data)
    assert canonical_bytes(parsed) == data[:HEADER_BYTES] + canonical_payload(parsed.tlvs())


@pytest.mark.req("EMM-04")
def test_an_oversize_packet_names_size_and_limit() -> None:
    with pytest.raises(BadPacket, match=r"size 20, limit 19"):
        parse_untrusted(packet(NAME), Rules(packet_bytes_max=19))


@pytest.mark.req("EMM-26")
def test_interop_profile() -> None:
    rules = Rules(profile=Profile.INTEROP_V1)
    parse_untrusted(packet(NAME, NODE, KEY_ID, HMAC), rules)
    parse_untrusted(packet(NAME, NODE, PUBLIC_KEY, KEY_ID, SIGNATURE), rules)
    parse_untrusted(packet(NODE, SENT_AT, KEY_ID, HMAC, kind=2), rules)
    for lacking in (packet(NAME, NODE, HMAC), packet(NAME, KEY_ID), packet(NAME, NODE, KEY_ID)):
        parse_untrusted(lacking)  # fine without the profile
        with pytest.raises(BadPacket) as caught:
            parse_untrusted(lacking, rules)
        assert caught.value.reason is Reject.PROFILE
    with pytest.raises(BadPacket) as caught:
        parse_untrusted(packet(NODE, KEY_ID, HMAC), rules)
    assert caught.value.reason is Reject.MISSING_FIELD


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="interop-v1"):
        Rules(profile="interop-v9")  # type: ignore[arg-type]


@settings(max_examples=300)
@given(st.binary(max_size=600) | mangled_packets())
def test_any_bytes_parse_or_raise_bad_packet(data: bytes) -> None:
    try:
        parsed = parse_untrusted(data)
    except BadPacket as error:
        assert error.reason in Reject
    else:
        assert b"".join(bytes((t.type, len(t.value))) + t.value for t in parsed.tlvs()) == data[HEADER_BYTES:]
