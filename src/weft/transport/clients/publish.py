"""Publish: one stream per client, batches in, receipts out.

Reading and writing are two tasks. What waits to be written is sent together: all receipts of a sync, and those of the
syncs that passed while the last message was on its way, are one message. Reading stops while too much is owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from weft.core.messages import Receipted
from weft.errors import PeerError, UsageError, WeftError
from weft.model.batch_header import PRODUCER_BYTES
from weft.port.access import Caller
from weft.port.errors import ShuttingDown, error_message
from weft.port.node import MeshNode
from weft.transport.clients.failing import failure_of
from weft.transport.clients.values import parse_untrusted, read_batch_untrusted, receipt_message
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb

PUBLISH_BATCHES_MAX: Final = 1024  # in one message of a client; each one is answered by itself
CLIENT_REPLIES_MAX: Final = 10_000  # waiting for a client that does not read: then its stream is not read either


class PublishStream:
    """One client's stream. The node calls ``receipts``, ``refused`` and ``drain``."""

    def __init__(self, node: MeshNode, caller: Caller) -> None:
        self._node = node
        self._caller = caller
        self._bytes_max = node.limits.publish_bytes_max // 4  # so that one client does not take all of it
        self._owed: dict[int, int] = {}  # request -> bytes of its batch
        self._owed_bytes = 0
        self._receipts: list[pb.Receipt] = []
        self._others: list[pb.PublishReply] = []
        self._wake = asyncio.Event()  # for the writer: there is something to write, or it is over
        self._room = asyncio.Event()  # for the reader: less is owed than before
        self._over = False  # nothing more will be read
        self._failure: WeftError | None = None  # what the stream ends with

    # --- what the node says --------------------------------------------------------------------------------------

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        for request, receipted in receipts:
            self._receipts.append(receipt_message(request, receipted))
            self._settle(request)
        self._wake.set()

    def refused(self, request: int, error: WeftError) -> None:
        self._node.count_refusal(error)
        refusal = pb.PublishRefused(request=request, error=error_message(error))
        self._others.append(pb.PublishReply(refused=refusal))
        self._settle(request)
        self._wake.set()

    def drain(self) -> None:
        self._end(ShuttingDown("this node is shutting down", node=self._node.node_id))

    def expel(self, error: WeftError) -> None:
        """The caller may publish no more: what is owed goes out, then the stream ends with this."""
        self._end(error)

    def _settle(self, request: int) -> None:
        size = self._owed.pop(request)
        self._owed_bytes -= size
        self._node.intake.give_back(size)
        self._room.set()

    def _end(self, failure: WeftError | None) -> None:
        if not self._over:
            self._over = True
            self._failure = failure
        self._wake.set()

    # --- the stream ----------------------------------------------------------------------------------------------

    async def run(self, call: ServerCall) -> None:
        try:
            self._node.join(self)
        except WeftError as error:
            raise failure_of(error) from None
        reader = asyncio.create_task(self._read(call))
        try:
            await self._write(call)
        finally:
            self._node.leave(self)
            self._node.intake.give_back(self._owed_bytes)
            reader.cancel()
            (bug,) = await asyncio.gather(reader, return_exceptions=True)
        if isinstance(bug, Exception):
            raise bug
        if self._failure is not None:
            raise failure_of(self._failure) from None

    async def _read(self, call: ServerCall) -> None:
        failure: WeftError | None = None
        try:
            await self._read_open(call)
            while not self._over and (data := await call.read()) is not None:
                self._take(parse_untrusted(pb.PublishRequest, data))
                while self._is_full():
                    self._room.clear()
                    self._node.intake.wake_with_room(self._room)
                    await self._room.wait()
        except (UsageError, PeerError) as error:
            failure = error
        finally:
            self._end(failure)

    async def _read_open(self, call: ServerCall) -> None:
        data = await call.read()
        if data is None:
            return
        request = parse_untrusted(pb.PublishRequest, data)
        if request.WhichOneof("msg") != "open":
            raise BadMeshMessage("a publish stream begins with open")
        if len(request.open.producer_id) not in (0, PRODUCER_BYTES):
            raise BadMeshMessage("a producer id is 16 bytes", have=len(request.open.producer_id))
        opened = pb.PublishOpened(
            node_id=self._node.node_id,
            epoch=self._node.log.epoch,
            batch_bytes_max=self._node.limits.batch_bytes_max,
            addresses=self._node.addresses(),
        )
        self._others.append(pb.PublishReply(opened=opened))
        self._wake.set()

    def _take(self, request: pb.PublishRequest) -> None:
        match request.WhichOneof("msg"):
            case "batch":
                self._take_batch(request.batch)
            case "batches":
                count = len(request.batches.batches)
                if count > PUBLISH_BATCHES_MAX:
                    raise BadMeshMessage("too many batches in one message", count=count, limit=PUBLISH_BATCHES_MAX)
                for message in request.batches.batches:
                    self._take_batch(message)
            case _:
                raise BadMeshMessage("after open, a publish stream carries batches")

    def _take_batch(self, message: pb.PublishBatch) -> None:
        if message.request in self._owed:
            raise BadMeshMessage("two batches with one request number", request=message.request)
        data = message.batch
        size = len(data)
        self._owed[message.request] = size
        self._owed_bytes += size
        self._node.intake.take(size)
        try:
            self._node.check_open()
            topic, partition, batch = read_batch_untrusted(message, data, self._node.limits.batch_bytes_max)
            self._caller.check_publish(topic)
        except WeftError as error:
            self.refused(message.request, error)
            return
        self._node.publish(self, message.request, topic, partition, batch, message.copies)

    def _is_full(self) -> bool:
        waiting = len(self._receipts) + len(self._others)
        return waiting > CLIENT_REPLIES_MAX or self._owed_bytes > self._bytes_max or self._node.intake.is_full

    async def _write(self, call: ServerCall) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for reply in self._replies():
                await call.write(reply.SerializeToString())
            self._room.set()
            if self._over and not self._owed and not self._receipts and not self._others:
                return

    def _replies(self) -> list[pb.PublishReply]:
        replies, self._others = self._others, []
        if self._receipts:
            replies.append(pb.PublishReply(receipts=pb.Receipts(receipts=self._receipts)))
            self._receipts = []
        return replies
