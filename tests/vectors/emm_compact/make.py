"""Writes emm_compact.json: packets assembled by hand from the document and the ledger, byte group by byte group.

Nothing of Weft is used here. Header and fields are typed in as hexadecimal with what they mean; HMAC-SHA256 comes from
the standard library with the keys of RFC 4231 (cases 1 and 3), Ed25519 from ``cryptography`` with the keys of RFC 8032
(section 7.1, tests 1 and 2). Run it as ``python tests/vectors/emm_compact/make.py``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

GROUP_KEYS = {"rfc4231-1": "0b" * 20, "rfc4231-3": "aa" * 20}
SEEDS = {
    "rfc8032-1": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "rfc8032-2": "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
}
PUBLIC_KEYS = {
    "rfc8032-1": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    "rfc8032-2": "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
}
NODE = "00112233445566778899aabbccddeeff"
NODE_UUID = "00112233-4455-6677-8899-aabbccddeeff"
SIGNATURE_BYTES = {"notification": 32, "command": 64, "heartbeat": 16, "join": 64}

Group = tuple[str, str]  # bytes in hexadecimal, and what they mean


def text(value: str) -> str:
    return value.encode().hex()


def digest(*triples: str) -> str:
    """The Bloom filter of EMC-08, once more: four bits per triple, named by the first bytes of its SHA-256."""
    bits = ["0"] * 128
    for triple in triples:
        for byte in hashlib.sha256(bytes.fromhex(triple)).digest()[:4]:
            bits[byte % 128] = "1"
    return f"{int(''.join(bits), 2):032x}"


def sign(event_type: str, key: str, signed: bytes) -> str:
    if key in GROUP_KEYS:
        tag = hmac.new(bytes.fromhex(GROUP_KEYS[key]), signed, hashlib.sha256).digest()
        return tag[: SIGNATURE_BYTES[event_type]].hex()
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SEEDS[key])).sign(signed).hex()


def vector(name: str, why: str, key: str, header: list[Group], body: list[Group], document: Any) -> dict[str, Any]:
    """``header`` without its last byte, the payload length, and ``body`` behind the signature."""
    event_type = document["type"]
    body_bytes = bytes.fromhex("".join(group for group, _ in body))
    size = SIGNATURE_BYTES[event_type]
    length = f"{2 + size + len(body_bytes):02x}"
    signed = bytes.fromhex("".join(group for group, _ in header) + length) + body_bytes
    signature = sign(event_type, key, signed)
    groups = [
        *header,
        (length, "payload length"),
        (f"fe{size:02x}", f"signature field of {size} bytes"),
        (signature, f"made with {key}"),
        *body,
    ]
    return {
        "name": name,
        "why": why,
        "key": key,
        "hex": "".join(group for group, _ in groups),
        "bytes": [f"{group}  {meaning}" for group, meaning in groups],
        "document": {"protocol": "emm-c", **document, "signature": signature},
    }


def head(event_type: str, event_id: int, epoch: int, offset: int, urgent: bool = False) -> dict[str, Any]:
    return {"event_id": event_id, "epoch": epoch, "offset": offset, "urgent": urgent, "type": event_type}


def entry(field: str, value: Any) -> dict[str, Any]:
    return {"field": field, "value": value}


def notifications() -> list[dict[str, Any]]:
    return [
        vector(
            "notification-text",
            "the document's example (2.5) without its errata: one first byte, true length, no message length byte",
            "rfc4231-1",
            [
                ("20", "001 version, 00 not urgent, 000 notification"),
                ("0001", "event id"),
                ("0001", "epoch"),
                ("000f", "offset"),
            ],
            [("13", "info"), ("21", "plain text"), (text("Hello, EMP! This is a test. :)"), "message")],
            {
                **head("notification", 1, 1, 15),
                "body": {
                    "priority": "info",
                    "format": "plain-text",
                    "message": {"text": "Hello, EMP! This is a test. :)"},
                },
            },
        ),
        vector(
            "notification-urgent-json",
            "urgent is 0b01 (EMC-02); highest priority; numbers at their limits",
            "rfc4231-3",
            [
                ("28", "001 version, 01 urgent, 000 notification"),
                ("ffff", "event id"),
                ("ffff", "epoch"),
                ("ffff", "offset"),
            ],
            [("17", "critical"), ("22", "JSON"), (text('{"°C": 99.5}'), "message")],
            {
                **head("notification", 65535, 65535, 65535, urgent=True),
                "body": {"priority": "critical", "format": "json", "message": {"text": '{"°C": 99.5}'}},
            },
        ),
        vector(
            "notification-empty",
            "the smallest notification: no message at all",
            "rfc4231-1",
            [("20", "notification"), ("0000", "event id"), ("0000", "epoch"), ("0000", "offset")],
            [("11", "trace"), ("24", "binary")],
            {
                **head("notification", 0, 0, 0),
                "body": {"priority": "trace", "format": "binary", "message": {"text": ""}},
            },
        ),
        vector(
            "notification-thrift",
            "the last format is opaque: bytes that are not UTF-8",
            "rfc4231-1",
            [("20", "notification"), ("1234", "event id"), ("5678", "epoch"), ("9abc", "offset")],
            [("16", "error"), ("2a", "Thrift"), ("80ff00", "message")],
            {
                **head("notification", 0x1234, 0x5678, 0x9ABC),
                "body": {"priority": "error", "format": "thrift", "message": {"hex": "80ff00"}},
            },
        ),
    ]


def commands() -> list[dict[str, Any]]:
    fingerprint = hashlib.sha256(bytes.fromhex(PUBLIC_KEYS["rfc8032-2"])).hexdigest()[:8]
    return [
        vector(
            "command-node-id",
            "the two required fields, and the sender by node id",
            "rfc8032-1",
            [
                ("21", "001 version, 00 not urgent, 001 command"),
                ("0007", "event id"),
                ("0001", "epoch"),
                ("0000", "offset"),
            ],
            [
                ("b709", "command name, 9 bytes"),
                (text("log.level"), "log.level"),
                ("b811", "parameters, 17 bytes"),
                (text('{"level":"debug"}'), "JSON"),
                ("a910" + NODE, "node id"),
            ],
            {
                **head("command", 7, 1, 0),
                "body": {
                    "fields": [
                        entry("command-name", "log.level"),
                        entry("command-parameters", {"text": '{"level":"debug"}'}),
                        entry("node-id", NODE_UUID),
                    ]
                },
            },
        ),
        vector(
            "command-fingerprint",
            "urgent, empty parameters, the sender by fingerprint, an unknown field twice",
            "rfc8032-2",
            [
                ("29", "001 version, 01 urgent, 001 command"),
                ("0008", "event id"),
                ("0001", "epoch"),
                ("0001", "offset"),
            ],
            [
                ("5502abcd", "unknown field 0x55"),
                ("a804" + fingerprint, "node fingerprint"),
                ("b800", "no parameters"),
                ("5500", "unknown field 0x55, empty"),
                ("b704" + text("stop"), "command name"),
            ],
            {
                **head("command", 8, 1, 1, urgent=True),
                "body": {
                    "fields": [
                        entry("0x55", "abcd"),
                        entry("node-fingerprint", fingerprint),
                        entry("command-parameters", {"text": ""}),
                        entry("0x55", ""),
                        entry("command-name", "stop"),
                    ]
                },
            },
        ),
        vector(
            "command-every-field",
            "the fields that no body must have, each once",
            "rfc8032-1",
            [("21", "command"), ("0009", "event id"), ("0002", "epoch"), ("0000", "offset")],
            [
                ("b70170", "command name: p"),
                ("b801ff", "parameters that are not UTF-8"),
                ("a10103", "payload encoding: UTF-8"),
                ("a20401020304", "weak signature, informational"),
                ("a3080102030405060708", "moderate signature, informational"),
                ("a410" + "0f" * 16, "strong signature, informational"),
                ("a50102", "compression: zstd"),
                ("a6011f", "compression level 31"),
                ("a70105", "event priority: warning"),
                ("aa02cafe", "short replay nonce"),
                ("ab08cafebabecafebabe", "long replay nonce"),
                ("ac013c", "expiry hint 60"),
                ("ae10" + NODE, "trace id"),
                ("af10" + NODE, "vendor id"),
                ("a910" + NODE, "node id"),
            ],
            {
                **head("command", 9, 2, 0),
                "body": {
                    "fields": [
                        entry("command-name", "p"),
                        entry("command-parameters", {"hex": "ff"}),
                        entry("payload-encoding", "utf-8"),
                        entry("signature-weak", "01020304"),
                        entry("signature-moderate", "0102030405060708"),
                        entry("signature-strong", "0f" * 16),
                        entry("compression", "zstd"),
                        entry("compression-level", 31),
                        entry("event-priority", "warning"),
                        entry("replay-nonce-short", "cafe"),
                        entry("replay-nonce-long", "cafebabecafebabe"),
                        entry("expiry-hint", 60),
                        entry("trace-id", NODE_UUID),
                        entry("vendor-id", NODE_UUID),
                        entry("node-id", NODE_UUID),
                    ]
                },
            },
        ),
    ]


def heartbeats_and_joins() -> list[dict[str, Any]]:
    filter_bits = digest("00010001000f", "000700010000")
    return [
        vector(
            "heartbeat",
            "the five required fields in the document's order",
            "rfc4231-1",
            [
                ("22", "001 version, 00 not urgent, 010 heartbeat"),
                ("0100", "event id"),
                ("0003", "epoch"),
                ("0000", "offset"),
            ],
            [
                ("a910" + NODE, "node id"),
                ("b30400000e10", "uptime 3600 s"),
                ("b410" + filter_bits, "digest of the events (1, 1, 15) and (7, 1, 0)"),
                ("b506c29f00000000", "11 CE, 0000101 sent 5, 0011111 received 31, four zero bytes"),
                ("b60617c0a1b2c3d4", "00010 hops 2, 11111 TTL 31, 000000 reserved, origin a1b2c3d4"),
            ],
            {
                **head("heartbeat", 256, 3, 0),
                "body": {
                    "fields": [
                        entry("node-id", NODE_UUID),
                        entry("uptime", 3600),
                        entry("event-digest", filter_bits),
                        entry("rate-signal", {"ecn": "ce", "sent": 5, "received": 31}),
                        entry("propagation-map", {"hops": 2, "ttl": 31, "origin": "a1b2c3d4"}),
                    ]
                },
            },
        ),
        vector(
            "heartbeat-any-order",
            "the same fields in another order, with a topology hint of three sub-TLVs and an unknown one",
            "rfc4231-3",
            [("22", "heartbeat"), ("0101", "event id"), ("0003", "epoch"), ("0001", "offset")],
            [
                ("b6060000ffffffff", "no hops, no TTL"),
                ("b506bfff00000000", "10 ECT(0), 1111111 sent 127 (a reader takes it), 1111111 received 127"),
                ("ad1e", "topology hint, 30 bytes"),
                ("0110" + NODE, "one known peer"),
                ("020103", "hop distance 3"),
                ("0302" + text("eu"), "region eu"),
                ("990301" + "0203", "unknown sub-TLV 0x99"),
                ("b410" + "00" * 16, "empty digest"),
                ("b304ffffffff", "uptime at its limit"),
                ("a910" + NODE, "node id"),
            ],
            {
                **head("heartbeat", 257, 3, 1),
                "body": {
                    "fields": [
                        entry("propagation-map", {"hops": 0, "ttl": 0, "origin": "ffffffff"}),
                        entry("rate-signal", {"ecn": "ect-0", "sent": 127, "received": 127}),
                        entry(
                            "topology-hint",
                            [
                                entry("known-peers", [NODE_UUID]),
                                entry("hop-distance", 3),
                                entry("region", "eu"),
                                entry("0x99", "010203"),
                            ],
                        ),
                        entry("event-digest", "00" * 16),
                        entry("uptime", 4294967295),
                        entry("node-id", NODE_UUID),
                    ]
                },
            },
        ),
        vector(
            "join",
            "the five required fields; status is 0xB9 (EMC-09)",
            "rfc8032-1",
            [
                ("23", "001 version, 00 not urgent, 011 join"),
                ("0200", "event id"),
                ("0004", "epoch"),
                ("0000", "offset"),
            ],
            [
                ("a910" + NODE, "node id"),
                ("b0010b", "supported types: 0001 notification, 0010 command, 1000 join"),
                ("b1013f", "at most 63 relationships"),
                ("b2011e", "heartbeat every 30 s"),
                ("b905" + text("ready"), "status"),
            ],
            {
                **head("join", 512, 4, 0),
                "body": {
                    "fields": [
                        entry("node-id", NODE_UUID),
                        entry("supported-types", ["notification", "command", "join"]),
                        entry("relationships-max", 63),
                        entry("heartbeat-interval", 30),
                        entry("status", {"text": "ready"}),
                    ]
                },
            },
        ),
    ]


def main() -> None:
    vectors = {
        "origin": "assembled by hand from event-mesh-protocol-compact.md and the rulings EMC-01 to EMC-10 (make.py)",
        "group_keys": GROUP_KEYS,
        "seeds": SEEDS,
        "public_keys": PUBLIC_KEYS,
        "node_id": NODE,
        "vectors": notifications() + commands() + heartbeats_and_joins(),
    }
    target = Path(__file__).parent / "emm_compact.json"
    target.write_text(json.dumps(vectors, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
