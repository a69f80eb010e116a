"""What is checked in many messages of nodes and clients, headers and signatures, and the one error of this room.

Nothing of protobuf is loaded for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from weft.errors import PeerError
from weft.limits import EVENT_HEADER_NAME_BYTES_MAX, EVENT_HEADER_VALUE_BYTES_MAX, EVENT_HEADERS_MAX, KIB

SIGNATURE_BYTES_MAX: Final = 256  # of P-256 in DER: 72
CHAIN_BYTES_MAX: Final = 16 * KIB  # a certificate and its intermediates, in PEM: 2 are usual


class BadMeshMessage(PeerError):
    """A frame of a peer or client that is not a message, or a message that cannot be meant."""


class Signature(NamedTuple):
    """A node's, as it travels: with the certificate that it was made with. Empty where nothing is signed
    (``--insecure``)."""

    signature: bytes = b""
    chain_pem: bytes = b""  # the certificate of the signer, and what is between it and the root


def read_signature_untrusted(signature: bytes, chain_pem: bytes) -> Signature:
    """Within bounds; whose it is, a notary says. Raise BadMeshMessage."""
    for name, value, limit in (
        ("signature", signature, SIGNATURE_BYTES_MAX),
        ("certificate", chain_pem, CHAIN_BYTES_MAX),
    ):
        if len(value) > limit:
            raise BadMeshMessage(f"the {name} of a node is too long", size=len(value), limit=limit)
    return Signature(signature, chain_pem)


def check_headers(headers: Mapping[str, str]) -> None:
    """Of a request or a reply: raise BadMeshMessage for headers that no event may have either."""
    if len(headers) > EVENT_HEADERS_MAX:
        raise BadMeshMessage("too many headers", have=len(headers), limit=EVENT_HEADERS_MAX)
    for name, value in headers.items():
        if len(name.encode()) > EVENT_HEADER_NAME_BYTES_MAX:
            raise BadMeshMessage("header name is too long", size=len(name), limit=EVENT_HEADER_NAME_BYTES_MAX)
        if len(value.encode()) > EVENT_HEADER_VALUE_BYTES_MAX:
            raise BadMeshMessage("header value is too long", size=len(value), limit=EVENT_HEADER_VALUE_BYTES_MAX)
