"""Credentials on disk: what goes together stays together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security import pki
from weft.errors import StorageError
from weft.security import Authority, CertificateRefused, CertificateStore, credentials


@pytest.mark.req("SEC-01")
def test_they_come_back_and_are_for_their_owner_only(ca: Authority, tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "tls")
    assert (store.load(), store.load_ca_url()) == (None, None)
    found = pki.issued(ca)
    store.save(found)
    store.save_ca_url(pki.URL)
    assert (store.load(), store.load_ca_url()) == (found, pki.URL)
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "tls").iterdir()} == {0o600}


def test_a_root_need_not_be_secret_but_a_key_must(ca: Authority, tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "tls")
    store.save(pki.issued(ca))
    store.root_file.chmod(0o644)
    assert store.load() is not None
    store.identity_file.chmod(0o644)
    with pytest.raises(StorageError, match="chmod 600"):
        store.load()


def test_the_key_of_another_certificate_is_refused(ca: Authority) -> None:
    one, other = pki.issued(ca), pki.issued(ca)
    with pytest.raises(CertificateRefused, match="not that of the certificate"):
        credentials(one.root_pem, one.chain_pem, other.key_pem)


def test_damage_is_said(ca: Authority, tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "tls")
    one, other = pki.issued(ca), pki.issued(ca)
    store.save(one)
    for damage in (b"", one.chain_pem, one.key_pem.reveal(), other.key_pem.reveal() + one.chain_pem):
        store.identity_file.write_bytes(damage)
        with pytest.raises(StorageError, match=r"identity\.pem is damaged: .*; remove it and enrol again"):
            store.load()


def test_a_root_that_is_none_is_said(ca: Authority, tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "tls")
    store.save(pki.issued(ca))
    store.root_file.write_bytes(b"root")
    with pytest.raises(StorageError, match="is damaged: not a certificate"):
        store.load()


def test_a_repr_shows_who_and_until_when(ca: Authority) -> None:
    text = repr(pki.issued(ca))
    assert "node-a" in text
    assert "BEGIN" not in text
