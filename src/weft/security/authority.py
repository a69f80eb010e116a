"""The embedded CA: a root, an intermediate that does the work, and the certificates that it issues (SEC-01).

``<data>/ca`` holds, for its owner only::

    ca.json                settings: mesh, address, lifetime of certificates
    root.pem root-key.pem  for ten years; the key is needed for a rotation only, and is better kept elsewhere
    intermediate.pem       certificate and key that sign all others
    provisioner.jwk        signs enrolment tokens
    used-tokens revoked.json server.pem    what the service stores

Nodes trust only the root and get the intermediate together with each certificate, so it can change at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from weft.errors import StorageError, UsageError, WeftError
from weft.limits import CERTIFICATE_LIFETIME_S, CERTIFICATE_LIFETIME_S_MAX, CERTIFICATE_LIFETIME_S_MIN
from weft.security.certificates import (
    Names,
    PrivateKey,
    common_name,
    end_s,
    fingerprint,
    general_names,
    key_pem,
    load_key,
    moment,
    new_key,
    public_bytes,
    read_chain_untrusted,
    subject_names,
    to_pem,
)
from weft.security.files import private_directory, read_private, remove_private, write_private
from weft.security.identity import Kind, check_mesh, node
from weft.security.jwt import SigningKey, new_jwk
from weft.security.secret import Secret
from weft.security.urls import parse_url
from weft.security.verification import Usage, verify_untrusted

CERTIFICATE_BACKDATE_S_MAX: Final = 60.0  # before the CA's own time: for clocks that are a little behind
AUTHORITY_LIFETIME_S: Final = 10 * 365 * 24 * 3600  # of root and intermediate, as in step-ca
T = TypeVar("T")

SETTINGS: Final = "ca.json"
ROOT, ROOT_KEY = "root.pem", "root-key.pem"
INTERMEDIATE: Final = "intermediate.pem"
PROVISIONER: Final = "provisioner.jwk"
MESH_CHARS_MAX: Final = 48  # in the names of the CA's own certificates
ROOT_KEY_ADVICE: Final = (
    "the key of the mesh's root is in {file}: move it to a safe place off this machine, where a thief of this machine "
    "does not find it; only `weft ca rotate --root-key FILE` needs it"
)

SIGNS: Final = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
CERTIFIES: Final = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
# A client's certificate cannot stand in for a node's.
PURPOSES: Final = {
    Kind.NODE: [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    Kind.CLIENT: [ExtendedKeyUsageOID.CLIENT_AUTH],
}


class AuthoritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``ca.json``. It is a ``msgspec.Struct``, which reads and checks itself from JSON."""

    mesh: str
    url: str  # where nodes find the service: https://host:port
    lifetime_s: int = CERTIFICATE_LIFETIME_S

    def __post_init__(self) -> None:
        check_mesh(self.mesh)
        parse_url(self.url)
        if not CERTIFICATE_LIFETIME_S_MIN <= self.lifetime_s <= CERTIFICATE_LIFETIME_S_MAX:
            raise UsageError(
                "the lifetime of certificates is out of range",
                have=self.lifetime_s,
                least=CERTIFICATE_LIFETIME_S_MIN,
                most=CERTIFICATE_LIFETIME_S_MAX,
            )


