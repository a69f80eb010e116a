"""Who is at the other end of a link, before a word is believed: certificates on both sides, or plain text (SEC-01).

Python's gRPC tells a server the certificate of its caller, and a caller nothing of its server's. So a dialler first
asks who is there in a TLS connection of its own, and then dials with that very certificate as the only one it trusts:
nobody else can answer, and there is no host name to get wrong.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
from cryptography import x509

from weft.errors import PeerError
from weft.model import NodeId
from weft.security import CertificateRefused, Credentials, Fault, check_node, read_chain_untrusted
from weft.security.certificates import (
    begin_s,
    end_s,
    hosts_of,
    read_certificate_untrusted,
    read_identity_untrusted,
    to_pem,
)
from weft.transport.grpc.byte_streams import Context, LinkBroken
from weft.transport.grpc.settings import LinkSettings, channel_options
from weft.wire.mesh.features import Hello

READ_CERTIFICATES_MAX: Final = 256  # remembered: a caller presents the same one with every call
RENEW_LATEST: Final = 0.85  # of a certificate's life: by then its owner has a new one (renewal is due at two thirds)
# OpenSSL's numbers for what is wrong with a certificate; anything else means that our CA did not make it.
FAULTS: Final = {9: Fault.NOT_YET_VALID, 10: Fault.EXPIRED, 26: Fault.WRONG_USAGE}
HTTP2: Final = "h2"  # gRPC's servers talk to nobody who does not offer it


@dataclass(frozen=True, slots=True)
class Proof:
    """The certificate of a node. Times are Unix seconds."""

    certificate: x509.Certificate
    begin_s: float
    end_s: float

    def check(self, hello: Hello, mesh: str) -> None:
        """Raise CertificateRefused if the hello is another node's."""
        check_node(read_identity_untrusted(self.certificate), mesh, hello.node_id)

    def renew_in_s(self, now_s: float) -> float:
        """When a dialler should connect anew, so that the other side shows a later certificate before this one ends."""
        late_s = self.begin_s + RENEW_LATEST * (self.end_s - self.begin_s)
        return max(late_s - now_s, (self.end_s - now_s) / 2)


def proof_of(certificate: x509.Certificate) -> Proof:
    return Proof(certificate, begin_s(certificate), end_s(certificate))


class PeerGate(Protocol):
    """How links are protected. A proof of None is nobody's: plain text."""

    def admit_untrusted(self, context: Context) -> Proof | None:
        """Who dialled us; raise CertificateRefused."""

    async def dial(self, address: str) -> tuple[Any, Proof | None]:
        """A channel, and who is there; raise PeerError."""


class PlainGate:
    """Plain text, for loopback. ``settings`` are those of the links."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings

    def admit_untrusted(self, context: Context) -> None:
        return None

    async def dial(self, address: str) -> tuple[Any, None]:
        return grpc.aio.insecure_channel(address, channel_options(self._settings)), None


class TlsGate:
    """``current`` tells our credentials of now, which are in ``identity_file`` as well; ``expected`` who has to be at
    an address, where somebody said so."""

    def __init__(
        self,
        settings: LinkSettings,
        mesh: str,
        current: Callable[[], Credentials],
        identity_file: Path,
        expected: Mapping[str, NodeId],
    ) -> None:
        self._settings = settings
        self._mesh = mesh
        self._current = current
        self._identity_file = identity_file
        self._expected = expected

    def admit_untrusted(self, context: Context) -> Proof:
        certificate = certificate_untrusted(context)
        if certificate is None:
            raise CertificateRefused(Fault.WRONG_NAME, "a peer has to show a certificate")
        return proof_of(certificate)

    async def dial(self, address: str) -> tuple[Any, Proof]:
        ours = self._current()
        certificate = await self._ask_untrusted(address, ours)
        identity = read_identity_untrusted(certificate)
        check_node(identity, self._mesh, self._expected.get(address, identity.name))
        credentials = grpc.ssl_channel_credentials(to_pem([certificate]), ours.key_pem.reveal(), ours.chain_pem)
        options = [*channel_options(self._settings), ("grpc.ssl_target_name_override", _host_in(certificate))]
        return grpc.aio.secure_channel(address, credentials, options), proof_of(certificate)

    async def _ask_untrusted(self, address: str, ours: Credentials) -> x509.Certificate:
        """The certificate of whoever answers there, made by our CA for a server; raise PeerError."""
        host, _, port = address.rpartition(":")
        try:
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=self._context(ours))
        except ssl.SSLCertVerificationError as error:
            raise _refusal(error, address) from None
        except ssl.SSLError as error:
            raise LinkBroken(f"no TLS with {address}: {(error.reason or 'no reason given').lower()}") from None
        except OSError as error:
            raise LinkBroken(f"cannot connect to {address}: {error.strerror or error}") from None
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()  # goodbyes are of no interest, and could take half a minute
        return read_certificate_untrusted(der)

    def _context(self, ours: Credentials) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False  # nodes are known by their SPIFFE ids, wherever they are
        context.load_verify_locations(cadata=ours.root_pem.decode())
        context.load_cert_chain(self._identity_file)
        context.set_alpn_protocols([HTTP2])
        return context


def certificate_untrusted(context: Context) -> x509.Certificate | None:
    """What the caller showed; TLS has seen to it that our CA made it. Raise CertificateRefused."""
    shown = context.auth_context().get("x509_pem_cert")
    return _read_untrusted(shown[0]) if shown else None


@lru_cache(READ_CERTIFICATES_MAX)
def _read_untrusted(pem: bytes) -> x509.Certificate:
    return read_chain_untrusted(pem)[0]


def _host_in(certificate: x509.Certificate) -> str:
    """A name that gRPC will find in this certificate: it insists on comparing one."""
    hosts = hosts_of(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    if not hosts:
        raise CertificateRefused(Fault.WRONG_NAME, "the node's certificate has neither a host name nor an address")
    return hosts[0]


def _refusal(error: ssl.SSLCertVerificationError, address: str) -> PeerError:
    fault = FAULTS.get(error.verify_code, Fault.WRONG_CA)
    return CertificateRefused(fault, f"the certificate of {address} is not good: {error.verify_message}")
