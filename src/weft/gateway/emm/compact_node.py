"""The gateway as a node of the EMM-C mesh: what it accepts goes on to its neighbours, as the document demands (EMC-12).

``emm_compact.neighbours`` decides who is a neighbour, what neighbours are told, how fast packets go to each and when
they expire, for the library's node and for this one. Here are the timer and the keys: without a group key, the node
cannot sign, so it has no neighbours; when the group key or the node's key changes, the neighbours stay (EMC-05).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from structlog.stdlib import BoundLogger

from weft.datagram_node import Instant
from weft.emm_compact.event import Figures
from weft.emm_compact.neighbours import CompactNeighbours
from weft.emm_compact.settings import EMC_RELATIONSHIPS_MAX, HEARTBEAT_INTERVAL_S_MAX
from weft.emm_compact.settings import Settings as CompactSettings
from weft.gateway.emm.packing import no_compact
from weft.gateway.emm.rows import Arrived
from weft.gateway.emm.settings import GatewaySettings
from weft.limits import DATAGRAM_RATE_PER_S_MIN
from weft.transport.quic import show_any
from weft.transport.turns import Turns
from weft.wire.datagram import is_urgent_untrusted
from weft.wire.emm_compact import TTL_DEFAULT, EventType, Notification, Packet, Signer, decode_untrusted
from weft.wire.emm_compact.header import TYPE_MASK
from weft.wire.recent import ReplayMarks
from weft.wire.udp import Address, Datagram, Outgoing
from weft.wire.urgent_first import UrgentFirst

GATEWAY_EMC_RELAYS_MAX: Final = 4096  # events waiting to be sent on, urgent ones separately: 2 MB, a second of work
RELAYED_AT_ONCE: Final = 1024  # datagrams sent on before the node's other work has its turn: 5 to 10 ms
TRAVELLING: Final = frozenset({EventType.NOTIFICATION, EventType.COMMAND})  # ADR 21


class CompactNode:
    """``send`` sends a datagram; ``chance(n)`` returns n random bits; ``marks`` is the judge's memory, where our own
    events are noted; ``overflowed`` counts datagrams that the system had no room for.
    """

    def __init__(
        self,
        node_id: UUID,
        settings: CompactSettings,
        marks: ReplayMarks,
        chance: Callable[[int], int],
        send: Callable[[Outgoing], bool],
        clock: Callable[[], Instant],
        overflowed: Callable[[], int],
        logger: BoundLogger,
    ) -> None:
        self.figures = Figures()
        self.unrelayed = 0  # events and datagrams for which there was no room
        self._node_id = node_id
        self._settings = settings
        self._marks = marks
        self._chance = chance
        self._send = send
        self._clock = clock
        self._overflowed = overflowed
        self._logger = logger
        self._neighbours: CompactNeighbours | None = None  # as soon as there is a group key
        self._wanted: list[Address] = []
        self._line: UrgentFirst[Datagram] = UrgentFirst(GATEWAY_EMC_RELAYS_MAX)
        self._turns = Turns(self._on_timer)

    def sign_with(self, signer: Signer | None) -> None:
        """Sign with this from now on; None: there is no group key."""
        if signer is None:
            self._neighbours = None
            self._line.clear()
        elif self._neighbours is not None:
            self._neighbours.signer = signer
        else:
            at = self._clock()
            self._neighbours = CompactNeighbours(
                self._node_id, signer, self._settings, at, lambda: self._chance(16), self._marks, self.figures
            )
            for address in self._wanted:
                self._neighbours.join(address, at)
            self._work(at)

    def join(self, addresses: Collection[Address]) -> None:
        """Ask these for a relationship, and again whenever it is lost."""
        self._wanted.extend(addresses)
        if self._neighbours is not None:
            at = self._clock()
            for address in addresses:
                self._neighbours.join(address, at)
            self._work(at)

    def gone(self, address: Address) -> None:
        """A QUIC connection ended, so that address is out of reach."""
        if address in self._wanted:
            self._wanted.remove(address)
        if self._neighbours is not None:
            self._neighbours.gone(address)
            self._work(self._clock())

    def close(self) -> None:
        self._turns.close()

    # --- what comes in -------------------------------------------------------------------------------------------

    def take(self, arrived: Sequence[Arrived], address_of: Callable[[str], Address | None], at: Instant) -> None:
        """Packets that were judged and are new: take what joins and heartbeats say, and send events on, in turns."""
        neighbours = self._neighbours
        if neighbours is None:
            return
        for each in arrived:
            travels = each.data[0] & TYPE_MASK in TRAVELLING
            if travels and not len(neighbours.relationships):
                continue  # there is nobody to send it to: a gateway of silent sensors gets 100,000 of them a second
            source = address_of(each.source)
            if source is None:
                continue
            datagram = Datagram(each.data, source, each.ttl, each.tos)
            if not travels:
                neighbours.take(decode_untrusted(each.data), datagram, at)
            elif not self._line.put(datagram, is_urgent_untrusted(each.data)):
                self.unrelayed += 1
        self._relay(neighbours, at)
        self._work(at)

    def _relay(self, neighbours: CompactNeighbours, at: Instant) -> None:
        """Send on as much as fits into one turn: an event costs in proportion to the neighbours."""
        unsent = self.figures.unsent
        for _ in range(max(RELAYED_AT_ONCE // max(len(neighbours.relationships), 1), 1)):
            if not self._line:
                break
            datagram = self._line.pop()
            neighbours.take(decode_untrusted(datagram.data), datagram, at)
        self.unrelayed += self.figures.unsent - unsent

    # --- what goes out -------------------------------------------------------------------------------------------

    def seal_event(self, body: Notification, urgent: bool, unix_s: float) -> Packet:
        """Make an event of ours; UsageError if it does not fit a packet, or there is no group key."""
        if self._neighbours is None:
            return no_compact(body, urgent, unix_s)
        return self._neighbours.seal_event(body, urgent, unix_s)

    def takers(self, kind: EventType) -> list[Address]:
        """Neighbours that accept packets of this type."""
        return [] if self._neighbours is None else self._neighbours.takers(kind)

    def send(self, packet: Packet, target: Address) -> bool | None:
        """Send to a neighbour, as fast as it accepts packets; return whether there was room. None if it is no
        neighbour."""
        if self._neighbours is None or self._neighbours.relationships.at(target) is None:
            return None
        at = self._clock()
        taken = self._neighbours.put(packet, [target], TTL_DEFAULT, at)
        self._work(at)
        return taken > 0

    def rate_per_s(self, target: Address) -> float:
        """How many datagrams a second may go to a neighbour: less after congestion (EMC-14)."""
        assert self._neighbours is not None, "there is a neighbour"
        return self._neighbours.rate_per_s(target, self._clock())

    @property
    def neighbours(self) -> int:
        """How many there are."""
        return 0 if self._neighbours is None else len(self._neighbours.relationships)

    # --- time ----------------------------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        if self._neighbours is not None:
            at = self._clock()
            self._neighbours.note_overflow(self._overflowed() + self.unrelayed)
            self._neighbours.handle_timer(at)
            self._relay(self._neighbours, at)
            self._work(at)

    def _work(self, at: Instant) -> None:
        """Send what may leave, report who came and went, and look again when something is due."""
        neighbours = self._neighbours
        assert neighbours is not None, "only called while there are any"
        for each in neighbours.datagrams_to_send(at):
            self._send(each)
        while (change := neighbours.next_change()) is not None:
            who = change.relationship
            self._logger.info(
                f"emm_c_neighbour_{change.kind.name.lower()}", emm_node=str(who.uuid), address=show_any(who.address)
            )
        self._turns.happened(at.steady_s if self._line else neighbours.get_timer())


def compact_settings(settings: GatewaySettings) -> CompactSettings:
    """The gateway's settings for its part as an EMM-C node."""
    return CompactSettings(
        relationships_max=EMC_RELATIONSHIPS_MAX,
        heartbeat_interval_s=min(max(int(settings.heartbeat_interval_s), 1), HEARTBEAT_INTERVAL_S_MAX),
        rate_per_s_max=settings.rate_per_s_max,
        rate_per_s_min=min(DATAGRAM_RATE_PER_S_MIN, settings.rate_per_s_max),
    )
