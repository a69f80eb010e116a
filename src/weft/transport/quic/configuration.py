"""What both sides of a connection insist on."""

from __future__ import annotations

import ssl
from typing import Final

from aioquic.quic.configuration import QuicConfiguration

from weft.limits import KIB
from weft.security import Credentials, read_chain_untrusted
from weft.security.certificates import load_key

QUIC_IDLE_TIMEOUT_S: Final = 60.0  # three heartbeats and more
QUIC_FRAME_BYTES_MAX: Final = 2 * KIB  # a packet of either header format, with room
ALPN: Final = "emp/1"


def server_configuration(credentials: Credentials) -> QuicConfiguration:
    made = _configuration(is_client=False)
    present(made, credentials)
    return made


def present(configuration: QuicConfiguration, credentials: Credentials) -> None:
    """Show this certificate from now on; connections that are up stay up."""
    leaf, *others = read_chain_untrusted(credentials.chain_pem)
    configuration.certificate, configuration.certificate_chain = leaf, others
    configuration.private_key = load_key(credentials.key_pem)


def client_configuration(server_name: str, root_pem: bytes) -> QuicConfiguration:
    """Trust this root alone, and only a certificate for that name."""
    made = _configuration(is_client=True)
    made.server_name = server_name
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=root_pem)
    return made


def _configuration(is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        alpn_protocols=[ALPN],
        is_client=is_client,
        idle_timeout=QUIC_IDLE_TIMEOUT_S,
        max_datagram_frame_size=QUIC_FRAME_BYTES_MAX,
    )
