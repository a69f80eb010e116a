"""The columnar decoder says of every datagram what the scalar parser says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.emm.strategies import mangled_packets
from tests.wire.emm.test_parse import ACCEPTED, REJECTIONS, packet
from weft.errors import UsageError
from weft.wire.columns import BLOCK_ROWS
from weft.wire.emm import Profile, Rules, build, draft_event, parse_untrusted
from weft.wire.emm.columnar import SCHEMA, decode_column, row_of
from weft.wire.reject import BadPacket


def expected_row(data: bytes | None, rules: Rules) -> dict[str, Any]:
    try:
        return row_of(parse_untrusted(data or b"", rules))
    except BadPacket as error:
        return {**dict.fromkeys(SCHEMA.names), "reject": str(error.reason)}


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    """NaN is not equal to itself; its text is."""
    return [repr(sorted(row.items())) for row in rows]


def check(datagrams: pa.Array | pa.ChunkedArray, rules: Rules = Rules()) -> None:  # noqa: B008 (frozen)
    table = decode_column(datagrams, rules)
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert comparable(table.to_pylist()) == comparable([expected_row(data, rules) for data in datagrams.to_pylist()])


@pytest.mark.req("EMM-01", "EMM-05", "EMM-09", "EMM-10", "EMM-13")
def test_every_known_case_at_once() -> None:
    check(pa.array([data for _, _, data, _ in REJECTIONS] + list(ACCEPTED.values()), pa.binary()))


JSONS = [
    b'{"a":"\xff"}',
    b'{"\xff":1}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\q"}',
    b'{"a":"\x01"}',
    b'{"a":1e999}',
    b'{"a":-1E+999}',
    b'{"a":1.5e-7}',
    b'{"a":01}',
    b'{"a":nope}',
    b'{"a":1,}',
    b'{"a":1}x',
    b"{1:2}",
    b"null",
    b' {"a":{"b":[1]},"a":2} ',
    b"{}",
]


@pytest.mark.req("EMM-07")
@pytest.mark.parametrize("text", JSONS)
def test_json_of_every_kind(text: bytes) -> None:
    """Beside a good one, which it must not take along."""
    good = packet("01 01 61", "05 02 7b7d")
    check(pa.array([good, packet("01 01 61", "05", f"{len(text):02x}", text.hex()), good], pa.binary()))


def test_vectors(packets: dict[str, bytes]) -> None:
    check(pa.array(list(packets.values())))
    assert decode_column(pa.array(list(packets.values())))["reject"].null_count == len(packets)


@settings(max_examples=250)
@given(
    st.lists(mangled_packets() | st.binary(max_size=40) | st.none(), max_size=12),
    st.sampled_from([None, Profile.INTEROP_V1]),
)
def test_agrees_with_the_parser(data: list[bytes | None], profile: Profile | None) -> None:
    check(pa.array(data, pa.binary()), Rules(profile=profile))


@given(st.lists(mangled_packets(), max_size=6), st.integers(0, 3))
def test_slices_chunks_and_large_binary(data: list[bytes], skip: int) -> None:
    rows = pa.array(data, pa.binary())
    check(rows.slice(skip))
    check(rows.cast(pa.large_binary()).slice(skip))
    check(pa.chunked_array([rows, rows.slice(skip)], pa.binary()))


def test_more_rows_than_a_block() -> None:
    datagrams = [build(draft_event(number, number, f"name {number}")) for number in range(50)]
    rows = pa.array((datagrams * (BLOCK_ROWS // 25))[: 2 * BLOCK_ROWS - 7])
    names = decode_column(rows)["event_name"].to_pylist()
    assert names == [f"name {row % 50}" for row in range(len(rows))]


def test_float_values_of_every_kind() -> None:
    check(pa.array([packet("01 01 6e", "03 04", bits) for bits in ("7fc00000", "ff800000", "80000000", "00000001")]))


def test_limits_are_settings() -> None:
    data = pa.array([build(draft_event(1, 0, "n" * size)) for size in (1, 20)])
    check(data, Rules(packet_bytes_max=25))
    check(pa.array(list(ACCEPTED.values())), Rules(tlvs_max=3))


def test_only_binary_columns_are_taken() -> None:
    with pytest.raises(UsageError, match="binary column"):
        decode_column(pa.array(["text"]))
