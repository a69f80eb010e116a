"""Who gets in, and who has to go when there is no room. Pure: time is an argument, of a monotonic clock.

A ``Door`` is a port with its bounds. All doors of a process that use descriptors share one more bound, the
``Doorkeeper``'s. If a bound is reached, a newcomer gets in only if a stranger can be closed for it:

1. Of all strangers that share the bound, those of the source (the address) that has the most are looked at.
2. Of these, the one that has waited longest goes, if it has had its chance (``grace_s``): an idle crowd cannot keep
   others out.
3. If none has had its chance yet, the newest goes, which may be the newcomer itself: in a rush, those who came first
   finish their handshakes.

A caller that has proved who it is never has to go.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Final

LEAVING_MAX: Final = 16  # told to go and not gone yet: each still has its descriptor
LEAVING_SHARE_MAX: Final = 4  # a quarter of a port: who was let in gets some turns of the loop before the next crowd


class Reason(StrEnum):
    """Why a connection was turned away; a label of metrics."""

    ADDRESS = "address"  # too many of one address
    PORT = "port"  # too many at this port
    NODE = "node"  # too many in all: descriptors are kept for the log
    LATE = "late"  # it has proved nothing in time
    DESCRIPTORS = "descriptors"  # the system has none left; nobody in particular was turned away


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """The bounds of one port. ``grace_s``: how long a stranger is safe; ``stranger_s``: how long it may stay a
    stranger.
    """

    connections_max: int
    of_address_max: int
    strangers_max: int
    strangers_of_address_max: int
    grace_s: float
    stranger_s: float = math.inf


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A connection that was refused or closed; the text is for the log, and for a peer that can still be told."""

    port: str
    host: str
    reason: Reason
    text: str

    def __str__(self) -> str:
        return self.text


def _ignore(turned: TurnedAway) -> None:
    """Nobody wants to know."""


def _do_nothing(text: str) -> None:
    """Until the owner of a connection has said how it is closed."""


class Guest:
    """One connection that was let in. Its owner sets ``turn_out``, which has to close it, and calls ``leave``."""

    __slots__ = ("door", "host", "is_here", "is_leaving", "is_stranger", "since_s", "source", "turn_out")

    def __init__(self, door: Door, host: str, source: str, now_s: float) -> None:
        self.door = door
        self.host = host
        self.source = source
        self.since_s = now_s  # a stranger since then, or idle since then
        self.is_stranger = True
        self.is_here = True
        self.is_leaving = False  # told to go
        self.turn_out: Callable[[str], None] = _do_nothing

    def prove(self) -> None:
        """It is known who this is. Once is enough."""
        if self.is_stranger and self.is_here:
            self.is_stranger = False
            for crowd in self.door.crowds:
                crowd.trust(self)

    def was_active(self, now_s: float) -> None:
        """A stranger that did something useful goes to the end of the queue of those to be closed."""
        if self.is_stranger and self.is_here and not self.is_leaving:
            self.since_s = now_s
            for crowd in self.door.crowds:
                crowd.trust(self)
                crowd.distrust(self)

    def leave(self) -> None:
        """The connection is closed. Once is enough."""
        if self.is_here:
            self.is_here = False
            for crowd in self.door.crowds:
                crowd.leave(self)


