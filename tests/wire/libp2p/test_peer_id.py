from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases
from weft.wire.libp2p import peer_id
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.peer_id import PeerId


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("keys"))
def test_reference_ids_both_ways(case: dict[str, Any]) -> None:
    multihash = bytes.fromhex(case["multihash"])
    key = bytes.fromhex(case["public_key"])
    peer = peer_id.of_public_key(key)
    assert peer == peer_id.from_text_untrusted(case["peer_id"]) == peer_id.from_bytes_untrusted(multihash)
    assert str(peer) == case["peer_id"]
    assert peer.multihash == multihash
    assert peer.inlined_key == (None if case["type"] == "RSA" else key)


@pytest.mark.parametrize("size", [1, 42])
def test_short_keys_stand_in_the_id(size: int) -> None:
    assert peer_id.of_public_key(b"k" * size).multihash == bytes((0, size)) + b"k" * size


def test_longer_keys_are_hashed() -> None:
    peer = peer_id.of_public_key(b"k" * 43)
    assert peer.multihash == b"\x12\x20" + hashlib.sha256(b"k" * 43).digest()
    assert peer.inlined_key is None


@pytest.mark.parametrize(
    ("multihash", "reason"),
    [
        (b"", "cut off"),
        (b"\x12", "cut off"),
        (b"\x12\x20" + bytes(31), "wrong length"),
        (b"\x12\x20" + bytes(33), "wrong length"),
        (b"\x12\x1f" + bytes(31), "SHA-256 digest"),
        (b"\x00\x00", "key inside"),
        (b"\x00\x2b" + bytes(43), "key inside"),
        (b"\x13\x40" + bytes(64), "unknown function"),
        (b"\x92\x00\x20" + bytes(32), "wrong length"),  # the code padded to two bytes
    ],
)
def test_refused_multihashes(multihash: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        peer_id.from_bytes_untrusted(multihash)


@given(st.binary(max_size=50))
def test_any_bytes_are_an_id_or_refused(data: bytes) -> None:
    try:
        peer = peer_id.from_bytes_untrusted(data)
    except BadFrame:
        return
    assert peer == PeerId(data)
    assert peer_id.from_text_untrusted(str(peer)) == peer


# draft-msporny-base58-03, section 5
DRAFT = [
    (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
    (b"The quick brown fox jumps over the lazy dog.", "USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z"),
    (bytes.fromhex("0000287fb4cd"), "11233QC4"),
]
REFERENCE = [(bytes.fromhex(case["multihash"]), case["peer_id"]) for case in cases("keys")]


@pytest.mark.req("COA-01")
@pytest.mark.parametrize(("data", "text"), DRAFT + REFERENCE)
def test_base58_vectors_both_ways(data: bytes, text: str) -> None:
    assert peer_id.encode_base58(data) == text
    assert peer_id.decode_base58_untrusted(text) == data


@given(st.binary(max_size=64))
def test_base58_round_trip(data: bytes) -> None:
    assert peer_id.decode_base58_untrusted(peer_id.encode_base58(data)) == data


@pytest.mark.parametrize("character", ["0", "O", "I", "l", "/", " ", "é", "\0"])
def test_other_characters_than_those_of_base58_are_refused(character: str) -> None:
    with pytest.raises(BadFrame, match=r"not a base58 character \(at 1"):
        peer_id.decode_base58_untrusted("2" + character)


def test_the_length_of_base58_is_bounded() -> None:
    with pytest.raises(BadFrame, match="too long"):
        peer_id.decode_base58_untrusted("2" * 129)


@given(st.text(max_size=140))
def test_any_text_is_decoded_or_refused(text: str) -> None:
    try:
        data = peer_id.decode_base58_untrusted(text)
    except BadFrame:
        return
    assert peer_id.encode_base58(data) == text
