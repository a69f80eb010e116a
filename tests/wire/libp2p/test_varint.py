from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases
from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame

# The largest value, by hand: nine groups of seven ones, then the 64th bit.
HAND_BUILT = [{"value": 2**64 - 1, "bytes": "ff" * 9 + "01"}, {"value": 2**63, "bytes": "80" * 9 + "01"}]


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("varints") + HAND_BUILT)
def test_vectors_both_ways(case: dict[str, object]) -> None:
    encoded = bytes.fromhex(str(case["bytes"]))
    assert varint.encode(int(str(case["value"]))) == encoded
    assert varint.read_untrusted(encoded, 0, len(encoded)) == (case["value"], len(encoded))


@given(st.integers(0, 2**64 - 1), st.binary(max_size=4), st.binary(max_size=4))
def test_round_trip_amid_other_bytes(value: int, before: bytes, after: bytes) -> None:
    encoded = varint.encode(value)
    data = before + encoded + after
    assert varint.read_untrusted(data, len(before), len(data)) == (value, len(before) + len(encoded))


@given(st.integers(0, 2**64 - 1))
def test_a_prefix_asks_for_more(value: int) -> None:
    encoded = varint.encode(value)
    for end in range(len(encoded)):
        assert varint.read_partial_untrusted(encoded, 0, end) is None
        with pytest.raises(BadFrame, match="cut off"):
            varint.read_untrusted(encoded, 0, end)


def test_does_not_read_past_the_end_given() -> None:
    assert varint.read_partial_untrusted(b"\x80\x01", 0, 1) is None


@pytest.mark.parametrize(
    ("bomb", "reason"),
    [
        (b"\x80" * 10, "does not end"),
        (b"\xff" * 1000, "does not end"),
        (b"\x80" * 10 + b"\x01", "does not end"),
        (b"\xff" * 9 + b"\x02", "exceeds 64 bits"),
        (b"\xff" * 9 + b"\x7f", "exceeds 64 bits"),
    ],
)
@pytest.mark.req("COA-01")
def test_varint_bombs_are_refused(bomb: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        varint.read_partial_untrusted(bomb, 0, len(bomb))


def test_more_bytes_than_needed_are_taken() -> None:
    # protobuf writers may pad; the reference's decoder takes it as well
    assert varint.read_untrusted(b"\x81\x80\x00", 0, 3) == (1, 3)
