"""Packets that wait to be sent: joins and heartbeats leave at once, events at each neighbour's pace (EMC-14)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from weft.datagram_node import Pace
from weft.emm_compact.event import Figures
from weft.emm_compact.settings import Settings
from weft.wire.emm_compact import Ecn, EventType, Packet, dscp, goes_first, tos
from weft.wire.udp import Address, Outgoing
from weft.wire.urgent_first import UrgentFirst


@dataclass(frozen=True, slots=True)
class _Way:
    """The way to one neighbour. Each has its own pace: congestion on one does not slow down the others."""

    pace: Pace
    waiting: UrgentFirst[tuple[Outgoing, float]]  # and until when it is worth sending


class CompactOutbox:
    """Joins and heartbeats are not held back: they are few, and a node that falls silent is dropped."""

    def __init__(self, settings: Settings, figures: Figures) -> None:
        self._figures = figures
        self._settings = settings
        self._signals: deque[Outgoing] = deque()
        self._ways: dict[Address, _Way] = {}

    def put(
        self,
        packet: Packet,
        targets: Collection[Address],
        ttl: int,
        ecn: Ecn,
        now_s: float,
        until_s: float = math.inf,
    ) -> int:
        """Queue a packet for these neighbours, to be sent before ``until_s``. Return for how many there was room."""
        urgent = goes_first(packet)
        mark = tos(dscp(packet), ecn)
        outgoing = [Outgoing(packet.raw, target, ttl, mark, urgent) for target in targets]
        if packet.header.type in (EventType.JOIN, EventType.HEARTBEAT):
            self._signals.extend(outgoing)
            return len(outgoing)
        return sum(self._way(each.target, now_s).waiting.put((each, until_s), urgent) for each in outgoing)

    def has_room(self, targets: Iterable[Address], urgent: bool) -> bool:
        """Whether at least one of these neighbours has room for an event, or there are none."""
        ways = [self._ways.get(target) for target in targets]
        return not ways or any(way is None or way.waiting.has_room(1, urgent) for way in ways)

    def take(self, now_s: float) -> list[Outgoing]:
        """What is to be sent now."""
        taken = list(self._signals)
        self._signals.clear()
        for way in self._ways.values():
            while way.waiting:
                outgoing, until_s = way.waiting.first()
                if until_s < now_s:
                    self._figures.expired += 1
                elif way.pace.take(now_s):
                    taken.append(outgoing)
                else:
                    break
                way.waiting.pop()
        return taken

    def ready_s(self) -> float | None:
        """When there will be something; None if nothing waits."""
        if self._signals:
            return 0.0
        return min((way.pace.ready_s() for way in self._ways.values() if way.waiting), default=None)

    def congested(self, target: Address, now_s: float) -> None:
        """There is congestion on the way to a neighbour."""
        self._figures.slowed += self._way(target, now_s).pace.congested(now_s)

    def rate_per_s(self, target: Address, now_s: float) -> float:
        way = self._ways.get(target)
        return self._settings.rate_per_s_max if way is None else way.pace.rate_per_s(now_s)

    def keep(self, targets: Collection[Address]) -> None:
        """Forget the ways to all others, and what waits there."""
        for gone in self._ways.keys() - set(targets):
            del self._ways[gone]

    def _way(self, target: Address, now_s: float) -> _Way:
        way = self._ways.get(target)
        if way is None:
            pace = Pace(self._settings.rate_per_s_min, self._settings.rate_per_s_max, now_s)
            way = self._ways[target] = _Way(pace, UrgentFirst(self._settings.outbox_max))
        return way
