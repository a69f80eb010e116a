"""The EMM trust store on disk, ``<data>/trust.json``: whose key is whose among devices (EMM-17, EMC-05).

One file serves both header formats: HMAC keys and Ed25519 keys by (node id, auth key id) for EMM; for EMM-C the same
Ed25519 keys, found by node id or by fingerprint, and the group keys of the mesh. ``weft trust`` changes it; a running
node takes changes over with ``TrustFile.current``, ``fill`` and ``key_ring``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import msgspec

from weft.errors import StorageError, UsageError
from weft.security.files import Watched, alone, private_directory, read_private, write_private
from weft.security.secret import Secret
from weft.wire import emm, emm_compact

TRUST_KEYS_MAX: Final = 100_000  # of EMM devices
FILE: Final = "trust.json"
KEY_ID_BYTES: Final = 4
FINGERPRINT_BYTES: Final = 4  # shown for a key: tells two apart, and tells nothing of a secret


class KeyKind(StrEnum):
    HMAC = "hmac"
    ED25519 = "ed25519"


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """A key of a device. An Ed25519 key is public; it is hidden all the same, so that nobody has to ask which it is."""

    node_id: UUID
    key_id: bytes
    kind: KeyKind
    key: Secret[bytes]


@dataclass(frozen=True, slots=True)
class Trust:
    """All keys. Group keys in the order they were added: the last is the one to sign with."""

    devices: tuple[DeviceKey, ...] = ()
    groups: tuple[Secret[bytes], ...] = ()

    def fill(self, store: emm.TrustStore, before: Trust) -> None:
        """Bring a store that holds ``before`` to what is here. Keys it has pinned on first use stay."""
        kept = set(map(_slot, self.devices))
        for each in before.devices:
            if _slot(each) not in kept:
                store.remove(each.node_id, each.key_id)  # of either kind: the other one comes back below
        for each in self.devices:
            _add(store, each)

    def key_ring(self) -> emm_compact.KeyRing:
        """Raise UsageError if there are more keys than a receiver may be made to try."""
        by_node_id: defaultdict[bytes, list[bytes]] = defaultdict(list)
        by_fingerprint: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for each in self.devices:
            if each.kind is KeyKind.ED25519:
                key = each.key.reveal()
                by_node_id[each.node_id.bytes].append(key)
                if key not in by_fingerprint[emm_compact.fingerprint(key)]:
                    by_fingerprint[emm_compact.fingerprint(key)].append(key)
        return emm_compact.KeyRing(
            tuple(each.reveal() for each in self.groups),
            {name: tuple(keys) for name, keys in by_node_id.items()},
            {name: tuple(keys) for name, keys in by_fingerprint.items()},
        )


def fingerprint(key: Secret[bytes]) -> str:
    """What is shown of a key."""
    return hashlib.sha256(key.reveal()).digest()[:FINGERPRINT_BYTES].hex()


# --- changing ----------------------------------------------------------------------------------------------------


def read_trust(data: Path) -> Trust:
    return _parse(read_private(data / FILE))


def add_device(data: Path, wanted: DeviceKey) -> None:
    """Add the key, or put it in the place of the one with that node id, key id and kind."""

    def add(found: Trust) -> Trust:
        others = tuple(each for each in found.devices if _slot(each) != _slot(wanted))
        return Trust((*others, wanted), found.groups)

    _change(data, add)


def remove_devices(data: Path, node_id: UUID, key_id: bytes | None) -> int:
    """Remove the keys of a device, or those with one key id; return how many. Raise UsageError if there are none."""
    gone = 0

    def remove(found: Trust) -> Trust:
        nonlocal gone
        left = tuple(each for each in found.devices if each.node_id != node_id or key_id not in (None, each.key_id))
        gone = len(found.devices) - len(left)
        if not gone:
            named = "" if key_id is None else f" with key id {key_id.hex()}"
            raise UsageError(f"there is no key of node {node_id}{named}")
        return Trust(left, found.groups)

    _change(data, remove)
    return gone


def add_group(data: Path, key: Secret[bytes]) -> None:
    def add(found: Trust) -> Trust:
        if key in found.groups:
            raise UsageError(f"group key {fingerprint(key)} is there already")
        return Trust(found.devices, (*found.groups, key))

    _change(data, add)


def remove_group(data: Path, named: str) -> None:
    """``named``: the key's fingerprint as ``weft trust list`` shows it."""

    def remove(found: Trust) -> Trust:
        left = tuple(each for each in found.groups if fingerprint(each) != named.lower())
        if left == found.groups:
            raise UsageError(f"there is no group key {named[:20]!r} (weft trust list shows their fingerprints)")
        return Trust(found.devices, left)

    _change(data, remove)


def _change(data: Path, change: Callable[[Trust], Trust]) -> None:
    private_directory(data)
    with alone(data / FILE):
        changed = change(_parse(read_private(data / FILE)))
        _check(changed)
        write_private(data / FILE, msgspec.json.format(msgspec.json.encode(_document(changed))))


# --- reading again -----------------------------------------------------------------------------------------------


class TrustFile:
    """The file as a running node sees it; ``problem`` says why it cannot be read any more, although it could."""

    def __init__(self, data: Path, now_s: float) -> None:
        """Raise StorageError if the file is damaged. Times are of a monotonic clock."""
        self._watched = Watched(data / FILE, _parse, now_s)

    def current(self, now_s: float) -> Trust:
        """The same object as long as nothing has changed."""
        return self._watched.get(now_s)

    @property
    def problem(self) -> str | None:
        return self._watched.problem


# --- the file ----------------------------------------------------------------------------------------------------


class _DeviceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node_id: UUID
    key_id: str
    kind: KeyKind
    key: str

    def __repr__(self) -> str:
        return f"_DeviceEntry({self.node_id}, {self.key_id})"


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    devices: list[_DeviceEntry] = []
    groups: list[str] = []
    version: Literal[1] = 1

    def __repr__(self) -> str:
        return "_Document(***)"


def _document(trust: Trust) -> _Document:
    return _Document(
        [_DeviceEntry(each.node_id, each.key_id.hex(), each.kind, each.key.reveal().hex()) for each in trust.devices],
        [each.reveal().hex() for each in trust.groups],
    )


def _parse(data: bytes | None) -> Trust:
    if data is None:
        return Trust()
    try:
        document = msgspec.json.decode(data, type=_Document)
        trust = Trust(
            tuple(
                DeviceKey(each.node_id, bytes.fromhex(each.key_id), each.kind, Secret(bytes.fromhex(each.key)))
                for each in document.devices
            ),
            tuple(Secret(bytes.fromhex(each)) for each in document.groups),
        )
        _check(trust)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, UsageError) as error:
        raise StorageError(f"{FILE} is damaged: {error}") from None
    return trust


def _check(trust: Trust) -> None:
    """Raise UsageError for keys that the codecs would not take."""
    if len(trust.devices) > TRUST_KEYS_MAX:
        raise UsageError("too many device keys", have=len(trust.devices), limit=TRUST_KEYS_MAX)
    trust.fill(emm.TrustStore(), Trust())
    trust.key_ring()


def _add(store: emm.TrustStore, each: DeviceKey) -> None:
    match each.kind:
        case KeyKind.HMAC:
            store.add_hmac_key(each.node_id, each.key_id, each.key.reveal())
        case KeyKind.ED25519:
            store.add_public_key(each.node_id, each.key_id, each.key.reveal())


def _slot(each: DeviceKey) -> tuple[UUID, bytes, KeyKind]:
    return each.node_id, each.key_id, each.kind
