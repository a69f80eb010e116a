"""A certificate is good, or refused with the one of five reasons that a person can do something about."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.security import pki
from tests.security.pki import BILLING, DAY_S, MESH, NODE_A, NOW_S
from weft.security import (
    Authority,
    CertificateRefused,
    Fault,
    Kind,
    Names,
    Usage,
    check_node,
    client,
    node,
    verify_untrusted,
)
from weft.security.authority import PURPOSES, Signer, issue_leaf
from weft.security.certificates import general_names, load_key, new_key, subject_names


def refused(chain: bytes, ca: Authority, usage: Usage = Usage.CLIENT, now_s: float = NOW_S) -> CertificateRefused:
    with pytest.raises(CertificateRefused) as caught:
        verify_untrusted(chain, ca.root_pem, usage, now_s)
    return caught.value


@pytest.mark.req("SEC-01")
def test_good_ones(ca: Authority) -> None:
    for usage in Usage:
        assert verify_untrusted(pki.issued(ca).chain_pem, ca.root_pem, usage, NOW_S) == node(MESH, "node-a")
    chain = pki.issued(ca, BILLING).chain_pem
    assert verify_untrusted(chain, ca.root_pem, Usage.CLIENT, NOW_S) == client(MESH, "billing")


@pytest.mark.req("SEC-01")
def test_expired_and_not_yet_valid(ca: Authority) -> None:
    chain = pki.issued(ca).chain_pem
    verify_untrusted(chain, ca.root_pem, Usage.SERVER, NOW_S - 60)
    verify_untrusted(chain, ca.root_pem, Usage.SERVER, NOW_S + DAY_S - 1)
    late = refused(chain, ca, now_s=NOW_S + DAY_S)
    assert (late.fault, late.facts["ended"]) == (Fault.EXPIRED, "2027-01-16T08:00:00+00:00")
    assert "enrol again" in str(late)
    early = refused(chain, ca, now_s=NOW_S - 61)
    assert early.fault is Fault.NOT_YET_VALID
    assert "compare the clocks" in str(early)


@pytest.mark.req("SEC-01")
def test_of_another_ca_that_calls_itself_the_same(ca: Authority, tmp_path: Path) -> None:
    other = pki.authority(tmp_path / "other")
    assert other.root.subject == ca.root.subject
    error = refused(pki.issued(other).chain_pem, ca)
    assert error.fault is Fault.WRONG_CA
    assert "does not come from the CA that is trusted here" in str(error)


def test_without_its_intermediate_it_leads_nowhere(ca: Authority) -> None:
    chain = pki.leaf(pki.issued(ca).chain_pem).public_bytes(Encoding.PEM)
    assert refused(chain, ca).fault is Fault.WRONG_CA


@pytest.mark.req("SEC-01")
def test_an_ordinary_certificate_signs_no_others(ca: Authority) -> None:
    """Who has a node's key must not be able to make up further nodes."""
    thief = pki.issued(ca)
    forger = Signer(thief.leaf, load_key(thief.key_pem))
    names = subject_names(Names(node(MESH, "made-up")))
    forged = issue_leaf(forger, new_key().public_key(), "made-up", names, PURPOSES[Kind.NODE], 3600, NOW_S)
    assert refused(forged + thief.chain_pem, ca).fault is Fault.WRONG_CA


@pytest.mark.req("SEC-01")
def test_a_client_does_not_serve(ca: Authority) -> None:
    error = refused(pki.issued(ca, BILLING).chain_pem, ca, Usage.SERVER)
    assert (error.fault, str(error)) == (
        Fault.WRONG_USAGE,
        "certificate 'CN=billing' is not made for a TLS server",
    )


@pytest.mark.parametrize(
    "names",
    [
        general_names(["node-a.example.org"]),
        [
            x509.UniformResourceIdentifier("spiffe://plant/node/a"),
            x509.UniformResourceIdentifier("spiffe://plant/node/b"),
        ],
        [x509.UniformResourceIdentifier("https://plant/node/a")],
    ],
    ids=["none", "two", "not SPIFFE"],
)
@pytest.mark.req("SEC-01")
def test_wrong_names(ca: Authority, names: list[x509.GeneralName]) -> None:
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    chain = issue_leaf(
        ca.signer, new_key().public_key(), "x", x509.SubjectAlternativeName(names), purposes, 3600, NOW_S
    )
    assert refused(chain, ca).fault is Fault.WRONG_NAME


def test_what_is_no_certificate(ca: Authority) -> None:
    assert refused(b"hello", ca).fault is Fault.MALFORMED


@pytest.mark.req("SEC-01")
def test_nobody_speaks_for_another_node() -> None:
    check_node(NODE_A.identity, MESH, "node-a")
    for found, mesh, node_id, words in (
        (NODE_A.identity, MESH, "node-b", "certificate is of node node-a, but its owner says it is node node-b"),
        (client(MESH, "node-a"), MESH, "node-a", "certificate is of client node-a, not of a node"),
        (NODE_A.identity, "lab", "node-a", "certificate is of mesh plant, this is mesh lab"),
    ):
        with pytest.raises(CertificateRefused) as caught:
            check_node(found, mesh, node_id)
        assert (caught.value.fault, str(caught.value)) == (Fault.WRONG_NAME, words)
