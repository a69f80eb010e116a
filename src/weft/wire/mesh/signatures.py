"""Signatures of nodes, as they travel: with the certificate that they were made with."""

from __future__ import annotations

from typing import Final, NamedTuple

from weft.limits import KIB
from weft.wire.mesh.errors import BadMeshMessage

SIGNATURE_BYTES_MAX: Final = 256  # of P-256 in DER: 72
CHAIN_BYTES_MAX: Final = 16 * KIB  # a certificate and its intermediates, in PEM: 2 are usual


class Signature(NamedTuple):
    """Empty where nothing is signed (``--insecure``)."""

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
