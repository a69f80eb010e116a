"""Making keys, requests and certificates, and reading those that others made. No files, no clock.

All keys are on P-256, which every TLS stack accepts and which signs fast. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from weft.errors import UsageError
from weft.limits import CERTIFICATE_NAMES_MAX, KIB
from weft.security.errors import CertificateRefused, Fault
from weft.security.identity import BadIdentity, Identity, parse_identity_untrusted
from weft.security.secret import Secret

CERTIFICATE_CHAIN_BYTES_MAX: Final = 64 * KIB  # a leaf and its intermediates take 2
CERTIFICATE_CHAIN_MAX: Final = 8  # certificates in it; two are usual


PrivateKey = ec.EllipticCurvePrivateKey
IpAddress = IPv4Address | IPv6Address

HOST_CHARS_MAX: Final = 253
SUBJECT_CHARS_MAX: Final = 100

# What reading a stranger's certificate raises; the warnings, in case somebody has made them errors.
UNREADABLE: Final = (
    ValueError,
    TypeError,
    UserWarning,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True, slots=True)
class Names:
    """What a certificate is for: an identity, and the hosts under which it may be reached."""

    identity: Identity
    hosts: tuple[str, ...] = ()  # DNS names and IP addresses

    def __post_init__(self) -> None:
        if len(self.hosts) > CERTIFICATE_NAMES_MAX:
            raise UsageError("too many hosts in one certificate", have=len(self.hosts), most=CERTIFICATE_NAMES_MAX)
        for host in self.hosts:
            if not is_host(host):
                raise UsageError(f"{host[:200]!r} is neither a host name nor an IP address")

    @property
    def texts(self) -> tuple[str, ...]:
        """As step-ca lists them in a token, each in a single form."""
        return (self.identity.uri, *(str(parse_address(host) or host.lower()) for host in self.hosts))


def new_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> Secret[bytes]:
    return Secret(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def load_key(pem: Secret[bytes]) -> PrivateKey:
    """Load a private key; raise UsageError if this is not one of ours."""
    try:
        key = serialization.load_pem_private_key(pem.reveal(), None)
    except (ValueError, TypeError):
        raise UsageError("not a private key in PEM without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError("not an EC private key")
    return key


def make_request(key: PrivateKey, names: Names) -> bytes:
    """The certificate request (PEM) for exactly these names."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(common_name(names.identity.name))
    return (
        builder.add_extension(subject_names(names), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def subject_names(names: Names) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier(names.identity.uri), *general_names(names.hosts)]
    )


def general_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for host in hosts:
        address = parse_address(host)
        found.append(x509.DNSName(host.lower()) if address is None else x509.IPAddress(address))
    return found


def is_host(text: str) -> bool:
    """Whether it is a DNS name or an IP address."""
    if parse_address(text) is not None:
        return True
    return len(text) <= HOST_CHARS_MAX and all(
        0 < len(label) <= 63 and label.isascii() and label.replace("-", "").replace("_", "").isalnum()
        for label in text.split(".")
    )


def parse_address(text: str) -> IpAddress | None:
    if "%" in text:
        return None  # the zone of an address means nothing on another machine
    try:
        return ip_address(text)
    except ValueError:
        return None


# --- reading -----------------------------------------------------------------------------------------------------


def read_chain_untrusted(pem: bytes) -> list[x509.Certificate]:
    """Read the certificates of a PEM text, the leaf first; raise only CertificateRefused."""
    if len(pem) > CERTIFICATE_CHAIN_BYTES_MAX:
        raise CertificateRefused(
            Fault.MALFORMED, "certificate chain is too large", have=len(pem), limit=CERTIFICATE_CHAIN_BYTES_MAX
        )
    try:
        chain = x509.load_pem_x509_certificates(pem)
        for each in chain:
            _read_all(each)
    except UNREADABLE:
        raise CertificateRefused(Fault.MALFORMED, "not a certificate in PEM") from None
    if len(chain) > CERTIFICATE_CHAIN_MAX:
        raise CertificateRefused(
            Fault.MALFORMED, "too many certificates in one chain", have=len(chain), limit=CERTIFICATE_CHAIN_MAX
        )
    return chain


def read_certificate_untrusted(der: bytes) -> x509.Certificate:
    """Read a peer's certificate as TLS libraries return it; raise only CertificateRefused."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        _read_all(certificate)
    except UNREADABLE:
        raise CertificateRefused(Fault.MALFORMED, "the peer's certificate cannot be read") from None
    return certificate


def _read_all(certificate: x509.Certificate) -> None:
    """Parts are parsed when they are first used; use them here, so that no later code meets one that cannot be
    parsed."""
    if certificate.serial_number <= 0:
        raise ValueError("RFC 5280, 4.1.2.2: serial numbers are positive")
    certificate.public_key()
    _ = certificate.subject, certificate.issuer, certificate.extensions
    _ = certificate.not_valid_before_utc, certificate.not_valid_after_utc


def read_identity_untrusted(certificate: x509.Certificate) -> Identity:
    """The identity that a certificate names; raise only CertificateRefused. This does not say who signed it."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    if len(uris) != 1:
        # SPIFFE allows one: with two, different readers could see different people.
        raise CertificateRefused(Fault.WRONG_NAME, "certificate needs exactly one SPIFFE id", have=len(uris))
    try:
        return parse_identity_untrusted(uris[0])
    except BadIdentity as error:
        raise CertificateRefused(Fault.WRONG_NAME, str(error)) from None


def hosts_of(names: x509.SubjectAlternativeName) -> list[str]:
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def to_pem(chain: Sequence[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain)


def subject_of(certificate: x509.Certificate) -> str:
    """For errors: bounded, and printable whatever is in it."""
    return repr(certificate.subject.rfc4514_string()[:SUBJECT_CHARS_MAX])


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate in hex, as ``step certificate fingerprint`` prints it."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def public_bytes(key: object) -> bytes:
    """To compare keys."""
    assert hasattr(key, "public_bytes"), "certificates and requests hold public keys"
    encoded: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encoded


def begin_s(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def end_s(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def moment(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)
