"""The file of API keys, ``<data>/keys.json``: changed by ``weft keys``, read again by a running node (SEC-02)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from weft.errors import StorageError, UsageError
from weft.security.api_keys import (
    SECRET_BYTES,
    KeyRecord,
    check_rights,
    hash_secret,
    make_key,
)
from weft.security.files import Watched, alone, private_directory, read_private, write_private
from weft.security.quota import Quota
from weft.security.secret import Secret

API_KEYS_MAX: Final = 10_000  # in one store: looked up by id, so only the file grows
FILE: Final = "keys.json"


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it. ``next`` is the number of the next key: ids are never given twice."""

    keys: tuple[KeyRecord, ...] = ()
    next: int = 1
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """What a new key is to be. Without a right to groups it may use none, but for one that may administer."""

    name: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    admin: bool = False
    expires_s: int | None = None  # Unix time
    quota: Quota | None = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_rights(self.name, self.publish, self.subscribe, self.groups)
        if not (self.publish or self.subscribe or self.admin):
            raise UsageError("a key without rights is of no use: allow publish, subscribe or admin")


def read_keys(data: Path) -> tuple[KeyRecord, ...]:
    return _parse(read_private(data / FILE)).keys


def create_key(
    data: Path,
    wanted: KeyRequest,
    entropy: bytes,
    now_s: float,
    before: Callable[[Secret[str]], None] = lambda key: None,
) -> tuple[KeyRecord, Secret[str]]:
    """Add a key, and return it as it is shown once. ``entropy``: SECRET_BYTES for the secret, the rest is the salt.

    ``before`` gets the key before its hash is kept: for those who must not lose it if they are killed in between.
    """
    private_directory(data)
    with alone(data / FILE):
        found = _parse(read_private(data / FILE))
        if len(found.keys) >= API_KEYS_MAX:
            raise UsageError("too many API keys: revoke some", limit=API_KEYS_MAX)
        key_id = f"k{found.next}"
        secret, salt = entropy[:SECRET_BYTES], entropy[SECRET_BYTES:]
        key = make_key(key_id, secret)
        record = KeyRecord(
            id=key_id,
            name=wanted.name,
            hash=hash_secret(Secret(secret), salt),
            created_s=int(now_s),
            publish=wanted.publish,
            subscribe=wanted.subscribe,
            admin=wanted.admin,
            expires_s=wanted.expires_s,
            quota=wanted.quota,
            groups=wanted.groups,
        )
        before(key)
        _write(data, KeyFile((*found.keys, record), found.next + 1))
    return record, key


def revoke_key(data: Path, key_id: str) -> KeyRecord:
    """Forget a key; running nodes notice within a second or two. Raise UsageError if there is none of that id."""
    private_directory(data)
    with alone(data / FILE):
        found = _parse(read_private(data / FILE))
        gone = next((each for each in found.keys if each.id == key_id), None)
        if gone is None:
            raise UsageError(f"there is no key {key_id[:20]!r} (weft keys list shows them)")
        _write(data, KeyFile(tuple(each for each in found.keys if each.id != key_id), found.next))
    return gone


class KeyStore:
    """The keys as a running node sees them. Times are of a monotonic clock."""

    def __init__(self, data: Path, now_s: float) -> None:
        """Raise StorageError if the file is damaged."""
        self._watched = Watched(data / FILE, _by_id, now_s)

    def find(self, key_id: str, now_s: float) -> KeyRecord | None:
        return self._watched.get(now_s).get(key_id)

    def find_anew(self, key_id: str, now_s: float) -> KeyRecord | None:
        """For a key that is shown for the first time: it may have been made a moment ago."""
        return self._watched.get_anew(now_s).get(key_id)

    @property
    def problem(self) -> str | None:
        """Why the file cannot be read any more, although it could; the keys are those of before."""
        return self._watched.problem


def _by_id(data: bytes | None) -> dict[str, KeyRecord]:
    return {each.id: each for each in _parse(data).keys}


def _parse(data: bytes | None) -> KeyFile:
    if data is None:
        return KeyFile()
    try:
        return msgspec.json.decode(data, type=KeyFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise StorageError(f"{FILE} is damaged: {error}") from None


def _write(data: Path, document: KeyFile) -> None:
    write_private(data / FILE, msgspec.json.format(msgspec.json.encode(document)))
