"""What proves an identity, and the directory in which it is stored.

``identity.pem`` holds key and certificates in one file, because a crash must never separate them; ``root.pem`` says
whom to trust, ``ca-url`` where to renew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509

from weft.errors import StorageError, WeftError
from weft.security.certificates import (
    begin_s,
    end_s,
    hosts_of,
    key_pem,
    load_key,
    public_bytes,
    read_chain_untrusted,
    read_identity_untrusted,
    to_pem,
)
from weft.security.errors import CertificateRefused, Fault
from weft.security.files import private_directory, read_file, read_private, write_private
from weft.security.identity import Identity
from weft.security.secret import Secret

IDENTITY, ROOT, CA_URL = "identity.pem", "root.pem", "ca-url"


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM texts as TLS libraries take them, and what they contain. Made by ``credentials``."""

    root_pem: bytes = field(repr=False)
    chain_pem: bytes = field(repr=False)  # the leaf first
    key_pem: Secret[bytes]
    identity: Identity
    begin_s: float
    end_s: float
    leaf: x509.Certificate = field(repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The DNS names and addresses in the certificate."""
        return tuple(hosts_of(self.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value))


def credentials(root_pem: bytes, chain_pem: bytes, key: Secret[bytes]) -> Credentials:
    """Raise CertificateRefused or UsageError if they do not belong together."""
    read_chain_untrusted(root_pem)
    leaf = read_chain_untrusted(chain_pem)[0]
    if public_bytes(leaf.public_key()) != public_bytes(load_key(key).public_key()):
        raise CertificateRefused(Fault.MALFORMED, "the private key is not that of the certificate")
    return Credentials(root_pem, chain_pem, key, read_identity_untrusted(leaf), begin_s(leaf), end_s(leaf), leaf)


class CertificateStore:
    """Credentials in a directory. ``identity_file`` and ``root_file`` are for libraries that take paths."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.identity_file = directory / IDENTITY
        self.root_file = directory / ROOT

    def load(self) -> Credentials | None:
        """None if there are none yet; raise StorageError if they are damaged."""
        identity, root = read_private(self.identity_file), read_file(self.root_file)
        if identity is None or root is None:
            return None
        try:
            chain = to_pem(read_chain_untrusted(identity))
            return credentials(root, chain, key_pem(load_key(Secret(identity))))
        except WeftError as error:
            raise StorageError(f"{self.identity_file} is damaged: {error}; remove it and enrol again") from None

    def save(self, found: Credentials) -> None:
        private_directory(self.directory)
        write_private(self.root_file, found.root_pem)
        write_private(self.identity_file, found.key_pem.reveal() + found.chain_pem)

    def load_ca_url(self) -> str | None:
        """Where to renew; None if the certificates did not come from a CA's service."""
        text = read_file(self.directory / CA_URL)
        return None if text is None else text.decode("ascii", "replace").strip()

    def save_ca_url(self, url: str) -> None:
        private_directory(self.directory)
        write_private(self.directory / CA_URL, f"{url}\n".encode())
