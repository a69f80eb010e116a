"""All statements about API keys that a node believes, merged: in whatever order they come, nodes end up with the same.

Keys never change, so two rules are enough. A revoked key stays revoked, whatever else is said about it. And of two
statements about the same, the later one counts (the greater digest if the times are equal); of two revocations, the one
that is kept longer.

To make comparing cheap, statements are in 256 buckets by a hash of what they are about; each bucket has a digest, and
one digest covers all of these.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from weft.limits import MIB
from weft.security.api_keys import KeyName
from weft.security.key_statements import KeyMade, KeyRevoked, Said, Statement, StatementSlot

API_KEYS_MAX: Final = 10_000  # in a mesh: they are looked up by id, so only storage and traffic grow
MADE_BYTES_MAX: Final = 32 * MIB  # of their statements: 10,000 keys with a few rights each take 24
REVOKED_MAX: Final = 10_000  # those that end first go, then the oldest: a node that missed them could revive a key
BUCKETS: Final = 256
DIGEST_BYTES: Final = 8
NOTHING: Final = bytes(DIGEST_BYTES)  # the digest of an empty bucket
# A key that has ended, and its revocation, are kept for so long, for people to see, and then forgotten.
ENDED_KEPT_S: Final = 30 * 86_400


class MergeOutcome(Enum):
    """The outcome of a merge."""

    NEW = "new"
    KNOWN = "known"  # or overruled by what is known
    NO_ROOM = "no room"


class MeshKeys:
    """Times are Unix seconds. Nobody else changes the statements, so what ``made`` returns stays the same object."""

    def __init__(self) -> None:
        self._made: dict[str, dict[StatementSlot, Statement]] = {}  # by id
        self._revoked: dict[KeyName, Statement] = {}
        self._ages: list[tuple[tuple[float, int, bytes], KeyName]] = []  # a heap of revocations; some may be gone since
        self.marks: set[bytes] = set()  # of all statements, for others to look at
        self._buckets: list[dict[StatementSlot, Statement]] = [{} for _ in range(BUCKETS)]
        self._digests: list[bytes | None] = [NOTHING] * BUCKETS  # None: to be computed again
        self.changes = 0  # how often a statement came or went
        self._count = 0  # how many keys were made
        self._bytes = 0  # of their statements

    # --- what is known -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of keys that are not revoked."""
        return self._count

    @property
    def revoked_count(self) -> int:
        return len(self._revoked)

    def made(self, key_id: str) -> list[tuple[KeyMade, Statement]]:
        """The makers of a key with that id, the earliest first. There is more than one only for ids that are numbers,
        and for keys that were copied by hand."""
        found = [(said, each) for each in self._made.get(key_id, {}).values() if isinstance(said := each.said, KeyMade)]
        return sorted(found, key=lambda each: (each[0].key.created_s, each[0].signer, each[1].order))

    def ids(self) -> Iterable[str]:
        """Of keys that are not revoked."""
        return self._made

    def names(self) -> Iterator[tuple[str, str]]:
        """The ids of keys that are not revoked, each with the key's name."""
        for key_id, makers in self._made.items():
            for each in makers.values():
                if isinstance(said := each.said, KeyMade):
                    yield key_id, said.key.name

    def revocation(self, name: KeyName) -> Statement | None:
        return self._revoked.get(name)

    def statements(self) -> list[Statement]:
        return [each for bucket in self._buckets for each in bucket.values()]

    # --- comparing -----------------------------------------------------------------------------------------------

    def bucket(self, number: int) -> list[Statement]:
        """In a fixed order."""
        return [each for _, each in sorted(self._buckets[number].items())]

    def digests(self) -> tuple[bytes, ...]:
        for number, known in enumerate(self._digests):
            if known is None:
                marks = b"".join(sorted(each.mark for each in self._buckets[number].values()))
                self._digests[number] = hashlib.sha256(marks).digest()[:DIGEST_BYTES] if marks else NOTHING
        return tuple(each for each in self._digests if each is not None)

    def summary(self) -> bytes:
        return hashlib.sha256(b"".join(self.digests())).digest()[:DIGEST_BYTES]

    # --- learning ------------------------------------------------------------------------------------------------

    def merge(self, statement: Statement, now_s: float) -> MergeOutcome:
        if has_ended(statement.said, now_s):
            return MergeOutcome.KNOWN
        if isinstance(statement.said, KeyMade) and statement.said.key_name in self._revoked:
            return MergeOutcome.KNOWN
        known = self._buckets[statement.slot.bucket].get(statement.slot)
        if known is not None and known.order >= statement.order:
            return MergeOutcome.KNOWN
        if known is None and not self._has_room(statement):
            return MergeOutcome.NO_ROOM
        self._put(statement)
        if isinstance(statement.said, KeyRevoked):
            self._drop_made(statement.said.key_name)
            self._drop_oldest_revocation()
        return MergeOutcome.NEW

    def forget(self, statements: Iterable[Statement]) -> None:
        """Forget these, which are known."""
        for each in statements:
            self._drop(each)

    def forget_ended(self, now_s: float) -> int:
        """Forget keys that ended long ago; return how many statements that were."""
        ended = [each for each in self.statements() if has_ended(each.said, now_s)]
        self.forget(ended)
        return len(ended)

    def _has_room(self, statement: Statement) -> bool:
        if isinstance(statement.said, KeyMade):
            return self._count < API_KEYS_MAX and self._bytes + statement.size_bytes <= MADE_BYTES_MAX
        if len(self._revoked) < REVOKED_MAX:
            return True
        return statement.order > self._oldest_revocation().order

    def _put(self, statement: Statement) -> None:
        slot = statement.slot
        before = self._buckets[slot.bucket].get(slot)
        if before is not None:
            self._drop(before)
        self._buckets[slot.bucket][slot] = statement
        self.marks.add(statement.mark)
        self.changes += 1
        self._digests[slot.bucket] = None
        if isinstance(statement.said, KeyMade):
            self._made.setdefault(slot.name.id, {})[slot] = statement
            self._count += 1
            self._bytes += statement.size_bytes
        else:
            self._revoked[slot.name] = statement
            heapq.heappush(self._ages, (statement.order, slot.name))

    def _drop(self, statement: Statement) -> None:
        slot = statement.slot
        del self._buckets[slot.bucket][slot]
        self.marks.discard(statement.mark)
        self.changes += 1
        self._digests[slot.bucket] = None
        if isinstance(statement.said, KeyMade):
            makers = self._made[slot.name.id]
            del makers[slot]
            if not makers:
                del self._made[slot.name.id]
            self._count -= 1
            self._bytes -= statement.size_bytes
        else:
            del self._revoked[slot.name]

    def _drop_made(self, name: KeyName) -> None:
        for slot, statement in list(self._made.get(name.id, {}).items()):
            if slot.name == name:
                self._drop(statement)

    def _drop_oldest_revocation(self) -> None:
        if len(self._revoked) > REVOKED_MAX:
            self._drop(self._oldest_revocation())

    def _oldest_revocation(self) -> Statement:
        while True:
            order, name = self._ages[0]
            found = self._revoked.get(name)
            if found is not None and found.order == order:
                return found
            heapq.heappop(self._ages)


def has_ended(said: Said, now_s: float) -> bool:
    """So long ago that it need not be known."""
    return said.expires_s is not None and now_s >= said.expires_s + ENDED_KEPT_S


def merged(statements: Iterable[Statement], now_s: float) -> MeshKeys:
    """What a node knows that has heard these."""
    keys = MeshKeys()
    for each in statements:
        keys.merge(each, now_s)
    return keys
