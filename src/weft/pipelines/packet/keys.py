"""The keys for checking and opening packets, in the process that uses them.

Spark logs options and pickles what it sends to executors, so only paths are sent (``KeyFiles``). Every process reads
the files on its own machine, once, and again when they change. A relative path may also name a file that came with the
job (``--files trust.json``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from pyspark import SparkFiles

from weft.errors import StorageError, UsageError
from weft.references import find_file
from weft.security.files import PRIVATE_FILE, Watched
from weft.security.trust_file import FILE, Trust, TrustFile
from weft.wire import emm, emm_compact
from weft.wire.emm.judge_columns import HmacKeys
from weft.wire.emm.seal import KEY_BYTES

PACKET_SEAL_KEYS_MAX: Final = 10_000  # keys for opening sealed packets: one for each device or group of devices

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Where keys are. ``seals``: a JSON object of key ids and AES or ChaCha keys, both in hexadecimal."""

    trust: str | None = None
    seals: str | None = None
    policy: emm.TrustPolicy = emm.TrustPolicy.PINNED

    def __post_init__(self) -> None:
        if self.policy is emm.TrustPolicy.FIRST_USE:
            raise UsageError("first-use needs one record of first keys, but every executor would have its own")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that one process has now. ``hmac_keys`` caches those that were used."""

    trust: emm.TrustStore = field(default_factory=emm.TrustStore, repr=False)
    ring: emm_compact.KeyRing = field(default_factory=emm_compact.KeyRing, repr=False)
    seals: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    hmac_keys: HmacKeys = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hmac_keys", HmacKeys(self.trust))


def keys_here(files: KeyFiles) -> Keys:
    """This process' keys, as the files are now."""
    reader = _READERS.get(files)
    if reader is None:
        reader = _READERS[files] = _Reader(files, time.monotonic())
    return reader.current(time.monotonic())


_NO_TRUST: Final = Trust()
_NO_SEALS: Final[Mapping[bytes, bytes]] = {}


class _Reader:
    """Files that are read again when they change, and the keys made from them."""

    def __init__(self, files: KeyFiles, now_s: float) -> None:
        self._policy = files.policy
        self._trust = None if files.trust is None else TrustFile(_trust_directory(files.trust), now_s)
        self._seals = None if files.seals is None else Watched(_located(files.seals), _read_seals, now_s)
        self._made_of: tuple[Trust, Mapping[bytes, bytes]] | None = None
        self._keys = Keys()
        self._said: str | None = None

    def current(self, now_s: float) -> Keys:
        trust = _NO_TRUST if self._trust is None else self._trust.current(now_s)
        seals = _NO_SEALS if self._seals is None else self._seals.get(now_s)
        self._say_problems()
        if self._made_of is None or self._made_of[0] is not trust or self._made_of[1] is not seals:
            store = emm.TrustStore(self._policy)
            trust.fill(store, Trust())
            self._keys = Keys(store, trust.key_ring(), {**trust.seal_keys(), **seals})
            self._made_of = trust, seals
        return self._keys

    def _say_problems(self) -> None:
        problems = [each.problem for each in (self._trust, self._seals) if each is not None and each.problem]
        said = "; ".join(problems) or None
        if said is not None and said != self._said:
            log.warning("going on with the keys known so far: %s", said)
        self._said = said


_READERS: Final[dict[KeyFiles, _Reader]] = {}


def _trust_directory(path: str) -> Path:
    """The path of the trust file's directory, given the file itself or its directory."""
    given = str(Path(path) / FILE) if Path(path).expanduser().is_dir() else path
    if Path(given).name != FILE:
        raise UsageError(f"a trust store is a file {FILE} or the data directory that has one", given=path)
    return _located(given).parent


def _located(path: str) -> Path:
    """The file on this machine. A copy that Spark brought is readable by others, so its permissions are restricted
    before it is read."""
    found = find_file(path)
    try:
        if _came_with_the_job(found):
            found.chmod(PRIVATE_FILE)
        found.stat()
    except OSError as error:
        raise UsageError(f"cannot read the keys in {found} on this machine: {error.strerror}") from None
    return found


def _came_with_the_job(path: Path) -> bool:
    """Whether Spark put the file there because it came with the job; on executors, maybe in the working directory."""
    try:
        return path.resolve().parent == Path(SparkFiles.getRootDirectory()).resolve()
    except AssertionError:  # no Spark here
        return False


def _read_seals(data: bytes | None) -> Mapping[bytes, bytes]:
    try:
        named = msgspec.json.decode(data or b"{}", type=dict[str, str])
        keys = {bytes.fromhex(key_id): bytes.fromhex(key) for key_id, key in named.items()}
    except (msgspec.DecodeError, ValueError):
        raise StorageError("a file of seal keys is a JSON object of key ids and keys in hexadecimal") from None
    if len(keys) > PACKET_SEAL_KEYS_MAX:
        raise StorageError("too many seal keys", have=len(keys), limit=PACKET_SEAL_KEYS_MAX)
    for key_id, key in keys.items():
        if len(key) != KEY_BYTES:
            raise StorageError(f"seal key {key_id.hex()} has the wrong size", need=KEY_BYTES, have=len(key))
    return keys
