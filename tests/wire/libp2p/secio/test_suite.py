from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.wire.libp2p.support import cases, fixed_entropy
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.secio import suite
from weft.wire.libp2p.secio.suite import CipherName, Exchange, HashName, Keys, Offer, Suite

ALL = ("P-256,P-384,P-521", "AES-256,AES-128", "SHA256,SHA512")


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("stretched"))
def test_keys_are_stretched_as_the_reference_does(case: dict[str, Any]) -> None:
    agreed = Suite(Exchange.P256, CipherName(case["cipher"]), HashName(case["hash"]))
    expected = tuple(
        Keys(*(bytes.fromhex(half[part]) for part in ("iv", "cipher_key", "mac_key")))
        for half in (case["first"], case["second"])
    )
    assert suite.stretch(agreed, bytes.fromhex(case["secret"])) == expected


@pytest.mark.parametrize(
    ("theirs", "we_lead", "chosen"),
    [
        (ALL, True, ("P-256", "AES-256", "SHA256")),
        (("P-521,P-256", "AES-128,AES-256", "SHA512,SHA256"), True, ("P-256", "AES-256", "SHA256")),
        (("P-521,P-256", "AES-128,AES-256", "SHA512,SHA256"), False, ("P-521", "AES-128", "SHA512")),
        (("secp256r1,P-384", "Blowfish,AES-128", "MD5,SHA512"), False, ("P-384", "AES-128", "SHA512")),
    ],
)
def test_the_leading_side_decides(theirs: tuple[str, str, str], we_lead: bool, chosen: tuple[str, str, str]) -> None:
    agreed = suite.agree_untrusted(Offer(), *theirs, we_lead=we_lead)
    assert (agreed.exchange, agreed.cipher, agreed.hash) == chosen


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("instead", ["", "none", "p-256", " P-256", ","])
def test_nothing_in_common(missing: int, instead: str) -> None:
    theirs = list(ALL)
    theirs[missing] = instead
    with pytest.raises(BadFrame, match="in common"):
        suite.agree_untrusted(Offer(), *theirs, we_lead=True)


def test_exactly_one_side_leads() -> None:
    for number in range(20):
        one, other = bytes((number,)) * 16, bytes((number + 1,)) * 16
        assert suite.leads(b"k1", one, b"k2", other) != suite.leads(b"k2", other, b"k1", one)


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("exchange", list(Exchange))
def test_leading_zeros_of_the_secret_are_kept(exchange: Exchange) -> None:
    # One secret in 256 begins with a zero byte; a library that drops it fails one handshake in 256.
    curve = suite.CURVES[exchange]
    size = (curve.key_size + 7) // 8
    ours = suite.ephemeral_key(exchange, fixed_entropy("zeros"))
    for scalar in range(1, 3000):
        theirs = ec.derive_private_key(scalar, curve)
        secret = suite.shared_secret_untrusted(exchange, ours, suite.public_point(theirs))
        assert len(secret) == size
        if secret[0] == 0 and (exchange is not Exchange.P521 or secret[1] == 0):
            assert secret == theirs.exchange(ec.ECDH(), ours.public_key())
            break
    else:
        raise AssertionError("no secret with a leading zero among thousands")


@pytest.mark.parametrize("exchange", list(Exchange))
def test_ephemeral_keys_follow_from_entropy_alone(exchange: Exchange) -> None:
    one, same, other = (suite.ephemeral_key(exchange, fixed_entropy(seed)) for seed in ("a", "a", "b"))
    assert suite.public_point(one) == suite.public_point(same) != suite.public_point(other)
    for extreme in (b"\0", b"\xff"):
        suite.ephemeral_key(exchange, lambda size, extreme=extreme: extreme * size)  # type: ignore[misc]


@pytest.mark.parametrize(
    "point",
    [b"", b"\0", b"\x04", b"\x04" + bytes(64), b"\x04" + b"\xff" * 64, b"\x05" + bytes(64), b"\x02" + bytes(31)],
)
def test_points_off_the_curve_are_refused(point: bytes) -> None:
    ours = suite.ephemeral_key(Exchange.P256, fixed_entropy("points"))
    with pytest.raises(BadFrame, match="not a point"):
        suite.shared_secret_untrusted(Exchange.P256, ours, point)


def test_a_point_of_another_curve_is_refused() -> None:
    ours = suite.ephemeral_key(Exchange.P256, fixed_entropy("ours"))
    theirs = suite.ephemeral_key(Exchange.P384, fixed_entropy("theirs"))
    with pytest.raises(BadFrame, match="not a point"):
        suite.shared_secret_untrusted(Exchange.P256, ours, suite.public_point(theirs))
