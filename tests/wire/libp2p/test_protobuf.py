from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.libp2p import protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.protobuf import PROTOBUF_FIELDS_MAX

KNOWN = range(1, 10)


def test_known_bytes() -> None:
    # 08 96 01: field 1, varint 150; 12 07 ...: field 2, "testing" (the examples of protobuf's encoding guide)
    encoded = bytes.fromhex("089601120774657374696e67")
    assert protobuf.encode([(1, 150), (2, "testing")]) == encoded
    message = protobuf.read_untrusted("example", encoded, KNOWN)
    assert message.uint(1) == 150
    assert message.text(2, 100) == "testing"


field_values = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=50))


@given(st.lists(st.tuples(st.integers(1, 9), field_values), max_size=20))
def test_round_trip(fields: list[tuple[int, int | bytes]]) -> None:
    message = protobuf.read_untrusted("example", protobuf.encode(fields), KNOWN)
    for number in KNOWN:
        values = [value for field, value in fields if field == number]
        if not values:
            assert message.uint(number) is None
            assert message.blob(number, 50) is None
            assert message.blobs(number, 20, 50) == []
        elif isinstance(values[-1], int):
            assert message.uint(number) == values[-1]
        else:
            assert message.blob(number, 50) == values[-1]


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    unknown = b"\x78\x05" + b"\x79" + bytes(8) + b"\x7a\x01x" + b"\x7d" + bytes(4)  # field 15 as types 0, 1, 2, 5
    message = protobuf.read_untrusted("example", unknown + protobuf.encode([(1, 7)]) + unknown, KNOWN)
    assert message.uint(1) == 7
    assert message.uint(15) is None


def test_none_is_left_out_and_empty_is_not() -> None:
    assert protobuf.encode([(1, None), (2, b"")]) == b"\x12\x00"
    assert protobuf.read_untrusted("example", b"\x12\x00", KNOWN).blob(2, 10) == b""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x08", "cut off"),
        (b"\x12", "cut off"),
        (b"\x12\x05abcd", "overruns"),
        (b"\x12" + b"\xff" * 9 + b"\x01", "overruns"),  # a length of 2**64 - 1
        (b"\x09" + bytes(7), "overruns"),
        (b"\x0d" + bytes(3), "overruns"),
        (b"\x00\x00", "field number"),
        (b"\xff" * 9 + b"\x01\x00", "field number"),
        (b"\x0b", "wire type"),  # a group
        (b"\x0e", "wire type"),
        (b"\x08" + b"\x80" * 10, "does not end"),
        (b"\x80" * 11, "does not end"),
    ],
)
@pytest.mark.req("COA-01")
def test_truncated_and_impossible_messages(data: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        protobuf.read_untrusted("example", data, KNOWN)


def test_number_of_fields_is_bounded_also_of_unknown_ones() -> None:
    full = b"\x78\x00" * PROTOBUF_FIELDS_MAX
    protobuf.read_untrusted("example", full, KNOWN)
    with pytest.raises(BadFrame, match="too many fields"):
        protobuf.read_untrusted("example", full + b"\x78\x00", KNOWN)


def test_accessors_check_kind_size_and_count() -> None:
    message = protobuf.read_untrusted(
        "example", protobuf.encode([(1, 7), (2, b"\xff\xff"), (2, b"x"), (3, b"\xff")]), KNOWN
    )
    for access, reason in [
        (lambda: message.blob(1, 10), "should be bytes"),
        (lambda: message.uint(2), "should be a number"),
        (lambda: message.blobs(2, 1, 10), "too often"),
        (lambda: message.blobs(2, 2, 1), "too long"),
        (lambda: message.required_blob(4, 10), "missing"),
        (lambda: message.required_text(4, 10), "missing"),
        (lambda: message.text(3, 10), "not UTF-8"),
        (lambda: message.texts(2, 2, 10), "not UTF-8"),
    ]:
        with pytest.raises(BadFrame, match=f"example: .*{reason}"):
            access()  # type: ignore[no-untyped-call]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        message = protobuf.read_untrusted("example", data, KNOWN)
    except BadFrame:
        return
    for number in KNOWN:
        assert len(message._fields.get(number, [])) <= len(data) // 2
