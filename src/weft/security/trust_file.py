"""The EMM trust store on disk, ``<data>/trust.json``: whose key is whose among devices (EMM-17, EMC-05).

One file serves both header formats: HMAC keys and Ed25519 keys by (node id, auth key id) for EMM, keys that payloads
are encrypted with, keys that a gateway pinned on first use, and the names that events of a device may have (SEC-03);
for EMM-C the same Ed25519 keys, found by node id or by fingerprint, and the group keys of the mesh. ``weft trust``
changes it; a running node takes changes over with ``TrustFile.current`` and the methods of ``Trust``, and writes pins
down with ``add_pins``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import msgspec

from weft.errors import StorageError, UsageError
from weft.model import Pattern, parse_pattern
from weft.security.files import Watched, alone, private_directory, read_private, write_private
from weft.security.secret import Secret
from weft.wire import emm, emm_compact
from weft.wire.emm.encryption import KEY_ID_BYTES as _SEAL_ID_BYTES
from weft.wire.emm.seal import KEY_BYTES as _SEAL_KEY_BYTES
from weft.wire.emm.trust import EMM_FIRST_USE_KEYS_MAX

TRUST_KEYS_MAX: Final = 100_000  # of EMM devices
TRUST_NAMES_MAX: Final = 64  # patterns of one device: all are tried for a name that is new
TRUST_SEALS_MAX: Final = 10_000  # encryption keys: one for each device, or group of them
FILE: Final = "trust.json"
KEY_ID_BYTES: Final = 4
SEAL_ID_BYTES: Final = _SEAL_ID_BYTES
FINGERPRINT_BYTES: Final = 4  # shown for a key: tells two apart, and tells nothing of a secret


class KeyKind(StrEnum):
    HMAC = "hmac"
    ED25519 = "ed25519"


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """A key of a device. An Ed25519 key is public; it is hidden all the same, so that both kinds are handled alike."""

    node_id: UUID
    key_id: bytes
    kind: KeyKind
    key: Secret[bytes]


@dataclass(frozen=True, slots=True)
class SealKey:
    """A key that payloads are encrypted with. Its id is what packets call it; a device's own may have its node id."""

    key_id: bytes
    key: Secret[bytes]


@dataclass(frozen=True, slots=True)
class Pin:
    """The public key that a device was first seen with (policy `first-use`)."""

    node_id: UUID
    public_key: bytes


@dataclass(frozen=True, slots=True)
class DeviceNames:
    """The names that events of a device may have, whichever of its keys it uses (SEC-03)."""

    node_id: UUID
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Trust:
    """All keys. Group keys in the order they were added: the last is the one to sign with."""

    devices: tuple[DeviceKey, ...] = ()
    groups: tuple[Secret[bytes], ...] = ()
    seals: tuple[SealKey, ...] = ()
    pins: tuple[Pin, ...] = ()
    names: tuple[DeviceNames, ...] = ()  # devices that are not here may use every name

    def fill(self, store: emm.TrustStore, before: Trust) -> None:
        """Bring a store that holds ``before`` up to date. Keys that it pinned since then stay."""
        kept = set(map(_slot, self.devices))
        for each in before.devices:
            if _slot(each) not in kept:
                store.remove(each.node_id, each.key_id)  # of either kind: the other one comes back below
        for each in self.devices:
            _add(store, each)
        for gone in set(before.pins) - set(self.pins):
            store.unpin(gone.node_id)
        for pin in self.pins:
            store.pin(pin.node_id, pin.public_key)

    def seal_keys(self) -> dict[bytes, bytes]:
        """Encryption keys by their ids."""
        return {each.key_id: each.key.reveal() for each in self.seals}

    def names_by_sender(self) -> dict[bytes, list[tuple[Pattern, ...]]]:
        """The patterns of each device that has some, by its node id and by the fingerprints of its public keys. Devices
        that share a fingerprint may use what all of them may."""
        found = {each.node_id.bytes: [each.patterns] for each in self.names}
        for device in self.devices:
            patterns = found.get(device.node_id.bytes)
            if patterns is not None and device.kind is KeyKind.ED25519:
                found.setdefault(emm_compact.fingerprint(device.key.reveal()), []).extend(patterns)
        return found

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


