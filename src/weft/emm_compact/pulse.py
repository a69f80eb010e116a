"""What a node says about itself in heartbeats: recent events, rates, congestion (EMC-08, EMC-14)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from weft.wire.emm_compact import (
    Ecn,
    EventDigest,
    Field,
    FieldType,
    Heartbeat,
    PropagationMap,
    RateSignal,
    Triple,
    find,
)

RECENT_EVENTS: Final = 16  # in a digest of 128 bits, that is 2 % of false "seen"
UPTIME_S_MAX: Final = (1 << 32) - 1  # four bytes: 136 years


class Pulse:
    """Counts between two heartbeats."""

    def __init__(
        self,
        node_id: bytes,
        fingerprint: bytes,
        ttl: int,
        interval_s: int,
        now_s: float,
        more: tuple[Field, ...] = (),
    ) -> None:
        self._node_id = node_id
        self._ttl = ttl
        self.fingerprint = fingerprint  # of the key that the node signs with: may be replaced
        # Who learns of us by a heartbeat alone must know as well when to expect the next.
        self._more = (Field(FieldType.HEARTBEAT_INTERVAL, bytes((interval_s,))), *more)
        self._started_s = now_s
        self._recent: deque[Triple] = deque(maxlen=RECENT_EVENTS)
        self._sent = 0
        self._received = 0

    def sent(self, triple: Triple) -> None:
        self._sent += 1
        self._recent.append(triple)

    def received(self, triple: Triple) -> None:
        self._received += 1
        self._recent.append(triple)

    def now(self, now_s: float) -> Heartbeat:
        """How things stand."""
        return Heartbeat(
            self._node_id,
            min(int(now_s - self._started_s), UPTIME_S_MAX),
            EventDigest.of(self._recent),
            RateSignal.measured(Ecn.ECT_0, self._sent, self._received),
            PropagationMap.measured(0, self._ttl, self.fingerprint),  # of the heartbeat itself: it begins here
            self._more,
        )

    def begin_interval(self) -> None:
        self._sent = self._received = 0


def marked(heartbeat: Heartbeat, ecn: Ecn) -> Heartbeat:
    """The same heartbeat with another congestion mark, which is different for each neighbour."""
    return replace(heartbeat, rate=replace(heartbeat.rate, ecn=ecn))


def interval_s_of(heartbeat: Heartbeat) -> int | None:
    """When to expect the next one, if it says so."""
    value = find(heartbeat.more, FieldType.HEARTBEAT_INTERVAL)
    return None if value is None else value[0] or None