class Crowd:
    """The guests that share a bound: those of one door, or of all doors."""

    def __init__(self) -> None:
        self.size = 0
        self.leaving = 0  # told to go, and still counted in ``size``
        self.of_source: Counter[str] = Counter()
        self.strangers: dict[Guest, None] = {}  # the one that has waited longest is the first
        self._strangers_of: dict[str, dict[Guest, None]] = {}  # likewise, by source
        # How many strangers -> sources that have so many; the one that has had so many for longest is the first.
        self._ranks: dict[int, dict[str, None]] = {}
        self._most = 0  # strangers of one source

    def enter(self, guest: Guest) -> None:
        self.size += 1
        self.of_source[guest.source] += 1
        self.distrust(guest)

    def distrust(self, guest: Guest) -> None:
        self.strangers[guest] = None
        of_source = self._strangers_of.setdefault(guest.source, {})
        of_source[guest] = None
        self._rank(guest.source, len(of_source) - 1, len(of_source))

    def trust(self, guest: Guest) -> None:
        if guest not in self.strangers:
            return
        del self.strangers[guest]
        of_source = self._strangers_of[guest.source]
        del of_source[guest]
        self._rank(guest.source, len(of_source) + 1, len(of_source))
        if not of_source:
            del self._strangers_of[guest.source]

    def _rank(self, source: str, before: int, after: int) -> None:
        """Move a source's count by one, so that the largest is known without looking at all sources."""
        if before:
            del self._ranks[before][source]
            if not self._ranks[before]:
                del self._ranks[before]
        if after:
            self._ranks.setdefault(after, {})[source] = None
        if after > self._most or self._most not in self._ranks:
            self._most = after

    def send_away(self, guest: Guest) -> None:
        """It no longer counts against its address, but its descriptor is not free yet."""
        self.trust(guest)
        self._uncount(guest)
        self.leaving += 1

    def leave(self, guest: Guest) -> None:
        self.size -= 1
        if guest.is_leaving:
            self.leaving -= 1
            return
        self.trust(guest)
        self._uncount(guest)

    def _uncount(self, guest: Guest) -> None:
        self.of_source[guest.source] -= 1
        if not self.of_source[guest.source]:
            del self.of_source[guest.source]

    def strangers_of(self, source: str) -> int:
        return len(self._strangers_of.get(source, ()))

    def staying(self) -> int:
        return self.size - self.leaving

    def oldest_of(self, source: str, now_s: float, grace_s: float) -> Guest | None:
        """The stranger of this source that has waited longest, if it has had its chance."""
        oldest = next(iter(self._strangers_of.get(source, ())), None)
        return oldest if oldest is not None and now_s - oldest.since_s >= grace_s else None

    def dispensable(self, source: str, now_s: float, grace_s: float) -> Guest | None:
        """The guest to close so that somebody from this source gets in; None if there is none."""
        own = self.strangers_of(source) + 1
        if own > self._most:
            return self.oldest_of(source, now_s, grace_s)
        largest = next(iter(self._ranks[self._most]))
        oldest = self.oldest_of(largest, now_s, grace_s)
        if own == self._most:
            return oldest or self.oldest_of(source, now_s, grace_s)
        return oldest or next(reversed(self._strangers_of[largest]))


class Doorkeeper:
    """The doors of a process. ``connections_max`` holds for all doors that are not ``apart``; ``tell`` is called for
    each guest turned away.
    """

    def __init__(self, connections_max: float = math.inf, tell: Callable[[TurnedAway], None] = _ignore) -> None:
        self.connections_max = connections_max
        self.house = Crowd()
        self.turned_away: Counter[tuple[str, str]] = Counter()  # (port, reason) -> how many
        self._tell = tell

    def door(self, port: str, limits: DoorLimits, *, apart: bool = False) -> Door:
        """``apart``: its connections are provided for elsewhere, or need no descriptor."""
        return Door(self, port, limits, None if apart else self.house)

    def note(self, turned: TurnedAway) -> None:
        self.turned_away[turned.port, turned.reason.value] += 1
        self._tell(turned)


