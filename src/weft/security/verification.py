"""Whether a certificate is what it claims, with an answer a person can act on (SEC-01).

TLS libraries verify connections by themselves and say little when they refuse. This says which of the usual five things
it was, for start-up checks, for renewals, and for connections whose library leaves the question to us.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from weft.security.certificates import (
    UNREADABLE,
    begin_s,
    end_s,
    moment,
    read_chain_untrusted,
    read_identity_untrusted,
    subject_of,
)
from weft.security.errors import CertificateRefused, Fault
from weft.security.identity import Identity, Kind

CHAIN_DEPTH_MAX: Final = 4  # a root, an intermediate; companies have one more


class Usage(Enum):
    """What a certificate is presented for. A server may connect as well."""

    CLIENT = "client"
    SERVER = "server"


USAGES: Final = {
    Usage.CLIENT: (ExtendedKeyUsageOID.CLIENT_AUTH,),
    Usage.SERVER: (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
}


def verify_untrusted(chain_pem: bytes, roots_pem: bytes, usage: Usage, now_s: float) -> Identity:
    """The identity that presents this chain (leaf first); raise only CertificateRefused. ``now_s`` is Unix time."""
    chain = read_chain_untrusted(chain_pem)
    leaf = chain[0]
    check_time(leaf, now_s)
    _check_usage(leaf, usage)
    _check_issuer(leaf, chain[1:], read_chain_untrusted(roots_pem), now_s)
    return read_identity_untrusted(leaf)


def check_node(found: Identity, mesh: str, node_id: str) -> None:
    """Raise CertificateRefused unless this certificate is that node's: no node may pose as another (SEC-01)."""
    if found.mesh != mesh:
        raise CertificateRefused(Fault.WRONG_NAME, f"certificate is of mesh {found.mesh}, this is mesh {mesh}")
    if found.kind is not Kind.NODE:
        raise CertificateRefused(Fault.WRONG_NAME, f"certificate is of {found.kind} {found.name}, not of a node")
    if found.name != node_id:
        raise CertificateRefused(
            Fault.WRONG_NAME, f"certificate is of node {found.name}, but its owner says it is node {node_id}"
        )


def check_time(leaf: x509.Certificate, now_s: float) -> None:
    name = subject_of(leaf)
    if now_s < begin_s(leaf):
        raise CertificateRefused(
            Fault.NOT_YET_VALID,
            f"certificate {name} is not valid yet: compare the clocks",
            begins=moment(begin_s(leaf)).isoformat(),
            now=moment(now_s).isoformat(timespec="seconds"),
        )
    if now_s >= end_s(leaf):
        raise CertificateRefused(
            Fault.EXPIRED,
            f"certificate {name} has expired: enrol again",
            ended=moment(end_s(leaf)).isoformat(),
            now=moment(now_s).isoformat(timespec="seconds"),
        )


def _check_usage(leaf: x509.Certificate, usage: Usage) -> None:
    try:
        allowed = set(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        allowed = set()
    if not allowed.issuperset(USAGES[usage]):
        raise CertificateRefused(
            Fault.WRONG_USAGE, f"certificate {subject_of(leaf)} is not made for a TLS {usage.value}"
        )


def _check_issuer(
    leaf: x509.Certificate, between: list[x509.Certificate], roots: list[x509.Certificate], now_s: float
) -> None:
    # As a client in every case: checking a server's host name is up to the dialler.
    verifier = (
        PolicyBuilder().store(Store(roots)).time(moment(now_s)).max_chain_depth(CHAIN_DEPTH_MAX).build_client_verifier()
    )
    try:
        verifier.verify(leaf, between)
    except (VerificationError, *UNREADABLE) as error:
        raise CertificateRefused(
            Fault.WRONG_CA,
            f"certificate {subject_of(leaf)} does not come from the CA that is trusted here",
            issuer=repr(leaf.issuer.rfc4514_string()[:100]),
            why=str(error).partition("\n")[0][:200],
        ) from None
