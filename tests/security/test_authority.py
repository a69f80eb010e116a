"""The embedded CA: what it makes is taken by OpenSSL, what is damaged is said."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.security import pki
from tests.security.pki import BILLING, DAY_S, MESH, NODE_A, NOW_S, URL
from weft.errors import StorageError, UsageError, WeftError
from weft.security import (
    Authority,
    AuthoritySettings,
    CertificateStore,
    Credentials,
    Names,
    Renewer,
    Usage,
    node,
    verify_untrusted,
)
from weft.security.authority import backdate_s, read_root_key, rehearse, rotate
from weft.security.certificates import begin_s, end_s


@pytest.mark.req("SEC-01")
def test_a_certificate_lasts_a_day_and_begins_a_little_earlier(tmp_path: Path) -> None:
    found = pki.issued(pki.authority(tmp_path))
    assert (found.begin_s, found.end_s) == (NOW_S - 60, NOW_S + DAY_S)
    assert found.identity == NODE_A.identity
    assert found.hosts == NODE_A.hosts


def test_the_intermediate_signs_no_further_ones(ca: Authority) -> None:
    for certificate, depth in ((ca.root, 1), (ca.signer.certificate, 0)):
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, depth)


def test_short_ones_are_not_old_when_they_are_new(tmp_path: Path) -> None:
    found = pki.issued(pki.authority(tmp_path, lifetime_s=10))
    assert (found.begin_s, found.end_s) == (NOW_S - 1, NOW_S + 10)
    assert backdate_s(2) == pytest.approx(0.2)


@settings(max_examples=50)
@given(st.integers(1, 100), st.floats(0, 1))
def test_none_is_due_for_renewal_when_it_is_new(made_ca: Path, lifetime_s: int, fraction: float) -> None:
    """X.509 counts in seconds: rounded the wrong way, a short-lived one would be renewed over and over."""
    now_s = NOW_S + fraction
    ca = Authority(made_ca, AuthoritySettings(MESH, URL, lifetime_s), Authority.open(made_ca).root)
    found = pki.issued(ca, now_s=now_s)
    assert found.begin_s <= now_s
    assert found.end_s >= now_s + lifetime_s
    assert Renewer(found.begin_s, found.end_s, chance=0.0).due_s >= now_s + lifetime_s / 4


def test_root_and_intermediate_last_ten_years_and_no_certificate_outlasts_them(tmp_path: Path) -> None:
    ca = pki.authority(tmp_path)
    assert end_s(ca.root) == end_s(ca.signer.certificate) == NOW_S + 10 * 365 * DAY_S
    assert pki.issued(ca, now_s=end_s(ca.root) - 10).end_s == end_s(ca.root)


@pytest.mark.req("SEC-01")
def test_all_files_are_for_the_owner_only(tmp_path: Path) -> None:
    ca = pki.authority(tmp_path)
    assert {(each.name, each.stat().st_mode & 0o777) for each in ca.directory.iterdir()} == {
        (name, 0o600) for name in ("ca.json", "root.pem", "root-key.pem", "intermediate.pem", "provisioner.jwk")
    }


def test_it_comes_back_from_disk_and_is_not_made_twice(tmp_path: Path) -> None:
    ca = pki.authority(tmp_path)
    again = Authority.open(ca.directory)
    assert (again.settings, again.fingerprint) == (ca.settings, ca.fingerprint)
    verify_untrusted(pki.issued(again).chain_pem, ca.root_pem, Usage.SERVER, NOW_S)
    with pytest.raises(UsageError, match="has a CA already"):
        pki.authority(tmp_path)


def test_a_mesh_may_have_a_long_name(tmp_path: Path) -> None:
    ca = Authority.create(tmp_path / "ca", AuthoritySettings("m" * 128, URL), NOW_S)
    rotate(ca, read_root_key(ca.root_key_file), NOW_S)
    found = pki.issued(ca, Names(node("m" * 128, "n" * 64)))
    verify_untrusted(found.chain_pem, ca.root_pem, Usage.SERVER, NOW_S)
    assert ca.root.subject != ca.signer.certificate.subject


def test_the_root_key_may_be_kept_elsewhere(tmp_path: Path) -> None:
    ca = pki.authority(tmp_path)
    (ca.directory / "root-key.pem").unlink()
    pki.issued(Authority.open(ca.directory))
    with pytest.raises(UsageError, match=r"root-key\.pem: say where it is kept \(--root-key FILE\)"):
        rotate(ca, read_root_key(ca.root_key_file), NOW_S)


@pytest.mark.req("SEC-01")
def test_rotating_the_intermediate_leaves_old_certificates_good(tmp_path: Path) -> None:
    ca = pki.authority(tmp_path)
    old = pki.issued(ca)
    before = (ca.directory / "intermediate.pem").read_bytes()
    rehearse(ca, read_root_key(ca.root_key_file), NOW_S)
    assert (ca.directory / "intermediate.pem").read_bytes() == before, "a rehearsal changes nothing"
    rotate(ca, read_root_key(ca.root_key_file), NOW_S)
    new = pki.issued(ca)
    assert x509.load_pem_x509_certificates(new.chain_pem)[1] != x509.load_pem_x509_certificates(old.chain_pem)[1]
    for each in (old, new):
        verify_untrusted(each.chain_pem, ca.root_pem, Usage.SERVER, NOW_S)


@pytest.mark.parametrize("name", ["ca.json", "root.pem", "intermediate.pem", "provisioner.jwk"])
def test_damage_is_said_by_file_name(tmp_path: Path, name: str) -> None:
    ca = pki.authority(tmp_path)
    for damage in (b"{", b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", b'{"mesh": "m"}'):
        (ca.directory / name).write_bytes(damage)
        with pytest.raises(StorageError, match=f"{name} is damaged"):
            pki.token(Authority.open(ca.directory))
            pki.issued(Authority.open(ca.directory))
    (ca.directory / name).unlink()
    with pytest.raises(WeftError, match=r"is missing|there is no CA"):
        pki.token(Authority.open(ca.directory))
        pki.issued(Authority.open(ca.directory))


@pytest.mark.parametrize(
    ("mesh", "url", "lifetime_s"),
    [
        ("Plant", URL, DAY_S),
        (MESH, "http://127.0.0.1", DAY_S),
        (MESH, "https://127.0.0.1/ca", DAY_S),
        (MESH, "https://u@h", DAY_S),
        (MESH, "https://:7443", DAY_S),
        (MESH, "https://h:99999", DAY_S),
        (MESH, URL, 0),
        (MESH, URL, 91 * DAY_S),
    ],
)
def test_settings_that_cannot_be(mesh: str, url: str, lifetime_s: int) -> None:
    with pytest.raises(UsageError):
        AuthoritySettings(mesh, url, lifetime_s)
    text = msgspec.json.encode({"mesh": mesh, "url": url, "lifetime_s": lifetime_s})
    with pytest.raises((UsageError, msgspec.ValidationError)):
        msgspec.json.decode(text, type=AuthoritySettings)


# --- with OpenSSL ------------------------------------------------------------------------------------------------


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The server's side after a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting, "the handshake did not end"
    return ends[1]


def context(tmp_path: Path, found: Credentials | None, root_pem: bytes, *, server: bool) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.maximum_version = ssl.TLSVersion.TLSv1_2  # in which the client hears of a refusal within the handshake
    made.load_verify_locations(cadata=root_pem.decode())
    made.verify_mode = ssl.CERT_REQUIRED
    if found is not None:
        store = CertificateStore(tmp_path / found.identity.name)
        store.save(found)
        made.load_cert_chain(store.identity_file)
    return made


@pytest.mark.parametrize("host", NODE_A.hosts)
@pytest.mark.req("SEC-01")
def test_mutual_tls(tmp_path: Path, host: str) -> None:
    now_s = pki.wall()
    ca = pki.authority(tmp_path, now_s=now_s)
    server = context(tmp_path, pki.issued(ca, now_s=now_s), ca.root_pem, server=True)
    client = context(tmp_path, pki.issued(ca, BILLING, now_s), ca.root_pem, server=False)
    der = shake_hands(server, client, host).getpeercert(binary_form=True)
    assert der is not None
    assert begin_s(x509.load_der_x509_certificate(der)) <= now_s


@pytest.mark.req("SEC-01")
def test_tls_refusals(tmp_path: Path) -> None:
    now_s = pki.wall()
    ca, other = pki.authority(tmp_path, now_s=now_s - 5 * DAY_S), pki.authority(tmp_path / "other", now_s=now_s)
    good = pki.issued(ca, now_s=now_s)
    server = context(tmp_path, good, ca.root_pem, server=True)
    for found, why in (
        (None, "peer did not return a certificate"),
        (pki.issued(other, BILLING, now_s), "certificate verify failed"),
        (pki.issued(ca, BILLING, now_s - 2 * DAY_S), "certificate has expired"),
    ):
        client = context(tmp_path, found, ca.root_pem, server=False)
        with pytest.raises(ssl.SSLError, match=why):
            shake_hands(server, client, "127.0.0.1")
    client = context(tmp_path, pki.issued(ca, BILLING, now_s), ca.root_pem, server=False)
    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        shake_hands(server, client, "node-b.example.org")