class Door:
    """One port. ``Doorkeeper.door`` makes it."""

    def __init__(self, keeper: Doorkeeper, port: str, limits: DoorLimits, house: Crowd | None) -> None:
        self.port = port
        self.limits = limits
        self._keeper = keeper
        self._guests = Crowd()
        self._house = house
        self.crowds = (self._guests,) if house is None else (self._guests, house)

    @property
    def connections(self) -> int:
        """Including those that were told to go."""
        return self._guests.size

    @property
    def strangers(self) -> int:
        return len(self._guests.strangers)

    @property
    def is_settling(self) -> bool:
        """Too many connections are being closed: accept no others before some are gone."""
        most = max(1, min(LEAVING_MAX, self.limits.connections_max // LEAVING_SHARE_MAX))
        return self._guests.leaving >= most or (self._house is not None and self._house.leaving >= LEAVING_MAX)

    def arrive(self, host: str, now_s: float) -> Guest | None:
        """Let a newcomer in, or not. Another may be turned out for it."""
        source = source_of(host)
        full = self._full(source)
        if full is not None:
            reason, text, crowd = full
            limits = self.limits
            if crowd is None:
                leaves = self._guests.oldest_of(source, now_s, limits.grace_s)
            else:
                leaves = crowd.dispensable(source, now_s, limits.grace_s)
            if leaves is None or self.is_settling:
                self._keeper.note(TurnedAway(self.port, host, reason, text))
                return None
            leaves.door.turn_away(leaves, reason, text)
        guest = Guest(self, host, source, now_s)
        for crowd in self.crowds:
            crowd.enter(guest)
        return guest

    def _full(self, source: str) -> tuple[Reason, str, Crowd | None] | None:
        """The narrowest bound that is reached, and the crowd that shares it (None: the guests of the source). A guest
        that is closed for it makes room within the wider bounds, too.
        """
        limits, guests = self.limits, self._guests
        if guests.of_source[source] >= limits.of_address_max:
            return Reason.ADDRESS, f"too many connections from one address (limit {limits.of_address_max})", None
        if guests.strangers_of(source) >= limits.strangers_of_address_max:
            return (
                Reason.ADDRESS,
                f"too many unauthenticated connections from one address (limit {limits.strangers_of_address_max})",
                None,
            )
        if guests.staying() >= limits.connections_max:
            return Reason.PORT, f"too many connections (limit {limits.connections_max})", guests
        if len(guests.strangers) >= limits.strangers_max:
            return Reason.PORT, f"too many unauthenticated connections (limit {limits.strangers_max})", guests
        if self._house is not None and self._house.staying() >= self._keeper.connections_max:
            most = self._keeper.connections_max
            return (
                Reason.NODE,
                f"too many connections for the number of files that this process may open (limit {most})",
                self._house,
            )
        return None

    def turn_away(self, guest: Guest, reason: Reason, text: str) -> None:
        """Have a connection closed. Its owner calls ``leave`` when that is done, at once or later."""
        assert guest.is_here and not guest.is_leaving, "only strangers that are still here are chosen"
        guest.is_leaving = True
        for crowd in self.crowds:
            crowd.send_away(guest)
        self._keeper.note(TurnedAway(self.port, guest.host, reason, text))
        guest.turn_out(text)

    # --- deadlines -----------------------------------------------------------------------------------------------

    def next_deadline_s(self) -> float | None:
        """When ``expire`` has something to do; None: not before another guest comes."""
        oldest = next(iter(self._guests.strangers), None)
        if oldest is None or math.isinf(self.limits.stranger_s):
            return None
        return oldest.since_s + self.limits.stranger_s

    def expire(self, now_s: float) -> None:
        """Turn out guests that have been strangers for too long."""
        text = f"no authentication within {self.limits.stranger_s:g} s"
        while (deadline_s := self.next_deadline_s()) is not None and deadline_s <= now_s:
            self.turn_away(next(iter(self._guests.strangers)), Reason.LATE, text)

    def cannot_accept(self, why: str) -> None:
        """The system gives no more descriptors."""
        self._keeper.note(TurnedAway(self.port, "", Reason.DESCRIPTORS, f"cannot accept connections: {why}"))


def source_of(host: str) -> str:
    """The source that an address counts for: for IPv6 its network, because one host has 2**64 addresses."""
    if ":" not in host or "%" in host:  # the zone of an address means nothing on another machine
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    assert isinstance(address, IPv6Address), "it has a colon"
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))
