"""From datagrams to the log: they wait in line, are judged in turns, and enter the log as batches.

One turn takes a few milliseconds at most, then the node's other work has its turn. What a turn publishes is synced with
everything else. While too much is not synced yet, nothing is taken from the line; when the line is full, datagrams are
dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from weft.core.messages import Receipted
from weft.datagram_node import Instant
from weft.errors import WeftError
from weft.gateway.emm.batches import batches, quarantined
from weft.gateway.emm.compact_judge import CompactJudge
from weft.gateway.emm.judge import EmmJudge
from weft.gateway.emm.quarantine import Quarantine
from weft.gateway.emm.rows import Accepted, Arrived, Judged, Rejected
from weft.gateway.emm.topics import QUARANTINE_TOPIC
from weft.gateway.emm.waiting import GATEWAY_EMM_SIGNATURES_MAX, Line, Signatures, intake_max
from weft.limits import EMM_PACKET_BYTES_MAX, MIB
from weft.model import Batch, Topic
from weft.port.held import Use
from weft.port.node import MeshNode
from weft.port.schemas import Payloads
from weft.schema.errors import SchemaBroken
from weft.wire.datagram import DatagramProtocol, protocol_of_untrusted
from weft.wire.reject import BadPacket, Reject

GATEWAY_EMM_TURN_MAX: Final = 2048  # datagrams judged before the node's other work has its turn: 10 to 20 ms
GATEWAY_EMM_TURN_MIN: Final = 128  # the same if each of them takes long, as damaged ones do
GATEWAY_EMM_TURN_GOAL_S: Final = 0.01  # how long a turn should take
GATEWAY_EMM_TURN_S: Final = 0.005  # between turns for a few datagrams, which cost a millisecond however few they are
GATEWAY_EMM_SIGNATURES_AT_ONCE: Final = 384  # Ed25519 checks in one turn: 15 ms on two cores, 30 to 40 ms on one
GATEWAY_EMM_OWED_BYTES_MAX: Final = 32 * MIB  # published and not synced yet: about a second at 100,000 packets/s
EMM_FIRST: Final = b"\x01"
MANY: Final = 1024  # datagrams that are worth a turn of their own
FULL_PAUSE_S: Final = 0.05  # before asking again whether the node has room for more


@dataclass(slots=True)
class Figures:
    """Counts since the start; changed in place."""

    received: int = 0  # datagrams
    published: int = 0  # events that are in the log
    refused: int = 0  # events that it refused, for example because the disk is full


class Inbound:
    """A publisher of the node. ``on_accepted`` gets accepted packets, and finds EMM's neighbours in them.
    ``on_compact`` gets accepted EMM-C packets, which are sent on. ``keep_marks`` records which packets were accepted,
    before their events are published (SEC-07)."""

    def __init__(
        self,
        mesh: MeshNode,
        judge: EmmJudge,
        compact: CompactJudge,
        quarantine: Quarantine,
        clock: Callable[[], Instant],
        on_accepted: Callable[[Accepted], None],
        packet_bytes_max: int = EMM_PACKET_BYTES_MAX,
        on_compact: Callable[[Sequence[Arrived], Instant], None] = lambda arrived, at: None,
        keep_marks: Callable[[float], None] = lambda unix_s: None,
    ) -> None:
        self.figures = Figures()
        self.line = Line(intake_max(packet_bytes_max))
        self.signatures = Signatures(intake_max(packet_bytes_max, GATEWAY_EMM_SIGNATURES_MAX))
        self.quarantine = quarantine
        self._mesh = mesh
        self._judge = judge
        self._compact = compact
        self._clock = clock
        self._on_accepted = on_accepted
        self._keep_marks = keep_marks
        self._on_compact = on_compact
        self._loop = asyncio.get_running_loop()
        self._turn: asyncio.TimerHandle | None = None
        self._turn_s = 0.0  # when the next turn is due
        self._at_once = GATEWAY_EMM_TURN_MIN  # datagrams in the next turn
        self._working = False
        self._done_s = 0.0  # when the last turn ended
        self._numbers = count(1)
        self._owed: dict[int, tuple[int, int]] = {}  # request -> bytes and events of its batch
        self._holding = mesh.held.holding("the EMM gateway", Use.PUBLISH)
        self._over = False

    def start(self) -> None:
        """Raise Busy or ShuttingDown if the node accepts no more publishers."""
        self._mesh.join(self)

    def close(self) -> None:
        self._end()
        self._mesh.leave(self)
        self._holding.close()

    # --- datagrams -----------------------------------------------------------------------------------------------

    def receive(self, arrived: Sequence[Arrived]) -> None:
        self.figures.received += len(arrived)
        if not self._over:
            self.line.put(arrived)
            self._wake()

    def _wake(self) -> None:
        """Make sure that there is a turn: at once if the last one was a while ago, much waits, or something is
        urgent."""
        if self._over or self._working or not (self.line or self.signatures):
            return
        due_s = self._done_s + (FULL_PAUSE_S if self._is_full() else self._pause_s())
        if self._turn is not None:
            if due_s >= self._turn_s:
                return
            self._turn.cancel()
        self._turn, self._turn_s = self._loop.call_at(due_s, self._work), due_s

    def _pause_s(self) -> float:
        if self.signatures or self.line.has_urgent or len(self.line) >= MANY:
            return 0.0
        return GATEWAY_EMM_TURN_S

    def _is_full(self) -> bool:
        return self._holding.bytes > GATEWAY_EMM_OWED_BYTES_MAX or self._holding.is_full

    def _work(self) -> None:
        """One turn."""
        self._turn = None
        self._working = True  # receipts may come at once
        try:
            if not self._is_full():
                at = self._clock()
                self._sort_out(self.line.take(self._at_once), at)
                self._at_once = next_turn(self._at_once, self._clock().steady_s - at.steady_s)
                self._verify(self.signatures.take(GATEWAY_EMM_SIGNATURES_AT_ONCE), at)
        finally:
            self._working = False
            self._done_s = self._loop.time()
            self._wake()

    def _sort_out(self, arrived: Sequence[Arrived], at: Instant) -> None:
        emm, compact, others = _by_protocol(arrived)
        if others:
            self._take(Judged(rejected=tuple(others)), at)
        for judge, some in ((self._judge, emm), (self._compact, compact)):
            if some:
                judged = judge.sort_out(some, at.unix_s)
                self.signatures.put(judged.waiting)
                self._take(judged, at)

    def _verify(self, waiting: Sequence[Arrived], at: Instant) -> None:
        emm, compact, _ = _by_protocol(waiting)
        for judge, some in ((self._judge, emm), (self._compact, compact)):
            if some:
                judged = judge.verify(some, at.unix_s)
                failed = {each.source for each in judged.rejected if each.reason is Reject.BAD_SIGNATURE}
                for source in {each.source for each in some}:
                    (self.signatures.failed if source in failed else self.signatures.passed)(source)
                self._take(judged, at)

    def _take(self, judged: Judged, at: Instant) -> None:
        self._keep_marks(at.unix_s)
        for accepted in judged.accepted:
            self._on_accepted(accepted)
        if judged.compact:
            self._on_compact(judged.compact, at)
        for topic, batch in batches(judged.accepted, partial(self._mesh.begin_trace, "emm")):
            self._publish(topic, batch)
        if judged.rejected:
            kept = self.quarantine.take(judged.rejected, at.steady_s)
            if kept:
                self._publish(QUARANTINE_TOPIC, quarantined(kept, at.unix_s))

    # --- publishing: PublishClient of the node -----------------------------------------------------------------------

    def _publish(self, topic: Topic, batch: Batch) -> None:
        request, size = next(self._numbers), len(batch.data)
        self._owed[request] = (size, len(batch))
        self._holding.take(size)
        checks = self._mesh.checks
        if checks.applies(topic):
            checks.check(self, topic, Payloads(batch), partial(self._checked, request, topic, batch), first_only=False)
        else:
            self._mesh.publish(self, request, topic, 0, batch, 0)

    def _checked(self, request: int, topic: Topic, batch: Batch, broken: Mapping[int, SchemaBroken]) -> None:
        """Events that break the schema of their topic are lost, and counted; the rest goes on."""
        if request not in self._owed:
            return  # the gateway was closed meanwhile
        if broken:
            self._mesh.count_refusal(next(iter(broken.values())))
            kept = [event for at, event in enumerate(batch) if at not in broken]
            self.figures.refused += len(broken)
            self._owed[request] = (self._owed[request][0], len(kept))
            if not kept:
                self._settle(request)
                self._wake()
                return
            batch = Batch.from_events(kept)
        self._mesh.publish(self, request, topic, 0, batch, 0)

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        for request, _ in receipts:
            self.figures.published += self._settle(request)
        self._wake()

    def refused(self, request: int, error: WeftError) -> None:
        """Datagrams cannot be sent back: what the log refuses is lost, and counted."""
        self._mesh.count_refusal(error)
        self.figures.refused += self._settle(request)
        self._wake()

    def drain(self) -> None:
        self._end()
        if not self._owed:
            self._mesh.leave(self)

    def _settle(self, request: int) -> int:
        size, events = self._owed.pop(request)
        self._holding.give_back(size)
        if self._over and not self._owed:
            self._mesh.leave(self)
        return events

    def _end(self) -> None:
        self._over = True
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None


def next_turn(datagrams: int, took_s: float) -> int:
    """How many datagrams to judge in the next turn, given the number and the time of the last one."""
    if took_s > GATEWAY_EMM_TURN_GOAL_S:
        return max(datagrams // 2, GATEWAY_EMM_TURN_MIN)
    if took_s < GATEWAY_EMM_TURN_GOAL_S / 4:
        return min(datagrams * 2, GATEWAY_EMM_TURN_MAX)
    return datagrams


def _by_protocol(arrived: Sequence[Arrived]) -> tuple[list[Arrived], list[Arrived], list[Rejected]]:
    """EMM, EMM-C, and what is neither (ADR 12)."""
    emm = [each for each in arrived if each[0][:1] == EMM_FIRST]
    if len(emm) == len(arrived):  # as nearly always
        return emm, [], []
    compact: list[Arrived] = []
    others: list[Rejected] = []
    for each in arrived:
        try:
            if protocol_of_untrusted(each.data) is DatagramProtocol.EMM_COMPACT:
                compact.append(each)
        except BadPacket as error:
            others.append(Rejected(each.data, each.source, error.reason))
    return emm, compact, others
