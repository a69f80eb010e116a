from __future__ import annotations

import base64
from typing import Any

import coincurve
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.wire.libp2p.curve import SECP256K1_ORDER
from tests.wire.libp2p.support import KEY_TYPES, cases, identity, peer_id_file
from weft.errors import UsageError
from weft.wire.libp2p import keys, protobuf
from weft.wire.libp2p.private_keys import PrivateKey


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_read_from_a_javascript_peer_id_file(key_type: str) -> None:
    file = peer_id_file(key_type)
    key = PrivateKey.from_base64(file["privKey"])
    assert str(key.peer) == file["id"]
    assert key.public.serialised == base64.b64decode(file["pubKey"])


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("keys"))
def test_signs_exactly_as_the_reference(case: dict[str, Any]) -> None:
    assert identity(case["type"]).sign(bytes.fromhex(case["message"])).hex() == case["signature"]


def test_secp256k1_signatures_have_a_low_s() -> None:
    key = identity("secp256k1")
    for number in range(32):  # half of them would be high without the rule
        _, s = decode_dss_signature(key.sign(bytes((number,))))
        assert s <= SECP256K1_ORDER // 2


@pytest.mark.parametrize(
    "backend",
    [ed25519.Ed25519PrivateKey.from_private_bytes(b"s" * 32), coincurve.PrivateKey.from_int(7)],
)
def test_made_from_a_key_of_a_library(backend: ed25519.Ed25519PrivateKey | coincurve.PrivateKey) -> None:
    key = PrivateKey(backend)
    assert keys.decode_untrusted(key.public.serialised).verifies(b"message", key.sign(b"message"))


def test_repr_does_not_tell_the_secret() -> None:
    assert repr(identity("Ed25519")) == "PrivateKey(ED25519, 12D3KooWQchURk8W5XAu4SbNEkb4USWADKy3eADeFkB1jYjHyEiM)"


def serialised(kind: int, data: bytes) -> bytes:
    return protobuf.encode([(1, kind), (2, data)])


SEED = b"s" * 32
SEED_PUBLIC = ed25519.Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
P256_DER = ec.derive_private_key(7, ec.SECP256R1()).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def test_older_ed25519_files_repeat_the_public_key() -> None:
    assert (
        PrivateKey.from_protobuf(serialised(1, SEED + SEED_PUBLIC)).peer
        == PrivateKey.from_protobuf(serialised(1, SEED + SEED_PUBLIC * 2)).peer
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "missing"),
        (b"\x12\x05", "overruns"),
        (serialised(4, SEED), "unknown type"),
        (serialised(0, b""), "malformed"),
        (serialised(0, P256_DER), "not an RSA key"),
        (serialised(1, SEED), "wrong length"),
        (serialised(1, SEED + SEED), "do not belong together"),
        (serialised(2, SEED + b"s"), "wrong length"),
        (serialised(2, bytes(32)), "malformed"),
        (serialised(2, b"\xff" * 32), "malformed"),
    ],
)
def test_bad_private_keys_are_the_callers_mistake(data: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        PrivateKey.from_protobuf(data)


def test_bad_base64_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="base64"):
        PrivateKey.from_base64("CAES*")


def test_weak_rsa_key() -> None:
    with pytest.raises(UsageError, match="size"):
        PrivateKey(rsa.generate_private_key(65537, 1024))
