"""Who gets a certificate: tokens used once, requests that match them, renewals of names that are not revoked."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from tests.security import pki
from tests.security.pki import BILLING, DAY_S, MESH, NODE_A, NOW_S
from weft.errors import StorageError, UsageError
from weft.limits import CA_BODY_BYTES_MAX
from weft.security import (
    Authority,
    CertificateRefused,
    Names,
    RequestRefused,
    TokenRefused,
    Usage,
    node,
    verify_untrusted,
)
from weft.security import used_tokens as used_tokens_module
from weft.security.certificates import common_name, new_key, public_bytes, subject_names
from weft.security.issuing import Issuer, allow, read_revoked, revoke
from weft.security.used_tokens import UsedTokens


@pytest.fixture
def issuer(ca: Authority) -> Issuer:
    return Issuer(ca, NOW_S)


@pytest.mark.req("SEC-01")
def test_a_token_is_good_for_one_certificate(ca: Authority, issuer: Issuer) -> None:
    key = new_key()
    token = pki.token(ca).reveal()
    chain = issuer.sign_untrusted(pki.request(key=key), token, NOW_S)
    assert verify_untrusted(chain, ca.root_pem, Usage.SERVER, NOW_S) == NODE_A.identity
    assert public_bytes(pki.leaf(chain).public_key()) == public_bytes(key.public_key())
    for again in (issuer, Issuer(Authority.open(ca.directory), NOW_S)):  # also after a restart
        with pytest.raises(TokenRefused, match="was used before"):
            again.sign_untrusted(pki.request(), token, NOW_S)


def test_a_request_that_is_refused_leaves_the_token_good(ca: Authority, issuer: Issuer) -> None:
    token = pki.token(ca).reveal()
    with pytest.raises(RequestRefused):
        issuer.sign_untrusted(b"", token, NOW_S)
    issuer.sign_untrusted(pki.request(), token, NOW_S)


@pytest.mark.parametrize(
    "names",
    [
        Names(node(MESH, "node-b"), NODE_A.hosts),
        Names(NODE_A.identity, (*NODE_A.hosts, "more.example")),
        Names(NODE_A.identity, NODE_A.hosts[:1]),
        BILLING,
    ],
    ids=["another node", "more hosts", "fewer hosts", "a client"],
)
@pytest.mark.req("SEC-01")
def test_a_request_asks_for_what_the_token_grants(ca: Authority, issuer: Issuer, names: Names) -> None:
    with pytest.raises(RequestRefused, match="asks for names other than those in the token"):
        issuer.sign_untrusted(pki.request(names), pki.token(ca).reveal(), NOW_S)


def built(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey, *more: x509.GeneralName
) -> bytes:
    names = x509.SubjectAlternativeName([*subject_names(NODE_A), *more])
    builder = x509.CertificateSigningRequestBuilder().subject_name(common_name("node-a"))
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.add_extension(names, critical=False).sign(key, algorithm).public_bytes(Encoding.PEM)


def unnamed() -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(common_name("node-a"))
    return builder.sign(new_key(), hashes.SHA256()).public_bytes(Encoding.PEM)


def altered() -> bytes:
    der = bytearray(x509.load_pem_x509_csr(pki.request()).public_bytes(Encoding.DER))
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)


@pytest.mark.parametrize(
    ("request_pem", "why"),
    [
        (b"", "not a certificate request"),
        (
            b"-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n",
            "not a certificate request",
        ),
        (b" " * (CA_BODY_BYTES_MAX + 1), "too large"),
        (built(rsa.generate_private_key(65537, 2048)), "P-256 or P-384"),
        (built(ed25519.Ed25519PrivateKey.generate()), "P-256 or P-384"),
        (built(ec.generate_private_key(ec.SECP256K1())), "P-256 or P-384"),
        (built(new_key(), x509.RFC822Name("root@example.org")), "names other than"),
        (built(new_key(), x509.DirectoryName(common_name("root"))), "names other than"),
        (unnamed(), "no names that can be read"),
        (altered(), "not signed by the key"),
    ],
)
@pytest.mark.req("SEC-01")
def test_requests_that_are_refused(ca: Authority, issuer: Issuer, request_pem: bytes, why: str) -> None:
    with pytest.raises(RequestRefused, match=why):
        issuer.sign_untrusted(request_pem, pki.token(ca).reveal(), NOW_S)


def test_a_key_on_p384_will_do(ca: Authority, issuer: Issuer) -> None:
    issuer.sign_untrusted(built(ec.generate_private_key(ec.SECP384R1())), pki.token(ca).reveal(), NOW_S)


@pytest.mark.req("SEC-01")
def test_renewing_keeps_key_and_names(ca: Authority, issuer: Issuer) -> None:
    old = pki.issued(ca)
    later = NOW_S + 16 * 3600
    new = pki.leaf(issuer.renew_untrusted(old.leaf, later))
    assert public_bytes(new.public_key()) == public_bytes(old.leaf.public_key())
    assert new.extensions.get_extension_for_class(x509.SubjectAlternativeName).value == subject_names(NODE_A)
    assert new.not_valid_after_utc.timestamp() == later + DAY_S
    assert new.serial_number != old.leaf.serial_number


@pytest.mark.req("SEC-01")
def test_an_expired_certificate_is_not_renewed(ca: Authority, issuer: Issuer) -> None:
    with pytest.raises(CertificateRefused, match="has expired: enrol again"):
        issuer.renew_untrusted(pki.issued(ca).leaf, NOW_S + DAY_S)


def test_a_certificate_of_another_mesh_is_not_renewed(ca: Authority, issuer: Issuer) -> None:
    """One CA, two meshes: a company's root may stand above both."""
    with pytest.raises(CertificateRefused, match="certificate is of mesh lab, not of this CA's"):
        issuer.renew_untrusted(pki.issued(ca, Names(node("lab", "node-a"))).leaf, NOW_S)


