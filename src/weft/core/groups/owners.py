"""Which member should have which stream: the one with the highest weight (rendezvous hashing).

The weight is a hash of stream, epoch and member, the same on every node. So a member that joins takes a few streams
from every other member, the streams of one that leaves are shared among all others, and nothing else moves. A member
that comes back, even at another node, has its old weights.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from weft.core.groups.events import GROUP_STREAMS_KEPT_MAX, text_of
from weft.core.messages import StreamKey
from weft.core.topics import GROUPS_PREFIX, selects
from weft.model import NodeId, Pattern

MASK: Final = (1 << 64) - 1


@dataclass(slots=True)
class WorkShare:
    """How many streams may still be looked at in this turn of the loop, for all groups together."""

    left: int


class GroupMember(NamedTuple):
    """A living member of a group, anywhere in the mesh. It is a tuple because thousands are compared and hashed."""

    node: NodeId
    name: str
    pattern: Pattern


Rank: TypeAlias = tuple[int, str, NodeId]


def rank(key: StreamKey, name: str, node: NodeId) -> Rank:
    """The rank of a member for a stream: the member with the highest rank gets the stream. If members at two nodes have
    the same name, the greater node id decides."""
    return _mixed(_digest_of_stream(key) ^ _digest(name)), name, node


def wants(pattern: Pattern, key: StreamKey) -> bool:
    """Whether a member with this pattern can have a stream.

    No group gets the events on the groups' own topics: reading them would change the group's positions, which would
    make new events for ever.
    """
    topic = key[0].topic
    return selects(pattern, topic) and not topic.startswith(GROUPS_PREFIX)


def owner_of(key: StreamKey, members: Iterable[GroupMember]) -> GroupMember | None:
    """The definition: which of these members gets a stream."""
    able = (each for each in members if wants(each.pattern, key))
    return max(able, key=lambda each: rank(key, each.name, each.node), default=None)


class Owners:
    """``owner_of`` for many streams, kept up to date a few streams at a time, because there may be a hundred thousand.
    Until ``work`` is done, the streams that it has not reached keep their old owners."""

    def __init__(self) -> None:
        self._members: frozenset[GroupMember] = frozenset()
        self._able = _Able(())
        self.patterns: frozenset[Pattern] = frozenset()
        self._best: dict[StreamKey, tuple[Rank, GroupMember]] = {}
        self._jobs: deque[_Job] = deque()

    def get(self, key: StreamKey) -> GroupMember | None:
        best = self._best.get(key)
        return best[1] if best and best[1] in self._members else None

    def end(self) -> dict[StreamKey, tuple[Rank, GroupMember]]:
        """Hand over what is known of streams, so that the caller can free it bit by bit."""
        return self._best

    def items(self) -> Iterator[tuple[StreamKey, GroupMember]]:
        return ((key, owner) for key, (_, owner) in self._best.items() if owner in self._members)

    def add(self, key: StreamKey) -> bool:
        """Add a new stream; return whether it has an owner."""
        return self._able.elect(key, self._best)

    def set_members(self, members: frozenset[GroupMember], keys: Iterable[StreamKey]) -> None:
        """Let these members share the streams ``keys``. The new owners are known once ``work`` is done."""
        gone, new = self._members - members, members - self._members
        if not gone and not new:
            return
        self._members, self._able = members, _Able(members)
        self.patterns = frozenset(each.pattern for each in members)
        if not members:  # no stream has an owner: forget the old owners, some at a time
            self._jobs, keys = deque(), self._best
        self._jobs.append(_Job(iter(list(keys)), _Able(new)))

    def work(self, share: WorkShare) -> tuple[bool, list[StreamKey]]:
        """Look at as many streams as ``share`` allows; a stream counts for more if there are many members. Return
        whether that was all, and which streams have a new owner."""
        changed: list[StreamKey] = []
        while self._jobs and share.left > 0:
            job = self._jobs[0]
            key = next(job.left, None)
            if key is None:
                self._jobs.popleft()
                continue
            known = self._best.get(key)
            if known is not None and known[1] not in self._members:
                del self._best[key]
                if self._members:
                    self._able.elect(key, self._best)
                    changed.append(key)
                share.left -= self._able.cost
            else:
                if job.new.elect(key, self._best, self._members):
                    changed.append(key)
                share.left -= job.new.cost
        return not self._jobs, changed


class _Able:
    """Members by the pattern that they want. Names are hashed once, so electing one of a thousand members only mixes
    numbers."""

    def __init__(self, members: Iterable[GroupMember]) -> None:
        self._by_pattern: dict[Pattern, list[tuple[int, GroupMember]]] = {}
        for each in members:
            self._by_pattern.setdefault(each.pattern, []).append((_digest(each.name), each))
        self.cost = 1 + sum(map(len, self._by_pattern.values())) // 4  # of one election

    def elect(
        self,
        key: StreamKey,
        best: dict[StreamKey, tuple[Rank, GroupMember]],
        still: frozenset[GroupMember] | None = None,
    ) -> bool:
        """Give the stream to the highest of these members, unless a higher one has it already. Return whether it
        changed hands. ``still``: if given, only members in it can get the stream, because the others have left
        meanwhile."""
        changed = False
        for pattern, able in self._by_pattern.items():
            if not wants(pattern, key):
                continue
            digest = _digest_of_stream(key)
            ranks = (
                ((_mixed(digest ^ number), each.name, each.node), each)
                for number, each in able
                if still is None or each in still
            )
            found, known = max(ranks, default=None), best.get(key)
            if found is not None and (known is None or found > known):
                best[key] = found
                changed = True
        return changed


class _Job(NamedTuple):
    """The streams that still have to be looked at after a change, and the members that are new with it."""

    left: Iterator[StreamKey]
    new: _Able


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


@lru_cache(maxsize=GROUP_STREAMS_KEPT_MAX)
def _digest_of_stream(key: StreamKey) -> int:
    return _digest(text_of(key))


def _mixed(number: int) -> int:
    """Mix 64 bits so that each input bit changes about half of the output bits: the last steps of splitmix64."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31
