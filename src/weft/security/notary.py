"""Signing what a node says about itself, with the key of its certificate, and checking what others signed (SEC-06).

A signature comes with its certificate, so checking it needs only the root of the mesh. The signed bytes say what the
signature is for, so a signature for one thing is useless for another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from weft.security.certificates import PrivateKey, load_key, read_chain_untrusted
from weft.security.credentials import Credentials
from weft.security.errors import CertificateRefused, Fault
from weft.security.identity import Identity
from weft.security.verification import Usage, check_node, check_time, verify_untrusted
from weft.wire.mesh.checks import Signature

ALGORITHM: Final = ec.ECDSA(hashes.SHA256())
CHAINS_KEPT_MAX: Final = 4096  # certificates that were found valid: of all members, and of a few that were renewed


class Notary(Protocol):
    @property
    def signs(self) -> bool:
        """Whether this mesh has keys."""

    def sign(self, what: bytes) -> Signature: ...

    def is_signed_untrusted(self, by: str, what: bytes, signature: Signature) -> bool:
        """Whether this node of the mesh has signed it, with a certificate that is valid now."""


class NoNotary:
    """For a mesh without keys: nothing is signed, and everything is believed."""

    signs = False

    def sign(self, what: bytes) -> Signature:
        return Signature()

    def is_signed_untrusted(self, by: str, what: bytes, signature: Signature) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Known:
    """A certificate of this mesh: it is valid between these two times."""

    leaf: x509.Certificate
    identity: Identity
    key: ec.EllipticCurvePublicKey


class CertificateNotary:
    """``current`` returns our current credentials; ``clock`` is Unix time."""

    signs = True

    def __init__(self, mesh: str, current: Callable[[], Credentials], clock: Callable[[], float]) -> None:
        self._mesh = mesh
        self._current = current
        self._clock = clock
        self._mine: tuple[Credentials, PrivateKey] | None = None
        self._known: dict[bytes, _Known] = {}  # by the chain; what was used longest ago comes first

    def sign(self, what: bytes) -> Signature:
        mine = self._current()
        if self._mine is None or self._mine[0] is not mine:
            self._mine = mine, load_key(mine.key_pem)
        return Signature(self._mine[1].sign(what, ALGORITHM), mine.chain_pem)

    def is_signed_untrusted(self, by: str, what: bytes, signature: Signature) -> bool:
        now_s = self._clock()
        try:
            known = self._know_untrusted(signature.chain_pem, now_s)
            check_time(known.leaf, now_s)
            check_node(known.identity, self._mesh, by)
            known.key.verify(signature.signature, what, ALGORITHM)
        except (CertificateRefused, InvalidSignature):
            return False
        return True

    def _know_untrusted(self, chain_pem: bytes, now_s: float) -> _Known:
        """Checking a chain takes ten times as long as checking a signature, so valid ones are cached."""
        known = self._known.pop(chain_pem, None)
        if known is None:
            identity = verify_untrusted(chain_pem, self._current().root_pem, Usage.SERVER, now_s)
            leaf = read_chain_untrusted(chain_pem)[0]
            key = leaf.public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise CertificateRefused(Fault.MALFORMED, "the key of the certificate is not on a curve")
            known = _Known(leaf, identity, key)
            if len(self._known) >= CHAINS_KEPT_MAX:
                del self._known[next(iter(self._known))]
        self._known[chain_pem] = known
        return known
