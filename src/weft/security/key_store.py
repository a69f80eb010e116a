"""The API keys that a node knows, and its two files of them (SEC-02).

``<data>/keys.json`` has what commands on this machine made and revoked (``weft keys ... --data DIR``). Only they change
it, with the node running or not. ``<data>/mesh-keys.json`` has the signed statements of the whole mesh, and only the
node changes it. The node turns what it finds in the first file into its own statements.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Literal

import msgspec

from weft.errors import StorageError, UsageError, WeftError
from weft.limits import MIB
from weft.model import Topic
from weft.model.key_info import KeyInfo
from weft.security.acl import owner_of
from weft.security.api_keys import (
    SECRET_BYTES,
    KeyName,
    KeyRecord,
    check_rights,
    hash_secret,
    id_of,
    make_key,
)
from weft.security.files import alone, private_directory, read_private, stamp_of, write_private
from weft.security.key_statements import BadStatement, SignedText, Statement, read_body_untrusted
from weft.security.mesh_keys import API_KEYS_MAX, MeshKeys
from weft.security.quota import Quota
from weft.security.secret import Secret

FILE: Final = "keys.json"
MESH_FILE: Final = "mesh-keys.json"
# 10,000 keys and as many revocations take 20. At all their bounds, and with every character escaped, they take 230:
# whatever a bad node signed, what was written can be read.
MESH_FILE_BYTES_MAX: Final = 256 * MIB
SAME_ID_MAX: Final = 8  # keys with one id, which is a number, that are tried: nodes once had keys of their own


class RevokedHere(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that a command on this machine revoked."""

    id: str
    mark: str
    name: str = ""
    expires_s: int | None = None

    @property
    def key_name(self) -> KeyName:
        return KeyName(self.id, self.mark)


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """keys.json. Version 1 had no revocations, and had ``next``, which is no longer used."""

    version: Literal[1, 2]
    keys: tuple[KeyRecord, ...] = ()
    revoked: tuple[RevokedHere, ...] = ()
    next: int = 1


class _KeptStatement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``text`` is what was signed, character by character; ``chain`` names the certificates."""

    text: str
    signature: str
    chain: str
    known_s: int


class _MeshFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """mesh-keys.json."""

    version: Literal[1]
    chains: Mapping[str, str]
    statements: tuple[_KeptStatement, ...]


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """What a new key should be. Without a right to groups it may use none, unless it may administer."""

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
            raise UsageError("a key without rights is useless: allow publish, subscribe or admin")


def new_key(wanted: KeyRequest, entropy: bytes, now_s: float) -> tuple[KeyRecord, Secret[str]]:
    """Make a key, and its record. ``entropy``: SECRET_BYTES for the secret, the rest is the salt."""
    secret, salt = entropy[:SECRET_BYTES], entropy[SECRET_BYTES:]
    kept = hash_secret(Secret(secret), salt)
    record = KeyRecord(
        id=id_of(kept),
        name=wanted.name,
        hash=kept,
        created_s=int(now_s),
        publish=wanted.publish,
        subscribe=wanted.subscribe,
        admin=wanted.admin,
        expires_s=wanted.expires_s,
        quota=wanted.quota,
        groups=wanted.groups,
    )
    return record, make_key(record.id, secret)


# --- for commands ------------------------------------------------------------------------------------------------


def read_keys(data: Path) -> tuple[KeyRecord, ...]:
    """All keys that the node of this directory knows. Raise StorageError if a file is damaged."""
    return KeyStore(data).records()


def create_key(
    data: Path,
    wanted: KeyRequest,
    entropy: bytes,
    now_s: float,
    before: Callable[[Secret[str]], None] = lambda key: None,
) -> tuple[KeyRecord, Secret[str]]:
    """Add a key, and return it as it is shown once. ``entropy`` is as for ``new_key``.

    ``before`` gets the key before its hash is stored, for callers that must not lose it if they are killed in between.
    """
    private_directory(data)
    with alone(data / FILE):
        found = _parse(read_private(data / FILE))
        if len(found.keys) >= API_KEYS_MAX:
            raise UsageError("too many API keys: revoke some", limit=API_KEYS_MAX)
        record, key = new_key(wanted, entropy, now_s)
        if any(each.id == record.id for each in found.keys):
            raise UsageError(f"there is a key {record.id} already")
        if any(each.id == record.id for each in found.revoked):
            raise UsageError(f"key {record.id} was revoked: make another")
        before(key)
        _write(data, KeyFile(2, (*found.keys, record), found.revoked))
    return record, key


def revoke_key(data: Path, key: str) -> KeyRecord:
    """Revoke a key (``k1``, or ``k1@node`` where several nodes had one); running nodes notice within a second or two.

    Raise UsageError if there is none with that id, or several.
    """
    private_directory(data)
    with alone(data / FILE):
        gone, _ = resolve(KeyStore(data), key)
        found = _parse(read_private(data / FILE))
        kept = tuple(each for each in found.keys if each.key_name != gone.key_name)
        revoked = RevokedHere(gone.id, gone.hash.mark, gone.name, gone.expires_s)
        _write(data, KeyFile(2, kept, (*found.revoked, revoked)))
    return gone


def resolve(keys: KeyStore, key: str) -> tuple[KeyRecord, str]:
    """The key with this id, and which node made it; raise UsageError if there is none, or several."""
    key_id, _, maker = key.partition("@")
    found = {
        known.record.key_name: (known.record, known.made_by)
        for known in keys.known(key_id)
        if not maker or known.made_by == maker
    }
    if not found:
        raise UsageError(f"there is no key {key[:90]!r} (weft keys list shows them)")
    if len(found) > 1:
        names = ", ".join(f"{key_id}@{made_by}" for _, made_by in found.values())
        raise UsageError(f"several nodes had a key {key_id} before keys belonged to the mesh: say which, {names}")
    return next(iter(found.values()))


# --- for a node --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key that is not revoked. ``made_by`` is the node; empty: a command here made it, and the mesh does not know it
    yet."""

    record: KeyRecord
    made_by: str = ""
    by: str = ""  # who asked that node for it
    known_s: int | None = None

    @property
    def info(self) -> KeyInfo:
        """For administrators."""
        record = self.record
        return KeyInfo(
            id=record.id,
            name=record.name,
            publish=record.publish,
            subscribe=record.subscribe,
            groups=record.groups,
            admin=record.admin,
            quota={} if record.quota is None else record.quota.said(),
            created_s=record.created_s,
            expires_s=record.expires_s,
            made_by=self.made_by,
            by=self.by,
            known_s=self.known_s,
        )