def add_device(data: Path, wanted: DeviceKey, names: tuple[Pattern, ...] = ()) -> None:
    """Add the key, or put it in the place of the one with that node id, key id and kind. With ``names``, the device may
    use those and no others; without, what it may use stays as it is."""

    def add(found: Trust) -> Trust:
        others = tuple(each for each in found.devices if _slot(each) != _slot(wanted))
        changed = replace(found, devices=(*others, wanted))
        return _with_names(changed, DeviceNames(wanted.node_id, names)) if names else changed

    _change(data, add)


def set_names(data: Path, wanted: DeviceNames) -> None:
    """Let the device use these names, and no longer those that it had. Raise UsageError if it has no key."""

    def change(found: Trust) -> Trust:
        known = {each.node_id for each in found.devices} | {each.node_id for each in found.pins}
        if wanted.node_id not in known:
            raise UsageError(f"there is no key of node {wanted.node_id}")
        return _with_names(found, wanted)

    _change(data, change)


def _with_names(trust: Trust, wanted: DeviceNames) -> Trust:
    return replace(trust, names=(*(each for each in trust.names if each.node_id != wanted.node_id), wanted))


def remove_devices(data: Path, node_id: UUID, key_id: bytes | None) -> int:
    """Remove the keys of a device, or those with one key id; return how many. Raise UsageError if there are none.

    Without a key id, what was pinned for the device, what it encrypts with and which names it may use go, too. With
    one, the names stay: the key may be on its way out while another comes.
    """
    gone = 0

    def remove(found: Trust) -> Trust:
        nonlocal gone
        left = replace(
            found,
            devices=tuple(
                each for each in found.devices if each.node_id != node_id or key_id not in (None, each.key_id)
            ),
        )
        if key_id is None:
            left = replace(
                left,
                pins=tuple(each for each in found.pins if each.node_id != node_id),
                seals=tuple(each for each in found.seals if each.key_id != node_id.bytes),
                names=tuple(each for each in found.names if each.node_id != node_id),
            )
        gone = _count(found) - _count(left)
        if not gone:
            named = "" if key_id is None else f" with key id {key_id.hex()}"
            raise UsageError(f"there is no key of node {node_id}{named}")
        return left

    _change(data, remove)
    return gone


def _count(trust: Trust) -> int:
    return len(trust.devices) + len(trust.seals) + len(trust.pins)


def add_seal(data: Path, wanted: SealKey) -> None:
    """Add the key, or put it in the place of the one with that id."""

    def add(found: Trust) -> Trust:
        return replace(found, seals=(*(each for each in found.seals if each.key_id != wanted.key_id), wanted))

    _change(data, add)


def remove_seal(data: Path, key_id: bytes) -> None:
    def remove(found: Trust) -> Trust:
        left = tuple(each for each in found.seals if each.key_id != key_id)
        if left == found.seals:
            raise UsageError(f"there is no encryption key {key_id.hex()}")
        return replace(found, seals=left)

    _change(data, remove)


def add_pins(data: Path, pins: Mapping[UUID, bytes]) -> None:
    """Write down what a gateway pinned. A device that has a pin or a key by now keeps that."""

    def add(found: Trust) -> Trust:
        known = {each.node_id for each in found.pins}
        known |= {each.node_id for each in found.devices if each.kind is KeyKind.ED25519}
        fresh = tuple(Pin(node_id, key) for node_id, key in pins.items() if node_id not in known)
        return replace(found, pins=found.pins + fresh)

    _change(data, add)


def add_group(data: Path, key: Secret[bytes], *, signs: bool = True) -> None:
    """Believe the key and sign with it; or believe it only, until it is added again (EMC-05)."""

    def add(found: Trust) -> Trust:
        others = tuple(each for each in found.groups if each != key)
        is_known, is_last = len(others) < len(found.groups), found.groups[-1:] == (key,)
        if is_last or (is_known and not signs):
            raise UsageError(f"group key {fingerprint(key)} exists already")
        if not others and not signs:
            raise UsageError("there is no other group key to sign with")
        return replace(found, groups=(*others, key) if signs else (key, *others))

    _change(data, add)


