from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases
from weft.wire.libp2p import base58
from weft.wire.libp2p.errors import BadFrame

# draft-msporny-base58-03, section 5
DRAFT = [
    (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
    (b"The quick brown fox jumps over the lazy dog.", "USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z"),
    (bytes.fromhex("0000287fb4cd"), "11233QC4"),
]
REFERENCE = [(bytes.fromhex(case["multihash"]), case["peer_id"]) for case in cases("keys")]


@pytest.mark.req("COA-01")
@pytest.mark.parametrize(("data", "text"), DRAFT + REFERENCE)
def test_vectors_both_ways(data: bytes, text: str) -> None:
    assert base58.encode(data) == text
    assert base58.decode_untrusted(text) == data


@given(st.binary(max_size=64))
def test_round_trip(data: bytes) -> None:
    assert base58.decode_untrusted(base58.encode(data)) == data


@pytest.mark.parametrize("character", ["0", "O", "I", "l", "/", " ", "é", "\0"])
def test_other_characters_are_refused(character: str) -> None:
    with pytest.raises(BadFrame, match=r"not a base58 character \(at 1"):
        base58.decode_untrusted("2" + character)


def test_length_is_bounded() -> None:
    with pytest.raises(BadFrame, match="too long"):
        base58.decode_untrusted("2" * 129)


@given(st.text(max_size=140))
def test_any_text_is_decoded_or_refused(text: str) -> None:
    try:
        data = base58.decode_untrusted(text)
    except BadFrame:
        return
    assert base58.encode(data) == text
