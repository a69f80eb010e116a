"""Writes emm.json: packets put together by hand from the document, without any of Weft's code.

Run it with any Python that has `cryptography`. Byte values are written out, HMACs come from the standard library,
signatures and ciphertexts from `cryptography`; keys are those of RFC 8032 (test 1) and RFC 4231 (test 1).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import zlib
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

NODE = "00112233445566778899aabbccddeeff"
NODE_TLV = "14 10 " + NODE
KEY_ID_TLV = "18 04 6b657931"  # "key1"
SECRET = "0b" * 20  # RFC 4231, test case 1
SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"  # RFC 8032, test 1
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
AES_KEY = "00" * 31 + "01"
IV = "0102030405060708090a0b0c"


def hexes(*texts: str) -> bytes:
    return bytes.fromhex("".join(texts).replace(" ", ""))


def header(kind: str, payload_length: int, flags: str = "00", message: str = "deadbeef") -> bytes:
    #            version  message id  flags  type   timestamp 1700000000     payload length
    return hexes("01", message, flags, kind, "000000006553f100") + payload_length.to_bytes(2, "big")


def mac(signed: bytes) -> bytes:
    return hexes("10 20") + hmac.new(hexes(SECRET), signed, hashlib.sha256).digest()


def signature(signed: bytes) -> bytes:
    return hexes("12 40") + Ed25519PrivateKey.from_private_bytes(hexes(SEED)).sign(signed)


def vectors() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def add(name: str, packet: bytes, why: str, **meaning: Any) -> None:
        made.append({"name": name, "why": why, "hex": packet.hex(), **meaning})

    # "plant.temp", 42, 3.5
    data = hexes("01 0a 706c616e742e74656d70", "02 04 0000002a", "03 04 40600000")

    payload = data + hexes(NODE_TLV, KEY_ID_TLV)
    head = header("03", len(payload) + 34)
    add(
        "event-hmac",
        head + payload + mac(head + payload),
        "an Event with an HMAC; wire order is canonical order",
        event_type=3,
        values=["plant.temp", 42, 3.5],
        auth="hmac",
        canonical=(head + payload).hex(),
    )

    payload = data + hexes(NODE_TLV, "13 20", PUBLIC, KEY_ID_TLV)
    canonical = data + hexes("13 20", PUBLIC, NODE_TLV, KEY_ID_TLV)
    head = header("03", len(payload) + 66)
    add(
        "event-signature",
        head + payload + signature(head + canonical),
        "the public key travels behind the node id, but sorts before it",
        event_type=3,
        values=["plant.temp", 42, 3.5],
        auth="signature",
        canonical=(head + canonical).hex(),
    )

    payload = data + hexes(NODE_TLV, "40 02 abcd", KEY_ID_TLV)
    canonical = data + hexes(NODE_TLV, KEY_ID_TLV, "40 02 abcd")
    head = header("03", len(payload) + 34 + 66, flags="01")
    both = mac(head + canonical) + signature(head + canonical)
    add(
        "event-both-unknown",
        head + payload + both,
        "urgent; HMAC, then signature; an unknown field 0x40 is kept",
        event_type=3,
        values=["plant.temp", 42, 3.5],
        auth="both",
        canonical=(head + canonical).hex(),
    )

    payload = hexes("04 03 010203", NODE_TLV)
    add(
        "hello",
        header("01", len(payload)) + payload,
        "node id and capabilities, unsigned",
        event_type=1,
        values=[{"hex": "010203"}],
    )

    payload = hexes(NODE_TLV, "15 08 000000006553f100")
    add("heartbeat", header("02", len(payload)) + payload, "node id and the time it was sent", event_type=2, values=[])

    text = b"x" * 300
    payload = hexes("01 01 6e") + hexes("04 ff") + text[:255] + hexes("04 2d") + text[255:]
    add(
        "split",
        header("03", len(payload)) + payload,
        "300 bytes over two TLVs",
        event_type=3,
        values=["n", {"hex": text.hex()}],
    )

    text = b"y" * 255
    payload = hexes("01 01 6e") + hexes("04 ff") + text + hexes("04 00") + hexes("04 01 7a")
    add(
        "split-exact",
        header("03", len(payload)) + payload,
        "255 bytes end with an empty TLV; a neighbour stays apart",
        event_type=3,
        values=["n", {"hex": text.hex()}, {"hex": "7a"}],
    )

    payload = hexes("01 01 6e", "05 07") + b'{"a":1}'
    add("json", header("03", len(payload)) + payload, "a JSON object", event_type=3, values=["n", {"json": {"a": 1}}])

    metadata = hexes("11 14", "01 01 01", "02 01 0c", "03 0c", IV)
    cipher_length = len(data) + 16
    head = header("03", 2 + cipher_length + len(metadata) + 18, flags="02")
    sealed = AESGCM(hexes(AES_KEY)).encrypt(hexes(IV), data, head[:15] + hexes(NODE))
    payload = hexes("04", f"{cipher_length:02x}") + sealed + metadata + hexes(NODE_TLV)
    add(
        "aes-gcm",
        head + payload,
        "the data TLVs inside AES-256-GCM, header and node id authenticated with them",
        event_type=3,
        opened=["plant.temp", 42, 3.5],
    )

    metadata = hexes("11 11", "01 01 02", "04 0c", IV)
    squeezed = zlib.compress(data)
    cipher_length = len(squeezed) + 16
    head = header("03", 2 + cipher_length + len(metadata) + 18, flags="06")
    sealed = ChaCha20Poly1305(hexes(AES_KEY)).encrypt(hexes(IV), squeezed, head[:15] + hexes(NODE))
    payload = hexes("04", f"{cipher_length:02x}") + sealed + metadata + hexes(NODE_TLV)
    add("zlib-chacha20", head + payload, "compressed, then encrypted", event_type=3, opened=["plant.temp", 42, 3.5])
    return made


if __name__ == "__main__":
    document = {
        "origin": "assembled by hand from event-mesh-protocol.md and the rulings EMM-06, EMM-23 and EMM-24 (make.py)",
        "node_id": NODE,
        "auth_key_id": "6b657931",
        "hmac_key": SECRET,
        "seed": SEED,
        "public_key": PUBLIC,
        "encryption_key": AES_KEY,
        "message_id": 0xDEADBEEF,
        "timestamp_s": 1_700_000_000,
        "vectors": vectors(),
    }
    target = Path(__file__).with_name("emm.json")
    target.write_text(json.dumps(document, indent=1) + "\n")
