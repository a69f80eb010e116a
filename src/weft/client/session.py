"""One Subscribe stream to one node, from its opening to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from weft.client.by_hand import HandIntake, Settlement
from weft.client.duplex import Duplex
from weft.client.errors import BadNode, Unavailable, error_of
from weft.client.hooks import LOG, notify
from weft.client.intake import EventIntake
from weft.client.nodes import Nodes
from weft.client.refs import read_position_untrusted, read_stream_untrusted, stream_positions
from weft.client.speech import Speech
from weft.errors import WeftError
from weft.limits import OFFSET_MAX
from weft.model import BadBatch, Batch, Epoch, EventId, Stream
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.deliveries import read_delivery_untrusted
from weft.wire.mesh.streams import stream_ref

SUBSCRIBE: Final = "/weft.mesh.v1.Mesh/Subscribe"
POSITIONS_AT_ONCE: Final = 4096  # in one message: 1 MiB of the longest topics
ACKS_AT_ONCE: Final = 1024  # streams or refusals in one message: half a MiB of the longest names or reasons
RANGES_AT_ONCE: Final = 1024  # of one stream in one message
T = TypeVar("T")


class SubscribeSession:
    """Puts what one node delivers into the intake, and sends that node the reports of the intake."""

    def __init__(
        self,
        nodes: Nodes,
        address: str,
        intake: EventIntake,
        speech: Speech,
        arrived: asyncio.Event,
    ) -> None:
        self._nodes = nodes
        self._address = address
        self._intake = intake
        self._speech = speech
        self._arrived = arrived
        self._node = address
        self._queue_bytes_max = 2 * nodes.options.credit_bytes
        self._held: Duplex[pb.SubscribeRequest, pb.SubscribeReply] | None = None  # while held up
        self.has_delivered = False

    async def run(self, first: pb.SubscribeOpen, on_opened: Callable[[], None]) -> None:
        """Serve the subscription until it ends. Return if we closed it; otherwise raise the reason."""
        call: Duplex[pb.SubscribeRequest, pb.SubscribeReply]
        call = Duplex(self._nodes, self._address, SUBSCRIBE, pb.SubscribeReply, self._nodes.open_standing)
        tasks: list[asyncio.Task[None]] = []
        is_open = False
        try:
            await self._begin(call, first)
            is_open = True
            on_opened()
            tasks = [asyncio.create_task(self._read(call)), asyncio.create_task(self._write(call))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done():
                    task.result()
        except WeftError as error:
            LOG.info("subscription to %s at %s broke: %s", first.pattern, self._address, error)
            if is_open:
                notify(self._nodes.hooks.on_disconnected, self._address, self._node, "subscribe", str(error))
            raise
        finally:
            for task in tasks:
                task.cancel()
            call.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._intake.disconnected()

    async def _begin(self, call: Duplex[pb.SubscribeRequest, pb.SubscribeReply], first: pb.SubscribeOpen) -> None:
        """Open the stream. If there are many positions, either side sends them in several messages."""
        pages = _cut_positions(first)
        reply: pb.SubscribeReply | None = await call.begin(pb.SubscribeRequest(open=first), pages)
        while reply is not None:
            self._begin_untrusted(reply)
            if not reply.opened.more:
                break
            reply = await call.read()
        else:
            raise BadNode("the node ended the stream before it was open", node=self._address)
        LOG.info("subscribed at %s (%s)", self._node, self._address)
        notify(self._nodes.hooks.on_connected, self._address, self._node, "subscribe")

    def _begin_untrusted(self, reply: pb.SubscribeReply) -> None:
        if reply.WhichOneof("msg") == "error":
            raise error_of(reply.error, node=self._address)
        if reply.WhichOneof("msg") != "opened":
            raise BadNode("the node did not begin with opened", node=self._address)
        self._node = reply.opened.node_id
        self._intake.cursors.begin([read_position_untrusted(place) for place in reply.opened.positions.positions])
        self._nodes.book.learn_untrusted(reply.opened.addresses)
        self._nodes.last_good = self._address

    async def _read(self, call: Duplex[pb.SubscribeRequest, pb.SubscribeReply]) -> None:
        def take_untrusted(data: bytes) -> None:
            delivered = read_delivery_untrusted(data)
            if delivered is None:
                self._take_untrusted(call.parsed_untrusted(data))
            else:
                for stream, epoch, batch, first_offset, tries in delivered:
                    self._deliver_untrusted(stream, epoch, batch, first_offset, tries)
            if self._intake.queued_bytes > self._queue_bytes_max:
                # Only a node that ignores our credit gets here. From now on, HTTP/2's own window stops it.
                self._held = call
                call.hold()

        await call.deliver_bytes_to(take_untrusted)
        if not self._speech.is_last:
            raise Unavailable("node ended the stream", node=self._node)

    def has_taken(self) -> None:
        """The queue has become shorter."""
        if self._held is not None and self._intake.queued_bytes <= self._queue_bytes_max:
            held, self._held = self._held, None
            held.go_on()

    def _take_untrusted(self, reply: pb.SubscribeReply) -> None:
        match reply.WhichOneof("msg"):
            case "delivery":
                for delivered in reply.delivery.batches:
                    stream, epoch = read_stream_untrusted(delivered.stream)
                    self._deliver_untrusted(stream, epoch, delivered.batch, delivered.first_offset, delivered.tries)
            case "assignment":
                self._assign_untrusted(reply.assignment)
            case "withdrawn":
                self._withdrawn_untrusted(reply.withdrawn)
            case "error":
                raise error_of(reply.error, node=self._node)
            case _:
                pass  # from a later version

    def _deliver_untrusted(self, stream: Stream, epoch: Epoch, data: bytes, first_offset: int, tries: int) -> None:
        """Queue a batch; raise only BadNode."""
        try:
            batch = Batch.read_untrusted(data)
        except BadBatch as error:
            what = f"the node delivered a bad batch: {error}"
            raise BadNode(what, node=self._node, stream=stream, offset=first_offset) from None
        self.has_delivered = True
        if self._intake.delivered(stream, epoch, batch, first_offset, tries):
            self._arrived.set()
        else:
            self._speech.credit_due(self._intake.credit_due_bytes)

    def _assign_untrusted(self, assignment: pb.Assignment) -> None:
        positions = [read_position_untrusted(place) for place in assignment.streams]
        answer_by_s = asyncio.get_running_loop().time() + self._nodes.options.release_timeout_s
        self._intake.assigned(assignment.generation, positions, answer_by_s)
        self.has_delivered = True
        self._speech.now()

    def _withdrawn_untrusted(self, withdrawn: pb.Withdrawn) -> None:
        stream, epoch = read_stream_untrusted(withdrawn.stream)
        if not isinstance(self._intake, HandIntake) or withdrawn.offset > OFFSET_MAX:
            raise BadNode("the node answers what was not refused", node=self._node, stream=stream)
        self._intake.withdrawn(EventId(stream, epoch, withdrawn.offset), withdrawn.rest)
        self._arrived.set()
        self._speech.credit_due(self._intake.credit_due_bytes)

    async def _write(self, call: Duplex[pb.SubscribeRequest, pb.SubscribeReply]) -> None:
        while True:
            await self._speech.wanted()
            is_last = self._speech.is_last  # read before the report: what is handled meanwhile comes later
            report = self._intake.report(asyncio.get_running_loop().time())
            if report.settled is not None:
                for settled in _settled_messages(report.settled):
                    await call.write(pb.SubscribeRequest(settled=settled))
            if report.generation is not None:
                for first in range(0, len(report.positions) or 1, POSITIONS_AT_ONCE):
                    some = stream_positions(report.positions[first : first + POSITIONS_AT_ONCE])
                    handled = pb.Handled(positions=some, generation=report.generation)
                    await call.write(pb.SubscribeRequest(handled=handled))
            elif self._intake.owes_answer:
                self._speech.soon()  # the application still holds an event of a stream that was lost
            if is_last:
                return call.done_writing()
            if report.credit_bytes:
                await call.write(pb.SubscribeRequest(credit=pb.Credit(bytes=report.credit_bytes)))


def _settled_messages(settlement: Settlement) -> Iterator[pb.Settled]:
    """Encode a settlement as messages with a bounded number of streams and ranges. Only the last one names the
    assignment that was taken over, because by then the node knows everything about the lost streams."""
    refusals = [
        pb.Nack(
            stream=stream_ref(each.event.stream, each.event.epoch),
            offset=each.event.offset,
            delay_s=each.delay_s,
            reason=each.reason,
        )
        for each in settlement.refusals
    ]
    ranges = [
        pb.AckedRange(stream=stream_ref(*place), offsets=[number for pair in part for number in pair])
        for place, acked in settlement.acks
        for part in _chunks(list(acked), RANGES_AT_ONCE)
    ]
    acks, nacks = _chunks(ranges, ACKS_AT_ONCE), _chunks(refusals, ACKS_AT_ONCE)
    messages = [pb.Settled(acks=each) for each in acks] + [pb.Settled(nacks=each) for each in nacks]
    if len(acks) <= 1 and len(nacks) <= 1:
        messages = [pb.Settled(acks=ranges, nacks=refusals)]
    messages[-1].generation = settlement.generation
    yield from messages


def _chunks(items: list[T], size: int) -> list[list[T]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _cut_positions(first: pb.SubscribeOpen) -> list[pb.SubscribeRequest]:
    """Split what is too much for the first message into further messages."""
    positions = list(first.start.positions.positions)
    if len(positions) <= POSITIONS_AT_ONCE:
        return []
    starts = range(POSITIONS_AT_ONCE, len(positions), POSITIONS_AT_ONCE)
    first.start.positions.ClearField("positions")
    first.start.positions.positions.extend(positions[:POSITIONS_AT_ONCE])
    first.position_messages = len(starts)
    pages = (pb.Positions(positions=positions[start : start + POSITIONS_AT_ONCE]) for start in starts)
    return [pb.SubscribeRequest(positions=page) for page in pages]
