"""Peers that know only the four messages of the design document (PL-05), and what they can expect of a node.

They dial, and speak in frames as any other: a real ``PeerLinks`` is at the other end.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from random import Random
from typing import Final

from weft import membership
from weft.core import messages as core
from weft.core.messages import PlainEvent
from weft.core.plain import PLAIN_EPOCH
from weft.model import NodeId, Stream, Topic, parse_topic
from weft.testing.sim.calls import SimCall
from weft.testing.sim.loop import Clock, new_loop
from weft.testing.sim.network import Host, Network
from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import EndOf, StreamKey, Truth, is_internal, name_of
from weft.transport.peers.byte_streams import LinkBroken
from weft.transport.peers.links import EVENT_STREAM
from weft.transport.peers.member_messages import member_message
from weft.transport.peers.messages import message_of, read_plain_ack_untrusted, read_plain_untrusted
from weft.wire.mesh.features import Hello
from weft.wire.mesh.frames import read_peer_message_untrusted, write_peer_message
from weft.wire.mesh.peerlink_pb2 import PeerMessage
from weft.wire.rpc import RpcError

BEAT_S: Final = 5.0
DIAL_TIMEOUT_S: Final = 3.0
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
        network: Network,
        chance: Random,
        dice: Random,
        truth: Truth,
    ) -> None:
        self.node_id = node_id
        self.node = node
        self.loop = new_loop(node_id, schedule, Clock(), chance, 0.0)
        self._host = Host(node_id, self.loop, {})
        self._network = network
        self.gone = False
        self.lost: set[int] = set()  # events that did not arrive the first time
        self.forgotten: set[int] = set()  # events that it can no longer send
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
        self._linking: asyncio.Task[None] | None = None
        self._call: SimCall | None = None  # while there is a link
        self._connection = 0
        self._published: list[bytes] = []
        self._acked = 0  # events that the node has acknowledged
        self._has: defaultdict[Topic, list[bytes]] = defaultdict(list)  # by the numbers they came with

    @property
    def key(self) -> StreamKey:
        return Stream(TOPIC, self.node_id, 0), PLAIN_EPOCH

    # --- the link ---

    def run(self) -> None:
        """See to the link and publish, again and again; some leave for good once all is acknowledged."""
        if self._leaves and not self._left and self._acked == len(self._published):
            self.disconnect()
            self.gone = True
            return
        if self.node.running and (self._linking is None or self._linking.done()):
            self._linking = self.loop.run_on(lambda: self.loop.create_task(self._link()))
        if self._left:
            self._left -= 1
            payload = f"{self.node_id} {TOPIC} {len(self._published)}".encode()
            self._truth.published_plain(self.key, payload)
            self._published.append(payload)
            self._send_event(len(self._published) - 1)
        self._schedule.at(0.2 + self._chance.random(), self.run)

    async def _link(self) -> None:
        """Dial, say hello, and take what comes until it is over."""
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):  # a node that is just stopping may never answer
                channel = await self._network.dial_plain(self._host, self.node.node_id)
        except (LinkBroken, TimeoutError):
            return
        try:
            call = await channel.call(EVENT_STREAM, ())
            self._write(call, PeerMessage(handshake=Hello(self.node_id).to_message()))
            if await call.read() is None:
                return
            self._call = call
            self._connection += 1
            self._beat(call)
            self._send_from(self._acked)
            while (frame := await call.read()) is not None:
                self._take(read_peer_message_untrusted(frame))
        except RpcError:
            if self._call is not None:
                self._perhaps_forget()
        finally:
            self._call = None
            channel.close()

    def _write(self, call: SimCall, message: PeerMessage) -> None:
        call.write_nowait(write_peer_message(message))

    def _beat(self, call: SimCall) -> None:
        """PL-03: a peer that is silent for too long counts as gone."""
        if self._call is call:
            self._write(call, member_message(membership.Heartbeat(int(self._schedule.now_s * 1e6) + 1)))
            self._schedule.at(BEAT_S, partial(self._beat, call))

    def _send_from(self, first: int) -> None:
        for number in range(first, len(self._published)):
            if number not in self.forgotten:
                self._send_event(number)

    def disconnect(self) -> None:
        if self._call is not None and self._linking is not None:
            self._call = None
            self._linking.cancel()
            self._perhaps_forget()

    def _perhaps_forget(self) -> None:
        """Its retention takes what it has not got rid of, but for the last: behind that nobody would notice a gap."""
        if self._dice.random() >= self._forgets:
            return
        self.forgotten.update(range(self._acked, len(self._published) - 1))
        self._truth.streams[self.key].forgotten |= self.forgotten

    def _send_event(self, number: int) -> None:
        if self._call is None:
            return
        if self._may_lose(number) and self._dice.random() < self._loses:
            self.lost.add(number)
            return
        event = PlainEvent(TOPIC, number, self._published[number], {})
        self._write(self._call, message_of(core.SendPlain(self.node.node_id, (event,))))

    def _may_lose(self, number: int) -> bool:
        """Nobody can tell apart what was lost and what never was at the beginning of a stream, at its end, behind a
        hole, or when it is lost on every link. So none of that is lost."""
        if self._acked == 0 or number == self._last:
            return False
        return number not in self.lost and number - 1 not in self.forgotten

    # --- what the node sends ---

    def _take(self, message: PeerMessage) -> None:
        match message.WhichOneof("msg"):
            case "event":
                self._take_event(read_plain_untrusted(self.node.node_id, message.event).event)
            case "ack":
                self._take_ack(read_plain_ack_untrusted(self.node.node_id, message.ack))
            case "heartbeat":
                pass
            case kind:
                raise Violation(f"{self.node.node_id} sends {self.node_id} a message that it does not know: {kind}")

    def _take_ack(self, ack: core.ReceivedPlainAck) -> None:
        self._check_ack(ack)
        here = (self._connection, ack.offset + 1)
        if self._goes_back and ack.offset + 1 == self._acked and here != self._went_back:
            self._went_back = here
            self._send_from(self._acked)
        self._acked = max(self._acked, ack.offset + 1)

    def _check_ack(self, ack: core.ReceivedPlainAck) -> None:
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
        else:
            has.append(event.payload)
        if self._call is not None:
            ack = core.SendPlainAck(self.node.node_id, event.topic, len(has) - 1)
            self._write(self._call, message_of(ack))

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
