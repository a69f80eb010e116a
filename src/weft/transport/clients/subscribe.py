"""Subscribe: one stream per subscription, on which events go out as long as the client has credit.

Deliveries leave in the same turn of the loop, as long as the client takes them. The core delivers no more than the
client gave credit for, so credit bounds what waits here. Deliveries that wait together go out together, up to about 128
KiB in one message; a large batch is a message of its own, in memory that all its subscribers share.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from weft.core.messages import AddCredit, Delivered, Handled
from weft.errors import UsageError, WeftError
from weft.limits import CLIENT_POSITIONS_MAX
from weft.model import EventId, Position
from weft.port.access import Caller, check_group
from weft.port.errors import Busy, TooLarge, error_message
from weft.port.held import Use
from weft.port.node import MeshNode
from weft.port.pages import WHOLE_BYTES_MAX
from weft.port.quotas import Usage
from weft.transport.clients.failing import cancelled
from weft.transport.clients.plain_events import Unpacking
from weft.transport.clients.values import (
    SHARED_BYTES_MIN,
    check_position_count,
    delivery_parts,
    parse_untrusted,
    position_messages,
    read_pattern_untrusted,
    read_policy_untrusted,
    read_positions_untrusted,
    read_settled_untrusted,
    read_start_untrusted,
)
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import stream_ref
from weft.wire.rpc import RpcError

CLIENT_REPLIES_MAX: Final = 10_000  # assignments that wait for a member that does not read; after that, its stream ends
SUBSCRIBE_PART: Final = 16  # a subscriber that does not read gets a sixteenth of what its caller may hold
POSITIONS_AT_ONCE: Final = 512  # read or written in one turn of the loop: a few milliseconds


class Unfinished:
    """A reply so long that it is written over several turns of the loop."""

    def __init__(self, reply: pb.SubscribeReply) -> None:
        self.reply = reply
        self.is_done = False


class SubscribeStream:
    """One client's stream. The node calls ``opened``, ``deliver``, ``assigned`` and ``ended``."""

    def __init__(self, node: MeshNode, caller: Caller, call: ServerCall) -> None:
        self._node = node
        self._caller = caller
        self._call = call
        self._subscription: int | None = None
        self._usage: Usage | None = None  # set once the subscription counts against the caller's quota
        self._credit_bytes = 0  # given by the client and not used yet
        self._waiting: deque[Delivered | pb.SubscribeReply | Unfinished] = deque()
        self._writing: dict[Unfinished, asyncio.Task[None]] = {}
        self._waiting_bytes = 0  # the size of the batches that wait
        self._holding = node.held.holding(caller.who, Use.SUBSCRIBE, SUBSCRIBE_PART)
        self._pouring: asyncio.Task[None] | None = None  # while something waits for the client to read
        self._is_plain = False  # the client gets events instead of batches
        self._unpacking: Unpacking | None = None  # the rest of the first waiting batch, if a part of it has left
        self._is_paged = False  # the client accepts the positions it begins at in several messages
        self._opened = pb.SubscribeOpened()  # the next of these messages
        self._is_orderly = False  # either side has said that the stream is over
        self._over = False  # nothing more is added to what waits
        self._done = asyncio.Event()  # the stream is over, and nothing waits

    # --- what the node says --------------------------------------------------------------------------------------

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        opened = self._opened
        opened.positions.positions.extend(position_messages(positions))
        if more and not self._is_paged:
            if opened.ByteSize() > WHOLE_BYTES_MAX:
                what = "there are more streams than one message can tell of: subscribe to fewer, or with a newer client"
                self.ended(TooLarge(what, limit=WHOLE_BYTES_MAX))
            return
        opened.more = more
        self._say(pb.SubscribeReply(opened=opened))
        self._opened = pb.SubscribeOpened(node_id=opened.node_id, epoch=opened.epoch)

    def deliver(self, batches: Sequence[Delivered]) -> None:
        if self._over:
            return
        if len(batches) == 1 and not (self._waiting or self._pouring or self._is_plain or self._call.is_full):
            # As nearly always: it leaves at once, and all subscribers share the same bytes.
            (one,) = batches
            self._credit_bytes -= len(one.data)
            head, message = delivery_parts(batches)
            self._call.write_now(message, head)
            self._let_go()
            return
        size = sum(len(each.data) for each in batches)
        self._waiting.extend(batches)
        self._waiting_bytes += size
        self._credit_bytes -= size
        self._pour()

    def assigned(self, generation: int, positions: Sequence[Position]) -> None:
        if len(self._waiting) > CLIENT_REPLIES_MAX:
            self.ended(Busy("the member does not read its assignments", waiting=len(self._waiting)))
            return
        reply = pb.SubscribeReply(assignment=pb.Assignment(generation=generation))
        if len(positions) <= POSITIONS_AT_ONCE:
            reply.assignment.streams.extend(position_messages(positions))
            self._say(reply)
        elif not self._over:
            unfinished = Unfinished(reply)
            self._waiting.append(unfinished)
            self._writing[unfinished] = asyncio.create_task(self._finish(unfinished, positions))

    async def _finish(self, unfinished: Unfinished, positions: Sequence[Position]) -> None:
        """Write some positions in each turn of the loop. Later messages wait behind them."""
        reply = unfinished.reply
        for first in range(0, len(positions), POSITIONS_AT_ONCE):
            reply.assignment.streams.extend(position_messages(positions[first : first + POSITIONS_AT_ONCE]))
            await asyncio.sleep(0)
        size = reply.ByteSize()
        self._holding.take(size)
        self._waiting_bytes += size
        unfinished.is_done = True
        del self._writing[unfinished]
        self._pour()

    def withdrawn(self, event: EventId, rest: bool) -> None:
        reference = stream_ref(event.stream, event.epoch)
        self._say(pb.SubscribeReply(withdrawn=pb.Withdrawn(stream=reference, offset=event.offset, rest=rest)))

    def ended(self, error: WeftError) -> None:
        self._is_orderly = True
        if self._over:
            return
        self._node.count_refusal(error)
        self._say(pb.SubscribeReply(error=error_message(error)))
        self._end()

    def expel(self, error: WeftError) -> None:
        """The caller may read nothing more: what waits here is dropped, too."""
        if not self._over:
            for writing in self._writing.values():
                writing.cancel()
            self._writing.clear()
            self._waiting.clear()
            self._unpacking = None
            self._waiting_bytes = 0
            self.ended(error)

    def _say(self, reply: pb.SubscribeReply) -> None:
        if not self._over:
            size = reply.ByteSize()
            self._holding.take(size)
            self._waiting.append(reply)
            self._waiting_bytes += size
            self._pour()

    def _end(self) -> None:
        self._over = True
        if not self._waiting:
            self._done.set()

    # --- writing -------------------------------------------------------------------------------------------------

    def _pour(self) -> None:
        """Write what waits, as far as the client takes it."""
        if self._pouring is not None:
            return
        while self._waiting and not self._call.is_full:
            if isinstance(first := self._waiting[0], Unfinished) and not first.is_done:
                return  # the task that finishes it goes on
            head, message = self._next()
            self._call.write_now(message, head)
        self._let_go()
        if self._waiting:
            self._pouring = asyncio.create_task(self._pour_on())
        elif self._over:
            self._done.set()

    async def _pour_on(self) -> None:
        try:
            await self._call.wait_for_room()
        except RpcError:
            return  # the call is over, and the task that reads it sees that
        self._pouring = None
        self._pour()

    def _let_go(self) -> None:
        """Release the memory of what has left for the client."""
        self._holding.keep(self._waiting_bytes + self._call.unsent_bytes)

    def _next(self) -> tuple[bytes, bytes | memoryview]:
        first = self._waiting[0]
        if self._is_plain and isinstance(first, Delivered):
            return b"", self._next_events(first)
        self._waiting.popleft()
        if isinstance(first, Unfinished):
            first = first.reply
        if not isinstance(first, Delivered):
            self._waiting_bytes -= first.ByteSize()
            return b"", first.SerializeToString()
        batches, size = [first], len(first.data)
        while self._waiting and size < SHARED_BYTES_MIN:
            following = self._waiting[0]
            if not isinstance(following, Delivered) or len(following.data) >= SHARED_BYTES_MIN:
                break
            batches.append(following)
            size += len(following.data)
            self._waiting.popleft()
        self._waiting_bytes -= size
        return delivery_parts(batches)

    def _next_events(self, first: Delivered) -> bytes:
        if self._unpacking is None:
            self._unpacking = Unpacking(first)
        message = self._unpacking.next_message()
        if self._unpacking.is_over:
            self._unpacking = None
            self._waiting.popleft()
            self._waiting_bytes -= len(first.data)
        return message

    # --- the stream ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        self._call.on_sent = self._let_go
        try:
            await self._done.wait()
        finally:
            self._call.on_sent = None
            if self._subscription is not None:
                self._node.unsubscribe(self._subscription, died=not self._is_orderly)
            self._holding.close()
            if self._usage is not None:
                self._usage.unsubscribed()
            await cancelled(reading, self._pouring, *self._writing.values())

    async def _read(self) -> None:
        try:
            data = await self._call.read()
            if data is not None:
                request = parse_untrusted(pb.SubscribeRequest, data)
                positions = await self._read_positions(request.open)
                if request.open.group:
                    await check_group(self._node.groups, self._caller, request.open.group)
                self._open(request, positions)
            while not self._over and (data := await self._call.read()) is not None:
                await self._take(parse_untrusted(pb.SubscribeRequest, data))
            self._is_orderly = True
        except RpcError as error:
            self._lost(error)
        except WeftError as error:
            self.ended(error)
        finally:
            self._end()

    def _lost(self, error: RpcError) -> None:
        """The client is gone without a goodbye."""
        is_orderly = self._is_orderly
        self.ended(error)
        self._is_orderly = is_orderly

    async def _read_positions(self, wanted: pb.SubscribeOpen) -> tuple[Position, ...]:
        """Read the positions in the first message, and those that did not fit into it."""
        found = list(await self._positions(wanted.start.positions, 0))
        for _ in range(wanted.position_messages):
            data = await self._call.read() or b""
            more = parse_untrusted(pb.SubscribeRequest, data)
            self._holding.take(len(data))
            if more.WhichOneof("msg") != "positions":
                raise BadMeshMessage("further positions follow the open that announces them")
            found += await self._positions(more.positions, len(found))
        return tuple(found)

    async def _positions(self, message: pb.Positions, before: int) -> list[Position]:
        """Read some positions in each turn of the loop."""
        count = before + len(message.positions)
        if count > CLIENT_POSITIONS_MAX:
            raise TooLarge("too many positions to start from", have=count, limit=CLIENT_POSITIONS_MAX)
        found: list[Position] = []
        for first in range(0, len(message.positions), POSITIONS_AT_ONCE):
            found += read_positions_untrusted(message.positions[first : first + POSITIONS_AT_ONCE])
            await asyncio.sleep(0)
        return found

    def _open(self, request: pb.SubscribeRequest, positions: tuple[Position, ...]) -> None:
        if request.WhichOneof("msg") != "open":
            raise BadMeshMessage("a subscribe stream begins with open")
        wanted = request.open
        if not wanted.pattern:
            raise UsageError("a subscription needs a pattern; > is everything")
        pattern = read_pattern_untrusted(wanted.pattern)
        self._caller.check_subscribe(pattern)
        start = read_start_untrusted(wanted.start, positions)
        self._is_paged, self._is_plain = wanted.paged, wanted.plain
        self._opened = pb.SubscribeOpened(
            node_id=self._node.node_id, epoch=self._node.log.epoch, addresses=self._node.addresses()
        )
        policy = read_policy_untrusted(wanted.policy) if wanted.HasField("policy") else None
        if policy is not None and policy.dead_letter:
            self._caller.check_publish(policy.topic_of(wanted.group))  # the node publishes there on the caller's behalf
        credit = min(wanted.credit_bytes, self._node.limits.credit_bytes_max)
        self._credit_bytes = credit
        usage = self._node.quotas.usage(self._caller)
        if wanted.group:
            usage.use_group(self._node.groups, wanted.group)
        usage.subscribe()
        self._usage = usage
        self._let_go()  # release the messages with positions, so that they do not leave less room for the answer
        self._subscription = self._node.subscribe(
            self,
            pattern,
            start,
            credit,
            wanted.group,
            wanted.member,
            self._holding,
            self._caller.owner,
            window=wanted.window if wanted.group else 0,
            policy=policy,
            with_history=True,
        )

    async def _take(self, request: pb.SubscribeRequest) -> None:
        assert self._subscription is not None, "open comes first"
        match request.WhichOneof("msg"):
            case "credit":
                # An honest client returns only the credit it used, so it never has more than it began with.
                more = min(request.credit.bytes, self._node.limits.credit_bytes_max - self._credit_bytes)
                if more > 0:
                    self._credit_bytes += more
                    self._node.tell(AddCredit(self._subscription, more))
            case "handled":
                await self._take_handled(self._subscription, request.handled)
            case "settled":
                self._node.tell(read_settled_untrusted(self._subscription, request.settled))
            case _:
                raise BadMeshMessage("after open, a subscribe stream carries credit, handled and settled")

    async def _take_handled(self, subscription: int, handled: pb.Handled) -> None:
        """Handle some positions in each turn of the loop; the last ones answer the assignment."""
        check_position_count(len(handled.positions))
        for first in range(0, len(handled.positions), POSITIONS_AT_ONCE):
            if first:
                await asyncio.sleep(0)
            some = read_positions_untrusted(handled.positions[first : first + POSITIONS_AT_ONCE])
            is_last = first + POSITIONS_AT_ONCE >= len(handled.positions)
            self._node.tell(Handled(subscription, some, handled.generation if is_last else 0))
        if not handled.positions:
            self._node.tell(Handled(subscription, (), handled.generation))
