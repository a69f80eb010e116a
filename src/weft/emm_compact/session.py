"""One node without its socket: datagrams and time in, datagrams, events and commands out. Pure.

    session.receive_datagrams(datagrams, at)        # whatever arrives, from anybody
    session.datagrams_to_send(at)                   # after everything that happened
    session.next_event(), session.next_command()    # until there is none
    session.get_timer(), session.handle_timer(at)

It judges what arrives, one packet at a time, and hands events to its application, each once. What is said to the
neighbours, and sent on to them, is in ``neighbours``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from weft.datagram_node import Instant, Relationships
from weft.emm_compact.event import About, Command, Event, Figures, Neighbour, NeighbourChange, Refusal
from weft.emm_compact.neighbours import CompactNeighbours
from weft.emm_compact.settings import Settings
from weft.wire import emm_compact as wire
from weft.wire.datagram import is_urgent_untrusted
from weft.wire.emm_compact import EventType, KeyRing, Notification, Packet, Signer, goes_first
from weft.wire.emm_compact.judge import Judge
from weft.wire.recent import Recent
from weft.wire.reject import BadPacket
from weft.wire.udp import Address, Datagram, Outgoing
from weft.wire.urgent_first import UrgentFirst


class CompactSession:
    """The state of a node. ``event_id`` gives 16 random bits a call (EMC-04)."""

    def __init__(
        self,
        node_id: UUID,
        signer: Signer,
        ring: KeyRing,
        settings: Settings,
        at: Instant,
        event_id: Callable[[], int],
        on_refused: Callable[[Refusal], None] = lambda refusal: None,
    ) -> None:
        self._judge = Judge(ring, settings.terms(), marks=Recent(settings.seen_max))
        self._neighbours = CompactNeighbours(node_id, signer, settings, at, event_id, self._judge.marks)
        self._on_refused = on_refused
        self._events: UrgentFirst[Event] = UrgentFirst(settings.events_max)
        self._commands: UrgentFirst[Command] = UrgentFirst(settings.events_max)

    @property
    def figures(self) -> Figures:
        return self._neighbours.figures

    @property
    def relationships(self) -> Relationships[About]:
        return self._neighbours.relationships

    @property
    def ring(self) -> KeyRing:
        """Keys to believe; may be replaced at any time."""
        return self._judge.ring

    @ring.setter
    def ring(self, ring: KeyRing) -> None:
        self._judge.ring = ring

    @property
    def signer(self) -> Signer:
        """Keys to sign with; may be replaced at any time."""
        return self._neighbours.signer

    @signer.setter
    def signer(self, signer: Signer) -> None:
        self._neighbours.signer = signer

    # --- what the application does -------------------------------------------------------------------------------

    def publish(self, body: Notification | wire.Command, urgent: bool, ttl: int | None, at: Instant) -> int:
        """Send an event to all neighbours that take its type; to how many. UsageError if it fits no packet, or its TTL
        no IP header."""
        return self._neighbours.publish(body, urgent, ttl, at)

    def has_room(self, kind: EventType, urgent: bool) -> bool:
        """Whether at least one neighbour has room for the next event of this type, or there are no neighbours."""
        return self._neighbours.has_room(kind, urgent)

    def join(self, address: Address, at: Instant) -> None:
        """Ask for a relationship until there is one, and again when it is lost; UsageError if too many are wanted."""
        self._neighbours.join(address, at)

    def drop(self, node_id: UUID, at: Instant) -> Neighbour | None:
        """Part with a neighbour for a while; None if it is not one."""
        return self._neighbours.drop(node_id, at)

    def gone(self, address: Address) -> None:
        """A QUIC connection ended: send nothing there."""
        self._neighbours.gone(address)

    def rate_per_s(self, neighbour: Neighbour, at: Instant) -> float:
        """How many datagrams a second may go to a neighbour: less after congestion."""
        return self._neighbours.rate_per_s(neighbour.address, at)

    def next_event(self) -> Event | None:
        return self._events.pop() if self._events else None

    def next_command(self) -> Command | None:
        return self._commands.pop() if self._commands else None

    def next_change(self) -> NeighbourChange | None:
        return self._neighbours.next_change()

    # --- what the network does -----------------------------------------------------------------------------------

    def receive_datagrams(self, datagrams: Iterable[Datagram], at: Instant) -> None:
        """All that arrived together, urgent ones first."""
        later: list[Datagram] = []
        for datagram in datagrams:
            if is_urgent_untrusted(datagram.data):
                self.receive_datagram(datagram, at)
            else:
                later.append(datagram)
        for datagram in later:
            self.receive_datagram(datagram, at)

    def receive_datagram(self, datagram: Datagram, at: Instant) -> Packet | None:
        """Take one datagram. Return the packet, or None if it was refused, which is counted."""
        self.figures.received += 1
        try:
            packet = self._judge.receive_datagram(datagram.data, at.unix_s).packet
        except BadPacket as refusal:
            self.figures.rejected[refusal.reason] += 1
            self._on_refused(Refusal(datagram.data, datagram.source, refusal))
            return None
        match packet.body:
            case Notification():
                self._deliver(packet, packet.body, datagram)
            case wire.Command():
                taken = self._commands.put(Command(packet, datagram.source, datagram.ttl), goes_first(packet))
                self.figures.unread += not taken
            case _:
                pass  # joins and heartbeats are for the neighbours alone
        self._neighbours.take(packet, datagram, at)
        return packet

    def note_overflow(self, overflowed: int) -> None:
        """How many datagrams the system had no room for since the start."""
        self._neighbours.note_overflow(overflowed)

    def datagrams_to_send(self, at: Instant) -> list[Outgoing]:
        return self._neighbours.datagrams_to_send(at)

    # --- what time does ------------------------------------------------------------------------------------------

    def get_timer(self) -> float:
        """When ``handle_timer`` or ``datagrams_to_send`` has something to do, by the steady clock."""
        return self._neighbours.get_timer()

    def handle_timer(self, at: Instant) -> None:
        self._neighbours.handle_timer(at)

    # --- events --------------------------------------------------------------------------------------------------

    def _deliver(self, packet: Packet, body: Notification, datagram: Datagram) -> None:
        header = packet.header
        event = Event(
            body.message, body.format, body.priority, header.urgent, header.triple, datagram.source, datagram.ttl
        )
        taken = self._events.put(event, header.urgent)
        self.figures.delivered += taken
        self.figures.unread += not taken
