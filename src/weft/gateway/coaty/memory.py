"""What was carried over already, by identity, so that nothing comes over twice, not even after a restart. Pure, except
that it reads the log once.

A message of Floodsub has an identity that its author signed: the peer and a sequence number. An event that a bridge
brings into the mesh carries a digest of that as a header, so the log itself is the memory that survives the process:
exactly the events in it were carried over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from weft.errors import WeftError
from weft.limits import MIB
from weft.log import Log
from weft.model import Batch, Pattern

IDENTITY_HEADER: Final = "coaty-message-id"
IDENTITY_BYTES: Final = 16
COATY_REMEMBERED_MAX: Final = 1 << 17  # identities, about 15 MB: two minutes at 1,000 events/s. The oldest go first
COATY_READ_BACK_S: Final = 600.0  # of the log, after a restart: slow relays are only seconds behind
COATY_READ_BACK_BYTES_MAX: Final = 64 * MIB  # of the log, after a restart: read in a second or two
US_PER_S: Final = 1_000_000


def identity_of(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=IDENTITY_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(4) + part)
    return digest.hexdigest()


class Remembered:
    """A set of identities; the oldest go first."""

    def __init__(self, count_max: int = COATY_REMEMBERED_MAX) -> None:
        self._count_max = count_max
        self._identities: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._identities)

    def __contains__(self, identity: object) -> bool:
        return identity in self._identities

    def add(self, identity: str) -> bool:
        """Return whether it is new."""
        if identity in self._identities:
            return False
        self._identities[identity] = None
        if len(self._identities) > self._count_max:
            del self._identities[next(iter(self._identities))]
        return True

    def discard(self, identity: str) -> None:
        self._identities.pop(identity, None)


def read_back(log: Log, pattern: Pattern, now_us: int) -> Iterator[str]:
    """The identities of what was recently brought into the mesh, as far as this node's log has it."""
    since_us = now_us - int(COATY_READ_BACK_S * US_PER_S)
    left = COATY_READ_BACK_BYTES_MAX
    for info in log.streams(pattern):
        try:
            place = log.seek(info.stream, info.epoch, since_us)
            while left > 0 and place < info.end:
                stored = log.read(info.stream, info.epoch, place, bytes_max=min(left, MIB))
                if not stored:
                    break
                left -= sum(map(len, stored))
                for data in stored:
                    batch = Batch.read_stored(data)
                    yield from identities_in(batch, place)
                    place = max(place, batch.end_offset)
        except WeftError:
            continue  # damaged, or gone by now: what it had is forgotten


def identities_in(batch: Batch, first_offset: int) -> Iterator[str]:
    for event in batch.events_from(first_offset):
        identity = (event.headers or {}).get(IDENTITY_HEADER)
        if identity is not None and len(identity) == 2 * IDENTITY_BYTES:
            yield identity
