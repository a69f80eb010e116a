"""Who gets a certificate: a caller with a token for it, or one that renews its own (SEC-01)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from weft.errors import StorageError, UsageError
from weft.limits import CA_BODY_BYTES_MAX
from weft.security.authority import Authority
from weft.security.certificates import UNREADABLE, Names, hosts_of, read_identity_untrusted
from weft.security.errors import CertificateRefused, Fault, RequestRefused
from weft.security.files import alone, read_private, write_private
from weft.security.identity import Identity, parse_identity_untrusted
from weft.security.tokens import Provisioner
from weft.security.urls import parse_url
from weft.security.used_tokens import UsedTokens
from weft.security.verification import check_time

CURVES: Final = (ec.SECP256R1, ec.SECP384R1)  # what every TLS library of the mesh accepts
NAME_KINDS: Final = (x509.UniformResourceIdentifier, x509.DNSName, x509.IPAddress)
REVOKED: Final = "revoked.json"


class Issuer:
    """The CA's decisions; the service only carries them out."""

    def __init__(self, authority: Authority, now_s: float) -> None:
        """``now_s`` is Unix time, here and below."""
        self.authority = authority
        self._provisioner = provisioner_of(authority)
        self._used = UsedTokens(authority.directory, now_s)

    def sign_untrusted(self, request_pem: bytes, token: str, now_s: float) -> bytes:
        """A chain for the request; raise TokenRefused or RequestRefused. The token is spent before the chain is
        made."""
        claims = self._provisioner.check_untrusted(token, now_s)
        request = read_request_untrusted(request_pem)
        names = claims.names
        check_names(request, names)
        check_not_revoked(self.authority.directory, names.identity)
        self._used.spend(claims.jti, claims.exp, now_s)
        return self.authority.issue(request.public_key(), names, now_s)

    def renew_untrusted(self, certificate: x509.Certificate, now_s: float) -> bytes:
        """A new chain for the same key and names. TLS has proved that the owner presents the certificate, and who
        signed it.

        Raise CertificateRefused or RequestRefused.
        """
        check_time(certificate, now_s)
        identity = read_identity_untrusted(certificate)
        if identity.mesh != self.authority.settings.mesh:
            raise CertificateRefused(Fault.WRONG_NAME, f"certificate is of mesh {identity.mesh}, not of this CA's")
        check_not_revoked(self.authority.directory, identity)
        hosts = hosts_of(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        return self.authority.issue(certificate.public_key(), Names(identity, tuple(hosts)), now_s)


def provisioner_of(authority: Authority) -> Provisioner:
    settings = authority.settings
    return Provisioner(authority.provisioner_key(), parse_url(settings.url), settings.mesh, authority.fingerprint)


# --- requests ----------------------------------------------------------------------------------------------------


def read_request_untrusted(pem: bytes) -> x509.CertificateSigningRequest:
    """Raise only RequestRefused."""
    if len(pem) > CA_BODY_BYTES_MAX:
        raise RequestRefused("the certificate request is too large", have=len(pem), limit=CA_BODY_BYTES_MAX)
    try:
        request = x509.load_pem_x509_csr(pem)
        key = request.public_key()
        genuine = request.is_signature_valid
    except UNREADABLE:
        raise RequestRefused("not a certificate request in PEM") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, CURVES):
        raise RequestRefused("the key of a certificate request must be on P-256 or P-384")
    if not genuine:
        raise RequestRefused("the certificate request is not signed by the key it is for")
    return request


def check_names(request: x509.CertificateSigningRequest, names: Names) -> None:
    """A request asks for exactly what the token grants."""
    try:
        asked = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = {*asked.get_values_for_type(x509.UniformResourceIdentifier), *hosts_of(asked)}
    except (x509.ExtensionNotFound, *UNREADABLE):
        raise RequestRefused("the certificate request has no names that can be read") from None
    if found != set(names.texts) or not all(isinstance(each, NAME_KINDS) for each in asked):
        raise RequestRefused(
            "the certificate request asks for names other than those in the token",
            asked=", ".join(sorted(found))[:500],
            granted=", ".join(sorted(names.texts))[:500],
        )


# --- revoked names -----------------------------------------------------------------------------------------------


class _Revoked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    revoked: list[str] = []
    version: Literal[1] = 1


def read_revoked(directory: Path) -> set[Identity]:
    """The identities that get no more certificates, not even a renewal. The certificates they have end within a day."""
    text = read_private(directory / REVOKED)
    if text is None:
        return set()
    try:
        return {parse_identity_untrusted(uri) for uri in msgspec.json.decode(text, type=_Revoked).revoked}
    except (msgspec.DecodeError, UnicodeDecodeError, UsageError) as error:
        raise StorageError(f"{directory / REVOKED} is damaged: {error}") from None


def check_not_revoked(directory: Path, identity: Identity) -> None:
    if identity in read_revoked(directory):
        raise RequestRefused(f"{identity} was revoked: it gets no certificates (weft ca allow permits the name again)")


def revoke(directory: Path, identity: Identity) -> None:
    with alone(directory / REVOKED):
        _write_revoked(directory, read_revoked(directory) | {identity})


def allow(directory: Path, identity: Identity) -> None:
    """Allow a revoked name again; raise UsageError if it was not revoked."""
    with alone(directory / REVOKED):
        found = read_revoked(directory)
        if identity not in found:
            raise UsageError(f"{identity} was not revoked")
        _write_revoked(directory, found - {identity})


def _write_revoked(directory: Path, revoked: set[Identity]) -> None:
    document = _Revoked(sorted(each.uri for each in revoked))
    write_private(directory / REVOKED, msgspec.json.format(msgspec.json.encode(document)))
