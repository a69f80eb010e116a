"""What both sides of a connection insist on."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final, Protocol

from aioquic.quic.configuration import QuicConfiguration

from weft.errors import UsageError
from weft.limits import KIB
from weft.security import CertificateRefused, Secret, read_chain_untrusted
from weft.security.certificates import load_key, to_pem
from weft.security.files import read_file

QUIC_IDLE_TIMEOUT_S: Final = 60.0  # of connections that others made: three heartbeats and more
QUIC_KEPT_TIMEOUT_S: Final = 15.0  # of connections that we made and keep alive by pings: notices a killed server
QUIC_FRAME_BYTES_MAX: Final = 2 * KIB  # received: a packet of either header format, with room to spare
ALPN: Final = "emp/1"

# aioquic logs warnings about what our errors say already. Without a handler, Python would print them between the lines
# that a command prints.
logging.getLogger("quic").addHandler(logging.NullHandler())


class Shown(Protocol):
    """The certificate that a server shows, with its key: ``Credentials`` of the mesh, or any other certificate."""

    @property
    def chain_pem(self) -> bytes: ...  # the leaf comes first

    @property
    def key_pem(self) -> Secret[bytes]: ...


def server_configuration(credentials: Shown) -> QuicConfiguration:
    made = _configuration(is_client=False, idle_timeout_s=QUIC_IDLE_TIMEOUT_S)
    present(made, credentials)
    return made


def present(configuration: QuicConfiguration, credentials: Shown) -> None:
    """Show this certificate from now on; existing connections stay."""
    leaf, *others = read_chain_untrusted(credentials.chain_pem)
    configuration.certificate, configuration.certificate_chain = leaf, others
    configuration.private_key = load_key(credentials.key_pem)


def client_configuration(server_name: str, root_pem: bytes, idle_timeout_s: float) -> QuicConfiguration:
    """Trust only these roots, and only a certificate for that name. CertificateRefused if they are not certificates."""
    made = _configuration(is_client=True, idle_timeout_s=idle_timeout_s)
    made.server_name = server_name
    made.verify_mode = ssl.CERT_REQUIRED
    # The PEM text is parsed and written again, because aioquic accepts only one exact layout, and would notice another
    # one only in the middle of a handshake.
    made.load_verify_locations(cadata=to_pem(read_chain_untrusted(root_pem)))
    return made


def read_roots(file: Path) -> bytes:
    """The certificates in a PEM file against which others are checked; UsageError if there are none."""
    found = read_file(file)
    if found is None:
        raise UsageError(f"there is no file {file} with certificates to trust")
    try:
        return to_pem(read_chain_untrusted(found))
    except CertificateRefused as error:
        raise UsageError(f"{file} has no certificates to trust: {error}") from None


def _configuration(is_client: bool, idle_timeout_s: float) -> QuicConfiguration:
    return QuicConfiguration(
        alpn_protocols=[ALPN],
        is_client=is_client,
        idle_timeout=idle_timeout_s,
        max_datagram_frame_size=QUIC_FRAME_BYTES_MAX,
    )
