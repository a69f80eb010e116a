"""One open Publish stream to one node: it sends chunks, and gets receipts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, TypeAlias

from weft.client.chunk import Chunk, Lane, Timing
from weft.client.duplex import Duplex
from weft.client.errors import BadNode, Unavailable, error_of, parsed_untrusted
from weft.client.nodes import Nodes
from weft.client.publish_message import PublishMessage, place_bytes
from weft.errors import UsageError, WeftError
from weft.model import Epoch, NodeId, Receipt, Stream, Topic, parse_node_id
from weft.model.later import owner_of_waiting
from weft.wire.mesh import mesh_pb2 as pb

PUBLISH: Final = "/weft.mesh.v1.Mesh/Publish"

Answered: TypeAlias = Callable[[Chunk, Receipt | WeftError], None]  # is told the outcome of a chunk


class PublishLink:
    """A stream to a node that accepts batches. ``unacknowledged`` has the chunks that were sent and not answered yet,
    in order."""

    def __init__(self, call: Duplex[pb.PublishRequest, pb.PublishReply], node: NodeId, clock_us: int | None) -> None:
        """``clock_us``: how far the node's clock is ahead of the loop's, at most; None: the node does not say."""
        self.address: Final = call.address
        self.node: Final = node
        self.clock_us: Final = clock_us
        self.unacknowledged: dict[int, Chunk] = {}
        self.in_flight: dict[Lane, int] = {}  # how many chunks of each lane are in ``unacknowledged``
        self._latest: dict[Lane, int] = {}  # the number of the last request among them, for each lane
        self.has_acknowledged = False
        self.leaving: WeftError | None = None  # why the node accepts nothing more; then nothing new is sent to it
        self._call = call
        self._stream = call.call  # looked up once, because every message goes there
        self._requests = count(1)

    @classmethod
    async def open(cls, nodes: Nodes, address: str, producer: bytes) -> PublishLink:
        """Open a stream to the node at this address; raise Unavailable, or the node's refusal."""
        call: Duplex[pb.PublishRequest, pb.PublishReply] = Duplex(nodes, address, PUBLISH, pb.PublishReply, nodes.open)
        asked_us = int(asyncio.get_running_loop().time() * 1e6)  # before the node reads its clock
        try:
            reply = await call.begin(pb.PublishRequest(open=pb.PublishOpen(producer_id=producer)))
            node = _read_opened_untrusted(reply, address)
        except BaseException:
            call.cancel()
            raise
        nodes.book.learn_untrusted(reply.opened.addresses)
        nodes.last_good = address
        now_us = reply.opened.now_us
        return cls(call, node, now_us - asked_us if now_us else None)

    def put(self, chunk: Chunk, message: PublishMessage) -> None:
        """Put a sealed chunk into a message to this node. From now on, the node may have it.

        If other chunks of its lane are under way, the message names the last of them. If the node refuses that chunk,
        it has to refuse this one, too, because the lane must stay in order.
        """
        request, lane = next(self._requests), chunk.lane
        self.unacknowledged[request] = chunk
        self.in_flight[lane] = self.in_flight.get(lane, 0) + 1
        after, self._latest[lane] = self._latest.get(lane, 0), request
        if not lane.place:
            lane.place = place_bytes(lane.topic, lane.partition, lane.timing is not Timing.NOW)
        message.add(request, lane.place, chunk.data, chunk.copies, after)

    async def send(self, message: PublishMessage) -> None:
        self.send_now(message)
        await self.wait_for_room()

    def send_now(self, message: PublishMessage) -> None:
        """Send at once, because somebody may be waiting for the answer, whether there is room or not: see ``is_full``,
        and call ``wait_for_room`` before the next message. If the stream is over, nothing happens: the reader gets the
        error."""
        self._stream.write_now(message.to_bytes())

    @property
    def is_full(self) -> bool:
        return self._stream.is_full

    async def wait_for_room(self) -> None:
        await self._call.wait_for_room()

    async def read(self, answered: Answered) -> None:
        """Report the outcome of each chunk until the stream ends, which is always an error."""
        await self._call.deliver_bytes_to(partial(self._take_untrusted, answered))
        raise Unavailable("node ended the stream", node=self.address)

    def close(self) -> None:
        self._call.cancel()

    def _take_untrusted(self, answered: Answered, data: bytes) -> None:
        """Report what a reply says about which chunk; raise only BadNode, and what ``answered`` raises."""
        reply = parsed_untrusted(pb.PublishReply, data, self.address)
        match reply.WhichOneof("msg"):
            case "receipts":
                self.has_acknowledged = True
                for receipt in reply.receipts.receipts:
                    request = receipt.request
                    chunk = self._of(request)
                    outcome = _read_receipt_untrusted(receipt, chunk, self.node)
                    self._take(request, chunk.lane)
                    answered(chunk, outcome)
            case "refused":
                error, request = error_of(reply.refused.error, node=self.node), reply.refused.request
                chunk = self._of(request)
                self._take(request, chunk.lane)
                answered(chunk, error)
            case _:
                pass  # from a later version

    def _of(self, request: int) -> Chunk:
        """The chunk that an answer is about. It stays in ``unacknowledged`` until the whole answer was read."""
        chunk = self.unacknowledged.get(request)
        if chunk is None:
            raise BadNode("the node answered to what it was not sent", node=self.node, request=request)
        return chunk

    def _take(self, request: int, lane: Lane) -> None:
        del self.unacknowledged[request]
        left = self.in_flight.pop(lane) - 1
        if left:
            self.in_flight[lane] = left
        else:
            del self._latest[lane]