class Authority:
    """Issues certificates. It does not decide who may have one: see ``issuing``."""

    def __init__(self, directory: Path, settings: AuthoritySettings, root: x509.Certificate) -> None:
        self.directory = directory
        self.settings = settings
        self.root = root

    @classmethod
    def create(
        cls, directory: Path, settings: AuthoritySettings, now_s: float, offline_root: Path | None = None
    ) -> Authority:
        """Make a new CA; raise UsageError if there is one already. ``now_s`` is Unix time, here and below.

        The root's key goes to the file ``offline_root``, which must not exist; without one, it goes beside the rest.
        """
        if (directory / SETTINGS).exists():
            raise UsageError(f"{directory} has a CA already, which nodes trust; it is not replaced")
        if offline_root is not None:
            _check_offline(offline_root, directory)
        private_directory(directory)
        key = new_key()
        root = _certify(key, _subject(settings.mesh, "root"), key.public_key(), None, 1, now_s)
        if offline_root is not None:
            remove_private(directory / ROOT_KEY)  # left by an attempt that failed
        write_private(offline_root or directory / ROOT_KEY, key_pem(key).reveal())
        write_private(directory / ROOT, to_pem([root]))
        write_signer(directory, new_signer(settings.mesh, root, key, now_s))
        write_private(directory / PROVISIONER, new_jwk().reveal())
        # Last: if this is there, all the others are.
        write_private(directory / SETTINGS, msgspec.json.format(msgspec.json.encode(settings)))
        return cls(directory, settings, root)

    @classmethod
    def open(cls, directory: Path) -> Authority:
        """Open the CA that was made there; raise UsageError if there is none, StorageError if it is damaged."""
        text = read_private(directory / SETTINGS)
        if text is None:
            raise UsageError(f"there is no CA in {directory}: weft ca init makes one")
        try:
            settings = msgspec.json.decode(text, type=AuthoritySettings)
        except (msgspec.DecodeError, UnicodeDecodeError, UsageError) as error:
            raise StorageError(f"{directory / SETTINGS} is damaged: {error}") from None
        root = _read(directory / ROOT, read_chain_untrusted)[0]
        return cls(directory, settings, root)

    @property
    def root_key_file(self) -> Path:
        """Where the root's key is, unless it is kept elsewhere, as it should be."""
        return self.directory / ROOT_KEY

    @property
    def root_pem(self) -> bytes:
        return to_pem([self.root])

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.root)

    @property
    def signer(self) -> Signer:
        """Read for every use, which is rare, so that a rotation by another process counts at once."""
        return _read(self.directory / INTERMEDIATE, _parse_signer)

    def provisioner_key(self) -> SigningKey:
        return _read(self.directory / PROVISIONER, lambda text: SigningKey.read(Secret(text)))

    def issue(self, public_key: CertificatePublicKeyTypes, names: Names, now_s: float) -> bytes:
        """A chain (PEM, leaf first) for this key and these names."""
        purposes = PURPOSES[names.identity.kind]
        return self._issue(public_key, names.identity.name, subject_names(names), purposes, now_s)

    def issue_server(self, public_key: CertificatePublicKeyTypes, host: str, now_s: float) -> bytes:
        """A chain for the HTTPS service of the CA itself, which is neither a node nor a client."""
        names = x509.SubjectAlternativeName(general_names([host]))
        return self._issue(
            public_key, _subject(self.settings.mesh, "CA"), names, [ExtendedKeyUsageOID.SERVER_AUTH], now_s
        )

    def _issue(
        self,
        public_key: CertificatePublicKeyTypes,
        subject: str,
        names: x509.SubjectAlternativeName,
        purposes: list[x509.ObjectIdentifier],
        now_s: float,
    ) -> bytes:
        return issue_leaf(self.signer, public_key, subject, names, purposes, self.settings.lifetime_s, now_s)


def issue_leaf(
    signer: Signer,
    public_key: CertificatePublicKeyTypes,
    subject: str,
    names: x509.SubjectAlternativeName,
    purposes: list[x509.ObjectIdentifier],
    lifetime_s: float,
    now_s: float,
) -> bytes:
    """A chain that ends at ``signer``, and is valid no longer than it."""
    certificate = (
        x509.CertificateBuilder()
        .subject_name(common_name(subject))
        .issuer_name(signer.certificate.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment(now_s - backdate_s(lifetime_s)))
        .not_valid_after(moment(min(ceil(now_s + lifetime_s), end_s(signer.certificate))))  # X.509 counts in seconds
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(SIGNS, critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(_issuer_id(signer.key), critical=False)
        .sign(signer.key, hashes.SHA256())
    )
    return to_pem([certificate, signer.certificate])


@dataclass(frozen=True, slots=True)
class Signer:
    """The intermediate: its certificate and its key."""

    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)