@dataclass(frozen=True, slots=True)
class Here:
    """The content of keys.json."""

    keys: Mapping[str, Sequence[KeyRecord]]  # by id, those that are not revoked
    revoked: Mapping[KeyName, RevokedHere]

    @classmethod
    def read(cls, data: Path) -> Here:
        """Blocks, and takes half a second for 10,000 keys. Raise StorageError."""
        found = _parse(read_private(data / FILE))
        revoked = {each.key_name: each for each in found.revoked}
        keys: dict[str, list[KeyRecord]] = {}
        for each in found.keys:
            if each.key_name not in revoked:
                keys.setdefault(each.id, []).append(each)
        return cls(keys, revoked)


@dataclass(frozen=True, slots=True)
class _Owners:
    """The ids of each owner's keys, after so many changes of the mesh's keys, and with these from keys.json."""

    changes: int
    here: Here
    ids: Mapping[str, Collection[str]]


class KeyStore:
    """The keys as a node sees them: those of the mesh, and those of commands on this machine. Used from its event
    loop."""

    def __init__(self, data: Path) -> None:
        """Blocks. Raise StorageError if a file is damaged."""
        self._data = data
        self.mesh = MeshKeys()
        self.problem: str | None = None  # why keys.json can no longer be read; the keys are those from before
        self.distrusted: str | None = None  # why no key is valid at the moment
        self._stamp = stamp_of(data / FILE)
        self._here = Here.read(data)
        self._reading = asyncio.Lock()
        self._owners: _Owners | None = None
        for statement in read_statements(data):
            self.mesh.merge(statement, statement.known_s)

    def known(self, key_id: str) -> list[KnownKey]:
        """All records with that id that count, the mesh's first."""
        of_mesh = [
            KnownKey(made.key, made.signer, made.by, statement.known_s)
            for made, statement in self.mesh.made(key_id)
            if made.key_name not in self._here.revoked
        ]
        names = {each.record.key_name for each in of_mesh}
        here = (each for each in self._here.keys.get(key_id, ()) if each.key_name not in names)
        return of_mesh + [KnownKey(each) for each in here if self.mesh.revocation(each.key_name) is None]

    def ids(self) -> list[str]:
        """Of all keys, in order."""
        return sorted({*self.mesh.ids(), *self._here.keys})

    def records(self) -> tuple[KeyRecord, ...]:
        """One for each key, the oldest first."""
        found = [record for key_id in self.ids() for record in self.candidates(key_id)]
        return tuple(sorted(found, key=lambda each: (each.created_s, each.id)))

    def may_publish(self, owner: str, topic: Topic, now_s: float) -> bool:
        """Whether some key of an owner is valid and has this right, for work in the owner's name."""
        if self.distrusted is not None:
            return False
        return any(
            record.acl.owner == owner and record.acl.may_publish(topic)
            for key_id in self._ids_of(owner)
            for record in self.candidates(key_id)
            if record.expires_s is None or record.expires_s > now_s
        )

    def _ids_of(self, owner: str) -> Collection[str]:
        """The ids of an owner's keys. Keys are looked through only after one has come or gone: there may be 10,000, and
        as many questions in one turn of the loop.
        """
        if self._owners is None or self._owners.changes != self.mesh.changes or self._owners.here is not self._here:
            here = ((each.id, each.name) for same in self._here.keys.values() for each in same)
            found: dict[str, set[str]] = {}
            for key_id, name in chain(self.mesh.names(), here):
                found.setdefault(owner_of("key", name), set()).add(key_id)
            self._owners = _Owners(self.mesh.changes, self._here, found)
        return self._owners.ids.get(owner, ())

    def candidates(self, key_id: str) -> list[KeyRecord]:
        """Keys that a caller with this id may mean: one, except for ids that are numbers."""
        found: dict[KeyName, KeyRecord] = {}
        for known in self.known(key_id):
            found.setdefault(known.record.key_name, known.record)
        return list(found.values())[:SAME_ID_MAX]

    def find(self, name: KeyName) -> KeyRecord | None:
        return next((each for each in self.candidates(name.id) if each.key_name == name), None)

    # --- keys.json ---

    async def look(self) -> None:
        """Read keys.json again if it has changed, in a thread: it may be long."""
        async with self._reading:
            stamp = stamp_of(self._data / FILE)  # before reading: a change in between is noticed next time
            if stamp == self._stamp:
                self.problem = None
                return
            try:
                self._here = await asyncio.to_thread(Here.read, self._data)
            except WeftError as error:
                self.problem = str(error)
            else:
                self._stamp, self.problem = stamp, None

    @property
    def here(self) -> Here:
        """What commands on this machine did; a new object once the file was read again."""
        return self._here


