"""A mesh of fake nodes, for tests of the client: real gRPC on loopback, logs in memory, and faults to order.

A ``FakeNode`` keeps its log when it is stopped and started again, unless it is told to lose it (a new epoch). It
remembers producers as real nodes do, so that a client that sends something twice is caught or forgiven as it would be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyarrow as pa

from tests.transport.held_port import held_port
from weft.model import Batch, Pattern, Topic, matches
from weft.wire.mesh import mesh_pb2 as pb

Key = tuple[str, str, int, int]  # topic, origin, epoch, partition
PRODUCER_MEMORY = 64


@dataclass
class Faults:
    """What a node is to do wrong. Numbers count down with every use."""

    drop_before_storing: int = 0  # end the stream instead of taking a batch
    drop_after_storing: int = 0  # take the batch, then end the stream without a receipt
    refuse: list[pb.Error] = field(default_factory=list)  # batches, one each
    refuse_request: int = -1  # the batch with this place among all that came is refused as by a busy node
    refuse_open: list[pb.Error] = field(default_factory=list)  # of Publish and Subscribe
    fail_calls: int = 0  # unary calls, with UNAVAILABLE
    hold_receipts: bool = False  # until released
    drop_subscribers_after: int | None = None  # deliveries
    spoil_deliveries: bool = False
    ignore_credit: bool = False
    end_subscribers_with: pb.Error | None = None  # once all is delivered, once
    spoil_columns: Callable[[pb.FetchedBatches], None] | None = None


@dataclass
class Group:
    positions: dict[Key, int] = field(default_factory=dict)
    members: dict[str, asyncio.Queue[pb.Assignment]] = field(default_factory=dict)
    generation: int = 0
    assigned: dict[str, list[Key]] = field(default_factory=dict)
    answers: list[tuple[str, pb.Handled | pb.Settled]] = field(default_factory=list)
    acked: dict[Key, set[int]] = field(default_factory=dict)

    def settle(self, member: str, settled: pb.Settled) -> None:
        self.answers.append((member, settled))
        for each in settled.acks:
            key = _key(each.stream)
            acked = self.acked.setdefault(key, set())
            for first, end in zip(each.offsets[::2], each.offsets[1::2], strict=True):
                acked.update(range(first, end))
            place = self.positions.get(key, 0)
            while place in acked:
                place += 1
            self.positions[key] = place


class FakeNode:
    """One node. ``log`` is public: tests look into it."""

    def __init__(self, node_id: str = "node-a") -> None:
        self.node_id = node_id
        self.epoch = 1
        self.log: dict[Key, list[Batch]] = {}
        self.producers: dict[tuple[bytes, str, int], dict[int, tuple[int, Batch]]] = {}
        self.groups: dict[str, Group] = {}
        self.faults = Faults()
        self.refusals: list[pb.Nack] = []
        self.told_addresses: list[str] = []
        self.requests: list[pb.PublishBatch] = []
        self.opens: list[pb.SubscribeOpen] = []
        self.metadata: list[dict[str, str]] = []
        self.credit_given = 0
        self.earliest: dict[Key, int] = {}
        self.port = 0
        self._server: Any = None
        self._changed = asyncio.Condition()
        self._released = asyncio.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve, on the same port as before if there was one."""
        self._server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", 1 << 25),
                ("grpc.max_send_message_length", 1 << 25),
            ]
        )
        self._server.add_generic_rpc_handlers(
            (_handlers("weft.mesh.v1.Mesh", self._mesh()), _handlers("weft.mesh.v1.Admin", self._admin()))
        )
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        """End at once; streams break."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)

    def lose_log(self) -> None:
        self.log.clear()
        self.producers.clear()
        self.epoch += 1

    def release_receipts(self) -> None:
        self.faults.hold_receipts = False
        self._released.set()

    def payloads(self, topic: str, partition: int = 0, epoch: int | None = None) -> list[bytes]:
        key = topic, self.node_id, epoch or self.epoch, partition
        return [event.payload for batch in self.log.get(key, []) for event in batch]

    async def store(self, topic: str, batch: Batch, partition: int = 0) -> tuple[Key, int]:
        key = topic, self.node_id, self.epoch, partition
        stream = self.log.setdefault(key, [])
        first = stream[-1].end_offset if stream else 0
        stream.append(batch.with_base_offset(first))
        async with self._changed:
            self._changed.notify_all()
        return key, first

    # --- publish ---------------------------------------------------------------------------------------------------

    async def _publish(
        self, requests: AsyncIterator[pb.PublishRequest], context: Any
    ) -> AsyncIterator[pb.PublishReply]:
        self.metadata.append(dict(context.invocation_metadata()))
        refused: set[int] = set()
        async for request in requests:
            if request.HasField("open"):
                if self.faults.refuse_open:
                    yield pb.PublishReply(refused=pb.PublishRefused(error=self.faults.refuse_open.pop(0)))
                    return
                yield pb.PublishReply(
                    opened=pb.PublishOpened(
                        node_id=self.node_id, epoch=self.epoch, batch_bytes_max=1 << 24, addresses=self.told_addresses
                    )
                )
                continue
            for batch in request.batches.batches:
                if self.faults.drop_before_storing:
                    self.faults.drop_before_storing -= 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped before storing")
                if batch.after in refused:
                    reply = _refusal(batch, error(pb.ERROR_BEHIND_REFUSED))
                else:
                    reply = await self._take(batch)
                if reply.HasField("refused"):
                    refused.add(batch.request)
                if self.faults.drop_after_storing:
                    self.faults.drop_after_storing -= 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped after storing")
                while self.faults.hold_receipts:
                    self._released.clear()
                    await self._released.wait()
                yield reply

    async def _take(self, request: pb.PublishBatch) -> pb.PublishReply:
        self.requests.append(request)
        if len(self.requests) - 1 == self.faults.refuse_request:
            return _refusal(request, error(pb.ERROR_BUSY))
        if self.faults.refuse:
            return _refusal(request, self.faults.refuse.pop(0))
        batch = Batch.read_untrusted(request.batch)
        assert batch.producer is not None, "clients number their batches"
        known = self.producers.setdefault((batch.producer, request.topic, request.partition), {})
        repeated = batch.sequence in known
        if not repeated:
            if known and batch.sequence < max(known):
                return _refusal(request, pb.Error(code=pb.ERROR_OUT_OF_SEQUENCE, message="overtaken"))
            _, first = await self.store(request.topic, batch, request.partition)
            known[batch.sequence] = first, batch
            if len(known) > PRODUCER_MEMORY:
                del known[min(known)]
        first, kept = known[batch.sequence]
        if kept.body_crc != batch.body_crc:
            return _refusal(request, pb.Error(code=pb.ERROR_SEQUENCE_REUSED, message="other events were sent under it"))
        receipt = pb.Receipt(
            request=request.request,
            stream=_ref((request.topic, self.node_id, self.epoch, request.partition)),
            first_offset=first,
            count=len(kept),
            copies=max(request.copies, 1),
            repeated=repeated,
        )
        return pb.PublishReply(receipts=pb.Receipts(receipts=[receipt]))

    # --- subscribe -------------------------------------------------------------------------------------------------

    async def _subscribe(
        self, requests: AsyncIterator[pb.SubscribeRequest], context: Any
    ) -> AsyncIterator[pb.SubscribeReply]:
        opening = (await anext(aiter(requests))).open
        self.opens.append(opening)
        if self.faults.refuse_open:
            yield pb.SubscribeReply(error=self.faults.refuse_open.pop(0))
            return
        cursors: dict[Key, int] = {}
        for place in opening.start.positions.positions:
            key = _key(place.stream)
            cursors[key] = place.next_offset
            if (error := self._check_position(key, place.next_offset)) is not None:
                yield pb.SubscribeReply(error=error)
                return
        for key in self._matching(opening.pattern):
            cursors.setdefault(key, self._begin(key, opening.start, opening.group))
        state = Reader(opening.credit_bytes)
        reading = asyncio.create_task(self._hear(requests, opening, state))
        outgoing: asyncio.Queue[pb.Assignment] = asyncio.Queue()
        try:
            yield pb.SubscribeReply(
                opened=pb.SubscribeOpened(
                    node_id=self.node_id, epoch=self.epoch, positions=_positions(cursors), addresses=self.told_addresses
                )
            )
            if opening.group:
                self._join(opening, outgoing)
            async for reply in self._deliveries(opening, cursors, state, outgoing, context):
                yield reply
        finally:
            reading.cancel()
            if opening.group:
                self._leave(opening)

    async def _deliveries(
        self, opening: pb.SubscribeOpen, cursors: dict[Key, int], state: Reader, outgoing: Any, context: Any
    ) -> AsyncIterator[pb.SubscribeReply]:
        sent = 0
        mine: set[Key] | None = set() if opening.group else None
        while not state.ended:
            while not outgoing.empty():
                assignment = outgoing.get_nowait()
                placed = {_key(place.stream): place.next_offset for place in assignment.streams}
                for key, offset in placed.items():
                    if mine is not None and key not in mine:
                        cursors[key] = offset
                mine = set(placed)
                yield pb.SubscribeReply(assignment=assignment)
            moved = False
            for key in self._matching(opening.pattern):
                if mine is not None and key not in mine:
                    if opening.group and all(key not in keys for keys in self.groups[opening.group].assigned.values()):
                        self._rebalance(opening.group, opening)
                        moved = True
                    continue
                at = cursors.setdefault(key, 0)
                for batch in self.log.get(key, []):
                    if batch.end_offset <= at or (state.credit <= 0 and not self.faults.ignore_credit):
                        continue
                    if sent == self.faults.drop_subscribers_after:
                        self.faults.drop_subscribers_after = None
                        await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped a subscriber")
                    data = batch.data[:-1] + b"?" if self.faults.spoil_deliveries else batch.data
                    state.credit -= len(batch.data)
                    delivered = pb.StreamBatch(stream=_ref(key), batch=data, first_offset=max(at, batch.base_offset))
                    cursors[key] = at = batch.end_offset
                    sent += 1
                    moved = True
                    yield pb.SubscribeReply(delivery=pb.Delivery(batches=[delivered]))
            if not moved and self.faults.end_subscribers_with is not None:
                ending, self.faults.end_subscribers_with = self.faults.end_subscribers_with, None
                yield pb.SubscribeReply(error=ending)
                return
            if not moved:
                async with self._changed:
                    if not state.changed and outgoing.empty():
                        await self._changed.wait()
                    state.changed = False

    async def _hear(
        self, requests: AsyncIterator[pb.SubscribeRequest], opening: pb.SubscribeOpen, state: Reader
    ) -> None:
        async for request in requests:
            if request.HasField("credit"):
                state.credit += request.credit.bytes
                self.credit_given += request.credit.bytes
            elif request.HasField("handled"):
                group = self.groups[opening.group]
                group.answers.append((opening.member, request.handled))
                for place in request.handled.positions:
                    group.positions[_key(place.stream)] = place.next_offset
            elif request.HasField("settled"):
                self.groups[opening.group].settle(opening.member, request.settled)
                for nack in request.settled.nacks:
                    self.refusals.append(nack)
            state.changed = True
            async with self._changed:
                self._changed.notify_all()
        state.ended = True
        async with self._changed:
            self._changed.notify_all()

    # --- groups ----------------------------------------------------------------------------------------------------

    def _join(self, opening: pb.SubscribeOpen, outgoing: asyncio.Queue[pb.Assignment]) -> None:
        group = self.groups.setdefault(opening.group, Group())
        group.members[opening.member] = outgoing
        self._rebalance(opening.group, opening)

    def _leave(self, opening: pb.SubscribeOpen) -> None:
        group = self.groups[opening.group]
        group.members.pop(opening.member, None)
        group.assigned.pop(opening.member, None)
        if group.members:
            self._rebalance(opening.group, opening)

    def _rebalance(self, name: str, opening: pb.SubscribeOpen) -> None:
        """Deal the streams out to the members, like cards. (A real node waits for those who lose some.)"""
        group = self.groups[name]
        keys = sorted(self._matching(opening.pattern))
        members = sorted(group.members)
        group.generation += 1
        group.assigned = {member: keys[index :: len(members)] for index, member in enumerate(members)}
        for member, queue in group.members.items():
            places = {}
            for key in group.assigned[member]:
                places[key] = group.positions.setdefault(key, self._begin(key, opening.start, ""))
            queue.put_nowait(pb.Assignment(generation=group.generation, streams=_positions(places).positions))
        asyncio.get_running_loop().create_task(self.notify())

    async def notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # --- positions -------------------------------------------------------------------------------------------------

    def _matching(self, pattern: str) -> list[Key]:
        return [key for key in self.log if matches(Pattern(pattern), Topic(key[0]))]

    def _end(self, key: Key) -> int:
        return self.log[key][-1].end_offset if self.log.get(key) else 0

    def _begin(self, key: Key, start: pb.Start, group: str) -> int:
        if group and key in self.groups.get(group, Group()).positions:
            return self.groups[group].positions[key]
        if start.HasField("timestamp_us"):
            return self._at_time(key, start.timestamp_us)
        if start.HasField("positions") or start.edge == pb.Start.EDGE_EARLIEST:
            return self.earliest.get(key, 0)
        return self._end(key)

    def _at_time(self, key: Key, timestamp_us: int) -> int:
        for batch in self.log[key]:
            for index, event in enumerate(batch):
                if event.timestamp_us >= timestamp_us:
                    return batch.base_offset + index
        return self._end(key)

    def _check_position(self, key: Key, offset: int) -> pb.Error | None:
        earliest = self.earliest.get(key, 0)
        if key not in self.log or offset > self._end(key):
            return pb.Error(
                code=pb.ERROR_POSITION_UNKNOWN, message="no such position", facts={"epoch": str(self.epoch)}
            )
        if offset < earliest:
            return pb.Error(code=pb.ERROR_POSITION_EXPIRED, message="expired", facts={"earliest": str(earliest)})
        return None

    # --- the rest --------------------------------------------------------------------------------------------------

    async def _fetch(self, request: pb.FetchRequest, context: Any) -> AsyncIterator[pb.FetchReply]:
        key = _key(request.stream)
        if (error := self._check_position(key, request.first_offset)) is not None:
            yield pb.FetchReply(error=error)
            return
        for batch in self.log[key]:
            if batch.end_offset > request.first_offset and batch.base_offset < request.end_offset:
                if self.faults.fail_calls:
                    self.faults.fail_calls -= 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped a fetch")
                yield pb.FetchReply(fetched=self._fetched(batch, request))

    def _fetched(self, batch: Batch, request: pb.FetchRequest) -> pb.FetchedBatches:
        if not request.columns:
            return pb.FetchedBatches(batches=[batch.data])
        rows = batch.rows(request.first_offset, request.end_offset).select(list(request.columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        first = max(batch.base_offset, request.first_offset)
        reply = pb.FetchedBatches(batches=[sink.getvalue().to_pybytes()], first_offsets=[first])
        if self.faults.spoil_columns is not None:
            self.faults.spoil_columns(reply)
        return reply

    async def _positions(self, request: pb.PositionsRequest, context: Any) -> pb.PositionsReply:
        await self._maybe_fail(context)
        group = self.groups.get(request.group, Group())
        streams = []
        for key in self._matching(request.pattern):
            info = pb.StreamInfo(
                stream=_ref(key), earliest_offset=self.earliest.get(key, 0), latest_offset=self._end(key)
            )
            found = pb.PositionsOfStream(info=info, group_offset=group.positions.get(key))
            if request.HasField("timestamp_us"):
                found.timestamp_offset = self._at_time(key, request.timestamp_us)
            streams.append(found)
        return pb.PositionsReply(streams=streams)

    async def _commit(self, request: pb.CommitRequest, context: Any) -> pb.CommitReply:
        await self._maybe_fail(context)
        for place in request.positions:
            if (error := self._check_position(_key(place.stream), place.next_offset)) is not None:
                return pb.CommitReply(error=error)
        group = self.groups.setdefault(request.group, Group())
        group.positions.update({_key(place.stream): place.next_offset for place in request.positions})
        return pb.CommitReply()

    async def _topics(self, request: pb.TopicsRequest, context: Any) -> pb.TopicsReply:
        await self._maybe_fail(context)
        return pb.TopicsReply(
            topics=[
                pb.TopicInfo(topic=key[0], streams=1, events=self._end(key)) for key in self._matching(request.pattern)
            ]
        )

    async def _whoami(self, request: pb.WhoamiRequest, context: Any) -> pb.WhoamiReply:
        await self._maybe_fail(context)
        return pb.WhoamiReply(who="the caller", owner="0123456789abcdef")

    async def _status(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:
        await self._maybe_fail(context)
        return pb.StatusReply(node_id=self.node_id, epoch=self.epoch, version="fake", listeners=[self.address])

    async def _peers(self, request: pb.PeersRequest, context: Any) -> pb.PeersReply:
        return pb.PeersReply(peers=[pb.PeerInfo(node_id="node-z", state="alive", addresses=["h:1"], rtt_us=7)])

    async def _groups(self, request: pb.GroupsRequest, context: Any) -> pb.GroupsReply:
        groups = []
        for name, group in self.groups.items():
            streams = [
                pb.GroupStream(position=place, latest_offset=self._end(_key(place.stream)))
                for place in _positions(group.positions).positions
            ]
            groups.append(pb.GroupInfo(group=name, members=sorted(group.members), streams=streams))
        return pb.GroupsReply(groups=groups)

    async def _explain(self, request: pb.ExplainRequest, context: Any) -> pb.ExplainReply:
        recipient = pb.Recipient(node_id=self.node_id, pattern=">", path=[self.node_id], reason="a subscriber here")
        return pb.ExplainReply(recipients=[recipient])

    async def _maybe_fail(self, context: Any) -> None:
        if self.faults.fail_calls:
            self.faults.fail_calls -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "failing as asked")

    def _mesh(self) -> dict[str, Any]:
        return {
            "Publish": _method(grpc.stream_stream_rpc_method_handler, self._publish, pb.PublishRequest),
            "Subscribe": _method(grpc.stream_stream_rpc_method_handler, self._subscribe, pb.SubscribeRequest),
            "Fetch": _method(grpc.unary_stream_rpc_method_handler, self._fetch, pb.FetchRequest),
            "Positions": _method(grpc.unary_unary_rpc_method_handler, self._positions, pb.PositionsRequest),
            "Commit": _method(grpc.unary_unary_rpc_method_handler, self._commit, pb.CommitRequest),
            "Whoami": _method(grpc.unary_unary_rpc_method_handler, self._whoami, pb.WhoamiRequest),
            "Topics": _method(grpc.unary_unary_rpc_method_handler, self._topics, pb.TopicsRequest),
        }

    def _admin(self) -> dict[str, Any]:
        return {
            "Status": _method(grpc.unary_unary_rpc_method_handler, self._status, pb.StatusRequest),
            "Peers": _method(grpc.unary_unary_rpc_method_handler, self._peers, pb.PeersRequest),
            "Groups": _method(grpc.unary_unary_rpc_method_handler, self._groups, pb.GroupsRequest),
            "Explain": _method(grpc.unary_unary_rpc_method_handler, self._explain, pb.ExplainRequest),
        }


@dataclass
class Reader:
    """What a subscriber has said so far."""

    credit: int
    changed: bool = False
    ended: bool = False


@asynccontextmanager
async def running(*nodes: FakeNode) -> AsyncIterator[list[str]]:
    """Start nodes, give their addresses, and end them; their ports are theirs also while they are stopped."""
    with ExitStack() as ports:
        for node in nodes:
            node.port = ports.enter_context(held_port())
            await node.start()
        try:
            yield [node.address for node in nodes]
        finally:
            for node in nodes:
                await node.stop()


async def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait for a condition, not for a time; the bound only ends a test that has failed."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


def error(code: int, message: str = "as asked", **facts: str) -> pb.Error:
    return pb.Error(code=code, message=message, facts=facts)  # type: ignore[arg-type]


def _method(kind: Any, function: Any, request_type: Any) -> Any:
    return kind(
        function,
        request_deserializer=request_type.FromString,
        response_serializer=lambda reply: reply.SerializeToString(),
    )


def _handlers(service: str, methods: dict[str, Any]) -> Any:
    return grpc.method_handlers_generic_handler(service, methods)


def _refusal(request: pb.PublishBatch, error: pb.Error) -> pb.PublishReply:
    return pb.PublishReply(refused=pb.PublishRefused(request=request.request, error=error))


def _ref(key: Key) -> pb.StreamRef:
    topic, origin, epoch, partition = key
    return pb.StreamRef(topic=topic, origin=origin, epoch=epoch, partition=partition)


def _key(ref: pb.StreamRef) -> Key:
    return ref.topic, ref.origin, ref.epoch, ref.partition


def _positions(offsets: dict[Key, int]) -> pb.Positions:
    return pb.Positions(
        positions=[pb.StreamPosition(stream=_ref(key), next_offset=offset) for key, offset in offsets.items()]
    )
