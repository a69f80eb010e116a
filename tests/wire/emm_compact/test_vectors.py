"""Packets that were assembled by hand, in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.emm_compact.packets import DATAGRAMS, VECTORS
from weft.wire.emm_compact import (
    Command,
    Ecn,
    EventDigest,
    Field,
    Format,
    Header,
    Heartbeat,
    Join,
    KeyRing,
    Notification,
    Priority,
    Proof,
    PropagationMap,
    RateSignal,
    Signer,
    SupportedTypes,
    Triple,
    decode_untrusted,
    encode,
    fingerprint,
    from_document,
    seal,
    to_document_untrusted,
    verify_untrusted,
)
from weft.wire.emm_compact.codes import EventType, FieldType

NODE = bytes.fromhex(VECTORS["node_id"])
GROUP_KEYS = {name: bytes.fromhex(key) for name, key in VECTORS["group_keys"].items()}
PUBLIC_KEYS = {name: bytes.fromhex(key) for name, key in VECTORS["public_keys"].items()}
RING = KeyRing(
    group_keys=tuple(GROUP_KEYS.values()),
    by_node_id={NODE: (PUBLIC_KEYS["rfc8032-1"],)},
    by_fingerprint={fingerprint(PUBLIC_KEYS["rfc8032-2"]): (PUBLIC_KEYS["rfc8032-2"],)},
)
each_vector = pytest.mark.parametrize("vector", VECTORS["vectors"], ids=DATAGRAMS)


@each_vector
@pytest.mark.req("EMC-01", "EMC-05", "EMC-06", "EMC-07", "EMC-08", "EMC-09", "EMC-10")
def test_bytes_to_meaning(vector: dict[str, Any]) -> None:
    assert to_document_untrusted(bytes.fromhex(vector["hex"])) == vector["document"]


@each_vector
@pytest.mark.req("EMC-01", "EMC-05", "EMC-06", "EMC-07", "EMC-08", "EMC-09", "EMC-10")
def test_meaning_to_bytes(vector: dict[str, Any]) -> None:
    assert from_document(vector["document"]).hex() == vector["hex"]


@each_vector
@pytest.mark.req("EMC-05")
def test_signatures_hold(vector: dict[str, Any]) -> None:
    expected = Proof.GROUP if vector["key"] in GROUP_KEYS else Proof.SENDER
    assert verify_untrusted(decode_untrusted(bytes.fromhex(vector["hex"])), RING) is expected


@each_vector
@pytest.mark.req("EMC-05")
def test_our_signatures_are_the_same(vector: dict[str, Any]) -> None:
    # HMAC and Ed25519 have no randomness, so sealing again gives the foreign signature.
    packet = decode_untrusted(bytes.fromhex(vector["hex"]))
    if "any-order" in vector["name"] or "fingerprint" in vector["name"]:
        return  # our encoder writes required fields first
    group_key = GROUP_KEYS.get(vector["key"], GROUP_KEYS["rfc4231-1"])
    seed = bytes.fromhex(VECTORS["seeds"].get(vector["key"], VECTORS["seeds"]["rfc8032-1"]))
    assert seal(packet.header, packet.body, Signer(group_key, seed)) == packet


@pytest.mark.req("EMC-01", "EMC-02", "EMC-03", "EMC-06")
def test_values_of_a_notification() -> None:
    packet = decode_untrusted(DATAGRAMS["notification-urgent-json"])
    assert packet.header == Header(EventType.NOTIFICATION, 65535, 65535, 65535, urgent=True)
    assert packet.header.triple == Triple(65535, 65535, 65535)
    assert packet.body == Notification(Priority.CRITICAL, Format.JSON, '{"°C": 99.5}'.encode())
    assert packet.raw == DATAGRAMS["notification-urgent-json"]


@pytest.mark.req("EMC-07")
def test_values_of_a_command() -> None:
    packet = decode_untrusted(DATAGRAMS["command-node-id"])
    assert packet.body == Command("log.level", b'{"level":"debug"}', (Field(FieldType.NODE_ID, NODE),))


@pytest.mark.req("EMC-08")
def test_values_of_a_heartbeat() -> None:
    packet = decode_untrusted(DATAGRAMS["heartbeat"])
    assert packet.body == Heartbeat(
        node_id=NODE,
        uptime_s=3600,
        digest=EventDigest.of([Triple(1, 1, 15), Triple(7, 1, 0)]),
        rate=RateSignal(Ecn.CE, sent=5, received=31),
        propagation=PropagationMap(hops=2, ttl=31, origin=bytes.fromhex("a1b2c3d4")),
    )


@pytest.mark.req("EMC-09")
def test_values_of_a_join() -> None:
    packet = decode_untrusted(DATAGRAMS["join"])
    supported = SupportedTypes.NOTIFICATION | SupportedTypes.COMMAND | SupportedTypes.JOIN
    assert packet.body == Join(NODE, supported, relationships_max=63, heartbeat_interval_s=30, status=b"ready")


@pytest.mark.parametrize("name", ["notification-text", "command-node-id", "command-every-field", "heartbeat", "join"])
@pytest.mark.req("EMC-01", "EMC-05")
def test_values_to_bytes(name: str) -> None:
    packet = decode_untrusted(DATAGRAMS[name])
    assert encode(packet.header, packet.signature, packet.body).raw == DATAGRAMS[name]