def _read_opened_untrusted(reply: pb.PublishReply, address: str) -> NodeId:
    if reply.WhichOneof("msg") == "refused":
        raise error_of(reply.refused.error, node=address)
    if reply.WhichOneof("msg") != "opened":
        raise BadNode("the node did not begin with opened", node=address)
    try:
        return parse_node_id(reply.opened.node_id)
    except UsageError as error:
        raise BadNode(f"the node has no proper id: {error}", node=address) from None


def _read_receipt_untrusted(receipt: pb.Receipt, chunk: Chunk, node: NodeId) -> Receipt:
    """Read the receipt of a chunk that this node was sent; raise only BadNode."""
    lane, ref = chunk.lane, receipt.stream
    stream = lane.stream
    try:
        if stream is None or stream.origin != node or ref != lane.receipted or receipt.count != chunk.events:
            stream = _read_place_untrusted(receipt, chunk, node)
        return Receipt(stream, Epoch(ref.epoch), receipt.first_offset, chunk.events, receipt.copies or 1)
    except UsageError as error:
        raise BadNode(f"the receipt cannot be: {error}", node=node) from None


def _read_place_untrusted(receipt: pb.Receipt, chunk: Chunk, node: NodeId) -> Stream:
    """The stream in a receipt, after a check that it can be this chunk's. The check is repeated only when a lane gets
    another stream than before."""
    lane, ref = chunk.lane, receipt.stream
    if lane.timing is not Timing.NOW and owner_of_waiting(ref.topic) is not None:
        expected = (ref.topic, node, ref.partition)  # where the event waits is up to the node
    else:
        expected = (lane.topic, node, lane.partition)
    if (ref.topic, ref.origin, ref.partition) != expected or receipt.count != chunk.events:
        got = f"{receipt.count} events of {ref.topic}@{ref.origin}/{ref.partition}"
        sent = f"{chunk.events} events of {lane.topic}@{node}/{lane.partition}"
        raise BadNode("the receipt is for something else", sent=sent, got=got)
    stream = lane.stream = Stream(Topic(ref.topic), node, ref.partition)
    lane.receipted = pb.StreamRef()
    lane.receipted.CopyFrom(ref)  # a copy, because ``ref`` keeps the whole reply in memory
    return stream
