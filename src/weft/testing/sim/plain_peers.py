"""Peers that know only the four messages of the design document (PL-05), and what they can expect of a node."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from random import Random
from typing import Final

from weft import membership
from weft.core import messages as core
from weft.core.messages import PlainEvent
from weft.core.plain import PLAIN_EPOCH
from weft.model import NodeId, Stream, Topic, parse_topic
from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import EndOf, StreamKey, Truth, is_internal, name_of

DELAY_S_MAX: Final = 0.02
BEAT_S: Final = 5.0
TOPIC: Final = parse_topic("plant.line1.temp")  # that it publishes


class PlainPeer:
    """Linked to one node. It keeps what it gets, and what it publishes until that is acknowledged.

    Some lose events on their way, as a full queue does by the document. Of those, some go back when they get an ack
    again, the others when they have a new link. Some forget their oldest events for good. ``dice`` is for these faults.
    """

    def __init__(
        self,
        node_id: NodeId,
        node: SimNode,
        events: int,
        schedule: Schedule,
        chance: Random,
        dice: Random,
        truth: Truth,
    ) -> None:
        self.node_id = node_id
        self.node = node
        self.gone = False
        self.lost: set[int] = set()  # events that did not arrive the first time
        self.forgotten: set[int] = set()  # events that it can send no more
        self._dice = dice
        self._loses = dice.choice([0.0, 0.1, 0.3])
        self._goes_back = dice.random() < 0.5
        self._forgets = dice.choice([0.0, 0.0, 0.3])
        self._went_back = (0, 0)  # on which connection, and to where
        self._left = events
        self._last = events - 1
        self._leaves = chance.random() < 0.3
        self._schedule = schedule
        self._chance = chance
        self._truth = truth
        self._linked_life = 0  # of the node; 0: there is no link
        self._connection = 0
        self._arrival_s = {"up": 0.0, "down": 0.0}
        self._published: list[bytes] = []
        self._acked = 0  # events that the node has acknowledged
        self._has: defaultdict[Topic, list[bytes]] = defaultdict(list)  # by the numbers they came with

    @property
    def key(self) -> StreamKey:
        return Stream(TOPIC, self.node_id, 0), PLAIN_EPOCH

    @property
    def _is_linked(self) -> bool:
        return self._linked_life == self.node.life and self.node.running

    # --- the link ---

    def run(self) -> None:
        """See to the link and publish, again and again; some leave for good once all is acknowledged."""
        if self._leaves and not self._left and self._acked == len(self._published):
            self.disconnect()
            self.gone = True
            return
        if self.node.running and not self._is_linked:
            self._connect()
        if self._left:
            self._left -= 1
            payload = f"{self.node_id} {TOPIC} {len(self._published)}".encode()
            self._truth.published_plain(self.key, payload)
            self._published.append(payload)
            if self._is_linked:
                self._send_event(len(self._published) - 1)
        self._schedule.at(0.2 + self._chance.random(), self.run)

    def _beat(self, connection: int) -> None:
        """PL-03: who is silent for too long counts as gone."""
        if self._connection == connection and self._is_linked:
            beat = membership.MessageReceived(self.node_id, membership.Heartbeat(int(self._schedule.now_s * 1e6) + 1))
            self._later("up", partial(self.node.receive, beat))
            self._schedule.at(BEAT_S, partial(self._beat, connection))

    def _connect(self) -> None:
        self._linked_life = self.node.life
        self._connection += 1
        self.node.link_up(self.node_id, plain=True)
        self._beat(self._connection)
        self._send_from(self._acked)

    def _send_from(self, first: int) -> None:
        for number in range(first, len(self._published)):
            if number not in self.forgotten:
                self._send_event(number)

    def disconnect(self) -> None:
        if self._is_linked:
            self._linked_life = 0
            self._connection += 1
            self.node.link_down(self.node_id)
            if self._dice.random() < self._forgets:
                self._forget()

    def _forget(self) -> None:
        """Its retention takes what it has not got rid of, but for the last: behind that nobody would notice a gap."""
        self.forgotten.update(range(self._acked, len(self._published) - 1))
        self._truth.streams[self.key].forgotten |= self.forgotten

    def _send_event(self, number: int) -> None:
        if self._may_lose(number) and self._dice.random() < self._loses:
            self.lost.add(number)
            return
        event = PlainEvent(TOPIC, number, self._published[number], {})
        self._later("up", partial(self.node.tell, core.ReceivedPlain(self.node_id, event)))

    def _may_lose(self, number: int) -> bool:
        """Nobody can tell apart what was lost and what never was at the beginning of a stream, at its end, behind a
        hole, or when it is lost on every link. So none of that is lost."""
        if self._acked == 0 or number == self._last:
            return False
        return number not in self.lost and number - 1 not in self.forgotten

    def _later(self, way: str, action: partial[None]) -> None:
        now_s = self._schedule.now_s
        arrival_s = max(self._arrival_s[way], now_s + self._chance.random() * DELAY_S_MAX)
        self._arrival_s[way] = arrival_s
        self._schedule.at(arrival_s - now_s, partial(self._arrive, self._connection, action))

    def _arrive(self, connection: int, action: partial[None]) -> None:
        if self._connection == connection and self._is_linked:
            action()

    # --- what the node sends ---

    def receive(self, effect: core.SendPlain | core.SendPlainAck) -> None:
        self._later("down", partial(self._take, effect))

    def _take(self, effect: core.SendPlain | core.SendPlainAck) -> None:
        if isinstance(effect, core.SendPlainAck):
            self._check_ack(effect)
            here = (self._connection, effect.offset + 1)
            if self._goes_back and effect.offset + 1 == self._acked and here != self._went_back:
                self._went_back = here
                self._send_from(self._acked)
            self._acked = max(self._acked, effect.offset + 1)
            return
        for event in effect.events:
            self._take_event(event)
        for topic in dict.fromkeys(event.topic for event in effect.events):
            ack = core.ReceivedPlainAck(self.node_id, topic, len(self._has[topic]) - 1)
            self._later("up", partial(self.node.tell, ack))

    def _check_ack(self, ack: core.SendPlainAck) -> None:
        durable = self._truth.durable[self.node.node_id].get(self.key, 0)
        if ack.topic != TOPIC or ack.offset >= durable:
            raise Violation(f"{self.node.node_id} acknowledges {ack}, its disk has {durable} events of {self.node_id}")

    def _take_event(self, event: PlainEvent) -> None:
        """Numbers have no gaps, and a number once given stays with its event."""
        has = self._has[event.topic]
        if event.offset > len(has):
            raise Violation(f"{self.node_id} gets number {event.offset} of {event.topic} and has {len(has)}")
        if event.offset < len(has):
            if has[event.offset] != event.payload:
                raise Violation(f"{self.node_id} got number {event.offset} of {event.topic} twice, and not the same")
            return
        has.append(event.payload)

    # --- at the end ---

    def lacks(self, end_of: EndOf) -> str:
        """What is still missing: everything is acknowledged, and it has all that there is."""
        if self._left or self._acked < len(self._published):
            return f"{self.node.node_id} has not acknowledged all of {self.node_id}"
        if self.gone:
            return ""
        for key, history in self._truth.streams.items():
            if is_internal(key) or key[0].origin == self.node_id:
                continue
            missing = set(history.payloads[: end_of(key) or 0]).difference(self._has[key[0].topic])
            for payload in sorted(missing):
                if not self._truth.may_be_gone(key, history.payloads.index(payload)):
                    return f"{self.node_id} lacks {payload!r} of {name_of(key)}"
        return ""
