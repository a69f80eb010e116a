"""Data values: typed, split over TLVs, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.emm.strategies import values
from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm import draft_event, parse_untrusted
from weft.wire.emm.build import build
from weft.wire.emm.fields import Rules, Value
from weft.wire.emm.values import encode_value, encode_values, join_chunks, value_type


@pytest.mark.req("EMM-06")
@given(st.lists(st.integers(0, 800).map(lambda size: b"x" * size), max_size=6))
def test_split_values_come_back_whole(wanted: list[bytes]) -> None:
    data = encode_values(wanted)
    chunks = tlv.read_untrusted(data, 0, len(data), len(data))
    assert [chunk.value for chunk in join_chunks(chunks)] == wanted


@pytest.mark.req("EMM-06")
@pytest.mark.parametrize(
    ("size", "lengths"), [(0, [0]), (1, [1]), (254, [254]), (255, [255, 0]), (256, [255, 1]), (510, [255, 255, 0])]
)
def test_how_a_value_is_split(size: int, lengths: list[int]) -> None:
    data = encode_value(b"x" * size)
    assert [len(chunk.value) for chunk in tlv.read_untrusted(data, 0, len(data), len(data))] == lengths


@pytest.mark.req("EMM-06")
def test_a_foreign_value_of_255_bytes_without_a_terminator_is_taken() -> None:
    """Senders that do not know the ruling end such a value where its type ends."""
    chunks = [tlv.Tlv(1, b"n", 0), tlv.Tlv(4, b"x" * 255, 3), tlv.Tlv(5, b"{}", 260)]
    assert join_chunks(chunks) == chunks


@pytest.mark.req("EMM-07")
@given(st.lists(values, max_size=4))
def test_values_survive_a_packet(content: list[Value]) -> None:
    rules = Rules(packet_bytes_max=4000)
    packet = parse_untrusted(build(draft_event(1, 0, "n", *content), rules=rules), rules)
    expected = sorted(["n", *content], key=value_type)
    assert [value for _, value in packet.values] == expected
    assert [kind for kind, _ in packet.values] == [value_type(value) for value in expected]


@pytest.mark.parametrize(
    "value",
    [True, None, 2**31, -(2**31) - 1, 1e39, "\ud800", {"a": object()}, [1]],
    ids=["bool", "none", "int too big", "int too small", "float too big", "surrogate", "not JSON", "list"],
)
def test_values_that_cannot_be_sent(value: Any) -> None:
    with pytest.raises(UsageError):
        encode_value(value)
