"""The client: one object for everything, see ``weft.connect``."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from weft.client.admin import (
    Admin,
    GroupInfo,
    GroupPolicy,
    NewKey,
    NodePositions,
    PeerInfo,
    Recipient,
    Status,
    StreamPositions,
    TopicInfo,
)
from weft.client.calls import ClientCalls
from weft.client.chunk import Published, Timing, Whole
from weft.client.dead_letters import DeadLetters
from weft.client.errors import Backpressure, Closed, error_of
from weft.client.failing import WINDOW, Retry, parse_failing
from weft.client.fetch import Fetch, FetchRange
from weft.client.handling import Handler, Handling
from weft.client.kv import Bucket, BucketInfo, buckets_of
from weft.client.later import LaterEvents, due_after_us, due_at_us
from weft.client.nodes import Nodes
from weft.client.publisher import Publisher
from weft.client.received import ReceivedBatch
from weft.client.refs import stream_positions
from weft.client.requests import Handler as RequestHandler
from weft.client.requests import Reply, Requester, Server
from weft.client.schedules import CatchUp, ScheduleInfo, ScheduleRequests
from weft.client.session import POSITIONS_AT_ONCE
from weft.client.start import Where, parse_where, start_message, timestamp_us_of
from weft.client.subscription import Commit, Subscription
from weft.client.ways import EventWay, way_of
from weft.errors import UsageError
from weft.model import Batch, EventId, Position, Receipt, Stream, parse_event_id, parse_pattern, parse_topic
from weft.model.dead_letters import DeadLetter
from weft.model.key_info import KeyInfo
from weft.model.later import Waiting
from weft.model.topic import OWNED_ID_BYTES, OwnedKind, owned_topic
from weft.wire.mesh import mesh_pb2 as pb

if TYPE_CHECKING:
    from weft.client.schemas import Schemas


class Client:
    """A connection to a mesh, for one event loop. Close it, or use it with ``async with``."""

    def __init__(self, nodes: Nodes, *, client_id: str, producer: bytes, partitions: int) -> None:
        """For ``connect``, which checks everything first."""
        self.id = client_id
        self._nodes = nodes
        self._tracing = nodes.tracing
        self._publisher = Publisher(nodes, producer, partitions)
        self._add = self._publisher.outbox.add  # looked up once, not for every event
        self._admin = Admin(nodes)
        self._dead_letters = DeadLetters(nodes, self.publish)
        self._later = LaterEvents(nodes)
        self._schedules = ScheduleRequests(nodes)
        self._owner: str | None = None
        self._calls = ClientCalls(nodes)
        self._requester = Requester(self._calls, self._inbox, self._publish_with, self._traced)
        self._servers: set[Server] = set()
        self._subscriptions: set[Subscription] = set()
        self._is_closed = False

    # --- publishing ------------------------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: bytes | str,
        *,
        key: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timestamp_us: int | None = None,
        copies: int = 0,
        deliver_at: datetime | None = None,
        delay: float | timedelta | None = None,
    ) -> Receipt:
        """Publish one event and wait for its receipt; waits for room first if too much is unacknowledged.

        With ``deliver_at``, or with a ``delay`` in seconds, the event waits at the node until then, by the node's
        clock. The receipt is for the event that waits: ``receipt.first`` is what ``cancel_later`` takes.
        """
        while True:
            try:
                published = self.publish_nowait(
                    topic,
                    payload,
                    key=key,
                    headers=headers,
                    timestamp_us=timestamp_us,
                    copies=copies,
                    deliver_at=deliver_at,
                    delay=delay,
                )
            except Backpressure as refused:
                await self._publisher.wait_for_room(refused.need)
            else:
                return await published

    def publish_nowait(
        self,
        topic: str,
        payload: bytes | str,
        *,
        key: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timestamp_us: int | None = None,
        copies: int = 0,
        deliver_at: datetime | None = None,
        delay: float | timedelta | None = None,
    ) -> Published:
        """Publish one event without waiting; await what is returned for the receipt. Raises Backpressure."""
        if type(payload) is not bytes:
            payload = _as_bytes("payload", payload)
        if key is not None and type(key) is not bytes:
            key = _as_bytes("key", key)
        if self._tracing is not None:
            headers = self._tracing.headers(headers)
        if deliver_at is not None or delay is not None:
            return self._add_later(topic, payload, key, headers, timestamp_us, copies, deliver_at, delay)
        return self._add(topic, payload, key, headers, timestamp_us, copies)

    def _add_later(
        self,
        topic: str,
        payload: bytes,
        key: bytes | None,
        headers: Mapping[str, str] | None,
        timestamp_us: int | None,
        copies: int,
        deliver_at: datetime | None,
        delay: float | timedelta | None,
    ) -> Published:
        if timestamp_us is not None or copies > 1:
            raise UsageError("an event for later gets its timestamp when it is delivered, and waits at one node")
        if delay is None:
            assert deliver_at is not None, "one of them was given"
            return self._add(topic, payload, key, headers, due_at_us(deliver_at), 0, Timing.AT)
        if deliver_at is not None:
            raise UsageError("either deliver_at or delay, not both")
        due_us = int(asyncio.get_running_loop().time() * 1e6) + due_after_us(delay)
        return self._add(topic, payload, key, headers, due_us, 0, Timing.AFTER)

    async def publish_batch(self, topic: str, data: Whole, *, partition: int | None = None, copies: int = 0) -> Receipt:
        """Publish Arrow data with a column ``payload``, and optionally ``timestamp``, ``key`` and ``headers``."""
        import pyarrow as pa

        if not isinstance(data, Batch | pa.RecordBatch | pa.Table):
            raise UsageError(f"a batch is Arrow data or a Batch, not {type(data).__name__}")
        return await self._publisher.publish_whole(topic, partition or 0, data, copies)

    async def wait_for_room(self) -> None:
        """After Backpressure: wait until there is plenty of room."""
        await self._publisher.wait_for_room()

    async def flush(self) -> None:
        """Wait until everything published so far is acknowledged; raise the first failure that nobody waits for."""
        await self._publisher.flush()

    # --- subscribing -----------------------------------------------------------------------------------------------

    def subscribe(
        self,
        pattern: str,
        *,
        group: str = "",
        member: str = "",
        start: Where | None = None,
        commit: Commit = "auto",
        window: int = WINDOW,
        max_deliveries: int | None = None,
        retry_s: tuple[float, float] | None = None,
        retry: Retry | None = None,
        dead_letter: str | None = None,
    ) -> Subscription:
        """Events of every topic that matches. See ``Subscription``.

        With ``commit="manual"`` a member of a group settles each event by ``ack`` or ``nack``, with at most ``window``
        of them in hand. The last four arguments say what happens with events that fail; they count if the group has no
        policy yet.
        """
        self._check_open()
        if commit not in ("auto", "manual"):
            raise UsageError(f"no such commit {commit!r}", known="auto, manual")
        failing = parse_failing(window, max_deliveries, retry_s, retry, dead_letter)
        if failing.policy is not None and not (group and commit == "manual"):
            raise UsageError('what becomes of failing events is said of a group, with commit="manual"')
        parsed, where = parse_pattern(pattern), parse_where(start)

        async def first_start() -> pb.Start:
            return start_message(await self._resolved(pattern, where) if isinstance(where, int) else where)

        subscription = Subscription(
            self._nodes,
            parsed,
            group=group,
            member=member or (self.id if group else ""),
            start=first_start,
            commit=commit,
            failing=failing,
            on_closed=self._subscriptions.discard,
        )
        self._subscriptions.add(subscription)
        return subscription

    async def run(
        self,
        handler: Handler,
        pattern: str,
        *,
        group: str,
        concurrency: int = 10,
        member: str = "",
        start: Where | None = None,
        window: int = WINDOW,
        max_deliveries: int | None = None,
        retry_s: tuple[float, float] | None = None,
        retry: Retry | None = None,
        dead_letter: str | None = None,
    ) -> None:
        """Call a function with every event, as a member of a group, until this is cancelled.

        At most ``concurrency`` calls run at once. Events of a stream with the same key are handled in order, one after
        the other; events without a key have no order. If the function returns, the event is handled. If it raises, the
        event is refused.
        """
        subscription = self.subscribe(
            pattern,
            group=group,
            member=member,
            start=start,
            commit="manual",
            window=window,
            max_deliveries=max_deliveries,
            retry_s=retry_s,
            retry=retry,
            dead_letter=dead_letter,
        )
        try:
            handling = Handling(subscription, handler, concurrency)
        except UsageError:
            await subscription.close()
            raise
        await handling.run()

    async def fetch(
        self,
        stream: Stream,
        epoch: int,
        first_offset: int,
        end_offset: int | None = None,
        columns: Sequence[str] = (),
    ) -> AsyncIterator[ReceivedBatch]:
        """Read a range of one stream as Arrow, up to its current end; all columns, or only those named."""
        return Fetch(self._nodes, [FetchRange(stream, epoch, first_offset, end_offset)], columns).batches()

    async def fetch_many(
        self,
        stream: Stream,
        epoch: int,
        first_offset: int,
        end_offset: int | None = None,
        columns: Sequence[str] = (),
    ) -> AsyncIterator[list[ReceivedBatch]]:
        """Like ``fetch``, but yield all batches of a message at once, for callers that read very many."""
        return self.fetch_ranges([FetchRange(stream, epoch, first_offset, end_offset)], columns)

    def fetch_ranges(
        self, ranges: Sequence[FetchRange], columns: Sequence[str] = ()
    ) -> AsyncIterator[list[ReceivedBatch]]:
        """Read any number of ranges of streams, one after the other in this order: a thousand of them take no longer
        than one of the same size. Yields all batches of a message at once.

        If a node cannot give a range, the error has its number as the fact ``range``; all ranges before it are
        complete.
        """
        return Fetch(self._nodes, ranges, columns).replies()

    # --- asking and answering each other ---------------------------------------------------------------------------

    async def request(
        self,
        topic: str,
        payload: bytes | str,
        *,
        timeout_s: float = 5.0,
        headers: Mapping[str, str] | None = None,
        durable: bool = True,
        attempts: int = 1,
    ) -> Reply:
        """Ask one server of a topic, and wait for the first reply.

        NoServer is raised at once if nobody serves the topic; NoReply if nobody answers in time; RequestFailed if the
        server could not do it; ServerLost if the server is gone, and then it may have handled the request. With
        ``attempts``, other servers are asked after that. Without ``durable``, neither request nor reply is written to a
        log.
        """
        self._check_open()
        data = _as_bytes("payload", payload)
        return await self._requester.request(topic, data, headers, timeout_s, durable, attempts)

    def request_many(
        self,
        topic: str,
        payload: bytes | str,
        *,
        timeout_s: float = 5.0,
        total_timeout_s: float = 60.0,
        headers: Mapping[str, str] | None = None,
        durable: bool = True,
    ) -> AsyncGenerator[Reply, None]:
        """Do the same for all replies, until the server says that there are no more. ``timeout_s``: for each reply."""
        self._check_open()
        data = _as_bytes("payload", payload)
        return self._requester.request_many(topic, data, headers, timeout_s, total_timeout_s, durable)

    async def _inbox(self) -> str:
        """A new inbox. Anybody who knows its id can write there, so it is not the client's id, which nodes tell
        others."""
        return owned_topic(OwnedKind.INBOX, await self.owner(), secrets.token_hex(OWNED_ID_BYTES))

    def serve(self, pattern: str, handler: RequestHandler, *, concurrency: int = 10) -> Server:
        """Call a function with every request to these topics that this client gets.

        What it returns is the reply; an iterator gives several. What it raises is told to the asker. All servers of a
        topic share the work: each request goes to one of them. See ``Server``.
        """
        self._check_open()
        return self._serve(pattern, handler, concurrency)

    def requests(self, pattern: str, *, concurrency: int = 10) -> Server:
        """Iterate over the requests instead: ``async for request in client.requests(...)``, with so many unanswered at
        once."""
        self._check_open()
        return self._serve(pattern, None, concurrency)

    def _serve(self, pattern: str, handler: RequestHandler | None, concurrency: int) -> Server:
        server = Server(self._calls, pattern, handler, concurrency, self._publish_with)
        server.on_closed = self._servers.discard
        self._servers.add(server)
        return server

    def _traced(self, headers: Mapping[str, str] | None) -> Mapping[str, str]:
        return (headers if self._tracing is None else self._tracing.headers(headers)) or {}

    async def _publish_with(self, topic: str, payload: bytes | str, headers: Mapping[str, str]) -> Receipt:
        return await self.publish(topic, payload, headers=headers)

    # --- later and again -------------------------------------------------------------------------------------------

    async def later(self) -> list[Waiting]:
        """List the events of this client's key that wait for their time, at all nodes that can be reached, in the order
        of their times; with the right to administer, everybody's events."""
        return (await self._later.list())[0]

    async def later_everywhere(self) -> tuple[list[Waiting], dict[str, str]]:
        """Do the same, and return also the addresses of nodes that could not be asked, with the reasons."""
        return await self._later.list()

    async def cancel_later(self, event: EventId | str) -> Waiting:
        """Cancel an event that waits; it will not be delivered. Durable when this returns; UsageError if it no longer
        waits."""
        return await self._later.cancel(parse_event_id(event) if isinstance(event, str) else event)

    async def schedules(self) -> list[ScheduleInfo]:
        """List the schedules of this client's key; with the right to administer, all schedules."""
        return await self._schedules.list("")

    async def schedule(self, name: str) -> ScheduleInfo:
        (found,) = await self._schedules.list(name)
        return found

    async def add_schedule(
        self,
        name: str,
        cron: str,
        topic: str,
        payload: bytes | str,
        *,
        zone: str = "UTC",
        key: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        catch_up: CatchUp = "last",
        paused: bool = False,
        replace: bool = False,
    ) -> datetime | None:
        """Make the mesh publish an event at the times of a cron expression. Return the first of these times.

        ``catch_up``: whether the last of the times at which no node ran is made up for, or none is.
        """
        schedule = pb.Schedule(
            name=name,
            cron=cron,
            zone=zone,
            topic=topic,
            payload=_as_bytes("payload", payload),
            key=None if key is None else _as_bytes("key", key),
            headers=headers or {},
            catch_up=catch_up,
            paused=paused,
        )
        return await self._schedules.put(schedule, replace)

    async def remove_schedule(self, name: str) -> None:
        await self._schedules.remove(name)

    async def pause_schedule(self, name: str) -> None:
        await self._schedules.pause(name, True)

    async def resume_schedule(self, name: str) -> datetime | None:
        """Resume a paused schedule, and return when it fires next. What was not fired meanwhile is not made up for."""
        return await self._schedules.pause(name, False)

    # --- schemas ---------------------------------------------------------------------------------------------------

    @property
    def schemas(self) -> Schemas:
        """The schemas of topics. See ``Schemas``."""
        from weft.client.schemas import Schemas  # imported late: it loads libraries that few programs need

        return Schemas(self._nodes)

    # --- keys and values -------------------------------------------------------------------------------------------

    def kv(self, bucket: str) -> Bucket:
        """A bucket of keys and values. You need not create it first. See ``Bucket``."""
        self._check_open()
        return Bucket(self._nodes, bucket)

    async def buckets(self) -> list[BucketInfo]:
        """List the buckets that this client may read."""
        return await buckets_of(self._nodes)

    # --- positions -------------------------------------------------------------------------------------------------

    async def positions(
        self, pattern: str, group: str = "", timestamp: datetime | None = None
    ) -> list[StreamPositions]:
        """Where the matching streams begin and end, where a group stands in them, and which offset a time has."""
        return list((await self.node_positions(pattern, group, timestamp)).streams)

    async def node_positions(
        self, pattern: str, group: str = "", timestamp: datetime | None = None, *, history: bool = True
    ) -> NodePositions:
        """Do the same, and say which node has these streams, and which other nodes of the mesh may have more.
        ``history``: also what is in the node's archive tables, and streams that are only there."""
        if timestamp is not None:
            parse_where(timestamp)
        timestamp_us = None if timestamp is None else timestamp_us_of(timestamp)
        return await self._admin.positions(parse_pattern(pattern), group, timestamp_us, history=history)

    async def commit(self, group: str, positions: Sequence[Position]) -> None:
        """Move a group's positions, forwards or back; durable when this returns."""
        if not group:
            raise UsageError("only a group has positions that are kept")

        def check(reply: pb.CommitReply) -> None:
            if reply.HasField("error"):
                raise error_of(reply.error, group=group)

        for first in range(0, len(positions) or 1, POSITIONS_AT_ONCE):
            some = stream_positions(positions[first : first + POSITIONS_AT_ONCE])
            request = pb.CommitRequest(group=group, positions=some)
            await self._nodes.call("/weft.mesh.v1.Mesh/Commit", request, pb.CommitReply, check)

    async def drop_group(self, group: str) -> None:
        """End a group everywhere in the mesh; durable at one node when this returns, and known to the others soon.

        Its members are told, and its positions are forgotten: a group of the same name is a new one.
        """

        def check(reply: pb.DropGroupReply) -> None:
            if reply.HasField("error"):
                raise error_of(reply.error, group=group)

        request = pb.DropGroupRequest(group=group)
        await self._nodes.call("/weft.mesh.v1.Mesh/DropGroup", request, pb.DropGroupReply, check)

    async def seek(self, group: str, pattern: str, where: Where) -> list[Position]:
        """Move a group to this place in every matching stream, while none of its members is connected."""
        positions = await self._resolved(pattern, parse_where(where), only_history=False)
        await self.commit(group, positions)
        return positions

    async def _resolved(self, pattern: str, where: Where, *, only_history: bool = True) -> list[Position]:
        """Turn a place into positions of the current streams. ``only_history``: also of streams that no log has, which
        groups do not read."""
        match where:
            case "group":
                raise UsageError("say where to move the group: earliest, latest, an offset, a time or positions")
            case str() | int():
                found = _chosen(await self.positions(pattern), only_history)
                return [Position(one.stream, one.epoch, _offset_in(one, where)) for one in found]
            case datetime():
                found = _chosen(await self.positions(pattern, timestamp=where), only_history)
                since_us = timestamp_us_of(where)
                return [Position(one.stream, one.epoch, _offset_at(one, since_us)) for one in found]
            case _:
                return list(where)

    # --- asking nodes ----------------------------------------------------------------------------------------------

    async def topics(self, pattern: str = ">") -> list[TopicInfo]:
        return await self._admin.topics(parse_pattern(pattern))

    async def owner(self) -> str:
        """The owner in the topics that belong to this client, ``weft.inbox.<owner>.<id>``. It comes from the name of
        its key."""
        if self._owner is None:
            self._owner = await self._admin.owner()
        return self._owner

    async def check_publish(self, topics: Sequence[str]) -> None:
        """Raise NotAllowed if this client may not publish to one of these topics; nothing is published."""
        await self._admin.check_publish(list(map(parse_topic, topics)))

    async def status(self) -> Status:
        return await self._admin.status()

    async def peers(self) -> list[PeerInfo]:
        return await self._admin.peers()

    async def groups(self, group: str = "") -> list[GroupInfo]:
        return await self._admin.groups(group)

    async def set_group(self, group: str, policy: GroupPolicy) -> None:
        """Say what happens, from now on, with events that the group's readers cannot handle. Needs the right to
        administer."""
        await self._admin.set_group(group, policy)

    async def dead_letters(self, group: str, event: EventId | None = None) -> list[DeadLetter]:
        """List the events that the group's readers could not handle, of topics that this client may subscribe to, the
        oldest first; or only the letter of one event."""
        return await self._dead_letters.list(group, event)

    async def replay_dead(self, group: str, letters: Iterable[DeadLetter]) -> None:
        """Publish these events again to their topics, with the header ``weft-replay-of``, and drop the letters."""
        await self._dead_letters.replay(group, letters, lambda _: None)

    async def drop_dead(self, group: str, letters: Iterable[DeadLetter]) -> None:
        """Drop these letters: they are settled."""
        await self._dead_letters.drop(group, (each.id for each in letters))

    async def explain(self, topic: str, origin: str = "") -> list[Recipient]:
        """Say who would get an event of this topic published at ``origin`` (by default here), over which path, and why;
        and, with ``serves``, who answers requests to it."""
        return await self._admin.explain(parse_topic(topic), origin)

    async def trace(self, event: EventId) -> EventWay:
        """The way of one event: when it came to each node, and who got it, as far as nodes remember."""
        return await way_of(self._nodes, event)

    async def keys(self, key: str = "") -> list[KeyInfo]:
        """List the API keys of the mesh as the node knows them, or only the one with this id. Needs the right to
        administer."""
        return await self._admin.keys(key)

    async def create_key(
        self,
        name: str,
        *,
        publish: Iterable[str] = (),
        subscribe: Iterable[str] = (),
        admin: bool = False,
        expires_s: int | None = None,
        quota: Mapping[str, int] | None = None,
        groups: Iterable[str] = (),
    ) -> NewKey:
        """Make an API key of the mesh; all nodes know it within seconds. ``expires_s`` is Unix time.

        The key is made here, and the node gets only a hash of it. Needs the right to administer, and every right that
        the new key gets.
        """
        from weft.security import SALT_BYTES, SECRET_BYTES, KeyRequest, new_key, quota_of

        rights = tuple(publish), tuple(subscribe), admin
        wanted = KeyRequest(name, *rights, expires_s, quota_of(quota or {}), tuple(groups))
        entropy = secrets.token_bytes(SECRET_BYTES + SALT_BYTES)
        record, key = await asyncio.to_thread(new_key, wanted, entropy, time.time())
        return NewKey(await self._admin.create_key(record), key.reveal())

    async def revoke_key(self, key: str) -> KeyInfo:
        """Revoke an API key by its id, everywhere and for good. Needs the right to administer."""
        return await self._admin.revoke_key(key)

    async def leave(self) -> str:
        """Make the node leave the mesh and stop, as SIGTERM does; return its id. Needs the right to administer.

        The client has to be connected to that node only.
        """
        return await self._admin.leave()

    # --- life ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Drain: report what was handled, wait for receipts, then close."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await asyncio.gather(*(server.close() for server in list(self._servers)))
            await self._calls.close()
            await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
            await self._publisher.close(self._nodes.options.close_timeout_s)
        finally:
            await self._nodes.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")


def _chosen(found: Sequence[StreamPositions], only_history: bool) -> list[StreamPositions]:
    return [each for each in found if only_history or not each.only_history]


def _offset_in(found: StreamPositions, where: str | int) -> int:
    if where == "earliest":  # if the node's copy of the stream begins in the middle, the node fetches what is missing
        return found.first_offset if found.late_us is None else 0
    return found.latest_offset if where == "latest" else int(where)


def _offset_at(found: StreamPositions, since_us: int) -> int:
    if found.late_us is not None and since_us < found.late_us:
        return 0  # only other nodes know the offset of that time: read too much rather than too little
    return found.latest_offset if found.timestamp_offset is None else found.timestamp_offset


def _as_bytes(what: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise UsageError(f"{what} must be bytes or str, not {type(value).__name__}")
