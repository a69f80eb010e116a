"""Which member should have which stream: the one with the highest weight (rendezvous hashing).

The weight is a hash of stream, epoch and member, the same on every node. So who comes takes from everybody a few
streams, who goes leaves its own to all others, and nothing else moves. A member that comes back, be it at another node,
has the weights that it had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from weft.core.groups.events import GROUP_STREAMS_KEPT_MAX, text_of
from weft.core.messages import StreamKey
from weft.core.topics import GROUPS_PREFIX, selects
from weft.model import NodeId, Pattern

MASK: Final = (1 << 64) - 1


class GroupMember(NamedTuple):
    """A living member of a group, anywhere in the mesh. A tuple: they are compared and hashed by the thousand."""

    node: NodeId
    name: str
    pattern: Pattern


Rank: TypeAlias = tuple[int, str, NodeId]


def rank(key: StreamKey, name: str, node: NodeId) -> Rank:
    """The higher one has the stream. A name that two nodes have belongs to the higher of them."""
    return _mixed(_digest_of_stream(key) ^ _digest(name)), name, node


def wants(pattern: Pattern, key: StreamKey) -> bool:
    """Whether a member with this pattern can have a stream.

    What is said about groups goes to no group: its own positions would be news to it, for ever and ever.
    """
    topic = key[0].topic
    return selects(pattern, topic) and not topic.startswith(GROUPS_PREFIX)


def owner_of(key: StreamKey, members: Iterable[GroupMember]) -> GroupMember | None:
    """The definition: whom a stream belongs to, of these."""
    able = (each for each in members if wants(each.pattern, key))
    return max(able, key=lambda each: rank(key, each.name, each.node), default=None)


class Owners:
    """``owner_of`` for many streams, kept up to date by what changed."""

    def __init__(self) -> None:
        self._members: frozenset[GroupMember] = frozenset()
        self.patterns: frozenset[Pattern] = frozenset()
        self._best: dict[StreamKey, tuple[Rank, GroupMember]] = {}

    def get(self, key: StreamKey) -> GroupMember | None:
        best = self._best.get(key)
        return best[1] if best else None

    def items(self) -> Iterator[tuple[StreamKey, GroupMember]]:
        return ((key, owner) for key, (_, owner) in self._best.items())

    def add(self, key: StreamKey) -> None:
        """A stream that is new."""
        self._improve((key,), self._members)

    def set_members(self, members: frozenset[GroupMember], keys: Iterable[StreamKey]) -> None:
        """From now on the streams ``keys`` belong to these."""
        gone, new = self._members - members, members - self._members
        self._members = members
        if gone or new:
            self.patterns = frozenset(each.pattern for each in members)
        if gone:
            orphans = [key for key, (_, owner) in self._best.items() if owner in gone]
            for key in orphans:
                del self._best[key]
            self._improve(orphans, members)
        if new:
            self._improve(keys, new)

    def _improve(self, keys: Iterable[StreamKey], members: Iterable[GroupMember]) -> None:
        """Let these have what they should have. Of a stream and each of a thousand members only numbers are mixed."""
        by_pattern: dict[Pattern, list[tuple[int, GroupMember]]] = {}
        for each in members:
            by_pattern.setdefault(each.pattern, []).append((_digest(each.name), each))
        for key in keys:
            for pattern, able in by_pattern.items():
                if wants(pattern, key):
                    self._elect(key, able)

    def _elect(self, key: StreamKey, able: list[tuple[int, GroupMember]]) -> None:
        digest = _digest_of_stream(key)
        best = max(((_mixed(digest ^ number), each.name, each.node), each) for number, each in able)
        known = self._best.get(key)
        if known is None or best > known:
            self._best[key] = best


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


@lru_cache(maxsize=GROUP_STREAMS_KEPT_MAX)
def _digest_of_stream(key: StreamKey) -> int:
    return _digest(text_of(key))


def _mixed(number: int) -> int:
    """Every bit of 64 changes half of the others: the last steps of splitmix64."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31
