"""Enrolment tokens: what step-ca wants in them, and each way in which one is not good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.security import pki
from tests.security.pki import NODE_A, NOW_S
from weft.errors import UsageError
from weft.security import Authority, Names, Secret, TokenRefused, node, provisioner_of
from weft.security.jwt import claims_untrusted
from weft.security.tokens import read_token_untrusted
from weft.security.urls import CaUrl


@pytest.mark.req("SEC-01")
def test_the_claims_are_step_cas(ca: Authority) -> None:
    assert msgspec.json.decode(claims_untrusted(pki.token(ca).reveal())) == {
        "iss": "weft",
        "aud": "https://127.0.0.1:7443/1.0/sign",
        "sub": "node-a",
        "sans": ["spiffe://plant/node/node-a", "node-a.example.org", "127.0.0.1", "::1"],
        "nbf": 1_800_000_000,
        "iat": 1_800_000_000,
        "exp": 1_800_000_300,
        "jti": "t1",
        "sha": ca.fingerprint,
    }


def test_a_new_node_needs_nothing_but_the_token(ca: Authority) -> None:
    claims = read_token_untrusted(pki.token(ca))
    assert (claims.ca, claims.sha, claims.names) == (CaUrl("127.0.0.1", 7443), ca.fingerprint, NODE_A)


def test_of_several_audiences_the_one_that_signs_counts(ca: Authority) -> None:
    token = signed(ca, aud=["https://ca.example:9000/1.0/renew", "https://ca.example:9000/sign"])
    assert read_token_untrusted(token).ca == CaUrl("ca.example", 9000)


def signed(ca: Authority, **changes: Any) -> Secret[str]:
    claims = msgspec.json.decode(claims_untrusted(pki.token(ca).reveal())) | changes
    kept = {name: value for name, value in claims.items() if value is not None}
    return ca.provisioner_key().sign(msgspec.json.encode(kept))


@pytest.mark.parametrize("offset_s", [-60, 0, 299, 359])
def test_within_its_time_a_token_is_good(ca: Authority, offset_s: int) -> None:
    assert provisioner_of(ca).check_untrusted(pki.token(ca).reveal(), NOW_S + offset_s).names == NODE_A


@pytest.mark.parametrize("changes", [{"sha": None}, {"iat": None}, {"aud": "https://127.0.0.1/sign"}, {"more": [1]}])
def test_what_may_differ(ca: Authority, changes: dict[str, Any]) -> None:
    assert provisioner_of(ca).check_untrusted(signed(ca, **changes).reveal(), NOW_S).sub == "node-a"


@pytest.mark.parametrize(
    ("changes", "offset_s", "why"),
    [
        ({}, 360, "has expired: ask for a new one"),
        ({}, -61, "not valid yet: compare the clocks"),
        ({"exp": 1_900_000_000}, 0, "lasts too long"),
        ({"iss": "somebody"}, 0, "issuer is not weft"),
        ({"aud": "https://ca.example/1.0/sign"}, 0, "for the CA at https://ca.example:443, this is https://127.0.0.1"),
        ({"aud": "https://127.0.0.1:7443/1.0/revoke"}, 0, "names no CA"),
        ({"aud": []}, 0, "names no CA"),
        ({"sha": "00" * 32}, 0, "another root"),
        ({"jti": ""}, 0, "no usable id"),
        ({"jti": "a b"}, 0, "no usable id"),
        ({"jti": None}, 0, "claims are not those"),
        ({"sub": "node-b"}, 0, "subject is 'node-b', its SPIFFE id names node-a"),
        ({"sans": ["host"]}, 0, "exactly one SPIFFE id"),
        ({"sans": ["spiffe://plant/node/node-a", "spiffe://plant/node/node-b"]}, 0, "exactly one SPIFFE id"),
        ({"sans": ["spiffe://plant/node/node-a", "*.example"]}, 0, "neither a host name"),
        ({"sans": ["spiffe://lab/node/node-a"]}, 0, "for mesh lab, this CA is of plant"),
        ({"sans": ["https://plant/node/node-a"]}, 0, "is not spiffe://"),
        ({"nbf": "soon"}, 0, "claims are not those"),
    ],
)
@pytest.mark.req("SEC-01")
def test_refusals(ca: Authority, changes: dict[str, Any], offset_s: int, why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        provisioner_of(ca).check_untrusted(signed(ca, **changes).reveal(), NOW_S + offset_s)


def test_a_token_of_another_ca_is_refused(ca: Authority, tmp_path: Path) -> None:
    other = pki.authority(tmp_path / "other")
    with pytest.raises(TokenRefused, match="not signed by this CA"):
        provisioner_of(ca).check_untrusted(pki.token(other).reveal(), NOW_S)


def test_no_token_for_another_mesh(ca: Authority) -> None:
    with pytest.raises(UsageError, match="this CA is of mesh plant, not lab"):
        pki.token(ca, Names(node("lab", "node-a")))


def test_a_fingerprint_that_is_none(ca: Authority) -> None:
    with pytest.raises(TokenRefused, match="64 hexadecimal digits"):
        read_token_untrusted(signed(ca, sha="../../etc"))
