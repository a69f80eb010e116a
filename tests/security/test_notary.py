"""Signatures of nodes: whose they are, what for, and for how long they count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.pki import BILLING, DAY_S, MESH, NOW_S, authority, issued
from weft.security import Authority, Credentials, LocalSource
from weft.security.notary import CertificateNotary, NoNotary
from weft.wire.mesh.checks import Signature


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path)


def notary(mine: Credentials, now_s: float = NOW_S, mesh: str = MESH) -> CertificateNotary:
    return CertificateNotary(mesh, lambda: mine, lambda: now_s)


@pytest.mark.req("SEC-06")
def test_what_a_node_signed_is_known_as_its_own(ca: Authority) -> None:
    mine = issued(ca)
    signed = notary(mine).sign(b"said")
    assert notary(mine).is_signed_untrusted("node-a", b"said", signed)
    assert not notary(mine).is_signed_untrusted("node-a", b"said!", signed)
    assert not notary(mine).is_signed_untrusted("node-b", b"said", signed)
    assert not notary(mine, mesh="other").is_signed_untrusted("node-a", b"said", signed)


@pytest.mark.req("SEC-06")
def test_neither_a_client_nor_another_ca_signs_for_a_node(ca: Authority, tmp_path: Path) -> None:
    here = notary(issued(ca))
    for stranger in (issued(ca, BILLING), issued(authority(tmp_path / "other"))):
        assert not here.is_signed_untrusted("node-a", b"said", notary(stranger).sign(b"said"))


@pytest.mark.req("SEC-06")
def test_it_counts_as_long_as_its_certificate(ca: Authority) -> None:
    mine = issued(ca)
    signed = notary(mine).sign(b"said")
    time_s = [NOW_S]
    here = CertificateNotary(MESH, lambda: mine, lambda: time_s[0])
    assert here.is_signed_untrusted("node-a", b"said", signed)
    time_s[0] += 2 * DAY_S  # it remembers the certificate, and looks at the clock
    assert not here.is_signed_untrusted("node-a", b"said", signed)


@pytest.mark.req("SEC-06")
def test_a_renewed_certificate_signs_too(ca: Authority) -> None:
    current = [issued(ca)]
    node = CertificateNotary(MESH, lambda: current[0], lambda: NOW_S + 60)
    before = node.sign(b"said")
    current[0] = LocalSource(ca).renew(current[0], NOW_S + 60)
    after = node.sign(b"said")
    assert after.chain_pem == current[0].chain_pem != before.chain_pem
    assert all(node.is_signed_untrusted("node-a", b"said", each) for each in (before, after))


@pytest.mark.parametrize(
    "garbage", [Signature(), Signature(b"", b"x"), Signature(b"x" * 70, b""), Signature(b"\xff", b"\xff" * 100)]
)
def test_garbage_is_no_signature(ca: Authority, garbage: Signature) -> None:
    mine = issued(ca)
    assert not notary(mine).is_signed_untrusted("node-a", b"said", garbage)
    assert not notary(mine).is_signed_untrusted("node-a", b"said", Signature(garbage.signature, mine.chain_pem))


def test_a_mesh_without_keys_signs_nothing_and_believes_everything() -> None:
    assert NoNotary().sign(b"said") == Signature()
    assert NoNotary().is_signed_untrusted("anybody", b"said", Signature())