def new_signer(mesh: str, root: x509.Certificate, root_key: PrivateKey, now_s: float) -> Signer:
    key = new_key()
    return Signer(_certify(root_key, _subject(mesh, "intermediate"), key.public_key(), root, 0, now_s), key)


def write_signer(directory: Path, signer: Signer) -> None:
    """Write key and certificate into one file, so that a crash cannot part them."""
    write_private(directory / INTERMEDIATE, key_pem(signer.key).reveal() + to_pem([signer.certificate]))


def read_root_key(file: Path) -> PrivateKey:
    if not file.exists():
        raise UsageError(f"the root's key is not in {file}: say where it is kept (--root-key FILE)")
    return _read(file, lambda pem: load_key(Secret(pem)))


def _check_offline(file: Path, directory: Path) -> None:
    """A new file outside the node's data directory, because a thief of that directory must not get the root's key."""
    if file.exists():
        raise UsageError(f"{file} exists already: give a new file for the root's key")
    if not file.parent.is_dir():
        raise UsageError(f"there is no directory {file.parent} for the root's key")
    data = directory.parent.resolve()
    if file.resolve().is_relative_to(data):
        raise UsageError(f"{file} is in the data directory {data}: keep the root's key somewhere else")


def backdate_s(lifetime_s: float) -> float:
    """How long before now a certificate begins: less for short-lived ones, or they would seem old when they are new."""
    return min(CERTIFICATE_BACKDATE_S_MAX, lifetime_s / 10)


def _certify(
    issuer_key: PrivateKey,
    subject: str,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Certificate | None,
    path_length: int,
    now_s: float,
) -> x509.Certificate:
    end = now_s + AUTHORITY_LIFETIME_S
    return (
        x509.CertificateBuilder()
        .subject_name(common_name(subject))
        .issuer_name(common_name(subject) if issuer is None else issuer.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment(now_s - CERTIFICATE_BACKDATE_S_MAX))
        .not_valid_after(moment(end if issuer is None else min(end, end_s(issuer))))
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(CERTIFIES, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(_issuer_id(issuer_key), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _subject(mesh: str, role: str) -> str:
    """A common name has at most 64 characters; a mesh may have a longer name."""
    return f"{mesh[:MESH_CHARS_MAX]} {role}"


def _issuer_id(key: PrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _parse_signer(pem: bytes) -> Signer:
    return Signer(read_chain_untrusted(pem)[0], load_key(Secret(pem)))


def _read(path: Path, parse: Callable[[bytes], T]) -> T:
    data = read_private(path)
    if data is None:
        raise StorageError(f"{path} is missing: the CA is incomplete")
    try:
        return parse(data)
    except WeftError as error:
        raise StorageError(f"{path} is damaged: {error}") from None


# --- a new intermediate ----------------------------------------------------------------------------------------------
#
# It is rehearsed before it is used (SEC-01). Certificates of the old one stay valid until they end, and renewals bring
# the new one. Nothing has to be restarted.


def rehearse(authority: Authority, root_key: PrivateKey, now_s: float) -> Signer:
    """Make a new intermediate and try it, without changing anything. Raise what would go wrong, CertificateRefused for
    a bad one.

    ``root_key`` is that of the CA's root; ``now_s`` is Unix time.
    """
    settings = authority.settings
    if public_bytes(root_key.public_key()) != public_bytes(authority.root.public_key()):
        raise UsageError("the root's key is that of another CA", root=authority.fingerprint)
    signer = new_signer(settings.mesh, authority.root, root_key, now_s)
    names = Names(node(settings.mesh, "rehearsal"))
    chain = issue_leaf(
        signer,
        new_key().public_key(),
        names.identity.name,
        subject_names(names),
        PURPOSES[Kind.NODE],
        settings.lifetime_s,
        now_s,
    )
    verify_untrusted(chain, authority.root_pem, Usage.SERVER, now_s)
    return signer


def rotate(authority: Authority, root_key: PrivateKey, now_s: float) -> Signer:
    """Do what ``rehearse`` tries, and keep it. A running CA uses the new intermediate from its next certificate on."""
    signer = rehearse(authority, root_key, now_s)
    write_signer(authority.directory, signer)
    return signer
