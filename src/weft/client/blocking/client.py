"""The blocking twin of the client. See ``weft.sync.connect``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from weft.client import connecting as asynchronous
from weft.client.admin import (
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
from weft.client.blocking.iterating import each, each_ahead
from weft.client.blocking.kv import Bucket
from weft.client.blocking.receipts import ReceiptFuture
from weft.client.blocking.requests import Request, Server
from weft.client.blocking.schemas import Schemas
from weft.client.blocking.subscription import Subscription
from weft.client.chunk import Whole
from weft.client.client import Client as AsyncClient
from weft.client.failing import WINDOW, Retry
from weft.client.fetch import FetchRange
from weft.client.kv import BucketInfo
from weft.client.loop_thread import LoopThread
from weft.client.received import Received, ReceivedBatch
from weft.client.requests import Reply
from weft.client.requests import Request as AsyncRequest
from weft.client.schedules import CatchUp, ScheduleInfo
from weft.client.start import Where
from weft.client.subscription import Commit
from weft.client.ways import EventWay
from weft.model import EventId, Position, Receipt, Stream
from weft.model.dead_letters import DeadLetter
from weft.model.key_info import KeyInfo
from weft.model.later import Waiting


class Client:
    """A connection to a mesh. Close it, or use it with ``with``.

    Methods with ``timeout_s`` raise TimeoutError after that time; their work may still be finished after that.
    """

    def __init__(self, connecting: asynchronous.Connecting) -> None:
        """For ``connect``."""
        self._is_open = False
        self._thread = LoopThread(self.close)
        try:
            self._inner = self._thread.run(_connected(connecting))
        except BaseException:
            self._thread.stop()
            raise
        self._is_open = True
        self.id = self._inner.id

    @property
    def is_closed(self) -> bool:
        return self._thread.is_closed

    def close(self) -> None:
        """Drain and close; calling it again does nothing."""
        if self._is_open:
            self._is_open = False
            try:
                self._thread.run(self._inner.close())
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
    ) -> Future[Receipt]:
        """Publish one event and go on, with a future for its receipt. Raises Backpressure."""

        def take() -> Future[Receipt]:
            published = self._inner.publish_nowait(
                topic,
                payload,
                key=key,
                headers=headers,
                timestamp_us=timestamp_us,
                copies=copies,
                deliver_at=deliver_at,
                delay=delay,
            )
            return ReceiptFuture(published)

        return self._thread.call(take)

    def publish_batch_nowait(
        self, topic: str, data: Whole, *, partition: int | None = None, copies: int = 0
    ) -> Future[Receipt]:
        """Like ``publish_batch``, but return a future for the receipt. A failure is raised only by the future, not by
        ``flush``."""
        return self._thread.submit(self._inner.publish_batch(topic, data, partition=partition, copies=copies))

    def run(
        self,
        handler: Callable[[Received], None],
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
        """Call a function with every event, as a member of a group, until the client is closed.

        At most ``concurrency`` calls run at once, each on a thread of its own. Events of a stream with the same key are
        handled in order, one after the other; events without a key have no order. If the function returns, the event is
        handled. If it raises, the event is refused.
        """
        with ThreadPoolExecutor(concurrency, "weft-handler") as threads:

            async def handle(event: Received) -> None:
                await asyncio.get_running_loop().run_in_executor(threads, handler, event)

            work = self._inner.run(
                handle,
                pattern,
                group=group,
                concurrency=concurrency,
                member=member,
                start=start,
                window=window,
                max_deliveries=max_deliveries,
                retry_s=retry_s,
                retry=retry,
                dead_letter=dead_letter,
            )
            self._thread.run(work)

    def fetch_many(
        self,
        stream: Stream,
        epoch: int,
        first_offset: int,
        end_offset: int | None = None,
        columns: Sequence[str] = (),
    ) -> Iterator[list[ReceivedBatch]]:
        """Like ``fetch``, but yield all batches of a message at once; the next message is fetched meanwhile."""
        return self.fetch_ranges([FetchRange(stream, epoch, first_offset, end_offset)], columns)

    def fetch_ranges(self, ranges: Sequence[FetchRange], columns: Sequence[str] = ()) -> Iterator[list[ReceivedBatch]]:
        """Read any number of ranges of streams, one after the other in this order; the next message is fetched
        meanwhile."""
        return each_ahead(self._thread, self._inner.fetch_ranges(ranges, columns))

    def serve(self, pattern: str, handler: Callable[[Request], Any], *, concurrency: int = 10) -> Server:
        """Call a function, in threads, with every request to these topics that this client gets."""
        return Server(self._thread, self._inner, pattern, handler, concurrency)

    def requests(self, pattern: str, *, concurrency: int = 10) -> Iterator[Request]:
        """Iterate over the requests instead."""
        server = self._thread.call(self._inner.requests, pattern, concurrency=concurrency)

        async def next_one() -> AsyncRequest | None:
            return await anext(server, None)

        try:
            while (request := self._thread.run(next_one())) is not None:
                yield Request(self._thread, request)
        finally:
            if not self._thread.is_closed:
                self._thread.run(server.close())

    @property
    def schemas(self) -> Schemas:
        """The schemas of topics. See ``Schemas``."""
        return Schemas(self._thread, self._inner.schemas)

    # --- generated by `make blocking`: do not edit below this line ---

    def publish(
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
        timeout_s: float | None = None,
    ) -> Receipt:
        """Publish one event and wait for its receipt; waits for room first if too much is unacknowledged.

        With ``deliver_at``, or with a ``delay`` in seconds, the event waits at the node until then, by the node's
        clock. The receipt is for the event that waits: ``receipt.first`` is what ``cancel_later`` takes.
        """
        return self._thread.run(
            self._inner.publish(
                topic,
                payload,
                key=key,
                headers=headers,
                timestamp_us=timestamp_us,
                copies=copies,
                deliver_at=deliver_at,
                delay=delay,
            ),
            timeout_s,
        )

    def publish_batch(
        self, topic: str, data: Whole, *, partition: int | None = None, copies: int = 0, timeout_s: float | None = None
    ) -> Receipt:
        """Publish Arrow data with a column ``payload``, and optionally ``timestamp``, ``key`` and ``headers``."""
        return self._thread.run(self._inner.publish_batch(topic, data, partition=partition, copies=copies), timeout_s)

    def wait_for_room(self, timeout_s: float | None = None) -> None:
        """After Backpressure: wait until there is plenty of room."""
        self._thread.run(self._inner.wait_for_room(), timeout_s)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything published so far is acknowledged; raise the first failure that nobody waits for."""
        self._thread.run(self._inner.flush(), timeout_s)

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
        return Subscription(
            self._thread,
            self._thread.call(
                self._inner.subscribe,
                pattern,
                group=group,
                member=member,
                start=start,
                commit=commit,
                window=window,
                max_deliveries=max_deliveries,
                retry_s=retry_s,
                retry=retry,
                dead_letter=dead_letter,
            ),
        )

    def fetch(
        self, stream: Stream, epoch: int, first_offset: int, end_offset: int | None = None, columns: Sequence[str] = ()
    ) -> Iterator[ReceivedBatch]:
        """Read a range of one stream as Arrow, up to its current end; all columns, or only those named."""
        return each(self._thread, self._thread.run(self._inner.fetch(stream, epoch, first_offset, end_offset, columns)))

    def request(
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
        return self._thread.run(
            self._inner.request(
                topic, payload, timeout_s=timeout_s, headers=headers, durable=durable, attempts=attempts
            )
        )

    def request_many(
        self,
        topic: str,
        payload: bytes | str,
        *,
        timeout_s: float = 5.0,
        total_timeout_s: float = 60.0,
        headers: Mapping[str, str] | None = None,
        durable: bool = True,
    ) -> Iterator[Reply]:
        """Do the same for all replies, until the server says that there are no more. ``timeout_s``: for each reply."""
        return each(
            self._thread,
            self._inner.request_many(
                topic, payload, timeout_s=timeout_s, total_timeout_s=total_timeout_s, headers=headers, durable=durable
            ),
        )

    def later(self) -> list[Waiting]:
        """List the events of this client's key that wait for their time, at all nodes that can be reached, in the order
        of their times; with the right to administer, everybody's events."""
        return self._thread.run(self._inner.later())

    def later_everywhere(self) -> tuple[list[Waiting], dict[str, str]]:
        """Do the same, and return also the addresses of nodes that could not be asked, with the reasons."""
        return self._thread.run(self._inner.later_everywhere())

    def cancel_later(self, event: EventId | str) -> Waiting:
        """Cancel an event that waits; it will not be delivered. Durable when this returns; UsageError if it no longer
        waits."""
        return self._thread.run(self._inner.cancel_later(event))

    def schedules(self) -> list[ScheduleInfo]:
        """List the schedules of this client's key; with the right to administer, all schedules."""
        return self._thread.run(self._inner.schedules())

    def schedule(self, name: str) -> ScheduleInfo:
        return self._thread.run(self._inner.schedule(name))

    def add_schedule(
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
        return self._thread.run(
            self._inner.add_schedule(
                name,
                cron,
                topic,
                payload,
                zone=zone,
                key=key,
                headers=headers,
                catch_up=catch_up,
                paused=paused,
                replace=replace,
            )
        )

    def remove_schedule(self, name: str) -> None:
        self._thread.run(self._inner.remove_schedule(name))

    def pause_schedule(self, name: str) -> None:
        self._thread.run(self._inner.pause_schedule(name))

    def resume_schedule(self, name: str) -> datetime | None:
        """Resume a paused schedule, and return when it fires next. What was not fired meanwhile is not made up for."""
        return self._thread.run(self._inner.resume_schedule(name))

    def kv(self, bucket: str) -> Bucket:
        """A bucket of keys and values. You need not create it first. See ``Bucket``."""
        return Bucket(self._thread, self._thread.call(self._inner.kv, bucket))

    def buckets(self) -> list[BucketInfo]:
        """List the buckets that this client may read."""
        return self._thread.run(self._inner.buckets())

    def positions(self, pattern: str, group: str = "", timestamp: datetime | None = None) -> list[StreamPositions]:
        """Where the matching streams begin and end, where a group stands in them, and which offset a time has."""
        return self._thread.run(self._inner.positions(pattern, group, timestamp))

    def node_positions(
        self, pattern: str, group: str = "", timestamp: datetime | None = None, *, history: bool = True
    ) -> NodePositions:
        """Do the same, and say which node has these streams, and which other nodes of the mesh may have more.
        ``history``: also what is in the node's archive tables, and streams that are only there."""
        return self._thread.run(self._inner.node_positions(pattern, group, timestamp, history=history))

    def commit(self, group: str, positions: Sequence[Position]) -> None:
        """Move a group's positions, forwards or back; durable when this returns."""
        self._thread.run(self._inner.commit(group, positions))

    def drop_group(self, group: str) -> None:
        """End a group everywhere in the mesh; durable at one node when this returns, and known to the others soon.

        Its members are told, and its positions are forgotten: a group of the same name is a new one.
        """
        self._thread.run(self._inner.drop_group(group))

    def seek(self, group: str, pattern: str, where: Where) -> list[Position]:
        """Move a group to this place in every matching stream, while none of its members is connected."""
        return self._thread.run(self._inner.seek(group, pattern, where))

    def topics(self, pattern: str = ">") -> list[TopicInfo]:
        return self._thread.run(self._inner.topics(pattern))

    def owner(self) -> str:
        """The owner in the topics that belong to this client, ``weft.inbox.<owner>.<id>``. It comes from the name of
        its key."""
        return self._thread.run(self._inner.owner())

    def check_publish(self, topics: Sequence[str]) -> None:
        """Raise NotAllowed if this client may not publish to one of these topics; nothing is published."""
        self._thread.run(self._inner.check_publish(topics))

    def status(self) -> Status:
        return self._thread.run(self._inner.status())

    def peers(self) -> list[PeerInfo]:
        return self._thread.run(self._inner.peers())

    def groups(self, group: str = "") -> list[GroupInfo]:
        return self._thread.run(self._inner.groups(group))

    def set_group(self, group: str, policy: GroupPolicy) -> None:
        """Say what happens, from now on, with events that the group's readers cannot handle. Needs the right to
        administer."""
        self._thread.run(self._inner.set_group(group, policy))

    def dead_letters(self, group: str, event: EventId | None = None) -> list[DeadLetter]:
        """List the events that the group's readers could not handle, of topics that this client may subscribe to, the
        oldest first; or only the letter of one event."""
        return self._thread.run(self._inner.dead_letters(group, event))

    def replay_dead(self, group: str, letters: Iterable[DeadLetter]) -> None:
        """Publish these events again to their topics, with the header ``weft-replay-of``, and drop the letters."""
        self._thread.run(self._inner.replay_dead(group, letters))

    def drop_dead(self, group: str, letters: Iterable[DeadLetter]) -> None:
        """Drop these letters: they are settled."""
        self._thread.run(self._inner.drop_dead(group, letters))

    def explain(self, topic: str, origin: str = "") -> list[Recipient]:
        """Say who would get an event of this topic published at ``origin`` (by default here), over which path, and why;
        and, with ``serves``, who answers requests to it."""
        return self._thread.run(self._inner.explain(topic, origin))

    def trace(self, event: EventId) -> EventWay:
        """The way of one event: when it came to each node, and who got it, as far as nodes remember."""
        return self._thread.run(self._inner.trace(event))

    def keys(self, key: str = "") -> list[KeyInfo]:
        """List the API keys of the mesh as the node knows them, or only the one with this id. Needs the right to
        administer."""
        return self._thread.run(self._inner.keys(key))

    def create_key(
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
        return self._thread.run(
            self._inner.create_key(
                name, publish=publish, subscribe=subscribe, admin=admin, expires_s=expires_s, quota=quota, groups=groups
            )
        )

    def revoke_key(self, key: str) -> KeyInfo:
        """Revoke an API key by its id, everywhere and for good. Needs the right to administer."""
        return self._thread.run(self._inner.revoke_key(key))

    def leave(self) -> str:
        """Make the node leave the mesh and stop, as SIGTERM does; return its id. Needs the right to administer.

        The client has to be connected to that node only.
        """
        return self._thread.run(self._inner.leave())


def connect(nodes: str | Sequence[str] | None = None, **options: Any) -> Client:
    """Connect to a mesh; takes what ``weft.connect`` takes."""
    return Client(asynchronous.connect(nodes, **options))


async def _connected(connecting: asynchronous.Connecting) -> AsyncClient:
    return await connecting
