"""What nodes tell each other about API keys: that one was made or revoked, signed by the node that says so.

A statement never changes. It is a JSON text, a signature over it with the key of the node's certificate, and the
certificates from that one up to the root, so that every node that knows the root can check it, no matter who brings
it::

    {"type": "made", "key": {...as in keys.json...}, "signer": "node-a", "signed_s": 1763300000, "by": "key k..."}
    {"type": "revoked", "id": "k...", "mark": "...", "signer": "node-b", "signed_s": 1763300000, "by": "key k...", ...}

Certificates last a day and statements last for years: what counts is that the certificate was valid when the statement
was signed. A node that left the mesh long ago could sign with an old date, but has no link over which to send it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from weft.errors import PeerError, UsageError
from weft.limits import KIB
from weft.model import parse_node_id
from weft.security.api_keys import KEY_ID, MARK_BYTES, NAME_CHARS_MAX, KeyName, KeyRecord
from weft.security.certificates import begin_s, end_s, load_key, read_chain_untrusted, to_pem
from weft.security.credentials import Credentials
from weft.security.errors import CertificateRefused
from weft.security.verification import Usage, check_node, verify_untrusted

STATEMENT_BYTES_MAX: Final = 48 * KIB  # of the text: 128 patterns of 255 bytes take 33
REVOKED_BYTES_MAX: Final = 4 * KIB  # the same of a revocation: the longest names in it take 2
STATEMENT_CHAIN_BYTES_MAX: Final = 8 * KIB  # of certificates: two are usual and take 2
SIGNATURE_BYTES_MAX: Final = 72  # on P-256, in DER
BY_CHARS_MAX: Final = 128
MARK: Final = re.compile(rf"[0-9a-f]{{{2 * MARK_BYTES}}}")
SIGNERS_KEPT_MAX: Final = 1024  # certificates that were found valid: a day of a thousand nodes
DOMAIN: Final = b"weft key statement 1\0"  # signed, too: nothing else can be taken for a statement
UNIX_S_MAX: Final = 253_402_300_799  # the year 9999


class BadStatement(PeerError):
    """Not a statement of a node of this mesh, or one that says something impossible."""


class _Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    signer: str  # the node
    signed_s: int  # Unix time
    by: str  # on whose request the node says it

    def __post_init__(self) -> None:
        """Raise ValueError, which msgspec turns into its own."""
        parse_node_id(self.signer)
        if not 0 <= self.signed_s <= UNIX_S_MAX:
            raise ValueError("the time of a statement is out of range")
        if len(self.by) > BY_CHARS_MAX or not self.by.isprintable():
            raise ValueError(f"the author of a statement has at most {BY_CHARS_MAX} visible characters")


class KeyMade(_Signed, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="made", gc=False):
    """This key exists."""

    key: KeyRecord

    @property
    def key_name(self) -> KeyName:
        return self.key.key_name

    @property
    def expires_s(self) -> int | None:
        return self.key.expires_s


class KeyRevoked(_Signed, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="revoked", gc=False):
    """The key with this secret is no longer valid, no matter who made it. It has the key's name and end."""

    id: str
    mark: str
    name: str = ""
    expires_s: int | None = None

    def __post_init__(self) -> None:
        _Signed.__post_init__(self)
        if not KEY_ID.fullmatch(self.id) or not MARK.fullmatch(self.mark) or len(self.name) > NAME_CHARS_MAX:
            raise ValueError("a revocation names a key by its id and the mark of its hash")

    @property
    def key_name(self) -> KeyName:
        return KeyName(self.id, self.mark)


Said: TypeAlias = KeyMade | KeyRevoked


class StatementSlot(NamedTuple):
    """What a statement is about: of two with one slot, one counts."""

    kind: str
    name: KeyName
    signer: str  # of the node that made it; of revocations one is enough, by any signer

    @property
    def bucket(self) -> int:
        """0 to 255, evenly."""
        return hashlib.sha256("\0".join((self.kind, *self.name, self.signer)).encode()).digest()[0]


