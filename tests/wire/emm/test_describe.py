"""Packets for people: every byte in its place, and back from JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from tests.wire.emm.strategies import packets as any_packet
from weft.errors import UsageError
from weft.wire.describe import Part, unaccounted
from weft.wire.emm.describe import describe_untrusted, from_document, to_document_untrusted
from weft.wire.reject import BadPacket


@given(any_packet())
def test_every_byte_is_accounted_for(data: bytes) -> None:
    tree = describe_untrusted(data)
    assert unaccounted(tree) == []
    assert sum(leaf.size for leaf in tree.leaves()) == len(data)


@given(any_packet())
def test_documents_turn_back(data: bytes) -> None:
    assert from_document(json.loads(json.dumps(to_document_untrusted(data)))) == data


def test_vectors_turn_back_and_read_well(packets: dict[str, bytes]) -> None:
    for name, data in packets.items():
        assert unaccounted(describe_untrusted(data)) == [], name
        assert from_document(to_document_untrusted(data)) == data
    fields = to_document_untrusted(packets["event-hmac"])["fields"]
    assert fields[0] == {"type": "0x01", "name": "string", "value": "plant.temp"}
    assert fields[3] == {"type": "0x14", "name": "node id", "value": "00112233-4455-6677-8899-aabbccddeeff"}
    algorithm = next(leaf for leaf in describe_untrusted(packets["aes-gcm"]).leaves() if leaf.value == "aes-256-gcm")
    assert algorithm.size == 1


def test_gaps_and_overlaps_are_found() -> None:
    leaf = Part("leaf", 0, 2)
    assert unaccounted(Part("whole", 0, 4, parts=(leaf, Part("late", 3, 1)))) == [(2, 3)]
    assert unaccounted(Part("whole", 0, 4, parts=(leaf, Part("twice", 1, 3)))) == [(1, 2)]
    assert unaccounted(Part("whole", 0, 4, parts=(leaf,))) == [(2, 4)]


GOOD: dict[str, Any] = {
    "protocol": "emm",
    "message_id": 1,
    "flags": [],
    "event_type": "event",
    "timestamp_s": 0,
    "fields": [{"type": "0x01", "value": "n"}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"message_id": "x"}, "needs 'message_id' as int"),
        ({"message_id": True}, "needs 'message_id' as int"),
        ({"message_id": 2**40}, "does not fit"),
        ({"flags": ["loud"]}, "unknown flag"),
        ({"event_type": "party"}, "unknown event type"),
        ({"fields": None}, "needs 'fields' as list"),
        ({"fields": ["x"]}, r"fields\[0\] is not an object"),
        ({"fields": [{"type": "0x02", "value": "five"}]}, r"fields\[0\] cannot be written"),
        ({"fields": [{"type": "0x14", "value": "not a uuid"}]}, r"fields\[0\] cannot be written"),
        ({"fields": [{"type": "0x10", "value": 5}]}, "as hex"),
        ({"fields": [{"type": "0x10", "hex": "zz"}]}, r"fields\[0\] cannot be written"),
        ({"fields": [{"type": "0x04", "hex": "00" * 256}]}, "limit 255"),
        ({"fields": [{"type": "0x1ff", "hex": ""}]}, "does not fit a TLV"),
        ({"fields": []}, "no receiver would take this packet"),
    ],
)
def test_bad_documents_name_the_field(change: dict[str, Any], message: str) -> None:
    assert from_document(GOOD)
    with pytest.raises(UsageError, match=message):
        from_document({**GOOD, **change})


def test_bad_packets_are_not_described() -> None:
    with pytest.raises(BadPacket):
        describe_untrusted(b"\x01")
