from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tests.wire.libp2p.curve import SECP256K1_ORDER
from tests.wire.libp2p.support import KEY_TYPES, cases, identity
from weft.errors import UsageError
from weft.limits import FLOODSUB_DATA_BYTES_MAX
from weft.wire.libp2p import floodsub
from weft.wire.libp2p.floodsub import Distrust, Message

MESSAGES = {
    case["key_type"]: floodsub.decode_untrusted(bytes.fromhex(case["bytes"])).messages[0]
    for case in cases("floodsub")
    if case["meaning"]["messages"]
}
SEQNO = b"12345678"


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_messages_of_the_reference_are_believed(key_type: str) -> None:
    assert floodsub.distrust(MESSAGES[key_type]) is None


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_we_sign_exactly_as_the_reference(key_type: str) -> None:
    theirs = MESSAGES[key_type]
    assert floodsub.sign(identity(key_type), theirs.topics[0], theirs.data, theirs.seqno) == theirs


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("key_type", KEY_TYPES)
@pytest.mark.parametrize(
    "change",
    [
        {"data": b"other"},
        {"data": b""},
        {"seqno": b"other"},
        {"topics": ("other",)},
        {"topics": ("weft/capture", "other")},
        {"signature": b"\0"},
    ],
)
def test_any_change_spoils_the_signature(key_type: str, change: dict[str, Any]) -> None:
    assert floodsub.distrust(replace(MESSAGES[key_type], **change)) is Distrust.BAD_SIGNATURE


def changed(**changes: Any) -> Message:
    return replace(floodsub.sign(identity("Ed25519"), "t", b"d", SEQNO), **changes)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (changed(signature=None), Distrust.UNSIGNED),
        (changed(signature=b""), Distrust.UNSIGNED),
        (changed(key=b"rubbish"), Distrust.BAD_KEY),
        (changed(key=identity("RSA").public.serialised), Distrust.KEY_MISMATCH),
        (changed(origin=identity("RSA").peer), Distrust.KEY_MISMATCH),
        (changed(origin=identity("secp256k1").peer, key=None), Distrust.BAD_SIGNATURE),
        (changed(origin=identity("RSA").peer, key=None), Distrust.NO_KEY),
    ],
)
@pytest.mark.req("COA-01")
def test_from_must_match_the_key(message: Message, reason: Distrust) -> None:
    assert floodsub.distrust(message) is reason


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("key_type", ["Ed25519", "secp256k1"])
def test_the_key_may_stand_in_the_peer_id(key_type: str) -> None:
    assert floodsub.distrust(replace(MESSAGES[key_type], key=None)) is None


@pytest.mark.req("COA-01")
def test_high_s_is_not_believed() -> None:
    message = MESSAGES["secp256k1"]
    assert message.signature is not None
    r, s = decode_dss_signature(message.signature)
    twin = replace(message, signature=encode_dss_signature(r, SECP256K1_ORDER - s))
    assert floodsub.distrust(twin) is Distrust.BAD_SIGNATURE


def test_a_signature_made_for_something_else_is_not_believed() -> None:
    message = floodsub.sign(identity("Ed25519"), "t", b"d", SEQNO)
    bare = replace(message, signature=identity("Ed25519").sign(message.signed_part()))  # without the prefix
    assert floodsub.distrust(bare) is Distrust.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("topic", "data", "seqno", "reason"),
    [
        ("", b"", SEQNO, "topic"),
        ("t" * 4097, b"", SEQNO, "topic"),
        ("t", bytes(FLOODSUB_DATA_BYTES_MAX + 1), SEQNO, "data"),
        ("t", b"", b"", "sequence number"),
        ("t", b"", bytes(33), "sequence number"),
    ],
)
def test_what_cannot_be_published(topic: str, data: bytes, seqno: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        floodsub.sign(identity("Ed25519"), topic, data, seqno)


def test_empty_data_can_be_published() -> None:
    message = floodsub.sign(identity("Ed25519"), "t", b"", SEQNO)
    (received,) = floodsub.decode_untrusted(floodsub.Rpc(messages=(message,)).encode()).messages
    assert received == message
    assert floodsub.distrust(received) is None
