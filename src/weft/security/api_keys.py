"""API keys: ``weft_<id>_<secret>``, shown once, kept as a hash (SEC-02).

The id is public and says which record to look at. It is made from the hash, so no two keys of a mesh have the same id,
and nobody can make a record with the id of another's key. Older keys had numbers, which every node gave for itself. The
secret has 256 random bits, which nobody can guess; scrypt is there in case the file of hashes is stolen and the random
numbers had a flaw.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final, NamedTuple

import msgspec

from weft.errors import UsageError
from weft.limits import API_KEY_CHARS_MAX
from weft.model import Pattern, parse_pattern
from weft.security.acl import Acl, owner_of, parse_group_right
from weft.security.errors import Cause, Unauthenticated
from weft.security.quota import Quota
from weft.security.secret import Secret

API_KEY_PATTERNS_MAX: Final = 64  # for publishing, for subscribing, and for groups: all are tried for each call
PREFIX: Final = "weft"
SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
DIGEST_BYTES: Final = 32
MARK_BYTES: Final = 8  # of a hash, in ids: nobody can find a second hash with the same ones
KEY_ID: Final = re.compile(rf"k(?:[0-9]{{1,9}}|[0-9a-f]{{{2 * MARK_BYTES}}})")
KEY: Final = re.compile(rf"{PREFIX}_({KEY_ID.pattern})_([0-9a-f]{{{2 * SECRET_BYTES}}})")
NAME_CHARS_MAX: Final = 64

# RFC 7914's figures for answering while somebody waits: 16 MiB, 50 to 200 ms. They are stored with each hash.
SCRYPT_N: Final = 1 << 14
SCRYPT_R: Final = 8
SCRYPT_P: Final = 1
SCRYPT_BYTES_MAX: Final = 64 << 20  # of memory, whatever the record says


# Without gc: there may be 10,000 of them, without cycles, and every garbage collection holds up the event loop.
class Hash(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """How a secret was hashed, and the result (hex)."""

    salt: str
    digest: str
    scheme: str = "scrypt"
    n: int = SCRYPT_N
    r: int = SCRYPT_R
    p: int = SCRYPT_P

    def __repr__(self) -> str:
        return "Hash(***)"

    def __post_init__(self) -> None:
        """Raise ValueError, which msgspec turns into its own."""
        power_of_two = self.n > 1 and self.n & (self.n - 1) == 0
        if self.scheme != "scrypt" or not power_of_two or self.r < 1 or self.p < 1:
            raise ValueError("the hash is not scrypt's")
        if 128 * self.n * self.r * self.p > SCRYPT_BYTES_MAX // 2:
            raise ValueError("the hash needs more memory than is allowed")
        if len(bytes.fromhex(self.digest)) != DIGEST_BYTES or not bytes.fromhex(self.salt):
            raise ValueError("the hash has the wrong size")

    @property
    def mark(self) -> str:
        """Names the secret without revealing anything about it."""
        kept = bytes.fromhex(self.salt) + bytes.fromhex(self.digest)
        return hashlib.sha256(b"weft key\0" + kept).digest()[:MARK_BYTES].hex()


class KeyName(NamedTuple):
    """Names a key in the mesh. Keys with numbers for ids are told apart by their secrets."""

    id: str
    mark: str


class KeyRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What is stored about a key. Times are Unix seconds. ``groups``: None if it was made before there were such
    rights."""

    id: str
    name: str
    hash: Hash
    created_s: int
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    admin: bool = False
    expires_s: int | None = None
    quota: Quota | None = None
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, which msgspec turns into its own."""
        if not KEY_ID.fullmatch(self.id) or not (is_numbered(self.id) or self.id == id_of(self.hash)):
            raise ValueError("the id of a key must be k and 16 digits of its hash, or k and a number")
        check_rights(self.name, self.publish, self.subscribe, self.groups or ())

    @property
    def key_name(self) -> KeyName:
        return KeyName(self.id, self.hash.mark)

    @property
    def acl(self) -> Acl:
        """Keys of one name are one owner: a new key goes on where the old one ended."""
        owner = owner_of("key", self.name)
        publish, subscribe = _patterns(self.publish), _patterns(self.subscribe)
        return Acl(f"key {self.id}", publish, subscribe, self.admin, owner, self.groups)


def id_of(kept: Hash) -> str:
    return f"k{kept.mark}"


def is_numbered(key_id: str) -> bool:
    """Whether the id is from the time before keys belonged to the mesh: several nodes may have given it."""
    return len(key_id) < 1 + 2 * MARK_BYTES


def check_rights(name: str, publish: tuple[str, ...], subscribe: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Raise UsageError for rights that no key can have."""
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise UsageError(f"a key's name has 1 to {NAME_CHARS_MAX} visible characters")
    for patterns in (publish, subscribe, groups):
        if len(patterns) > API_KEY_PATTERNS_MAX:
            raise UsageError("too many patterns for one key", have=len(patterns), limit=API_KEY_PATTERNS_MAX)
    _patterns((*publish, *subscribe))
    for each in groups:
        parse_group_right(each)


def make_key(key_id: str, secret: bytes) -> Secret[str]:
    """``secret`` is random."""
    assert len(secret) == SECRET_BYTES, "shorter secrets are for shorter promises"
    return Secret(f"{PREFIX}_{key_id}_{secret.hex()}")


def parse_key_untrusted(presented: str) -> tuple[str, Secret[bytes]]:
    """Parse id and secret; raise only Unauthenticated."""
    found = KEY.fullmatch(presented) if len(presented) <= API_KEY_CHARS_MAX else None
    if not found:
        raise Unauthenticated(
            Cause.BAD_KEY, "not an API key: they look like weft_k, 16 hexadecimal digits, _ and 64 of them"
        )
    return found[1], Secret(bytes.fromhex(found[2]))


def hash_secret(secret: Secret[bytes], salt: bytes, n: int = SCRYPT_N) -> Hash:
    """``salt`` is random."""
    return Hash(salt.hex(), _scrypt(secret, salt, n, SCRYPT_R, SCRYPT_P).hex(), n=n)


def fits(secret: Secret[bytes], kept: Hash) -> bool:
    """Takes 50 to 200 ms of a core, on purpose; other threads can run meanwhile."""
    digest = _scrypt(secret, bytes.fromhex(kept.salt), kept.n, kept.r, kept.p)
    return hmac.compare_digest(digest, bytes.fromhex(kept.digest))


def _scrypt(secret: Secret[bytes], salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(secret.reveal(), salt=salt, n=n, r=r, p=p, maxmem=SCRYPT_BYTES_MAX, dklen=DIGEST_BYTES)


def _patterns(texts: tuple[str, ...]) -> tuple[Pattern, ...]:
    return tuple(map(parse_pattern, texts))
