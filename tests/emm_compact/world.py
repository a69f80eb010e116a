"""A mesh of sessions in one process with a simulated clock and network: one seed, one story.

Nothing here knows how a session works: it hands over datagrams and time, and writes down what applications got.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from uuid import UUID

from weft.datagram_node import Instant
from weft.emm_compact import CompactSession, Event, KeyRing, NeighbourChange, Settings, Signer
from weft.emm_compact.event import Command
from weft.wire.emm_compact import EventType, Format, Notification, Priority, decode_untrusted, draft_command
from weft.wire.udp import Address, Datagram, Outgoing

GROUP_KEY = bytes(range(32))
UNIX_AT_0_S = 1_800_000_000.0


def node_id(number: int) -> UUID:
    return UUID(int=0xA0000 + number)


def signer(number: int) -> Signer:
    return Signer(GROUP_KEY, number.to_bytes(32, "big"))


def ring_of(numbers: Iterable[int]) -> KeyRing:
    """The keys of nodes with these numbers."""
    return KeyRing((GROUP_KEY,), {node_id(each).bytes: (signer(each).public_key,) for each in numbers})


def address(number: int) -> Address:
    return f"10.0.0.{number}", 7500


def notification(text: str, priority: Priority = Priority.INFO) -> Notification:
    return Notification(priority, Format.PLAIN_TEXT, text.encode())


@dataclass(slots=True)
class Conditions:
    """How the network treats datagrams."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_s: tuple[float, float] = (0.001, 0.001)
    mark: Callable[[int, int, int], int] = lambda source, target, tos: tos
    hops: int = 0  # routers between two nodes


@dataclass(slots=True)
class Place:
    """A node of the world, and what its application saw."""

    number: int
    session: CompactSession
    events: list[Event] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    changes: list[NeighbourChange] = field(default_factory=list)
    is_up: bool = True

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events]

    @property
    def neighbours(self) -> set[int]:
        return {int.from_bytes(each.node_id) - 0xA0000 for each in self.session.relationships}


class World:
    """Nodes 0 to ``count - 1``, all of which could reach each other."""

    def __init__(
        self, nodes: int, seed: int = 0, settings: Settings | None = None, conditions: Conditions | None = None
    ) -> None:
        self.now_s = 0.0
        self.conditions = Conditions() if conditions is None else conditions
        self.wire: list[tuple[int, int, Outgoing]] = []  # everything ever sent: from, to, what
        self.cut: set[frozenset[int]] = set()
        self._random = Random(seed)  # noqa: S311 - not a secret
        self._settings = Settings() if settings is None else settings
        self._ring = ring_of(range(nodes))
        self._order = count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.places = [Place(number, self._session(number)) for number in range(nodes)]
        for place in self.places:
            self._pump(place)

    @property
    def at(self) -> Instant:
        return Instant(self.now_s, UNIX_AT_0_S + self.now_s)

    def _session(self, number: int) -> CompactSession:
        draw = self._random
        return CompactSession(
            node_id(number), signer(number), self._ring, self._settings, self.at, lambda: draw.getrandbits(16)
        )

    def sent(self, event_type: EventType, source: int, target: int) -> int:
        """How many packets of a type went from one node to another."""
        return sum(
            (who, whom, decode_untrusted(outgoing.data).header.type) == (source, target, event_type)
            for who, whom, outgoing in self.wire
        )

    # --- what people do ------------------------------------------------------------------------------------------

    def join(self, who: int, whom: int) -> None:
        self.places[who].session.join(address(whom), self.at)
        self._pump(self.places[who])

    def link(self, *pairs: tuple[int, int]) -> None:
        """Join these and wait until they have."""
        for who, whom in pairs:
            self.join(who, whom)
        self.run(1.0)

    def publish(self, who: int, text: str, *, urgent: bool = False, ttl: int | None = None) -> int:
        sent_to = self.places[who].session.publish(notification(text), urgent, ttl, self.at)
        self._pump(self.places[who])
        return sent_to

    def command(self, who: int, name: str, *, priority: Priority | None = None, expiry_s: int | None = None) -> int:
        body = draft_command(name, b"", node_id(who), priority=priority, expiry_s=expiry_s)
        sent_to = self.places[who].session.publish(body, False, None, self.at)
        self._pump(self.places[who])
        return sent_to

    def inject(self, number: int, *datagrams: Datagram) -> None:
        """Datagrams from nowhere."""
        self.places[number].session.receive_datagrams(datagrams, self.at)
        self._pump(self.places[number])

    def crash(self, number: int) -> None:
        self.places[number].is_up = False

    def restart(self, number: int) -> None:
        """With nothing remembered, neither by the node nor by its application."""
        place = self.places[number] = Place(number, self._session(number))
        self._pump(place)

    def sever(self, a: int, b: int) -> None:
        self.cut.add(frozenset((a, b)))

    def heal(self) -> None:
        self.cut.clear()

    # --- time and network ----------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._agenda and self._agenda[0][0] <= end_s:
            self.now_s, _, action = heapq.heappop(self._agenda)
            action()
        self.now_s = end_s

    def _later(self, when_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (max(when_s, self.now_s), next(self._order), action))

    def _pump(self, place: Place) -> None:
        session = place.session
        for outgoing in session.datagrams_to_send(self.at):
            self._send(place.number, outgoing)
        while (event := session.next_event()) is not None:
            place.events.append(event)
        while (command := session.next_command()) is not None:
            place.commands.append(command)
        while (change := session.next_change()) is not None:
            place.changes.append(change)
        self._later(session.get_timer(), lambda: self._tick(place))

    def _tick(self, place: Place) -> None:
        is_current = place.is_up and self.places[place.number] is place
        if is_current and place.session.get_timer() <= self.now_s:
            place.session.handle_timer(self.at)
            self._pump(place)

    def _send(self, source: int, outgoing: Outgoing) -> None:
        target = int(outgoing.target[0].rpartition(".")[2])
        self.wire.append((source, target, outgoing))
        ttl = outgoing.ttl - self.conditions.hops
        if frozenset((source, target)) in self.cut or ttl < 1 or target >= len(self.places):
            return
        tos = self.conditions.mark(source, target, outgoing.tos)
        copies = 1 + (self._random.random() < self.conditions.duplication)
        for _ in range(copies):
            if self._random.random() >= self.conditions.loss:
                arriving = Datagram(outgoing.data, address(source), ttl, tos)
                delay_s = self._random.uniform(*self.conditions.delay_s)
                self._later(self.now_s + delay_s, lambda arriving=arriving: self._arrive(target, arriving))  # type: ignore[misc]

    def _arrive(self, target: int, datagram: Datagram) -> None:
        place = self.places[target]
        if place.is_up:
            place.session.receive_datagram(datagram, self.at)
            self._pump(place)


def ring_pairs(nodes: int) -> list[tuple[int, int]]:
    return [(number, (number + 1) % nodes) for number in range(nodes)]


def star_pairs(nodes: int) -> list[tuple[int, int]]:
    """Around node 0."""
    return [(number, 0) for number in range(1, nodes)]
