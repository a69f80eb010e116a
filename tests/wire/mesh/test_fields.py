"""Fields by hand are what protobuf writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.fields import varint

EDGES = [value + more for value in (1 << 7, 1 << 14, 1 << 21, 1 << 32, 1 << 63) for more in (-1, 0, 1)]


def written(value: int) -> bytes:
    """By protobuf, with the tag of its field."""
    return bytes(pb.Receipt(request=value).SerializeToString())


@pytest.mark.parametrize("value", [1, *EDGES, (1 << 64) - 1])
def test_a_varint_at_the_edges(value: int) -> None:
    assert bytes([1 << 3]) + varint(value) == written(value)


@given(st.integers(1, (1 << 64) - 1))
def test_any_varint(value: int) -> None:
    assert bytes([1 << 3]) + varint(value) == written(value)


def test_nothing_is_one_zero() -> None:
    assert varint(0) == bytes(1)
