"""Direct links and their health (PL-03): a heartbeat every interval; three without a sign of life make a link
unhealthy.

Every peer gets heartbeats, even one that knows only the four messages of the design document. The deadline for an
answer is the next heartbeat. A heartbeat from the peer is as good a sign of life as an answer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from weft.membership.messages import Effect, Health, HealthChanged, Heartbeat, RoundTrip, Send
from weft.model import NodeId

HEARTBEAT_MISSES_MAX: Final = 3  # PL-03
HEARTBEAT_ANSWER_S_MIN: Final = 1.0  # between answers: enough for every honest peer, and no flood of answers


class Sign(Enum):
    UP = "up"
    HEARD = "heard"
    MISSED = "missed too often"
    DOWN = "down"


# A pair that is not listed changes nothing.
TRANSITIONS: Final = {
    (Health.DISCONNECTED, Sign.UP): Health.HEALTHY,
    (Health.HEALTHY, Sign.MISSED): Health.UNHEALTHY,
    (Health.UNHEALTHY, Sign.HEARD): Health.HEALTHY,
    (Health.UNHEALTHY, Sign.UP): Health.HEALTHY,  # a new connection has replaced the silent one
    (Health.HEALTHY, Sign.DOWN): Health.DISCONNECTED,
    (Health.UNHEALTHY, Sign.DOWN): Health.DISCONNECTED,
}


class HeardFrom:
    __slots__ = ("answered_s", "gossips", "health", "heard", "misses")

    def __init__(self) -> None:
        self.gossips = False
        self.health = Health.DISCONNECTED
        self.heard = True  # a sign of life has come since the last heartbeat; the handshake counts as one
        self.misses = 0  # heartbeats in a row without a sign of life
        self.answered_s = float("-inf")


class Heartbeats:
    """All links of this node. They share one timer for their heartbeats."""

    def __init__(self) -> None:
        self.links: dict[NodeId, HeardFrom] = {}

    def up(self, peer: NodeId, gossips: bool) -> list[Effect]:
        link = self.links.setdefault(peer, HeardFrom())
        link.gossips, link.heard, link.misses = gossips, True, 0
        return _change(peer, link, Sign.UP)

    def down(self, peer: NodeId) -> list[Effect]:
        link = self.links.pop(peer, None)
        return [] if link is None else _change(peer, link, Sign.DOWN)

    def healthy(self) -> tuple[NodeId, ...]:
        return tuple(sorted(peer for peer, link in self.links.items() if link.health is Health.HEALTHY))

    def gossiping(self) -> list[NodeId]:
        return [peer for peer, link in self.links.items() if link.gossips]

    def beat(self, now_s: float) -> list[Effect]:
        """Count the peers that were silent since the last beat, and send the next one."""
        effects: list[Effect] = []
        for peer, link in self.links.items():
            link.misses = 0 if link.heard else link.misses + 1
            link.heard = False
            if link.misses == HEARTBEAT_MISSES_MAX:
                effects += _change(peer, link, Sign.MISSED)
            effects.append(Send(peer, Heartbeat(_timestamp(now_s))))
        return effects

    def on_heartbeat(self, peer: NodeId, heartbeat: Heartbeat, now_s: float) -> list[Effect]:
        link = self.links.get(peer)
        if link is None:
            return []
        link.heard = True
        effects = _change(peer, link, Sign.HEARD)
        if heartbeat.echo:
            rtt_s = (_timestamp(now_s) - heartbeat.echo) / 1e6
            if rtt_s >= 0:
                effects.append(RoundTrip(peer, rtt_s))
        elif now_s - link.answered_s >= HEARTBEAT_ANSWER_S_MIN:
            link.answered_s = now_s
            effects.append(Send(peer, Heartbeat(_timestamp(now_s), heartbeat.timestamp)))
        return effects


def _change(peer: NodeId, link: HeardFrom, sign: Sign) -> list[Effect]:
    before = link.health
    link.health = TRANSITIONS.get((before, sign), before)
    return [] if link.health is before else [HealthChanged(peer, before, link.health)]


def _timestamp(now_s: float) -> int:
    """The time in microseconds. It is never 0, because an echo of 0 means that the heartbeat is not an answer."""
    return max(1, int(now_s * 1e6))