@pytest.mark.req("SEC-01")
def test_a_revoked_name_gets_nothing_until_it_is_allowed_again(ca: Authority, issuer: Issuer) -> None:
    held = pki.issued(ca).leaf
    revoke(ca.directory, NODE_A.identity)
    with pytest.raises(RequestRefused, match="node node-a of mesh plant was revoked"):
        issuer.renew_untrusted(held, NOW_S)
    with pytest.raises(RequestRefused, match="was revoked"):
        issuer.sign_untrusted(pki.request(), pki.token(ca).reveal(), NOW_S)
    issuer.renew_untrusted(pki.issued(ca, BILLING).leaf, NOW_S)
    allow(ca.directory, NODE_A.identity)
    issuer.renew_untrusted(held, NOW_S)
    with pytest.raises(UsageError, match="was not revoked"):
        allow(ca.directory, NODE_A.identity)


def test_a_damaged_list_of_revoked_names_stops_everything(ca: Authority, issuer: Issuer) -> None:
    revoke(ca.directory, NODE_A.identity)
    assert read_revoked(ca.directory) == {NODE_A.identity}
    (ca.directory / "revoked.json").write_text('{"revoked": ["x"]}')
    with pytest.raises(StorageError, match=r"revoked\.json is damaged"):
        issuer.renew_untrusted(pki.issued(ca).leaf, NOW_S)


# --- used tokens -------------------------------------------------------------------------------------------------


def test_tokens_are_forgotten_once_they_have_expired(tmp_path: Path) -> None:
    UsedTokens(tmp_path, NOW_S).spend("a", int(NOW_S) + 300, NOW_S)
    with pytest.raises(TokenRefused):
        UsedTokens(tmp_path, NOW_S + 359).spend("a", int(NOW_S) + 300, NOW_S + 359)
    assert (tmp_path / "used-tokens").read_text() == "1800000300 a\n"
    UsedTokens(tmp_path, NOW_S + 360)
    assert (tmp_path / "used-tokens").read_text() == ""


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    UsedTokens(tmp_path, NOW_S).spend("a", int(NOW_S) + 300, NOW_S)
    with (tmp_path / "used-tokens").open("a") as stream:
        stream.write("1800000300 b")
    again = UsedTokens(tmp_path, NOW_S)
    again.spend("b", int(NOW_S) + 300, NOW_S)
    with pytest.raises(TokenRefused):
        again.spend("a", int(NOW_S) + 300, NOW_S)


def test_only_so_many_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(used_tokens_module, "USED_TOKENS_MAX", 2)
    used = UsedTokens(tmp_path, NOW_S)
    for name in "ab":
        used.spend(name, int(NOW_S) + 300, NOW_S)
    with pytest.raises(TokenRefused, match="too many tokens"):
        used.spend("c", int(NOW_S) + 300, NOW_S)
    used.spend("c", int(NOW_S) + 700, NOW_S + 360)


@pytest.mark.req("SEC-01")
def test_of_two_at_once_one_gets_it(tmp_path: Path) -> None:
    used = UsedTokens(tmp_path, NOW_S)
    barrier = threading.Barrier(8)
    won: list[int] = []

    def spend(number: int) -> None:
        barrier.wait()
        try:
            used.spend("a", int(NOW_S) + 300, NOW_S)
            won.append(number)
        except TokenRefused:
            pass

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
