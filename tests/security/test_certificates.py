"""Names, keys and reading what others made."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.security import pki
from weft.errors import UsageError
from weft.limits import CERTIFICATE_NAMES_MAX
from weft.security import CertificateRefused, Fault, Names, Secret, node
from weft.security.certificates import (
    CERTIFICATE_CHAIN_BYTES_MAX,
    CERTIFICATE_CHAIN_MAX,
    is_host,
    key_pem,
    load_key,
    new_key,
    read_certificate_untrusted,
    read_chain_untrusted,
    read_identity_untrusted,
    to_pem,
)


@pytest.mark.parametrize("host", ["a", "node-a.example.org", "127.0.0.1", "::1", "my_host", "1.2"])
def test_hosts(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize("host", ["", ".", "a..b", "a.", "*.a", "a b", "ä", "a/b", "fe80::1%eth0", "a" * 64])
def test_no_hosts(host: str) -> None:
    assert not is_host(host)
    with pytest.raises(UsageError, match="neither a host name nor an IP address"):
        Names(node("m", "a"), (host,))


def test_names_have_one_form() -> None:
    assert Names(node("m", "a"), ("Node-A.example", "0:0::1")).texts == ("spiffe://m/node/a", "node-a.example", "::1")


def test_a_certificate_has_a_bounded_number_of_hosts() -> None:
    with pytest.raises(UsageError, match="too many hosts"):
        Names(node("m", "a"), ("h",) * (CERTIFICATE_NAMES_MAX + 1))


def test_keys_come_back_from_pem_and_from_nothing_else() -> None:
    key = new_key()
    assert load_key(key_pem(key)).private_numbers() == key.private_numbers()
    for text in (b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", pki.request()):
        with pytest.raises(UsageError, match="not a private key"):
            load_key(Secret(text))


def test_a_chain_is_bounded(tmp_path: Path) -> None:
    chain = pki.issued(pki.authority(tmp_path)).chain_pem
    for text, why in (
        (b"", "not a certificate"),
        (chain * (CERTIFICATE_CHAIN_MAX // 2 + 1), "too many certificates"),
        (chain + b" " * CERTIFICATE_CHAIN_BYTES_MAX, "too large"),
    ):
        with pytest.raises(CertificateRefused, match=why) as caught:
            read_chain_untrusted(text)
        assert caught.value.fault is Fault.MALFORMED


@settings(max_examples=150)
@given(data=st.data())
def test_any_bytes_are_a_certificate_or_refused(data: st.DataObject) -> None:
    seed = bytearray(DER)
    for at in data.draw(st.lists(st.integers(0, len(seed) - 1), max_size=4)):
        seed[at] = data.draw(st.integers(0, 255))
    try:
        found = read_certificate_untrusted(bytes(seed))
        read_identity_untrusted(found)
        read_chain_untrusted(to_pem([found]))
    except CertificateRefused:
        pass


# Made by the CA here on 2027-01-15, as a seed of the test above.
DER = x509.load_pem_x509_certificate(
    b"""-----BEGIN CERTIFICATE-----
MIICBTCCAaqgAwIBAgIUeE68f/H9IOek3wXR0CIHH33OgSEwCgYIKoZIzj0EAwIw
HTEbMBkGA1UEAwwScGxhbnQgaW50ZXJtZWRpYXRlMB4XDTI3MDExNTA3NTkwMFoX
DTI3MDExNjA4MDAwMFowETEPMA0GA1UEAwwGbm9kZS1hMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEgEJMvUYxJlanTg1IXX9rjEHuEznYdEJka/RoZLiBH9MhMw2M
wqH7jrCVCZDcHaifOgaXwfqGq8fzYnRHOuzOWqOB0zCB0DBRBgNVHREESjBIhhpz
cGlmZmU6Ly9wbGFudC9ub2RlL25vZGUtYYISbm9kZS1hLmV4YW1wbGUub3JnhwR/
AAABhxAAAAAAAAAAAAAAAAAAAAABMAwGA1UdEwEB/wQCMAAwDgYDVR0PAQH/BAQD
AgeAMB0GA1UdJQQWMBQGCCsGAQUFBwMBBggrBgEFBQcDAjAdBgNVHQ4EFgQU/QU0
5lx/ZXjK77SoZiqGCYmu+fYwHwYDVR0jBBgwFoAUXo7K1YbEmX5lZw7T/kxEQF4H
DXIwCgYIKoZIzj0EAwIDSQAwRgIhAL3ICN8d5dQrSWvMkKspUwZ/NH36jqSk09SH
ft+wmeYgAiEAiV/lUduEz41wezIVPYnsMffN63wm1h4HO6hYX9fHq7Q=
-----END CERTIFICATE-----
"""
).public_bytes(Encoding.DER)
