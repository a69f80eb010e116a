"""The neighbours of a node: whom it sends events to, in which order it parts with them, whom it could find again.

A relationship begins when a node joins (EMC-11) and ends with our wish or with its silence (EMC-15): there is no leave
message. There are at most ``limit``; a newcomer takes another's place only if it is preferred and the other is not, or
if the other has missed a heartbeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from weft.errors import UsageError
from weft.limits import DATAGRAM_KNOWN_MAX, DATAGRAM_RELATIONSHIPS_MIN
from weft.wire.recent import Recent
from weft.wire.udp import Address, is_quic

DATAGRAM_CHANGES_MAX: Final = 1024  # of relationships, if nobody asks for them
DATAGRAM_BAR_S: Final = 600.0  # a dropped neighbour misses us after some heartbeats and asks again: not yet
DATAGRAM_HEARTBEAT_MISSES_MAX: Final = 3  # with 10 % loss, a living neighbour is dropped once in 1,000 intervals


About = TypeVar("About")


@dataclass(frozen=True, slots=True)
class Relationship(Generic[About]):
    """A neighbour, and enough to find it again. ``about`` is what it told of itself, in the words of its protocol."""

    node_id: bytes
    address: Address
    about: About
    heartbeat_interval_s: float
    since_s: float
    heard_s: float
    is_preferred: bool

    @property
    def uuid(self) -> UUID:
        """The node id as people know it."""
        return UUID(bytes=self.node_id)

    def silent_from_s(self, misses: int) -> float:
        """When it will have missed so many heartbeats."""
        return self.heard_s + (misses + 0.5) * self.heartbeat_interval_s


class Admission(Enum):
    """What became of a node that joins."""

    NEW = auto()
    KNOWN = auto()  # a neighbour already; its address may be another now
    FULL = auto()  # no room, and nobody worse than it
    BARRED = auto()  # dropped by us a while ago
    FORWARDED = auto()  # it came over the address of another neighbour, so it does not say where its node is
    IN_THE_CLEAR = auto()  # it is a neighbour by QUIC, and stays there: its events are not to move to plain UDP


class ChangeKind(Enum):
    JOINED = auto()
    LOST = auto()  # silent for too long, or its QUIC connection ended
    DROPPED = auto()  # by us: asked for, or to make room


class Change(NamedTuple, Generic[About]):
    kind: ChangeKind
    relationship: Relationship[About]


class Relationships(Generic[About]):
    """All neighbours, by node id and by address: an address belongs to one of them at most."""

    def __init__(
        self,
        limit: int,
        preferred: Collection[bytes] = (),
        *,
        misses_max: int = DATAGRAM_HEARTBEAT_MISSES_MAX,
        known_max: int = DATAGRAM_KNOWN_MAX,
    ) -> None:
        if limit < DATAGRAM_RELATIONSHIPS_MIN:
            raise UsageError("a node takes at least 10 relationships", limit=limit, need=DATAGRAM_RELATIONSHIPS_MIN)
        self.limit = limit
        self.changes: deque[Change[About]] = deque(maxlen=DATAGRAM_CHANGES_MAX)  # for owners that want to know
        self._preferred = frozenset(preferred)
        self._misses_max = misses_max
        self._known_max = known_max
        self._by_id: dict[bytes, Relationship[About]] = {}
        self._ids: dict[Address, bytes] = {}
        self._known: dict[bytes, Relationship[About]] = {}  # neighbours and former ones, longest unheard first
        self._barred: Recent[bytes] = Recent(known_max)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Relationship[About]]:
        return iter(tuple(self._by_id.values()))

    def get(self, node_id: bytes) -> Relationship[About] | None:
        return self._by_id.get(node_id)

    def at(self, address: Address) -> Relationship[About] | None:
        """The neighbour at that address."""
        node_id = self._ids.get(address)
        return None if node_id is None else self._by_id[node_id]

    def others(self, source: Address | None) -> list[Address]:
        """Where to send an event that came from ``source``: to everybody else (EMC-12)."""
        return [address for address in self._ids if address != source]

    def known(self) -> tuple[Relationship[About], ...]:
        """Neighbours and nodes that were or wanted to be, those heard of last at the end."""
        return tuple(self._known.values())

    # --- what others do ------------------------------------------------------------------------------------------

    def admit(
        self,
        node_id: bytes,
        address: Address,
        about: About,
        heartbeat_interval_s: float,
        now_s: float,
        *,
        wanted: bool = False,
    ) -> Admission:
        """A node joins. It is remembered as known even if there is no room for it. ``wanted``: we were told to have it,
        so it is preferred, and no bar counts."""
        owner = self._ids.get(address)
        if owner is not None and owner != node_id:
            return Admission.FORWARDED
        if not wanted and self._barred.holds(node_id, now_s):
            return Admission.BARRED
        before = self._by_id.get(node_id)
        if before is not None and _would_expose(before, address):
            return Admission.IN_THE_CLEAR
        since_s = now_s if before is None else before.since_s
        is_preferred = wanted or node_id in self._preferred
        joining = Relationship(node_id, address, about, heartbeat_interval_s, since_s, now_s, is_preferred)
        self._remember(joining)
        if before is not None:
            self._put(joining)
            return Admission.KNOWN
        if len(self._by_id) >= self.limit and not self._made_room(joining, now_s):
            return Admission.FULL
        self._put(joining)
        self.changes.append(Change(ChangeKind.JOINED, joining))
        return Admission.NEW

    def hear(self, node_id: bytes, address: Address, about: About, now_s: float) -> bool:
        """A heartbeat; whether it is of a neighbour, at the neighbour's address, or of one that is here by QUIC."""
        before = self._by_id.get(node_id)
        if before is None or (before.address != address and not _would_expose(before, address)):
            return False
        heard = replace(before, about=about, heard_s=now_s)
        self._put(heard)
        self._remember(heard)
        return True

    def is_barred(self, node_id: bytes, now_s: float) -> bool:
        return self._barred.holds(node_id, now_s)

    # --- what we do ----------------------------------------------------------------------------------------------

    def expire(self, now_s: float) -> list[Relationship[About]]:
        """Part with those that have been silent for too long, and say with whom (EMC-15)."""
        silent = [each for each in self if each.silent_from_s(self._misses_max) <= now_s]
        for each in silent:
            self._remove(each, ChangeKind.LOST)
        return silent

    def next_expiry_s(self) -> float | None:
        return min((each.silent_from_s(self._misses_max) for each in self._by_id.values()), default=None)

    def gone(self, address: Address) -> None:
        """Part with the neighbour whose QUIC connection ended."""
        if (lost := self.at(address)) is not None:
            self._remove(lost, ChangeKind.LOST)

    def drop(self, node_id: bytes, now_s: float, bar_s: float = DATAGRAM_BAR_S) -> Relationship[About] | None:
        """Part with a neighbour and do not take it again for a while; None if it is not one, but barred it is."""
        self._barred.add(node_id, now_s + bar_s, now_s)
        dropped = self._by_id.get(node_id)
        if dropped is not None:
            self._remove(dropped, ChangeKind.DROPPED)
        return dropped

    def _made_room(self, joining: Relationship[About], now_s: float) -> bool:
        """Whether somebody had to go for a newcomer."""

        def worth(each: Relationship[About]) -> tuple[bool, bool, float]:
            return each.is_preferred, each.silent_from_s(1) > now_s, -each.since_s

        worst = min(self._by_id.values(), key=worth)
        is_punctual = worst.silent_from_s(1) > now_s
        if is_punctual and (worst.is_preferred or not joining.is_preferred):
            return False
        self._remove(worst, ChangeKind.DROPPED)
        return True

    def _put(self, each: Relationship[About]) -> None:
        before = self._by_id.get(each.node_id)
        if before is not None:
            del self._ids[before.address]
        self._by_id[each.node_id] = each
        self._ids[each.address] = each.node_id

    def _remove(self, each: Relationship[About], kind: ChangeKind) -> None:
        del self._by_id[each.node_id]
        del self._ids[each.address]
        self.changes.append(Change(kind, each))

    def _remember(self, each: Relationship[About]) -> None:
        self._known.pop(each.node_id, None)
        if len(self._known) >= self._known_max:
            forgotten = next((id_ for id_ in self._known if id_ not in self._by_id), next(iter(self._known)))
            del self._known[forgotten]
        self._known[each.node_id] = each


def _would_expose(neighbour: Relationship[About], address: Address) -> bool:
    """Whether packets for a neighbour would leave QUIC if they went to that address (EMM-28)."""
    return is_quic(neighbour.address) and not is_quic(address)