def remove_group(data: Path, named: str) -> None:
    """``named``: the key's fingerprint as ``weft trust list`` shows it."""

    def remove(found: Trust) -> Trust:
        left = tuple(each for each in found.groups if fingerprint(each) != named.lower())
        if left == found.groups:
            raise UsageError(f"there is no group key {named[:20]!r} (weft trust list shows their fingerprints)")
        return replace(found, groups=left)

    _change(data, remove)


def _change(data: Path, change: Callable[[Trust], Trust]) -> None:
    private_directory(data)
    with alone(data / FILE):
        changed = change(_parse(read_private(data / FILE)))
        _check(changed)
        write_private(data / FILE, msgspec.json.format(msgspec.json.encode(_document(changed))))


# --- reading again -----------------------------------------------------------------------------------------------


class TrustFile:
    """The file as a running node sees it; ``problem`` says why it can no longer be read."""

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


class _SealEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key_id: str
    key: str

    def __repr__(self) -> str:
        return f"_SealEntry({self.key_id})"


class _PinEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node_id: UUID
    public_key: str


class _NamesEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node_id: UUID
    patterns: list[str]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    devices: list[_DeviceEntry] = []
    groups: list[str] = []
    seals: list[_SealEntry] = []
    pins: list[_PinEntry] = []
    names: list[_NamesEntry] = []
    version: Literal[1] = 1

    def __repr__(self) -> str:
        return "_Document(***)"


def _document(trust: Trust) -> _Document:
    return _Document(
        [_DeviceEntry(each.node_id, each.key_id.hex(), each.kind, each.key.reveal().hex()) for each in trust.devices],
        [each.reveal().hex() for each in trust.groups],
        [_SealEntry(each.key_id.hex(), each.key.reveal().hex()) for each in trust.seals],
        [_PinEntry(each.node_id, each.public_key.hex()) for each in trust.pins],
        [_NamesEntry(each.node_id, list(each.patterns)) for each in trust.names],
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
            tuple(SealKey(bytes.fromhex(each.key_id), Secret(bytes.fromhex(each.key))) for each in document.seals),
            tuple(Pin(each.node_id, bytes.fromhex(each.public_key)) for each in document.pins),
            tuple(DeviceNames(each.node_id, tuple(map(parse_pattern, each.patterns))) for each in document.names),
        )
        _check(trust)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, UsageError) as error:
        raise StorageError(f"{FILE} is damaged: {error}") from None
    return trust


def _check(trust: Trust) -> None:
    """Raise UsageError for keys that the codecs would not take."""
    if len(trust.devices) > TRUST_KEYS_MAX:
        raise UsageError("too many device keys", have=len(trust.devices), limit=TRUST_KEYS_MAX)
    if len(trust.seals) > TRUST_SEALS_MAX:
        raise UsageError("too many encryption keys", have=len(trust.seals), limit=TRUST_SEALS_MAX)
    if len(trust.pins) > EMM_FIRST_USE_KEYS_MAX:
        raise UsageError("too many keys pinned on first use", have=len(trust.pins), limit=EMM_FIRST_USE_KEYS_MAX)
    for named in trust.names:
        if not 0 < len(named.patterns) <= TRUST_NAMES_MAX:
            raise UsageError(
                f"a device has 1 to {TRUST_NAMES_MAX} patterns of names, or no list", have=len(named.patterns)
            )
    for each in trust.seals:
        _check_size("the id of an encryption key", each.key_id, SEAL_ID_BYTES)
        _check_size("an encryption key", each.key.reveal(), _SEAL_KEY_BYTES)
    trust.fill(emm.TrustStore(emm.TrustPolicy.FIRST_USE), Trust())
    trust.key_ring()


def _check_size(what: str, value: bytes, size: int) -> None:
    if len(value) != size:
        raise UsageError(f"{what} has {size} bytes", have=len(value))


def _add(store: emm.TrustStore, each: DeviceKey) -> None:
    match each.kind:
        case KeyKind.HMAC:
            store.add_hmac_key(each.node_id, each.key_id, each.key.reveal())
        case KeyKind.ED25519:
            store.add_public_key(each.node_id, each.key_id, each.key.reveal())


def _slot(each: DeviceKey) -> tuple[UUID, bytes, KeyKind]:
    return each.node_id, each.key_id, each.kind
