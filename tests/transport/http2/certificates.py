"""Certificates for tests: a CA, a server and a client of it, made once, as files and as contexts."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from weft.security import Authority, AuthoritySettings, LocalSource, Names, client, node
from weft.transport.http2.tls import for_http2

NAMES = ("localhost", "127.0.0.1")


class Certificates:
    """``here`` has root.pem, and for each of server and client NAME.crt, NAME.key and both as NAME.pem."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self._now_s = time.time()  # which is what OpenSSL compares with
        settings = AuthoritySettings("test", "https://127.0.0.1:1")
        self._source = LocalSource(Authority.create(here / "ca", settings, self._now_s))
        self.make("server")
        self.make("client")

    def make(self, name: str, begin_s: float = 0.0) -> None:
        """Again, and it is another one; it may have begun, and ended, some time ago."""
        names = Names(client("test", name)) if name == "client" else Names(node("test", name), NAMES)
        made = self._source.enrol(names, self._now_s + begin_s)
        (self.here / f"{name}.crt").write_bytes(made.chain_pem)
        (self.here / f"{name}.key").write_bytes(made.key_pem.reveal())
        (self.here / f"{name}.pem").write_bytes(made.key_pem.reveal() + made.chain_pem)
        (self.here / "root.pem").write_bytes(made.root_pem)

    def read(self, file: str) -> bytes:
        return (self.here / file).read_bytes()

    def der(self, name: str) -> bytes:
        return x509.load_pem_x509_certificate(self.read(f"{name}.crt")).public_bytes(Encoding.DER)

    def server(self, verify: ssl.VerifyMode = ssl.CERT_REQUIRED) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.here / "server.pem")
        context.load_verify_locations(self.here / "root.pem")
        context.verify_mode = verify
        return for_http2(context)

    def client(self, shows: str | None = "client") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.here / "root.pem")
        if shows is not None:
            context.load_cert_chain(self.here / f"{shows}.pem")
        return for_http2(context)
