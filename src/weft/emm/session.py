"""One EMM node without its sockets: datagrams and time in, datagrams and events out. Pure.

    session.receive_datagrams(datagrams, at)    # whatever arrives, from anybody
    session.datagrams_to_send(at)               # after everything that happened
    session.next_event()                        # until there is none
    session.get_timer(), session.handle_timer(at)

Hellos and heartbeats speak for the way between two nodes and are not sent on. Events are, unchanged, if a rule says so;
a packet that comes back is a replay, and its TTL is one less each time, so nothing goes round for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import assert_never
from uuid import UUID

from weft.datagram_node import Instant, Pace
from weft.emm.event import Event, Figures, Refusal
from weft.emm.neighbours import Call, Due, Neighbours
from weft.emm.settings import Forward, Settings
from weft.model import Pattern, Topic, matches
from weft.wire import emm
from weft.wire.datagram import is_urgent_untrusted
from weft.wire.emm import Credentials, Draft, EventType, Field, Judge, Packet, Seal, Terms, TrustStore, Verdict
from weft.wire.emm.fields import MESSAGE_ID_BITS, Value
from weft.wire.emm.seal import KeyFinder, no_keys
from weft.wire.reject import BadPacket
from weft.wire.udp import Address, Datagram, Outgoing, show_any
from weft.wire.urgent_first import UrgentFirst


class EmmSession:
    """The state of a node. ``chance(n)`` returns n bits from a cryptographic source (EMM-02); ``find_key`` finds the
    keys that payloads are encrypted with.
    """

    def __init__(
        self,
        node_id: UUID,
        credentials: Credentials | None,
        trust: TrustStore,
        settings: Settings,
        at: Instant,
        chance: Callable[[int], int],
        on_refused: Callable[[Refusal], None] = lambda refusal: None,
        find_key: KeyFinder = no_keys,
    ) -> None:
        self.figures = Figures()
        self.neighbours = Neighbours(
            node_id, at.steady_s, limit=settings.peers_max, heartbeat_interval_s=settings.heartbeat_interval_s
        )
        self._node_id = node_id
        self._credentials = credentials
        self._settings = settings
        self._chance = chance
        self._find_key = find_key
        self._on_refused = on_refused
        terms = Terms(settings.rules, settings.unsigned_allowed, settings.seal)
        self._judge = Judge(trust, terms, find_key=find_key)
        self._pace = Pace(settings.rate_per_s_min, settings.rate_per_s_max, at.steady_s)
        self._outbox: UrgentFirst[Outgoing] = UrgentFirst(settings.outbox_max)
        self._events: UrgentFirst[Event] = UrgentFirst(settings.events_max)

    # --- what the application does -------------------------------------------------------------------------------

    def publish(self, name: str, values: tuple[Value, ...], urgent: bool, at: Instant) -> int:
        """Send an event to all neighbours; to how many. UsageError if it does not fit a packet, or lacks its key."""
        draft = emm.draft_event(self._message_id(), int(at.unix_s), name, *values, node_id=self._node_id)
        if self._settings.compress:
            draft = emm.compressed_if_smaller(draft)
        seal = emm.seal_for(self._settings.seal, name, self._find_key, self._chance)
        data = self._build(replace(draft, urgent=urgent), seal)
        # Should it come back to us over others, it is nothing new.
        self._judge.note_own(self._node_id.bytes, draft.message_id, at.unix_s)
        self.figures.published += 1
        return self._put(data, self.neighbours.others(None), self._settings.ttl, urgent)

    def has_room(self, urgent: bool) -> bool:
        """Whether the next event will find room for all neighbours, or at least an empty outbox."""
        count = min(len(self.neighbours), self._settings.outbox_max)
        return self._outbox.has_room(count, urgent)

    def seek(self, address: Address, at: Instant) -> None:
        """Say Hello at this address; UsageError if that is too many."""
        self.neighbours.seek(address, at.steady_s)
        self._call(at)

    def gone(self, address: Address) -> None:
        """A QUIC connection ended: send nothing there."""
        self.neighbours.gone(address)

    def next_event(self) -> Event | None:
        return self._events.pop() if self._events else None

    # --- what the network does -----------------------------------------------------------------------------------

    def receive_datagrams(self, datagrams: Iterable[Datagram], at: Instant) -> None:
        """Take datagrams that arrived together, urgent ones first (EMM-29). That flag is not authenticated yet, so it
        changes only the order.
        """
        for datagram in sorted(datagrams, key=lambda each: not is_urgent_untrusted(each.data)):
            self._receive(datagram, at)
        self._call(at)

    def _receive(self, datagram: Datagram, at: Instant) -> None:
        self.figures.received += 1
        try:
            received = self._judge.receive_datagram(datagram.data, show_any(datagram.source).encode(), at.unix_s)
        except BadPacket as refusal:
            self.figures.rejected[refusal.reason] += 1
            self._on_refused(Refusal(datagram.data, datagram.source, refusal))
            return
        packet = received.packet
        match packet.kind:
            case EventType.EVENT:
                self._deliver(packet, received.verdict, datagram)
                self._forward(packet, datagram)
            case EventType.HELLO:
                told = next((value for kind, value in packet.values if kind == Field.BINARY), b"")
                assert isinstance(told, bytes), "the codec sees to it that a binary field holds bytes"
                self.neighbours.hello(packet.fields[Field.NODE_ID], datagram.source, told, at.steady_s)
            case EventType.HEARTBEAT:
                self.neighbours.heartbeat(packet.fields[Field.NODE_ID], datagram.source, at.steady_s)
            case _:
                assert_never(packet.kind)

    def _deliver(self, packet: Packet, verdict: Verdict, datagram: Datagram) -> None:
        name = packet.event_name
        assert name is not None, "the codec sees to it that an event has a name"
        values = [value for _, value in packet.values]
        values.remove(name)  # the first string
        event = Event(
            name,
            tuple(values),
            packet.node_id,
            packet.message_id,
            packet.timestamp_s,
            packet.urgent,
            verdict,
            datagram.source,
            datagram.ttl,
        )
        taken = self._events.put(event, packet.urgent)
        self.figures.delivered += taken
        self.figures.unread += not taken

    def _forward(self, packet: Packet, datagram: Datagram) -> None:
        """Send it on unchanged, with its time to live one less, to the neighbours that a rule names, and never back
        (EMM-27).
        """
        name = packet.event_name or ""
        rule = next((each for each in self._settings.forward if matches(Pattern(each.pattern), Topic(name))), None)
        if rule is None:
            return
        if datagram.ttl <= 1:
            self.figures.ended += 1
            return
        if self._put(packet.raw, self._targets(rule, datagram.source), datagram.ttl - 1, packet.urgent):
            self.figures.forwarded += 1

    def _targets(self, rule: Forward, source: Address) -> list[Address]:
        others = self.neighbours.others(source)
        if rule.to is None:
            return others
        named = {self.neighbours.address_of(node_id) for node_id in rule.to}
        return [address for address in others if address in named]

    # --- sending -------------------------------------------------------------------------------------------------

    def datagrams_to_send(self, at: Instant) -> list[Outgoing]:
        """What may leave now: urgent first, and no faster than the pace."""
        taken = []
        while self._outbox and self._pace.take(at.steady_s):
            taken.append(self._outbox.pop())
        return taken

    def get_timer(self) -> float:
        """When ``handle_timer`` or ``datagrams_to_send`` has something to do, by the steady clock."""
        due_s = self.neighbours.get_timer()
        return min(due_s, self._pace.ready_s()) if self._outbox else due_s

    def handle_timer(self, at: Instant) -> None:
        self._call(at)

    def _call(self, at: Instant) -> None:
        for due in self.neighbours.due(at.steady_s):
            self._put(self._called(due, at), [due.address], self._settings.ttl, False)

    def _called(self, due: Due, at: Instant) -> bytes:
        match due.call:
            case Call.HELLO:
                capabilities = self._settings.capabilities
                return self._build(emm.draft_hello(self._message_id(), int(at.unix_s), self._node_id, capabilities))
            case Call.HEARTBEAT:
                return self._build(emm.draft_heartbeat(self._message_id(), int(at.unix_s), self._node_id))
            case _:
                assert_never(due.call)

    def _build(self, draft: Draft, seal: Seal | None = None) -> bytes:
        return emm.build(draft, self._credentials, seal=seal, rules=self._settings.rules)

    def _message_id(self) -> int:
        return self._chance(MESSAGE_ID_BITS)

    def _put(self, data: bytes, targets: list[Address], ttl: int, urgent: bool) -> int:
        taken = sum(self._outbox.put(Outgoing(data, target, ttl, 0, urgent), urgent) for target in targets)
        self.figures.unsent += len(targets) - taken
        return taken
