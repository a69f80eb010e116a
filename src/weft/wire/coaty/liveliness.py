"""Decides which neighbours are alive, and whose last will must be carried out; no I/O (COA-10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from weft.limits import COATY_WILLS_MAX
from weft.wire.coaty.liveliness_messages import (
    AnnounceDead,
    AnnounceLastWill,
    LastWill,
    LivelinessMessage,
    PingAlive,
    PingAliveAck,
    announcements,
)

COATY_NEIGHBOURS_MAX: Final = 4096  # connected peers whose liveliness is watched
COATY_PING_LOOP_S: Final = 2.0  # in its ping loop, the reference is back 0.2 s after an ack; others dial first


@dataclass(frozen=True, slots=True)
class Send:
    """Open a stream to a neighbour, send the message as one frame, close the stream."""

    peer_id: str
    message: AnnounceLastWill | AnnounceDead


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer on the stream on which the ping came. Where there is no reply to a ping, leave that stream open."""

    peer_id: str
    message: PingAliveAck


@dataclass(frozen=True, slots=True)
class Ping:
    """Dial the peer again, send PingAlive, await PingAliveAck, close that connection; then call ``ping_result``."""

    peer_id: str


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Give the local agent the Deadvertise event of a last will."""

    last_will: LastWill


Effect: TypeAlias = Send | Reply | Ping | CarryOut


class Liveliness:
    """The liveliness of one agent's neighbourhood."""

    def __init__(self, own_will: LastWill) -> None:
        self._own_id = own_will.peer_id
        self._wills = {own_will.peer_id: own_will}
        self._neighbours: dict[str, None] = {}  # a set that keeps its order, so that runs can be repeated exactly
        self._strangers: dict[str, AnnounceLastWill] = {}  # announced before they were seen in our namespace
        self._pinged: dict[str, None] = {}  # by us, and not yet answered
        self._acked_at_s: dict[str, float] = {}  # when a peer that pinged us got its answer; oldest first

    @property
    def last_wills(self) -> tuple[LastWill, ...]:
        """All that are known, our own first."""
        return tuple(self._wills.values())

    def connected(self, peer_id: str) -> list[Effect]:
        """A peer is connected in either direction, speaks the protocol, and subscribes to a topic of our namespace.

        Connections made for a ping do not count.
        """
        if peer_id in self._neighbours or len(self._neighbours) >= COATY_NEIGHBOURS_MAX:
            return []
        self._neighbours[peer_id] = None
        self._pinged.pop(peer_id, None)  # here it is
        early = self._strangers.pop(peer_id, None)
        effects: list[Effect] = [
            Send(peer_id, message) for message in announcements(self._wills.values(), (self._own_id,))
        ]
        return effects + (self._learn(early, peer_id) if early else [])

    def received(self, message: LivelinessMessage, from_peer: str, now_s: float) -> list[Effect]:
        """A message on a stream that a peer opened."""
        match message:
            case PingAlive():
                return self._answer(from_peer, now_s)
            case AnnounceLastWill() if from_peer in self._neighbours:
                return self._learn(message, from_peer)
            case AnnounceLastWill():
                self._keep_for_later(message, from_peer)
                return []
            case AnnounceDead() if from_peer in self._neighbours:
                return self._hear_of_death(message)
            case AnnounceDead() | PingAliveAck():
                return []  # hearsay of strangers; an answer that nobody awaits (the awaited one comes to ``Ping``)
            case _:
                assert_never(message)

    def last_connection_closed(self, peer_id: str, now_s: float, *, by_us: bool) -> list[Effect]:
        """A peer has no connection left. If it was the peer, or the network, that closed the last, it may be dead."""
        was_neighbour = peer_id in self._neighbours
        self._neighbours.pop(peer_id, None)
        self._strangers.pop(peer_id, None)
        if by_us or not was_neighbour or self._was_just_acked(peer_id, now_s):
            return []
        return self._ping(peer_id)

    def ping_result(self, peer_id: str, *, alive: bool) -> list[Effect]:
        """How a ``Ping`` ended. No answer within its time, or no connection, means dead."""
        if peer_id not in self._pinged:
            return []  # it has connected in the meantime
        del self._pinged[peer_id]
        return [] if alive else self._bury((peer_id,))

    def _answer(self, peer_id: str, now_s: float) -> list[Effect]:
        if self._was_just_acked(peer_id, now_s):
            return []
        self._acked_at_s.pop(peer_id, None)
        self._acked_at_s[peer_id] = now_s
        if len(self._acked_at_s) > COATY_NEIGHBOURS_MAX:
            del self._acked_at_s[next(iter(self._acked_at_s))]
        return [Reply(peer_id, PingAliveAck())]

    def _was_just_acked(self, peer_id: str, now_s: float) -> bool:
        return peer_id in self._acked_at_s and now_s - self._acked_at_s[peer_id] < COATY_PING_LOOP_S

    def _keep_for_later(self, message: AnnounceLastWill, from_peer: str) -> None:
        """Keep it until the peer is seen in our namespace, which takes milliseconds. If there is no room, the oldest
        go.
        """
        self._strangers.setdefault(from_peer, message)
        while sum(len(kept.last_wills) + 1 for kept in self._strangers.values()) > COATY_WILLS_MAX:
            del self._strangers[next(iter(self._strangers))]

    def _learn(self, message: AnnounceLastWill, from_peer: str) -> list[Effect]:
        effects: list[Effect] = []
        news: list[LastWill] = []
        for will in message.last_wills:
            known = self._wills.get(will.peer_id)
            if known == will or will.peer_id == self._own_id:
                continue
            if known is not None:
                if will.peer_id != from_peer:
                    continue  # only a peer itself can change its will: nobody else can prove that it did
                if known.agent_id != will.agent_id:
                    effects.append(CarryOut(known))  # the peer is back as another agent, so the old one is gone
            elif not self._make_room(will.peer_id == from_peer):
                continue
            self._wills[will.peer_id] = will
            news.append(will)
        visited = (*message.visited, self._own_id)
        return effects + [send for part in announcements(news, visited) for send in self._propagate(part)]

    def _make_room(self, for_neighbour: bool) -> bool:
        """Whether one more will can be kept. A neighbour's own displaces one that was only heard of."""
        if len(self._wills) < COATY_WILLS_MAX:
            return True
        if for_neighbour:
            for peer_id in self._wills:
                if peer_id != self._own_id and peer_id not in self._neighbours:
                    del self._wills[peer_id]
                    return True
        return False

    def _hear_of_death(self, message: AnnounceDead) -> list[Effect]:
        if message.dead in self._neighbours or message.dead in self._pinged:
            return self._ping(message.dead)
        if message.dead == self._own_id or message.dead not in self._wills:
            return []
        return self._bury(message.visited)

    def _ping(self, peer_id: str) -> list[Effect]:
        if peer_id in self._pinged:
            return []
        self._pinged[peer_id] = None
        return [Ping(peer_id)]

    def _bury(self, visited: tuple[str, ...]) -> list[Effect]:
        """Carry out the will of the first peer, if we know it, and tell the neighbours that have not heard."""
        dead = visited[0]
        self._neighbours.pop(dead, None)
        will = self._wills.pop(dead, None)
        effects: list[Effect] = [] if will is None else [CarryOut(will)]
        return effects + self._propagate(AnnounceDead((*visited, self._own_id)))

    def _propagate(self, message: AnnounceLastWill | AnnounceDead) -> list[Effect]:
        return [Send(peer_id, message) for peer_id in _without(self._neighbours, message.visited)]


def _without(peers: Iterable[str], visited: Iterable[str]) -> list[str]:
    seen = frozenset(visited)
    return [peer_id for peer_id in peers if peer_id not in seen]
