"""Publish: one stream per client, on which batches come in and receipts go out.

Nothing waits in between. A message is handled in the turn of the loop in which it comes. When a sync of the log ends,
all its receipts leave in the same turn, as one message. A stream is not read while too many receipts are owed, or while
its client does not read them.

A few compressed bytes may expand to very many. Batches that would hold up the event loop are checked a few in each of
its turns, one stream after the other, and large batches in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from weft.core.messages import Receipted
from weft.errors import PeerError, UsageError, WeftError
from weft.limits import KIB, MIB, PARTITIONS_MAX
from weft.model import Batch, Topic
from weft.model.batch_header import PRODUCER_BYTES, message_bytes_untrusted
from weft.port.access import Caller, bound_producer
from weft.port.errors import BehindRefused, ShuttingDown, error_message
from weft.port.held import Use
from weft.port.later import LaterStore
from weft.port.node import MeshNode
from weft.port.schemas import Payloads
from weft.port.topics import read_topic_untrusted
from weft.schema.errors import SchemaBroken
from weft.transport.clients.failing import cancelled, failure_of
from weft.transport.clients.plain_events import read_events_untrusted
from weft.transport.clients.values import check_size, parse_untrusted, read_batch_untrusted, receipts_bytes
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.rpc import RpcError

CHECKED_AT_ONCE_BYTES_MAX: Final = 1 * MIB  # uncompressed, of one message or one turn: about a millisecond
BATCH_COST_BYTES: Final = 4 * KIB  # what a batch costs beside its bytes: at most 256 batches at once, 5 ms
PUBLISH_BATCHES_MAX: Final = 1024  # in one message of a client; each batch is answered by itself
NAMED_EVENTS_MAX: Final = 1_000  # of a larger batch, only the first event that breaks a schema is named
PUBLISH_PART: Final = 2  # a stream may use half of its caller's share, so that another stream goes on if it is held up
TOPICS_KEPT_MAX: Final = 16_384  # topics of one stream that are already checked: 1.5 MiB
REFUSED_KEPT_MAX: Final = 16_384  # refused requests of one stream, which batches under way may name: 1.5 MiB


class PublishStream:
    """One client's stream. The node calls ``receipts``, ``refused`` and ``drain``."""

    def __init__(
        self, node: MeshNode, later: LaterStore, caller: Caller, call: ServerCall, checking: asyncio.Lock
    ) -> None:
        """``checking``: the queue for checks that take long; all streams share it."""
        self._node = node
        self._later = later
        self._checking = checking
        self._unchecked: deque[tuple[pb.PublishBatch | pb.PublishEvents, bytes]] = deque()
        self._caller = caller
        self._call = call
        self._owed: dict[int, int] = {}  # request -> bytes of its batch
        self._refused: dict[int, None] = {}  # requests that batches under way may come after; the oldest first
        self._producer = b""
        self._owner = caller.owner
        self._open_to: dict[str, Topic] = {}  # topics to which the caller may publish, and which have no schema
        self._open_under: tuple[object, object] = (None, None)  # the rights and rules that this is based on
        self._usage = node.quotas.usage(caller)
        self._loop = asyncio.get_running_loop()
        self._holding = node.held.holding(caller.who, Use.PUBLISH, PUBLISH_PART)
        self._pause: asyncio.Task[None] | None = None  # while nothing is read, because there is much to do or no room
        self._over = False  # nothing more will be read
        self._settled = asyncio.Event()  # the stream is over, and nothing is owed
        self._failure: WeftError | None = None  # the error that the stream ends with

    # --- what the node says --------------------------------------------------------------------------------------

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        self._call.write_now(receipts_bytes(receipts))
        owed = self._owed
        self._settle(sum([owed.pop(request) for request, _ in receipts]))

    def refused(self, request: int, error: WeftError) -> None:
        self._node.count_refusal(error)
        self._refused[request] = None
        if len(self._refused) > REFUSED_KEPT_MAX:
            del self._refused[next(iter(self._refused))]
        refusal = pb.PublishRefused(request=request, error=error_message(error))
        self._call.write_nowait(pb.PublishReply(refused=refusal).SerializeToString())
        self._settle(self._owed.pop(request))

    def drain(self) -> None:
        self._end(ShuttingDown("this node is shutting down", node=self._node.node_id))

    def expel(self, error: WeftError) -> None:
        """The caller may publish no more: the receipts owed go out, then the stream ends with this error."""
        self._end(error)

    def _settle(self, size: int) -> None:
        """Batches of this size have been answered."""
        self._holding.give_back(size)
        if self._over and not self._owed:
            self._settled.set()

    def _end(self, failure: WeftError | None) -> None:
        if not self._over:
            self._over = True
            self._failure = failure
        if not self._owed:
            self._settled.set()

    # --- the stream ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            await self._settled.wait()
        finally:
            self._node.leave(self)
            self._holding.close()
            await cancelled(reading, self._pause)
        if self._failure is not None:
            raise failure_of(self._failure) from None

    async def _read(self) -> None:
        """Read the first message. From then on messages are handled as they come, and this only waits for the end."""
        failure: WeftError | None = None
        try:
            data = await self._call.read()
            if data is not None:
                self._open(parse_untrusted(pb.PublishRequest, data))
                self._call.deliver_to(self._take_untrusted)
                await self._call.read()
        except WeftError as error:
            failure = error
        finally:
            self._end(failure)

    def _open(self, request: pb.PublishRequest) -> None:
        if request.WhichOneof("msg") != "open":
            raise BadMeshMessage("a publish stream begins with open")
        if len(request.open.producer_id) not in (0, PRODUCER_BYTES):
            raise BadMeshMessage("a producer id is 16 bytes", have=len(request.open.producer_id))
        self._producer = request.open.producer_id
        self._node.join(self)  # refused only here: many clients do not understand an end before their first message
        opened = pb.PublishOpened(
            node_id=self._node.node_id,
            epoch=self._node.log.epoch,
            batch_bytes_max=self._node.limits.batch_bytes_max,
            addresses=self._node.addresses(),
            now_us=self._later.now_us(),
        )
        self._call.write_nowait(pb.PublishReply(opened=opened).SerializeToString())

    def _take_untrusted(self, data: bytes) -> None:
        if self._over:
            return
        try:
            self._take(parse_untrusted(pb.PublishRequest, data))
        except (UsageError, PeerError) as error:
            self._end(error)
        if self._pause is None and (self._unchecked or self._is_full()):
            self._call.hold()
            self._pause = asyncio.create_task(self._catch_up())

    def _take(self, request: pb.PublishRequest) -> None:
        match request.WhichOneof("msg"):
            case "batches":
                messages: Sequence[pb.PublishBatch] = request.batches.batches
                if len(messages) > PUBLISH_BATCHES_MAX:
                    raise BadMeshMessage(
                        "too many batches in one message", count=len(messages), limit=PUBLISH_BATCHES_MAX
                    )
            case "batch":
                messages = (request.batch,)
            case "events":
                self._take_events(request.events)
                return
            case _:
                raise BadMeshMessage("after open, a publish stream carries batches")
        taken: list[tuple[pb.PublishBatch, bytes]] = []
        sizes: dict[int, int] = {}
        for message in messages:
            data = message.batch  # protobuf makes a copy at every access
            taken.append((message, data))
            sizes[message.request] = len(data)
        self._owe(sizes, len(taken))
        self._forget_if_changed()
        cost = 0
        for message, data in taken:
            cost += _cost_of(data)
            if self._unchecked or cost > CHECKED_AT_ONCE_BYTES_MAX:
                self._unchecked.append((message, data))
            else:
                self._take_batch(message, data)

    def _owe(self, sizes: Mapping[int, int], count: int) -> None:
        """Note that ``count`` requests of these sizes are owed an answer."""
        if len(sizes) < count or not sizes.keys().isdisjoint(self._owed.keys()):
            raise BadMeshMessage("two batches with one request number")
        self._owed.update(sizes)
        self._holding.take(sum(sizes.values()))

    def _take_batch(self, message: pb.PublishBatch, data: bytes) -> None:
        try:
            topic = self._check(message)
            check_size(len(data), self._node.limits.batch_bytes_max)
            batch = read_batch_untrusted(data, self._known_as)
        except WeftError as error:
            self.refused(message.request, error)
        else:
            self._publish(message, topic, batch)

    def _take_events(self, message: pb.PublishEvents) -> None:
        self._owe({message.request: message.ByteSize()}, 1)
        self._forget_if_changed()
        if self._unchecked:  # what came before is not checked yet, and these events must not overtake it
            self._unchecked.append((message, b""))
        else:
            self._read_events(message)

    def _read_events(self, message: pb.PublishEvents) -> None:
        try:
            topic = self._check(message)
            named = self._producer and self._known_as(self._producer)
            batch = read_events_untrusted(message, named, time.time_ns() // 1000)
            check_size(batch.size, self._node.limits.batch_bytes_max)
        except WeftError as error:
            self.refused(message.request, error)
        else:
            self._publish(message, topic, batch)

    def _known_as(self, producer: bytes) -> bytes:
        return bound_producer(producer, self._owner)

    def _publish(self, message: pb.PublishBatch | pb.PublishEvents, topic: Topic, batch: Batch) -> None:
        """Publish a batch once its events have passed the checks of the topic's schema, if there is one."""
        checks = self._node.checks
        if topic in self._open_to or not checks.applies(topic):
            self._publish_checked(message, topic, batch)
            return

        def checked(broken: Mapping[int, SchemaBroken]) -> None:
            if not self._node.serves(self):
                return  # the stream has ended meanwhile
            if broken:
                (_, first), *others = broken.items()
                self.refused(message.request, first.with_others(dict(others)))
                return
            self._publish_checked(message, topic, batch)

        checks.check(self, topic, Payloads(batch), checked, first_only=len(batch) > NAMED_EVENTS_MAX)

    def _publish_checked(self, message: pb.PublishBatch | pb.PublishEvents, topic: Topic, batch: Batch) -> None:
        node, copies, partition = self._node, message.copies, message.partition
        if self._refused and message.after and message.after in self._refused:
            behind = BehindRefused("the batch before it was refused", before=message.after)
            self.refused(message.request, behind)  # batches that must come after this one are refused in the same way
            return
        try:
            self._usage.publish(node.log, node.node_id, topic, len(batch), batch.size, self._loop.time(), partition)
            if message.later:
                if copies > 1:
                    raise UsageError("an event for later waits at one node: no copies can be asked for", topic=topic)
                self._later.publish(self, message.request, self._owner, topic, message.partition, batch)
                return
        except WeftError as error:
            self.refused(message.request, error)
        else:
            node.publish(self, message.request, topic, message.partition, batch, copies)

    async def _take_large(self, message: pb.PublishBatch, data: bytes) -> None:
        try:
            topic = self._check(message)
            check_size(len(data), self._node.limits.batch_bytes_max)
            batch = await asyncio.to_thread(read_batch_untrusted, data, self._known_as)
        except WeftError as error:
            self.refused(message.request, error)
        else:
            self._forget_if_changed()  # the checks took a while
            self._publish(message, topic, batch)

    # --- where it may publish ------------------------------------------------------------------------------------

    def _check(self, message: pb.PublishBatch | pb.PublishEvents) -> Topic:
        """Return the topic, if the caller may publish there now."""
        self._node.check_open()
        topic = self._open_to.get(message.topic)
        if topic is None:
            topic = self._look_untrusted(message.topic)
        if message.partition >= PARTITIONS_MAX:
            raise UsageError("no such partition", partition=message.partition, limit=PARTITIONS_MAX - 1)
        return topic

    def _look_untrusted(self, name: str) -> Topic:
        """Check a topic thoroughly. This runs once per topic, as long as neither rights nor schemas change."""
        topic = read_topic_untrusted(name)
        self._caller.check_publish(topic)
        if not self._node.checks.applies(topic):
            if len(self._open_to) >= TOPICS_KEPT_MAX:
                self._open_to.clear()
            self._open_to[topic] = topic
        return topic

    def _forget_if_changed(self) -> None:
        """Forget the checked topics if rights or schemas have changed. Called before a batch that was not read in this
        turn."""
        rights, rules = self._caller.rights, self._node.checks.rules
        if rights is not self._open_under[0] or rules is not self._open_under[1]:
            self._open_under = rights, rules
            self._open_to.clear()
            self._owner = self._caller.owner

    # --- not too much at a time ----------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        return self._holding.is_full or self._call.is_full

    async def _catch_up(self) -> None:
        """Wait until everything that came is checked, and there is room for more."""
        try:
            await self._check_rest()
            while self._is_full():
                await self._call.wait_for_room()
                if self._holding.is_full:
                    room = asyncio.Event()
                    self._holding.when_room(room.set)
                    await room.wait()
                await self._check_rest()  # of what was on its way
        except RpcError:
            return  # the call is over, and the task that reads it sees that
        self._pause = None
        self._call.release()

    async def _check_rest(self) -> None:
        while self._unchecked:
            async with self._checking:
                self._forget_if_changed()
                await self._check_some()
            await asyncio.sleep(0)

    async def _check_some(self) -> None:
        """Check one large batch, or as many small ones as fit into one turn of the loop."""
        cost = 0
        while self._unchecked:
            message, data = self._unchecked[0]
            if isinstance(message, pb.PublishEvents):
                self._unchecked.popleft()
                self._read_events(message)
                cost += message.ByteSize()
                continue
            cost += _cost_of(data)
            if cost > CHECKED_AT_ONCE_BYTES_MAX and cost > _cost_of(data):
                return
            if cost > CHECKED_AT_ONCE_BYTES_MAX:
                await self._take_large(message, data)
                self._unchecked.popleft()  # only now, so that what came meanwhile was put behind it
                return
            self._unchecked.popleft()
            self._take_batch(message, data)


def _cost_of(data: bytes) -> int:
    return message_bytes_untrusted(data) + BATCH_COST_BYTES
