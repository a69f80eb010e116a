"""Several bridges between one mesh and one namespace: one of them carries each event over. Pure.

- **Echoes**: what a bridge says in the namespace carries a mark in the message's sequence number, which its key signs:
  that a bridge said it, and for which mesh. A bridge of the same mesh ignores such messages, because they came from the
  mesh. What a bridge of another mesh said is carried over, and never goes out again. So nothing can circle.
- **Twins**: bridges tell each other over the mesh where they are, and connect to each other. Connected bridges hear the
  same events, because each passes on what it hears. One of them carries over everything that one peer says, in order:
  among those that listen to the topic, the one whose id hashes highest together with the peer's.
- **Near**: bridges that cannot reach each other may have an agent between them. It passes on the topics to which it is
  subscribed, so on those they hear the same, too, and share the work.
- **Takeover**: what is left to another bridge is held for a while. When the connection to that bridge is gone, the next
  bridge carries over what is missing. Held events that appear in the mesh are dropped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from weft.limits import MIB

MAGIC: Final = hashlib.sha256(b"weft coaty bridge").digest()[:4]  # a bridge said it, of any mesh
MESH_BYTES: Final = 4
MARK_BYTES: Final = len(MAGIC) + MESH_BYTES
SAID_BYTES: Final = 8  # as many as in the reference's sequence numbers
NOT_IN_GROUPS: Final = re.compile("[^A-Za-z0-9_-]")
SHOWN_CHARS: Final = 40
COATY_HELD_S: Final = 60.0  # what was left to another bridge; after 30 s at the latest, we know that it is gone
COATY_HELD_MAX: Final = 65_536
COATY_HELD_BYTES_MAX: Final = 64 * MIB


# --- marks -----------------------------------------------------------------------------------------------------------


def mark_of(mesh: str) -> bytes:
    """The same for all nodes of a mesh."""
    return MAGIC + hashlib.sha256(mesh.encode()).digest()[:MESH_BYTES]


def marked(mark: bytes, said: str) -> bytes:
    """The sequence number for one event on one topic: always the same. So an agent that heard it recently does not hear
    it again when a bridge that was killed sends it a second time."""
    return mark + hashlib.sha256(said.encode()).digest()[:SAID_BYTES]


def is_marked(seqno: bytes, mark: bytes) -> bool:
    """``mark`` may be ``MAGIC`` alone."""
    return seqno.startswith(mark) and len(seqno) == MARK_BYTES + SAID_BYTES


def said_of(seqno: bytes) -> str:
    """What a marked sequence number is about, whichever bridge sent it."""
    return seqno[MARK_BYTES:].hex()


def group_of(namespace: str, island: str) -> str:
    """The group of all bridges of a mesh on one island of a namespace. Both names may have characters that a group's
    name must not have, so it is made of the readable part of the namespace and a digest."""
    digest = hashlib.sha256(f"{namespace}\0{island}".encode()).hexdigest()[:8]
    return f"coaty-bridge.{NOT_IN_GROUPS.sub('_', namespace)[:SHOWN_CHARS]}-{digest}"


# --- who brings what over --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bridge:
    """Another bridge of our mesh, as it described itself over the mesh."""

    agent_id: str
    peer: str
    island: str  # empty: it has just come, and does not know yet
    beside: frozenset[str] = frozenset()  # peers to which it is connected


class Sharing:
    """Which events this bridge has to carry over. Another bridge takes part while it is connected to us, or to an agent
    that passes on what we hear: only then is it certain to hear the same.
    """

    def __init__(self, own_id: str) -> None:
        self._own_id = own_id
        self._told: dict[str, Bridge] = {}  # by peer
        self._connected: set[str] = set()  # peers of the namespace, bridges or not
        self.others: tuple[Bridge, ...] = ()  # connected to us
        self.near: dict[Bridge, frozenset[str]] = {}  # all others that share neighbours with us, and which neighbours

    @property
    def islands(self) -> frozenset[str]:
        """The names that the other bridges use for the island that they and we are on."""
        return frozenset(other.island for other in self.others if other.island)

    def told(self, bridges: Iterable[Bridge]) -> bool:
        """All bridges that are known now. Return whether that changes who shares."""
        self._told = {bridge.peer: bridge for bridge in bridges if bridge.agent_id != self._own_id}
        return self._recount()

    def came(self, peer: str) -> bool:
        self._connected.add(peer)
        return self._recount()

    def left(self, peer: str) -> bool:
        self._connected.discard(peer)
        return self._recount()

    def _recount(self) -> bool:
        before = self.others, self.near
        connected = sorted(self._connected & self._told.keys())
        self.others = tuple(self._told[peer] for peer in connected)
        between = {bridge: bridge.beside & self._connected for bridge in self._told.values()}
        self.near = {bridge: peers for bridge, peers in between.items() if peers and bridge not in self.others}
        return before != (self.others, self.near)

    def is_ours(self, origin: str, is_listening: Callable[[Bridge], bool] = lambda bridge: True) -> bool:
        """Exactly one of all bridges that take part and listen returns True for what a peer says."""

        def weight(agent_id: str) -> bytes:
            return hashlib.blake2b(f"{agent_id}\0{origin}".encode(), digest_size=16).digest()

        own = weight(self._own_id)
        return all(own > weight(other.agent_id) for other in (*self.others, *self.near) if is_listening(other))


# --- what is left to others ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heard:
    """An event of the namespace. ``origin`` is the peer that sent it."""

    topic: str
    payload: bytes
    identity: str
    origin: str
    is_foreign: bool = False  # sent by a bridge of another mesh
    is_answer: bool = False


class Held:
    """Events in the order in which they were heard; the oldest go first."""

    def __init__(self) -> None:
        self._events: dict[str, tuple[Heard, float]] = {}
        self._bytes = 0
        self.forgotten = 0  # beyond the bounds, not by age

    def __len__(self) -> int:
        return len(self._events)

    def keep(self, event: Heard, now_s: float) -> None:
        if event.identity not in self._events:
            self._events[event.identity] = (event, now_s)
            self._bytes += len(event.payload)
        while len(self._events) > COATY_HELD_MAX or self._bytes > COATY_HELD_BYTES_MAX:
            self.release(next(iter(self._events)))
            self.forgotten += 1

    def release(self, identity: str) -> None:
        """The mesh has it."""
        held = self._events.pop(identity, None)
        if held is not None:
            self._bytes -= len(held[0].payload)

    def expire(self, now_s: float) -> None:
        while self._events:
            oldest, (_, since_s) = next(iter(self._events.items()))
            if now_s - since_s < COATY_HELD_S:
                return
            self.release(oldest)

    def take(self, wanted: Callable[[Heard], bool]) -> Iterable[Heard]:
        """Take those that are to be carried over after all."""
        taken = [event for event, _ in self._events.values() if wanted(event)]
        for event in taken:
            self.release(event.identity)
        return taken
