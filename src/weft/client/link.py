"""One open Publish stream to one node: chunks out, receipts in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from weft.client.chunk import Chunk, Lane, Timing
from weft.client.duplex import Duplex
from weft.client.errors import BadNode, Unavailable, error_of
from weft.client.nodes import Nodes
from weft.errors import UsageError, WeftError
from weft.model import Epoch, NodeId, Receipt, Stream, Topic, parse_node_id
from weft.model.later import owner_of_waiting
from weft.wire.mesh import mesh_pb2 as pb

PUBLISH: Final = "/weft.mesh.v1.Mesh/Publish"


class PublishLink:
    """A node that takes batches. ``unacknowledged`` is what it was sent and has not answered, in order."""

    def __init__(self, call: Duplex[pb.PublishRequest, pb.PublishReply], node: NodeId, clock_us: int | None) -> None:
        """``clock_us``: what the node's clock is ahead of the loop's, at most; None: the node does not say."""
        self.address: Final = call.address
        self.node: Final = node
        self.clock_us: Final = clock_us
        self.unacknowledged: dict[int, Chunk] = {}
        self.in_flight: Counter[Lane] = Counter()  # of unacknowledged, by lane
        self.has_acknowledged = False
        self.leaving: WeftError | None = None  # why the node wants no more: nothing new is sent to it
        self._call = call
        self._requests = count(1)

    @classmethod
    async def open(cls, nodes: Nodes, address: str, producer: bytes) -> PublishLink:
        """Open a stream to the node there; raise Unavailable and what the node refuses with."""
        call: Duplex[pb.PublishRequest, pb.PublishReply] = Duplex(nodes, address, PUBLISH, pb.PublishReply, nodes.open)
        asked_us = int(asyncio.get_running_loop().time() * 1e6)  # before the node reads its clock: never too early
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

    def put(self, chunk: Chunk, message: pb.PublishRequest) -> None:
        """Put a sealed chunk into a message to this node; from here on it counts as one that it may have."""
        request = next(self._requests)
        self.unacknowledged[request] = chunk
        self.in_flight[chunk.lane] += 1
        batch = message.batches.batches.add()  # filled in place: to hand it over afterwards would copy it
        batch.request = request
        batch.topic = chunk.lane.topic
        batch.partition = chunk.lane.partition
        batch.batch = chunk.data
        batch.copies = chunk.copies
        batch.later = chunk.lane.timing is not Timing.NOW

    async def send(self, message: pb.PublishRequest) -> None:
        await self._call.write(message)

    def send_now(self, message: pb.PublishRequest) -> None:
        """Whether there is room or not: see ``is_full``, and ``wait_for_room`` before the next one."""
        self._call.write_now(message)

    @property
    def is_full(self) -> bool:
        return self._call.call.is_full

    async def wait_for_room(self) -> None:
        await self._call.wait_for_room()

    async def read(self, answered: Callable[[Chunk, Receipt | WeftError], None]) -> None:
        """Tell the outcome of each chunk until the stream ends, which is always an error."""

        def take(reply: pb.PublishReply) -> None:
            for chunk, outcome in self._outcomes_untrusted(reply):
                answered(chunk, outcome)

        await self._call.deliver_to(take)
        raise Unavailable("node ended the stream", node=self.address)

    def close(self) -> None:
        self._call.cancel()

    def _outcomes_untrusted(self, reply: pb.PublishReply) -> Iterable[tuple[Chunk, Receipt | WeftError]]:
        """What a reply says of which chunk; raise only BadNode."""
        match reply.WhichOneof("msg"):
            case "receipts":
                self.has_acknowledged = True
                for receipt in reply.receipts.receipts:
                    outcome = _read_receipt_untrusted(receipt, self._of(receipt.request), self.node)
                    yield self._take(receipt.request), outcome
            case "refused":
                error = error_of(reply.refused.error, node=self.node)
                yield self._take(reply.refused.request), error
            case _:
                pass  # a later version's

    def _of(self, request: int) -> Chunk:
        """The chunk that an answer is about. It stays in doubt until the answer has been read."""
        chunk = self.unacknowledged.get(request)
        if chunk is None:
            raise BadNode("the node answered to what it was not sent", node=self.node, request=request)
        return chunk

    def _take(self, request: int) -> Chunk:
        chunk = self._of(request)
        del self.unacknowledged[request]
        self.in_flight[chunk.lane] -= 1
        if not self.in_flight[chunk.lane]:
            del self.in_flight[chunk.lane]
        return chunk


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
    """The receipt of a chunk that this node was sent; raise only BadNode."""
    lane, stream = chunk.lane, receipt.stream
    place = (stream.topic, stream.origin, stream.partition)
    if lane.timing is not Timing.NOW and owner_of_waiting(stream.topic) is not None:
        expected = (stream.topic, node, stream.partition)  # where it waits is the node's business
    else:
        expected = (lane.topic, node, lane.partition)
    if place != expected or receipt.count != chunk.events:
        got = f"{receipt.count} events of {stream.topic}@{stream.origin}/{stream.partition}"
        sent = f"{chunk.events} events of {lane.topic}@{node}/{lane.partition}"
        raise BadNode("the receipt is for something else", sent=sent, got=got)
    try:
        at = Stream(Topic(stream.topic), node, stream.partition)
        return Receipt(at, Epoch(stream.epoch), receipt.first_offset, receipt.count, max(receipt.copies, 1))
    except UsageError as error:
        raise BadNode(f"the receipt cannot be: {error}", node=node) from None
