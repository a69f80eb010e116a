"""Packets that were put together without Weft's code (tests/vectors/emm), read and written."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any
from uuid import UUID

import pytest

from weft.wire.emm import (
    Algorithm,
    Credentials,
    Draft,
    Encryption,
    EventType,
    Seal,
    SigningKey,
    Verdict,
    authenticate,
    build,
    canonical_bytes,
    draft_event,
    draft_heartbeat,
    draft_hello,
    parse_untrusted,
    unseal_untrusted,
)


def plain(value: Any) -> Any:
    """What a vector's JSON says, as the codec's value."""
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]) if "hex" in value else value["json"]
    return value


@pytest.mark.req("EMM-01", "EMM-06", "EMM-07", "EMM-12")
def test_every_vector_reads_as_written(document: dict[str, Any]) -> None:
    for vector in document["vectors"]:
        packet = parse_untrusted(bytes.fromhex(vector["hex"]))
        assert packet.message_id == document["message_id"], vector["name"]
        assert packet.timestamp_s == document["timestamp_s"]
        assert packet.event_type == vector["event_type"]
        assert packet.node_id == UUID(hex=document["node_id"]) or packet.node_id is None
        if "values" in vector:
            assert [value for _, value in packet.values] == [plain(value) for value in vector["values"]]
        if "canonical" in vector:
            assert canonical_bytes(packet).hex() == vector["canonical"]


@pytest.mark.req("EMM-14", "EMM-15")
def test_authenticated_vectors_verify(document: dict[str, Any], keys: Any) -> None:
    checked = 0
    for vector in document["vectors"]:
        if "auth" in vector:
            packet = parse_untrusted(bytes.fromhex(vector["hex"]))
            assert authenticate(packet, keys.trust()) is Verdict.VERIFIED, vector["name"]
            checked += 1
    assert checked == 3


@pytest.mark.req("EMM-22", "EMM-23", "EMM-24")
def test_sealed_vectors_open(document: dict[str, Any], keys: Any) -> None:
    opened = {}
    for vector in document["vectors"]:
        if "opened" in vector:
            packet = parse_untrusted(bytes.fromhex(vector["hex"]))
            packet = unseal_untrusted(
                packet, lambda key_id: keys.encryption_key if key_id == keys.node_id.bytes else None
            )
            opened[vector["name"]] = [value for _, value in packet.values] == vector["opened"]
    assert opened == {"aes-gcm": True, "zlib-chacha20": True}


@pytest.mark.req("EMM-01", "EMM-06", "EMM-13")
def test_builder_makes_the_same_bytes(document: dict[str, Any], keys: Any, packets: dict[str, bytes]) -> None:
    message_id, now_s, node = document["message_id"], document["timestamp_s"], keys.node_id
    event = draft_event(message_id, now_s, "plant.temp", 42, 3.5, node_id=node)
    signing = Credentials(keys.auth_key_id, signing_key=SigningKey(keys.seed), carry_public_key=True)
    both = Credentials(keys.auth_key_id, hmac_key=keys.hmac_key, signing_key=SigningKey(keys.seed))
    urgent = Draft(
        EventType.EVENT, message_id, now_s, ("plant.temp", 42, 3.5), node, True, extra=((0x40, b"\xab\xcd"),)
    )
    iv = bytes.fromhex("0102030405060708090a0b0c")
    assert build(event, keys.hmac_credentials()) == packets["event-hmac"]
    assert build(event, signing) == packets["event-signature"]
    assert build(urgent, both) == packets["event-both-unknown"]
    assert build(draft_hello(message_id, now_s, node, b"\x01\x02\x03")) == packets["hello"]
    assert build(draft_heartbeat(message_id, now_s, node)) == packets["heartbeat"]
    assert build(draft_event(message_id, now_s, "n", b"x" * 300)) == packets["split"]
    assert build(draft_event(message_id, now_s, "n", b"y" * 255, b"z")) == packets["split-exact"]
    assert build(draft_event(message_id, now_s, "n", {"a": 1})) == packets["json"]
    assert build(event, seal=Seal(Encryption(Algorithm.AES_256_GCM, iv), keys.encryption_key)) == packets["aes-gcm"]


def test_the_primitives_are_the_standard_ones() -> None:
    """RFC 4231 test case 2 and RFC 8032 test 2, through the calls that the codec makes."""
    code = hmac.digest(b"Jefe", b"what do ya want for nothing?", hashlib.sha256)
    assert code.hex() == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    key = SigningKey(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    assert key.public_key.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert key.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
