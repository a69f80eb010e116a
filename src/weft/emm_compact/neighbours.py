"""An EMM-C node and its neighbours: who they are, what is sent to them, and what is passed on between them. Pure.

Packets come in after they were judged: by ``session`` one by one, or by a gateway in columns. Notifications and
commands are the events that travel: to all neighbours but the one they came from, unchanged but for the time to live,
which is one less. Joins and heartbeats concern only the two nodes, so they are not sent on: otherwise the address of
the node that sent them on would be taken for their author's (ADR 21).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final, assert_never
from uuid import UUID

from weft.datagram_node import Admission, Instant, Relationships, Seeking
from weft.emm_compact.event import About, Figures, Neighbour, NeighbourChange
from weft.emm_compact.outbox import CompactOutbox
from weft.emm_compact.pulse import Pulse, interval_s_of, marked
from weft.emm_compact.settings import Settings
from weft.errors import UsageError
from weft.limits import DATAGRAM_RECONNECT_S, DATAGRAM_SOUGHT_MAX
from weft.wire import emm_compact as wire
from weft.wire.emm_compact import (
    Ecn,
    EventType,
    Field,
    FieldType,
    Header,
    Heartbeat,
    Join,
    Notification,
    Packet,
    Signer,
    expiry_s_of,
    find,
)
from weft.wire.emm_compact.judge import age_by_epoch_s, note_own
from weft.wire.recent import ReplayMarks
from weft.wire.udp import Address, Datagram, Outgoing, check_marks

ALL_TYPES: Final = wire.SupportedTypes(0b1111)


class CompactNeighbours:
    """``event_id`` returns 16 random bits per call (EMC-04). ``marks`` is the memory of the judge: our own events are
    noted there, because they come back. ``figures`` continues earlier counts.
    """

    def __init__(
        self,
        node_id: UUID,
        signer: Signer,
        settings: Settings,
        at: Instant,
        event_id: Callable[[], int],
        marks: ReplayMarks,
        figures: Figures | None = None,
    ) -> None:
        self.figures = Figures() if figures is None else figures
        self.relationships: Relationships[About] = Relationships(
            settings.relationships_max, [each.bytes for each in settings.preferred]
        )
        self._node_id = node_id.bytes
        self._signer = signer
        self._settings = settings
        self._terms = settings.terms()
        self._event_id = event_id
        self._marks = marks
        self._numbering = wire.Numbering.starting(at.unix_s, settings.tick_s)
        self._pulse = Pulse(
            self._node_id,
            wire.fingerprint(signer.public_key),
            settings.ttl,
            settings.heartbeat_interval_s,
            at.steady_s,
            settings.told(),
        )
        self._outbox = CompactOutbox(settings, self.figures)
        self._seeking = Seeking()
        self._wanted: set[Address] = set()  # told to join
        self._congested: set[Address] = set()  # neighbours whose packets arrived with CE since the last heartbeat
        self._next_beat_s = at.steady_s + settings.heartbeat_interval_s
        self._overflowed = 0
        self._is_overrun = False  # since the last heartbeat, more arrived than could be taken or sent on

    @property
    def signer(self) -> Signer:
        """The keys that packets are signed with; may be replaced at any time, and no relationship ends (EMC-05)."""
        return self._signer

    @signer.setter
    def signer(self, signer: Signer) -> None:
        self._signer = signer
        self._pulse.fingerprint = wire.fingerprint(signer.public_key)

    # --- what the node itself does -------------------------------------------------------------------------------

    def seal(self, body: wire.Body, urgent: bool, unix_s: float) -> Packet:
        """A packet of ours; UsageError if it does not fit."""
        if self._numbering.tick * self._settings.tick_s > unix_s + self._settings.skew_s_max:
            # Our clock was set back. Counting on from before, others would refuse us as being from the future.
            self._numbering = wire.Numbering.starting(unix_s, self._settings.tick_s)
        triple, self._numbering = self._numbering.take(unix_s, self._event_id())
        return wire.seal(Header(body.TYPE, *triple, urgent), body, self._signer)

    def seal_event(self, body: Notification | wire.Command, urgent: bool, unix_s: float) -> Packet:
        """An event of ours, noted as such."""
        packet = self.seal(body, urgent, unix_s)
        note_own(self._marks, packet, unix_s, self._terms)
        self._pulse.sent(packet.header.triple)
        self.figures.published += 1
        return packet

    def publish(self, body: Notification | wire.Command, urgent: bool, ttl: int | None, at: Instant) -> int:
        """Send an event to all neighbours that take its type; to how many. UsageError if it fits no packet, or its TTL
        no IP header."""
        ttl = self._settings.ttl if ttl is None else ttl
        check_marks(ttl, tos=0)
        packet = self.seal_event(body, urgent, at.unix_s)
        return self.put(packet, self.takers(body.TYPE), ttl, at)

    def put(self, packet: Packet, targets: Collection[Address], ttl: int, at: Instant) -> int:
        """Queue a packet for these neighbours, each at its own pace. Return for how many there was room."""
        taken = self._outbox.put(packet, targets, ttl, self._ecn, at.steady_s, self._until_s(packet, at))
        self.figures.unsent += len(targets) - taken
        return taken

    def takers(self, kind: EventType, source: Address | None = None) -> list[Address]:
        """All neighbours that take packets of this type, but for the one they came from (EMC-09, EMC-12)."""
        return [each.address for each in self.relationships if each.address != source and each.about.takes(kind)]

    def has_room(self, kind: EventType, urgent: bool) -> bool:
        """Whether at least one neighbour has room for the next event, or there are no neighbours."""
        return self._outbox.has_room(self.takers(kind), urgent)

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

    def gone(self, address: Address) -> None:
        """A QUIC connection ended: send nothing there."""
        self.relationships.gone(address)
        self._seeking.stop(address)
        self._wanted.discard(address)
        self._outbox.keep(self.relationships.others(None))

    def rate_per_s(self, target: Address, at: Instant) -> float:
        """How many datagrams a second may go to a neighbour: less after congestion."""
        return self._outbox.rate_per_s(target, at.steady_s)

    def next_change(self) -> NeighbourChange | None:
        return self.relationships.changes.popleft() if self.relationships.changes else None

    # --- what the network does -----------------------------------------------------------------------------------

    def take(self, packet: Packet, datagram: Datagram, at: Instant) -> None:
        """A packet that was judged, and is new: send it on, or take what its node says about itself."""
        if wire.ecn_of(datagram.tos) is Ecn.CE:
            self._on_congestion(datagram.source, at)
        match packet.body:
            case Notification() | wire.Command():
                self._relay(packet, datagram, at)
            case Heartbeat():
                self._on_heartbeat(packet.body, datagram.source, at)
            case Join():
                self._on_join(packet.body, datagram.source, at)
            case _:
                assert_never(packet.body)

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

    def _relay(self, packet: Packet, datagram: Datagram, at: Instant) -> None:
        """Send it on, to all neighbours but the one it came from, unchanged but for the time to live, which is one less
        (EMC-12).
        """
        self._pulse.received(packet.header.triple)
        ttl = wire.next_ttl(datagram.ttl)
        if ttl is None:
            self.figures.ended += 1
            return
        targets = self.takers(packet.header.type, datagram.source)
        taken = self.put(packet, targets, ttl, at)
        self.figures.relayed += taken > 0
        self._is_overrun = self._is_overrun or taken < len(targets)

    def _until_s(self, packet: Packet, at: Instant) -> float:
        """When a packet is no longer worth sending, by its expiry hint."""
        expiry_s = expiry_s_of(packet.body)
        if expiry_s is None:
            return math.inf
        return at.steady_s + expiry_s - age_by_epoch_s(packet.header.epoch, at.unix_s, self._terms)

    # --- neighbours ----------------------------------------------------------------------------------------------

    def _on_join(self, body: Join, source: Address, at: Instant) -> None:
        """A node asks for a relationship, or says that it has one with us: both are the same message. Two nodes must
        not answer each other forever, so our joins say in their trace id which question they answer. Other
        implementations may not do that, so nodes that we already know get a heartbeat as the answer.
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
        """Whether another node is at that address, without a relationship and not barred."""
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
        if address not in self._seeking and (until_s == math.inf or self._seeking.has_room()):
            self._seeking.seek(address, at.steady_s, until_s)

    def _ask(self, at: Instant) -> None:
        for address in self._seeking.due(at.steady_s):
            self._send_join(address, self._node_id, at)

    def _send_join(self, address: Address, asker: bytes, at: Instant) -> None:
        """Whatever types the other takes: it asked, or is being asked."""
        settings = self._settings
        body = Join(
            self._node_id,
            ALL_TYPES,
            settings.relationships_max,
            settings.heartbeat_interval_s,
            settings.status,
            (Field(FieldType.TRACE_ID, asker), *settings.told()),
        )
        self.put(self.seal(body, False, at.unix_s), [address], settings.ttl, at)

    def _beat(self, at: Instant) -> None:
        self._beat_to(self.takers(EventType.HEARTBEAT), at)
        self._pulse.begin_interval()
        self.figures.forgotten = self._marks.evicted
        self._congested.clear()
        self._is_overrun = False

    def _beat_to(self, targets: Iterable[Address], at: Instant) -> None:
        """Send each neighbour its own heartbeat, because it reports the congestion on the way from that neighbour."""
        heartbeat = self._pulse.now(at.steady_s)
        for target in targets:
            ecn = Ecn.CE if target in self._congested else self._ecn
            self.put(self.seal(marked(heartbeat, ecn), False, at.unix_s), [target], self._settings.ttl, at)

    def _on_congestion(self, source: Address, at: Instant) -> None:
        """A packet came with CE: slow down on the way to where it came from, and tell it there (4.2)."""
        if self.relationships.at(source) is not None:
            self._outbox.congested(source, at.steady_s)
            self._congested.add(source)

    @property
    def _ecn(self) -> Ecn:
        """Our own state, in the IP header and in heartbeats (4.2).

        An application that is slow to read its events is no congestion: it would slow down the whole mesh.
        """
        return Ecn.CE if self._is_overrun else Ecn.ECT_0
