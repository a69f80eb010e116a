"""The columnar decoder says of each row what the scalar decoder says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.emm_compact.packets import DATAGRAMS, assemble, datagrams, mutated
from tests.wire.emm_compact.test_rejections import CASES
from weft.errors import UsageError
from weft.wire.columns import BLOCK_ROWS
from weft.wire.emm_compact import Notification, decode_untrusted, expiry_s_of, node_id_of
from weft.wire.emm_compact.codes import label
from weft.wire.emm_compact.columnar import SCHEMA, decode_column
from weft.wire.reject import BadPacket

NOTHING: dict[str, Any] = dict.fromkeys(SCHEMA.names)


@cache
def expected(datagram: bytes | None) -> dict[str, Any]:
    """The row of one datagram, by way of the scalar decoder."""
    try:
        packet = decode_untrusted(datagram or b"")
    except BadPacket as refusal:
        return NOTHING | {"reject": str(refusal.reason)}
    header = packet.header
    row = NOTHING | {
        "event_id": header.event_id,
        "epoch": header.epoch,
        "offset": header.offset,
        "urgent": header.urgent,
        "type": label(header.type),
        "signature": packet.signature,
        "node_id": node_id_of(packet.body),
        "expiry_s": expiry_s_of(packet.body),
    }
    if isinstance(packet.body, Notification):
        body = packet.body
        row |= {"priority": label(body.priority), "format": label(body.format), "message": body.message}
    return row


def check(rows: list[bytes | None], column: pa.Array | None = None) -> None:
    table = decode_column(pa.array(rows, pa.binary()) if column is None else column)
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert table.to_pylist() == [expected(row) for row in rows]


# Letters, JSON, control characters (C0, DEL, C1), and UTF-8 that is whole, overlong, a surrogate, too high or cut off
PIECES = [b"a", b" ", b"\t", b'"', b"[", b"]", b"1", b"\x1f", b"\x7f", b"\xc2\x85", b"\xc2\xa0", b"\xc3\xa4"]
PIECES += [
    b"\xf0\x9f\x98\x80",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc2",
    b"\xe2\x82",
    b"\x80",
    b"\xff",
]


@st.composite
def nearly_text(draw: st.DrawFn) -> bytes:
    """A notification with a text or JSON message that is often not quite right."""
    parts = [
        b"a",
        b" ",
        b"\t",
        b"\x1f",
        b"\x7f",
        b"\xc2\x85",
        b"\xc2\xa0",
        b"\xc3\xa4",
        b"\xe2\x82\xac",
        b"\xed\xa0\x80",
    ]
    parts += [b"\xf0\x9f\x98\x80", b"\xf4\x90\x80\x80", b"\xc2", b"\xe2\x82", b"\x80", b'"', b"[", b"]", b"1", b"\xff"]
    message = b"".join(draw(st.lists(st.sampled_from(parts), max_size=6)))
    return assemble("20", "13" + draw(st.sampled_from(["21", "22"])), message.hex())


ROWS = st.lists(st.none() | st.binary(max_size=60) | mutated() | nearly_text() | datagrams(), max_size=8)


@given(ROWS)
@settings(max_examples=200)
@pytest.mark.req("EMC-01", "EMC-05", "EMC-06", "EMC-07", "EMC-08", "EMC-09")
def test_columns_agree_with_the_scalar_decoder(rows: list[bytes | None]) -> None:
    check(rows)


@given(ROWS, st.integers(0, 8), st.booleans())
@settings(max_examples=100)
def test_slices_and_large_columns(rows: list[bytes | None], first: int, large: bool) -> None:
    column = pa.array(rows, pa.large_binary() if large else pa.binary())
    check(rows[first:-1], column[first:-1] if len(column) > first else column[:0])


@pytest.mark.req("EMC-01", "EMC-02", "EMC-03", "EMC-05", "EMC-06", "EMC-07", "EMC-08", "EMC-09", "EMC-10")
def test_every_refusal_at_once_and_alone() -> None:
    rows: list[bytes | None] = [case.datagram for case in CASES]
    check(rows + list(DATAGRAMS.values()))
    for row in rows:
        check([row])
    assert decode_column(pa.array(rows, pa.binary()))["reject"].to_pylist() == [case.reason for case in CASES]


def test_a_known_row() -> None:
    row = decode_column(pa.array([DATAGRAMS["notification-urgent-json"]])).to_pylist()[0]
    assert row == {
        "reject": None,
        "event_id": 65535,
        "epoch": 65535,
        "offset": 65535,
        "urgent": True,
        "type": "notification",
        "signature": DATAGRAMS["notification-urgent-json"][10:42],
        "priority": "critical",
        "format": "json",
        "message": '{"°C": 99.5}'.encode(),
        "node_id": None,
        "expiry_s": None,
    }


def test_columns_longer_than_a_block() -> None:
    rows = [*list(DATAGRAMS.values()), b"bad", None, assemble("20", "1321ff")] * (BLOCK_ROWS // 10)
    assert len(rows) > BLOCK_ROWS
    check(rows)


@pytest.mark.parametrize("rows", [[], [None], [None, None], [b""], [b"", None]])
def test_columns_with_nothing_in_them(rows: list[bytes | None]) -> None:
    check(rows)
    check(rows, pa.array(rows, pa.large_binary()))


def test_chunks() -> None:
    rows: list[bytes | None] = list(DATAGRAMS.values())
    check(rows, pa.chunked_array([pa.array(rows[:3]), pa.array([], pa.binary()), pa.array(rows[3:])]))


def test_other_columns_are_refused() -> None:
    with pytest.raises(UsageError):
        decode_column(pa.array(["text"]))
