"""Finds out which node is at the other end of a link, before anything is believed: by certificates on both sides, or
not at all with plain text (SEC-01).

A node is recognised by the id in its certificate, whatever its address is: a dialler compares no host names.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from cryptography import x509

from weft.errors import PeerError
from weft.model import NodeId
from weft.security import CertificateRefused, Credentials, Fault, check_node
from weft.security.certificates import begin_s, end_s, read_certificate_untrusted, read_identity_untrusted
from weft.transport.addresses import parse_address
from weft.transport.grpc.channel import Channel, ChannelTls, Unreachable
from weft.transport.http2.tls import for_http2
from weft.transport.peers.byte_streams import LinkBroken, PeerChannel
from weft.transport.peers.settings import LinkSettings, channel_settings
from weft.wire.mesh.features import Hello

READ_CERTIFICATES_MAX: Final = 256  # cached: a caller presents the same one with every call
RENEW_LATEST: Final = 0.85  # of a certificate's life: by then its owner has a new one (renewal is due at two thirds)
# OpenSSL's numbers for what is wrong with a certificate; any other means that our CA did not issue it.
FAULTS: Final = {9: Fault.NOT_YET_VALID, 10: Fault.EXPIRED, 26: Fault.WRONG_USAGE}


@dataclass(frozen=True, slots=True)
class Proof:
    """The certificate of a node. Times are Unix seconds."""

    certificate: x509.Certificate
    begin_s: float
    end_s: float

    @property
    def name(self) -> str:
        """The node's id, as the CA wrote it."""
        return read_identity_untrusted(self.certificate).name

    def check(self, hello: Hello, mesh: str) -> None:
        """Raise CertificateRefused if the hello names another node."""
        check_node(read_identity_untrusted(self.certificate), mesh, hello.node_id)

    def renew_in_s(self, now_s: float) -> float:
        """In how many seconds a dialler should connect again, so that the other side shows a newer certificate before
        this one expires."""
        late_s = self.begin_s + RENEW_LATEST * (self.end_s - self.begin_s)
        return max(late_s - now_s, (self.end_s - now_s) / 2)


def proof_of(certificate: x509.Certificate) -> Proof:
    return Proof(certificate, begin_s(certificate), end_s(certificate))


class PeerGate(Protocol):
    """How links are protected. A proof of None means plain text."""

    def admit_untrusted(self, certificate: bytes | None) -> Proof | None:
        """Find out who dialled us by what they showed (DER); raise CertificateRefused."""

    async def dial(self, address: str) -> tuple[PeerChannel, Proof | None]:
        """Return a connection, and who is there; raise PeerError."""


class PlainGate:
    """Plain text, for loopback. ``settings`` are those of the links."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings

    def admit_untrusted(self, certificate: bytes | None) -> None:
        return None

    async def dial(self, address: str) -> tuple[Channel, None]:
        return await _connected(address, self._settings, None), None


class TlsGate:
    """``current`` returns our current credentials, which are also in ``identity_file``; ``expected`` returns which node
    has to be at an address, if the configuration says so."""

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

    def admit_untrusted(self, certificate: bytes | None) -> Proof:
        if certificate is None:
            raise CertificateRefused(Fault.WRONG_NAME, "a peer has to show a certificate")
        shown = _read_untrusted(certificate)
        identity = read_identity_untrusted(shown)
        check_node(identity, self._mesh, identity.name)  # refuses certificates of clients and of other meshes
        return proof_of(shown)

    async def dial(self, address: str) -> tuple[Channel, Proof]:
        channel = await _connected(address, self._settings, self._tls)
        try:
            shown = channel.certificate
            assert shown is not None, "TLS has checked it"
            certificate = _read_untrusted(shown)
            identity = read_identity_untrusted(certificate)
            check_node(identity, self._mesh, self._expected.get(address, identity.name))
        except PeerError:
            channel.close()
            raise
        return channel, proof_of(certificate)

    def _tls(self) -> ChannelTls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(cadata=self._current().root_pem.decode())
        context.load_cert_chain(self._identity_file)
        return ChannelTls(for_http2(context), None)


async def _connected(address: str, settings: LinkSettings, tls: Callable[[], ChannelTls] | None) -> Channel:
    host, port = parse_address(address)
    channel = Channel(host, port, channel_settings(settings), tls)
    try:
        await channel.connect()
    except Unreachable as error:
        code = error.facts.get("verify_code")  # from OpenSSL, if the certificate is at fault
        if code is None:
            raise LinkBroken(str(error)) from None
        fault = FAULTS.get(code, Fault.WRONG_CA) if isinstance(code, int) else Fault.WRONG_CA
        raise CertificateRefused(fault, f"the certificate of {address} is not valid: {error.what}") from None
    except asyncio.CancelledError:
        channel.close()  # otherwise it dials on, and nobody would close the connection
        raise
    return channel


@lru_cache(READ_CERTIFICATES_MAX)
def _read_untrusted(der: bytes) -> x509.Certificate:
    return read_certificate_untrusted(der)
