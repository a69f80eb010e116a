"""One node without its socket: datagrams and time in, datagrams, events and commands out. Pure.

    session.receive_datagrams(datagrams, at)        # whatever arrives, from anybody
    session.datagrams_to_send(at)                   # after everything that happened
    session.next_event(), session.next_command()    # until there is none
    session.get_timer(), session.handle_timer(at)

Notifications and commands are the events that travel: each goes to the application once and to all neighbours but the
one it came from. Joins and heartbeats speak for the way between two nodes, so they are not sent on: sent on, they would
give the address of whoever did that for the address of their node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, assert_never
from uuid import UUID

from weft.datagram_node import Admission, Instant, Relationships, Seeking
from weft.emm_compact.event import About, Command, Event, Figures, Neighbour, NeighbourChange
from weft.emm_compact.outbox import CompactOutbox
from weft.emm_compact.pulse import Pulse, interval_s_of, marked
from weft.emm_compact.settings import Settings
from weft.errors import UsageError
from weft.limits import DATAGRAM_RECONNECT_S, DATAGRAM_SOUGHT_MAX
from weft.wire import emm_compact as wire
from weft.wire.datagram import is_urgent_untrusted
from weft.wire.emm_compact import (
    Ecn,
    Field,
    FieldType,
    Header,
    Heartbeat,
    Join,
    KeyRing,
    Notification,
    Packet,
    Signer,
    find,
)
from weft.wire.emm_compact.judge import Judge
from weft.wire.recent import Recent
from weft.wire.reject import BadPacket
from weft.wire.udp import Address, Datagram, Outgoing, check_marks
from weft.wire.urgent_first import UrgentFirst

ALL_TYPES: Final = wire.SupportedTypes(0b1111)


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
    ) -> None:
        self.figures = Figures()
        self.relationships: Relationships[About] = Relationships(
            settings.relationships_max, [each.bytes for each in settings.preferred]
        )
        self._node_id = node_id.bytes
        self._signer = signer
        self._settings = settings
        self._event_id = event_id
        self._seen: Recent[bytes] = Recent(settings.seen_max)
        self._judge = Judge(ring, settings.terms(), marks=self._seen)
        self._numbering = wire.Numbering.starting(at.unix_s, settings.tick_s)
        self._pulse = Pulse(
            self._node_id,
            wire.fingerprint(signer.public_key),
            settings.ttl,
            settings.heartbeat_interval_s,
            at.steady_s,
        )
        self._outbox = CompactOutbox(settings)
        self._seeking = Seeking()
        self._wanted: set[Address] = set()  # told to join
        self._marked: set[Address] = set()  # neighbours whose packets arrived with CE since the last heartbeat
        self._events: UrgentFirst[Event] = UrgentFirst(settings.events_max)
        self._commands: UrgentFirst[Command] = UrgentFirst(settings.events_max)
        self._next_beat_s = at.steady_s + settings.heartbeat_interval_s
        self._overflowed = 0
        self._is_overrun = False  # since the last heartbeat, more arrived than could be taken or sent on

    @property
    def ring(self) -> KeyRing:
        """Keys to believe; may be replaced at any time."""
        return self._judge.ring

    @ring.setter
    def ring(self, ring: KeyRing) -> None:
        self._judge.ring = ring

    # --- what the application does -------------------------------------------------------------------------------

    def publish(self, body: Notification | wire.Command, urgent: bool, ttl: int | None, at: Instant) -> int:
        """Send an event to all neighbours; to how many. UsageError if it fits no packet, or its TTL no IP header."""
        ttl = self._settings.ttl if ttl is None else ttl
        check_marks(ttl, tos=0)
        packet = self._seal(body, urgent, at)
        self._judge.note_own(packet, at.unix_s)
        self._pulse.sent(packet.header.triple)
        self.figures.published += 1
        return self._put(packet, self.relationships.others(None), ttl, at)

    def has_room(self, urgent: bool) -> bool:
        """Whether the next event can leave: to one neighbour at least, or there are none."""
        return self._outbox.has_room(self.relationships.others(None), urgent)

    def join(self, address: Address, at: Instant) -> None:
        """Ask for a relationship until there is one, and again when it is lost; UsageError if too many are wanted."""
        if len(self._wanted | {address}) > DATAGRAM_SOUGHT_MAX:
            raise UsageError("too many addresses to join", limit=DATAGRAM_SOUGHT_MAX)
        self._wanted.add(address)
        if self.relationships.at(address) is None:
            self._seeking.seek(address, at.steady_s)
            self._ask(at)

    def drop(self, node_id: UUID, at: Instant) -> Neighbour | None:
        """Part with a neighbour for a while; None if it is not one."""
        dropped = self.relationships.drop(node_id.bytes, at.steady_s)
        if dropped is not None:
            self._wanted.discard(dropped.address)
        return dropped

    def rate_per_s(self, neighbour: Neighbour, at: Instant) -> float:
        """How many datagrams a second may go to a neighbour: less after congestion."""
        return self._outbox.rate_per_s(neighbour.address, at.steady_s)

    def next_event(self) -> Event | None:
        return self._events.pop() if self._events else None

    def next_command(self) -> Command | None:
        return self._commands.pop() if self._commands else None

    def next_change(self) -> NeighbourChange | None:
        return self.relationships.changes.popleft() if self.relationships.changes else None

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
        """One of them: the packet if it was taken, None if it was refused and counted."""
        self.figures.received += 1
        try:
            packet = self._judge.receive_datagram(datagram.data, at.unix_s).packet
        except BadPacket as refusal:
            self.figures.rejected[refusal.reason] += 1
            return None
        if wire.ecn_of(datagram.tos) is Ecn.CE:
            self._on_congestion(datagram.source, at)
        match packet.body:
            case Notification():
                self._deliver(packet, packet.body, datagram)
                self._relay(packet, datagram, at)
            case wire.Command():
                taken = self._commands.put(Command(packet, datagram.source), packet.header.urgent)
                self.figures.unread += not taken
                self._relay(packet, datagram, at)
            case Heartbeat():
                self._on_heartbeat(packet.body, datagram.source, at)
            case Join():
                self._on_join(packet.body, datagram.source, at)
            case _:
                assert_never(packet.body)
        return packet

    def note_overflow(self, overflowed: int) -> None:
        """How many datagrams the system had no room for since the start."""
        self._is_overrun = self._is_overrun or overflowed > self._overflowed
        self._overflowed = overflowed

    def datagrams_to_send(self, at: Instant) -> list[Outgoing]:
        return self._outbox.take(at.steady_s)

    # --- what time does ------------------------------------------------------------------------------------------

    def get_timer(self) -> float:
        """When ``handle_timer`` or ``datagrams_to_send`` has something to do, by the steady clock."""
        others = (self.relationships.next_expiry_s(), self._seeking.next_s(), self._outbox.ready_s())
        return min((self._next_beat_s, *(each for each in others if each is not None)))

    def handle_timer(self, at: Instant) -> None:
        for lost in self.relationships.expire(at.steady_s):
            # EMC-11: enough is known to find it again.
            until_s = math.inf if lost.address in self._wanted else at.steady_s + DATAGRAM_RECONNECT_S
            self._seek(lost.address, at, until_s)
        self._outbox.keep(self.relationships.others(None))
        self._ask(at)
        if at.steady_s >= self._next_beat_s:
            # From now, not from when it was due: a node that was held up does not make up for it in a burst.
            self._next_beat_s = at.steady_s + self._settings.heartbeat_interval_s
            self._beat(at)

    # --- events --------------------------------------------------------------------------------------------------

    def _deliver(self, packet: Packet, body: Notification, datagram: Datagram) -> None:
        header = packet.header
        event = Event(
            body.message, body.format, body.priority, header.urgent, header.triple, datagram.source, datagram.ttl
        )
        taken = self._events.put(event, header.urgent)
        self.figures.delivered += taken
        self.figures.unread += not taken

    def _relay(self, packet: Packet, datagram: Datagram, at: Instant) -> None:
        """To all neighbours but the one it came from, as it is, with one less to live (EMC-12)."""
        self._pulse.received(packet.header.triple)
        ttl = wire.next_ttl(datagram.ttl)
        if ttl is None:
            self.figures.ended += 1
            return
        targets = self.relationships.others(datagram.source)
        taken = self._put(packet, targets, ttl, at)
        self.figures.relayed += taken > 0
        self._is_overrun = self._is_overrun or taken < len(targets)

    def _put(self, packet: Packet, targets: list[Address], ttl: int, at: Instant) -> int:
        taken = self._outbox.put(packet, targets, ttl, self._ecn, at.steady_s)
        self.figures.unsent += len(targets) - taken
        return taken

    # --- neighbours ----------------------------------------------------------------------------------------------

    def _on_join(self, body: Join, source: Address, at: Instant) -> None:
        """A node asks for a relationship, or tells that it has one with us: both are the same message.

        So that two nodes do not answer each other forever, our joins say in their trace id whose question they belong
        to. Nodes of another make may not do that: those we know already get a heartbeat for an answer.
        """
        was_asked = source in self._seeking
        before = self.relationships.get(body.node_id)
        about = About(body, before.about.heartbeat if before else None)
        admission = self._admit(body.node_id, source, about, body.heartbeat_interval_s, at)
        if admission not in (Admission.NEW, Admission.KNOWN):
            return  # there is no message for that; it will ask again
        asker = find(body.more, FieldType.TRACE_ID)
        if asker == body.node_id:
            self._send_join(source, asker, at)
        elif asker != self._node_id and not was_asked:
            if admission is Admission.NEW:
                self._send_join(source, body.node_id, at)
            else:
                self._beat_to([source], at)

    def _on_heartbeat(self, body: Heartbeat, source: Address, at: Instant) -> None:
        before = self.relationships.get(body.node_id)
        about = replace(before.about, heartbeat=body) if before else About(heartbeat=body)
        if self.relationships.hear(body.node_id, source, about, at.steady_s):
            if body.rate.ecn is Ecn.CE:
                self._outbox.congested(source, at.steady_s)
        elif before is None and source in self._seeking:
            # Our join arrived there: it has a relationship with us, or would not send heartbeats.
            self._admit(body.node_id, source, about, interval_s_of(body), at)
        elif self._is_stranger(body.node_id, source, at):
            # It has a relationship with us that we lost, or has moved. A signed join will tell.
            self._seek(source, at, at.steady_s + self._settings.heartbeat_interval_s)
            self._ask(at)

    def _is_stranger(self, node_id: bytes, source: Address, at: Instant) -> bool:
        """Whether it is nobody we know under that address, nor somebody we want to know nothing of."""
        return (
            node_id != self._node_id
            and self.relationships.at(source) is None
            and not self.relationships.is_barred(node_id, at.steady_s)
        )

    def _admit(
        self, node_id: bytes, source: Address, about: About, interval_s: int | None, at: Instant
    ) -> Admission | None:
        """None if it is ourselves, by a detour."""
        if node_id == self._node_id:
            self._seeking.stop(source)
            return None
        interval_s = interval_s or self._settings.heartbeat_interval_s
        admission = self.relationships.admit(
            node_id, source, about, interval_s, at.steady_s, wanted=source in self._wanted
        )
        if admission in (Admission.NEW, Admission.KNOWN):
            self._seeking.stop(source)
        return admission

    def _seek(self, address: Address, at: Instant, until_s: float) -> None:
        if address not in self._seeking and self._seeking.has_room():
            self._seeking.seek(address, at.steady_s, until_s)

    def _ask(self, at: Instant) -> None:
        for address in self._seeking.due(at.steady_s):
            self._send_join(address, self._node_id, at)

    def _send_join(self, address: Address, asker: bytes, at: Instant) -> None:
        settings = self._settings
        body = Join(
            self._node_id,
            ALL_TYPES,
            settings.relationships_max,
            settings.heartbeat_interval_s,
            settings.status,
            (Field(FieldType.TRACE_ID, asker),),
        )
        self._put(self._seal(body, False, at), [address], settings.ttl, at)

    def _beat(self, at: Instant) -> None:
        self._beat_to(self.relationships.others(None), at)
        self._pulse.begin_interval()
        self.figures.forgotten = self._seen.evicted
        self._marked.clear()
        self._is_overrun = False

    def _beat_to(self, targets: Iterable[Address], at: Instant) -> None:
        """To each by itself, because congestion on the way from it is for it alone to know."""
        heartbeat = self._pulse.now(at.steady_s)
        for target in targets:
            ecn = Ecn.CE if target in self._marked else self._ecn
            self._put(self._seal(marked(heartbeat, ecn), False, at), [target], self._settings.ttl, at)

    def _on_congestion(self, source: Address, at: Instant) -> None:
        """A packet came with CE: slow down on the way to where it came from, and tell it there (4.2)."""
        if self.relationships.at(source) is not None:
            self._outbox.congested(source, at.steady_s)
            self._marked.add(source)

    @property
    def _ecn(self) -> Ecn:
        """Our own state, in the IP header and in heartbeats (4.2).

        An application that is slow to read its events is no congestion: it would slow down the whole mesh.
        """
        return Ecn.CE if self._is_overrun else Ecn.ECT_0

    def _seal(self, body: wire.Body, urgent: bool, at: Instant) -> Packet:
        if self._numbering.tick * self._settings.tick_s > at.unix_s + self._settings.skew_s_max:
            # Our clock was set back. Counting on from before, others would refuse us as being from the future.
            self._numbering = wire.Numbering.starting(at.unix_s, self._settings.tick_s)
        triple, self._numbering = self._numbering.take(at.unix_s, self._event_id())
        return wire.seal(Header(body.TYPE, *triple, urgent), body, self._signer)
