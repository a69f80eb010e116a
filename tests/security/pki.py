"""A CA, names and certificates for tests: time stands at ``NOW_S`` unless a test moves it."""

from __future__ import annotations

import time
from pathlib import Path

from cryptography import x509

from weft.security import Authority, AuthoritySettings, Credentials, LocalSource, Names, client, node, provisioner_of
from weft.security.certificates import PrivateKey, make_request, new_key
from weft.security.secret import Secret

NOW_S = 1_800_000_000.0
DAY_S = 86_400
MESH = "plant"
URL = "https://127.0.0.1:7443"
NODE_A = Names(node(MESH, "node-a"), ("node-a.example.org", "127.0.0.1", "::1"))
BILLING = Names(client(MESH, "billing"))


def authority(directory: Path, *, now_s: float = NOW_S, lifetime_s: int = DAY_S, url: str = URL) -> Authority:
    return Authority.create(directory / "ca", AuthoritySettings(MESH, url, lifetime_s), now_s)


def issued(ca: Authority, names: Names = NODE_A, now_s: float = NOW_S) -> Credentials:
    return LocalSource(ca).enrol(names, now_s)


def token(ca: Authority, names: Names = NODE_A, token_id: str = "t1", now_s: float = NOW_S) -> Secret[str]:
    return provisioner_of(ca).make(names, token_id, now_s)


def request(names: Names = NODE_A, key: PrivateKey | None = None) -> bytes:
    return make_request(key or new_key(), names)


def leaf(chain_pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(chain_pem)[0]


def wall() -> float:
    """For tests in which TLS looks at the real clock."""
    return time.time()
