from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.curve import SECP256K1_ORDER
from tests.wire.libp2p.support import KEY_TYPES, cases, identity
from weft.wire.libp2p import keys, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.keys import KeyType


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("keys"))
def test_reference_keys_and_signatures(case: dict[str, Any]) -> None:
    serialised, message, signature = (bytes.fromhex(case[name]) for name in ("public_key", "message", "signature"))
    key = keys.decode_untrusted(serialised)
    assert key.type.name == case["type"].upper()
    assert key.serialised == serialised
    assert str(key.peer) == case["peer_id"]
    assert key.verifies(message, signature)
    assert not key.verifies(message + b"!", signature)
    assert not key.verifies(message, b"")
    assert not key.verifies(message, signature[:-1])
    assert not key.verifies(message, signature + b"\0")
    for at in range(len(signature)):
        assert not key.verifies(message, signature[:at] + bytes((signature[at] ^ 1,)) + signature[at + 1 :])


@pytest.mark.req("COA-01")
def test_high_s_signature_is_refused() -> None:
    case = next(case for case in cases("keys") if case["type"] == "secp256k1")
    key, message = keys.decode_untrusted(bytes.fromhex(case["public_key"])), bytes.fromhex(case["message"])
    r, s = decode_dss_signature(bytes.fromhex(case["signature"]))
    assert key.verifies(message, encode_dss_signature(r, s))
    assert not key.verifies(message, encode_dss_signature(r, SECP256K1_ORDER - s))


def test_another_types_signature_is_no_signature() -> None:
    message = b"message"
    for signer in KEY_TYPES:
        for checker in KEY_TYPES:
            assert identity(checker).public.verifies(message, identity(signer).sign(message)) == (signer == checker)


def test_oversize_signature_is_not_looked_at() -> None:
    assert not identity("secp256k1").public.verifies(b"", b"\x30" + b"\x82" * 2000)


# --- keys that are refused -------------------------------------------------------------------------------------------


def serialised(kind: int, data: bytes) -> bytes:
    return protobuf.encode([(1, kind), (2, data)])


def der(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def rsa_key(bits: int, exponent: int = 65537) -> bytes:
    # Never signs anything: any odd number of the right size will do as the modulus.
    return der(rsa.RSAPublicNumbers(exponent, (1 << (bits - 1)) | 1).public_key())


P256_KEY = ec.derive_private_key(7, ec.SECP256R1()).public_key()
SECP_KEY = ec.derive_private_key(7, ec.SECP256K1()).public_key()
DSA_KEY = dsa.DSAPublicNumbers(
    y=4, parameter_numbers=dsa.DSAParameterNumbers(p=(1 << 2047) | 1, q=(1 << 255) | 1, g=2)
).public_key()


@pytest.mark.parametrize("bits", [2048, 8192])
def test_rsa_sizes_at_the_bounds(bits: int) -> None:
    assert keys.decode_untrusted(serialised(0, rsa_key(bits))).type is KeyType.RSA


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "missing"),
        (b"\x08\x00", "missing"),
        (b"\x12\x00", "unknown type"),
        (serialised(3, b"x" * 32), "unknown type"),
        (bytes(3000), "too long"),
        (serialised(0, b""), "malformed"),
        (serialised(0, b"\x30\x82\xff\xff"), "malformed"),
        (serialised(0, rsa_key(2040)), "out of bounds"),
        (serialised(0, rsa_key(8200)), "out of bounds"),
        (serialised(0, rsa_key(2048, exponent=(1 << 32) + 1)), "exponent"),
        (serialised(0, rsa_key(2048, exponent=(1 << 2046) + 1)), "exponent"),
        (serialised(0, der(P256_KEY)), "not an RSA key"),
        (serialised(0, der(DSA_KEY)), "not an RSA key"),
        (serialised(1, b"x" * 31), "malformed"),
        (serialised(1, b"x" * 33), "malformed"),
        (serialised(2, b""), "malformed"),
        (serialised(2, b"\x02" + b"\xff" * 32), "malformed"),
        (serialised(2, b"\x00"), "malformed"),
        (serialised(2, P256_KEY.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)), "malformed"),
        (serialised(2, SECP_KEY.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)), "canonical"),
        (serialised(1, b"x" * 32) + b"\x18\x00", "canonical"),
        (protobuf.encode([(2, b"x" * 32), (1, 1)]), "canonical"),
        (b"\x08\x81\x00\x12\x20" + b"x" * 32, "canonical"),
    ],
)
@pytest.mark.req("COA-01")
def test_refused_keys(data: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        keys.decode_untrusted(data)


@given(st.integers(0, 3), st.binary(max_size=80))
def test_any_bytes_are_a_key_or_refused(kind: int, data: bytes) -> None:
    try:
        key = keys.decode_untrusted(serialised(kind, data))
    except BadFrame:
        return
    assert key.serialised == serialised(kind, data)
    assert not key.verifies(b"message", data)


@given(st.sampled_from(KEY_TYPES), st.binary(max_size=200))
def test_any_signature_is_just_wrong(key_type: str, signature: bytes) -> None:
    assert not identity(key_type).public.verifies(b"message", signature)