# --- the files ---------------------------------------------------------------------------------------------------


def read_statements(data: Path) -> list[Statement]:
    """What the node believed when it last ran. Raise StorageError if the file is damaged."""
    found = read_private(data / MESH_FILE, MESH_FILE_BYTES_MAX)
    if found is None:
        return []
    try:
        document = msgspec.json.decode(found, type=_MeshFile)
        chains = {name: pem.encode() for name, pem in document.chains.items()}
        return [
            Statement(read_body_untrusted(body := each.text.encode()), _text(body, each, chains), each.known_s)
            for each in document.statements
        ]
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError, ValueError, BadStatement) as error:
        raise StorageError(
            f"{MESH_FILE} is damaged: {error}; without the file, the node learns all keys from its peers"
        ) from None


def write_statements(data: Path, statements: Iterable[Statement]) -> None:
    """Replace the file, one statement at a time, so that other threads can run in between."""
    chains: dict[bytes, str] = {}
    lines: list[bytes] = []
    for each in statements:
        text = each.text
        name = chains.get(text.chain)
        if name is None:
            name = chains[text.chain] = hashlib.sha256(text.chain).hexdigest()[:32]
        lines.append(msgspec.json.encode(_KeptStatement(text.body.decode(), text.signature.hex(), name, each.known_s)))
    known = msgspec.json.encode({name: chain.decode("ascii") for chain, name in chains.items()})
    document = b'{"version":1,"chains":' + known + b',"statements":[\n' + b",\n".join(lines) + b"\n]}\n"
    write_private(data / MESH_FILE, document)


def _text(body: bytes, kept: _KeptStatement, chains: Mapping[str, bytes]) -> SignedText:
    return SignedText(body, bytes.fromhex(kept.signature), chains[kept.chain])


def _parse(data: bytes | None) -> KeyFile:
    if data is None:
        return KeyFile(2)
    try:
        return msgspec.json.decode(data, type=KeyFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise StorageError(f"{FILE} is damaged: {error}") from None


def _write(data: Path, document: KeyFile) -> None:
    write_private(data / FILE, msgspec.json.format(msgspec.json.encode(document)))