@dataclass(frozen=True, slots=True)
class SignedText:
    """A statement as it is sent and stored; nothing is checked yet. ``chain`` is PEM, the signer first."""

    body: bytes
    signature: bytes
    chain: bytes

    @property
    def mark(self) -> bytes:
        return hashlib.sha256(self.signature + self.body).digest()[:MARK_BYTES]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that is believed."""

    said: Said
    text: SignedText
    known_s: int  # since when this node has known it
    mark: bytes = field(init=False)
    slot: StatementSlot = field(init=False)

    def __post_init__(self) -> None:
        said = self.said
        slot = (
            StatementSlot("made", said.key_name, said.signer)
            if isinstance(said, KeyMade)
            else StatementSlot("revoked", said.key_name, "")
        )
        object.__setattr__(self, "slot", slot)
        object.__setattr__(self, "mark", self.text.mark)

    @property
    def order(self) -> tuple[float, int, bytes]:
        """Of two statements about the same, the greater one counts: the later one or, of revocations, the one that is
        kept longer. Otherwise a bad node could make others forget a revocation, by repeating it for a key that ends
        soon."""
        said = self.said
        kept_until_s = 0.0
        if isinstance(said, KeyRevoked):
            kept_until_s = math.inf if said.expires_s is None else said.expires_s
        return kept_until_s, said.signed_s, self.mark

    @property
    def size_bytes(self) -> int:
        """With its certificates, which it may share with others."""
        return len(self.text.body) + len(self.text.signature) + len(self.text.chain)


def read_body_untrusted(body: bytes) -> Said:
    """Raise only BadStatement. Unknown fields may narrow rights, so they are refused as well."""
    if len(body) > STATEMENT_BYTES_MAX:
        raise BadStatement("a statement on a key is too large", size=len(body), limit=STATEMENT_BYTES_MAX)
    try:
        said: Said = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise BadStatement(f"a statement on a key cannot be read: {error}") from None
    if isinstance(said, KeyRevoked) and len(body) > REVOKED_BYTES_MAX:
        raise BadStatement("the revocation of a key is too large", size=len(body), limit=REVOKED_BYTES_MAX)
    return said


def sign(said: Said, credentials: Credentials, now_s: float) -> Statement:
    """Sign ``said`` as of now, within the life of the certificate; its ``signer`` has to be the certificate's."""
    assert said.signer == credentials.identity.name, "a node speaks for itself"
    # A node whose CA is away must still be able to revoke, so an expired certificate is used as if it had not expired.
    signed_s = max(int(credentials.begin_s) + 1, min(int(now_s), int(credentials.end_s) - 1))
    said = msgspec.structs.replace(said, signed_s=signed_s)
    body = msgspec.json.encode(said)
    if len(body) > STATEMENT_BYTES_MAX:
        raise UsageError("the rights of this key are too long", size=len(body), limit=STATEMENT_BYTES_MAX)
    signature = load_key(credentials.key_pem).sign(DOMAIN + body, ec.ECDSA(hashes.SHA256()))
    return Statement(said, SignedText(body, signature, credentials.chain_pem), int(now_s))


@dataclass(frozen=True, slots=True)
class _Signer:
    """A certificate of a node of this mesh, checked up to the root. ``chain_pem`` is the chain as we write it: PEM may
    have anything between two certificates."""

    chain_pem: bytes
    node_id: str
    begin_s: float
    end_s: float
    key: ec.EllipticCurvePublicKey


class Verifier:
    """Whether to believe statements. ``makers`` are the nodes that may make and revoke keys; None: all of the mesh. For
    one thread at a time."""

    def __init__(self, mesh: str, root_pem: Callable[[], bytes], makers: Collection[str] | None) -> None:
        self._mesh = mesh
        self._root_pem = root_pem
        self._makers = makers
        self._signers: OrderedDict[bytes, _Signer] = OrderedDict()

    def may_make(self, node_id: str) -> bool:
        return self._makers is None or node_id in self._makers

    def believe_untrusted(self, text: SignedText, known_s: int) -> Statement:
        """Raise only BadStatement."""
        said = read_body_untrusted(text.body)
        if not self.may_make(said.signer):
            raise BadStatement("a key of a node that may not make keys (keys.makers)", signer=said.signer)
        if len(text.signature) > SIGNATURE_BYTES_MAX:
            raise BadStatement("a signature is too long", size=len(text.signature), limit=SIGNATURE_BYTES_MAX)
        signer = self._signer_untrusted(text.chain, said.signed_s)
        if signer.node_id != said.signer:
            raise BadStatement("signed by a node other than the named one", says=said.signer, signer=signer.node_id)
        if not signer.begin_s <= said.signed_s < signer.end_s:
            raise BadStatement("signed when the certificate was not valid", signer=said.signer, signed_s=said.signed_s)
        try:
            signer.key.verify(text.signature, DOMAIN + text.body, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise BadStatement("the signature is not valid", says=said.signer) from None
        return Statement(said, SignedText(text.body, text.signature, signer.chain_pem), known_s)

    def is_of_this_root(self, statement: Statement) -> bool:
        """Whether nodes that have our root can check it: not if it was signed before the mesh got a new root."""
        try:
            self._signer_untrusted(statement.text.chain, statement.said.signed_s)
        except BadStatement:
            return False
        return True

    def _signer_untrusted(self, chain: bytes, signed_s: int) -> _Signer:
        if len(chain) > STATEMENT_CHAIN_BYTES_MAX:
            raise BadStatement("certificates are too long", size=len(chain), limit=STATEMENT_CHAIN_BYTES_MAX)
        root = self._root_pem()
        kept = hashlib.sha256(root + chain).digest()
        known = self._signers.pop(kept, None)
        if known is None:
            known = self._check_untrusted(chain, root, signed_s)
        self._signers[kept] = known
        if len(self._signers) > SIGNERS_KEPT_MAX:
            self._signers.popitem(last=False)
        return known

    def _check_untrusted(self, chain: bytes, root: bytes, signed_s: int) -> _Signer:
        try:
            identity = verify_untrusted(chain, root, Usage.SERVER, signed_s)
            check_node(identity, self._mesh, identity.name)
            certificates = read_chain_untrusted(chain)
        except CertificateRefused as error:
            raise BadStatement(f"the certificate of the signer is not valid: {error}") from None
        leaf = certificates[0]
        key = leaf.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise BadStatement("the certificate of the signer has a key of another kind", signer=identity.name)
        return _Signer(to_pem(certificates), identity.name, begin_s(leaf), end_s(leaf), key)


_DECODER: Final = msgspec.json.Decoder(Said)
