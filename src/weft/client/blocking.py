"""The blocking twin of the client: the same names, plain iterators and context managers, for programs without asyncio.

Every client has one private thread with an event loop, on which the asyncio client runs; calls wait for it. Any number
of threads may use one client. A subscription is for one thread at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from weft.client import client as asynchronous
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
from weft.client.background import begin
from weft.client.chunk import Published, Whole
from weft.client.failing import WINDOW, Retry
from weft.client.fetch import FetchRange
from weft.client.kv import Bucket as AsyncBucket
from weft.client.kv import BucketInfo, Expected, KvEntry
from weft.client.kv import KvWatch as AsyncKvWatch
from weft.client.loop_thread import LoopThread
from weft.client.received import Received, ReceivedBatch
from weft.client.requests import Reply
from weft.client.requests import Request as AsyncRequest
from weft.client.requests import Server as AsyncServer
from weft.client.schedules import CatchUp, ScheduleInfo
from weft.client.start import Where
from weft.client.subscription import Commit
from weft.client.subscription import Subscription as AsyncSubscription
from weft.client.ways import EventWay
from weft.model import EventId, Position, Receipt, Stream
from weft.model.dead_letters import DeadLetter
from weft.model.key_info import KeyInfo
from weft.model.key_value import HISTORY, Revision
from weft.model.later import Waiting

if TYPE_CHECKING:
    from weft.client.schemas import CheckedEvents, SchemaKind, SchemaMode, SchemaRule, TopicSchema
    from weft.client.schemas import Schemas as AsyncSchemas
    from weft.schema.inference import Inferred
    from weft.schema.values import Schema


class Subscription:
    """Events that match a pattern, as a plain iterator. In a group, events are handled when their batch is through."""

    def __init__(self, thread: LoopThread, inner: AsyncSubscription) -> None:
        self._thread = thread
        self._inner = inner
        self._events: Iterator[Received] = iter(())
        self._last: Received | None = None  # the event in hand
        self._done: Received | None = None  # the one before it, which is done with

    def opened(self, timeout_s: float | None = None) -> None:
        """Wait until a node has accepted it."""
        self._thread.run(self._inner.opened(), timeout_s)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout_s: float | None = None) -> Received | None:
        """The next event; None after ``close``; TimeoutError if none came in time."""
        event = next(self._events, None)
        while event is None:
            batch = self._thread.run(self._inner.next_batch(), timeout_s)
            if batch is None:
                return None
            self._events, self._last = iter(batch.events()), None
            event = next(self._events, None)
        self._done, self._last = self._last, event
        return event

    def batches(self) -> Iterator[ReceivedBatch]:
        """The same as Arrow, a batch at a time. Not to be mixed with iterating over events."""
        while (batch := self._thread.run(self._inner.next_batch())) is not None:
            yield batch

    def handled(self, what: Received | ReceivedBatch | Position) -> None:
        self._thread.run(self._inner.handled(what))

    def ack(self, event: Received) -> None:
        """This event is done with."""
        self._thread.run(self._inner.ack(event))

    def nack(self, event: Received, *, delay_s: float | None = None, reason: str = "") -> None:
        """This event could not be handled: it comes again later, or becomes a dead letter."""
        self._thread.run(self._nack(event, delay_s, reason))

    async def _nack(self, event: Received, delay_s: float | None, reason: str) -> None:
        if self._last is not None and self._last.position.stream == event.stream:
            self._inner.put_back(self._last.offset + 1)  # not handed out before the event comes again
            self._events = iter(())
        await self._inner.nack(event, delay_s=delay_s, reason=reason)

    def close(self) -> None:
        if self._done is not None and self._inner.commit == "auto":
            self._thread.run(self._inner.handled(self._done))
        self._thread.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Request:
    """A request that was received; answer it with ``reply``, once or several times, or ``fail``."""

    def __init__(self, thread: LoopThread, inner: AsyncRequest) -> None:
        self._thread = thread
        self._inner = inner
        self.topic = inner.topic
        self.payload = inner.payload
        self.headers = inner.headers
        self.timeout_s = inner.timeout_s
        self.durable = inner.durable

    @property
    def is_over(self) -> bool:
        return self._inner.is_over

    def reply(
        self, payload: bytes | str, *, headers: Mapping[str, str] | None = None, last: bool = True
    ) -> Receipt | None:
        return self._thread.run(self._inner.reply(payload, headers=headers, last=last))

    def end(self) -> None:
        self._thread.run(self._inner.end())

    def fail(self, reason: str) -> None:
        self._thread.run(self._inner.fail(reason))


class Server:
    """Serves requests by a function, which is called in threads, one for each request at once."""

    def __init__(self, thread: LoopThread, pattern: str, handler: Callable[[Request], Any], concurrency: int) -> None:
        """For ``Client.serve``."""
        self._thread = thread
        self._handler = handler
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix=f"weft serve {pattern}")
        self._inner: AsyncServer

    async def begin(self, client: asynchronous.Client, pattern: str, concurrency: int) -> None:
        self._inner = client.serve(pattern, self._handle, concurrency=concurrency)

    async def _handle(self, inner: AsyncRequest) -> Any:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._pool, self._handler, Request(self._thread, inner))
        return self._each(result) if isinstance(result, Iterator) else result

    async def _each(self, replies: Iterator[Any]) -> AsyncIterator[Any]:
        loop, end = asyncio.get_running_loop(), object()
        while (reply := await loop.run_in_executor(self._pool, next, replies, end)) is not end:
            yield reply

    def opened(self, timeout_s: float | None = None) -> None:
        """Wait until a node knows of it."""
        self._thread.run(self._inner.opened(), timeout_s)

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it is closed; raise why it cannot go on, or TimeoutError after that time."""
        self._thread.run(self._inner.wait(), timeout_s)

    def close(self, timeout_s: float = 10.0) -> None:
        """Take no more requests, finish those in hand within that time, and go."""
        self._thread.run(self._inner.close(timeout_s))
        self._pool.shutdown(wait=False)

    def __enter__(self) -> Self:
        self.opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Schemas:
    """The schemas of topics."""

    def __init__(self, thread: LoopThread, inner: AsyncSchemas) -> None:
        self._thread = thread
        self._inner = inner

    def list(self) -> list[TopicSchema]:
        return self._thread.run(self._inner.list())

    def get(self, pattern: str) -> TopicSchema:
        return self._thread.run(self._inner.get(pattern))

    def of_topic(self, topic: str) -> TopicSchema | None:
        return self._thread.run(self._inner.of_topic(topic))

    def set(
        self,
        pattern: str,
        schema: str | Schema | None = None,
        *,
        kind: SchemaKind | None = None,
        mode: SchemaMode | None = None,
        compatibility: SchemaRule | None = None,
        dry_run: bool = False,
    ) -> TopicSchema:
        work = self._inner.set(pattern, schema, kind=kind, mode=mode, compatibility=compatibility, dry_run=dry_run)
        return self._thread.run(work)

    def check(self, pattern: str, schema: Schema | None = None, *, last: int = 1000) -> CheckedEvents:
        return self._thread.run(self._inner.check(pattern, schema, last=last))

    def infer(self, pattern: str, *, last: int = 1000) -> Inferred:
        return self._thread.run(self._inner.infer(pattern, last=last))

    def remove(self, pattern: str) -> None:
        self._thread.run(self._inner.remove(pattern))


class Bucket:
    """A bucket of keys and values."""

    def __init__(self, thread: LoopThread, inner: AsyncBucket) -> None:
        self._thread = thread
        self._inner = inner
        self.name = inner.name

    def get(self, key: str, *, at_least: Revision | str | None = None) -> KvEntry | None:
        return self._thread.run(self._inner.get(key, at_least=at_least))

    def keys(self, pattern: str = ">") -> list[str]:
        return self._thread.run(self._inner.keys(pattern))

    def entries(self, pattern: str = ">") -> list[KvEntry]:
        return self._thread.run(self._inner.entries(pattern))

    def history(self, key: str) -> list[KvEntry]:
        return self._thread.run(self._inner.history(key))

    def watch(self, pattern: str = ">", *, snapshot: bool = True) -> KvWatch:
        async def open_it() -> AsyncKvWatch:
            return self._inner.watch(pattern, snapshot=snapshot)

        return KvWatch(self._thread, self._thread.run(open_it()))

    def put(
        self,
        key: str,
        value: bytes | str,
        *,
        ttl: float | None = None,
        if_revision: Expected | None = None,
        copies: int = 0,
    ) -> Revision:
        return self._thread.run(self._inner.put(key, value, ttl=ttl, if_revision=if_revision, copies=copies))

    def delete(self, key: str, *, if_revision: Expected | None = None, copies: int = 0) -> Revision:
        return self._thread.run(self._inner.delete(key, if_revision=if_revision, copies=copies))

    def configure(self, *, owner: str = "", history: int = HISTORY, force: bool = False) -> None:
        self._thread.run(self._inner.configure(owner=owner, history=history, force=force))


class KvWatch:
    """Changes of a bucket, as a plain iterator."""

    def __init__(self, thread: LoopThread, inner: AsyncKvWatch) -> None:
        self._thread = thread
        self._inner = inner

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> KvEntry:
        return self.next()

    def opened(self) -> None:
        """Wait until a node tells of changes."""
        self._thread.run(self._inner.opened())

    def next(self, timeout_s: float | None = None) -> KvEntry:
        """The next change. TimeoutError if none came in time: then the watch is over."""
        return self._thread.run(self._inner.__anext__(), timeout_s)

    def close(self) -> None:
        self._thread.run(self._inner.close())

    def __enter__(self) -> Self:
        self.opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Ahead:
    """An asynchronous iterator whose next item is always on its way. Its methods are run on the client's thread; each
    time that is asked costs as much as some hundred events, so an item and its being the last are told together."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self._coming = begin(asyncio.get_running_loop(), _next(items))
        self.is_over = False

    @classmethod
    async def begun(cls, items: AsyncIterator[Any]) -> Ahead:
        return cls(items)

    async def take(self) -> Any:
        """The next item; None if there is none."""
        item = await self._taken()
        if item is not None:
            self._coming = begin(asyncio.get_running_loop(), _next(self._items))
            await asyncio.sleep(0)  # an iterator that is through says so at once
            if self._coming.done() and isinstance(self._coming.exception(), StopAsyncIteration):
                self.is_over = True
        return item

    async def _taken(self) -> Any:
        try:
            return await self._coming
        except BaseException as error:
            self.is_over = True
            if isinstance(error, StopAsyncIteration):
                return None
            raise

    async def close(self) -> None:
        """First what is on its way, then the iterator, which must not be at work when it is closed."""
        self._coming.cancel()
        await asyncio.gather(self._coming, return_exceptions=True)
        await self._items.aclose()


class Client:
    """A connection to a mesh. Close it, or use it with ``with``."""

    def __init__(self, connecting: asynchronous.Connecting) -> None:
        """For ``connect``."""
        self._inner: asynchronous.Client | None = None
        self._thread = LoopThread(self.close)
        try:
            self._client = self._inner = self._thread.run(_connected(connecting))
        except BaseException:
            self._thread.stop()
            raise
        self.id = self._client.id

    # --- publishing ------------------------------------------------------------------------------------------------

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
        """Publish one event and wait for its receipt. After TimeoutError it may still be published."""
        work = self._client.publish(
            topic,
            payload,
            key=key,
            headers=headers,
            timestamp_us=timestamp_us,
            copies=copies,
            deliver_at=deliver_at,
            delay=delay,
        )
        return self._thread.run(work, timeout_s)

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

        async def take() -> Published:
            return self._client.publish_nowait(
                topic,
                payload,
                key=key,
                headers=headers,
                timestamp_us=timestamp_us,
                copies=copies,
                deliver_at=deliver_at,
                delay=delay,
            )

        return self._thread.submit(_receipt(self._thread.run(take())))

    def publish_batch(
        self,
        topic: str,
        data: Whole,
        *,
        partition: int | None = None,
        copies: int = 0,
        timeout_s: float | None = None,
    ) -> Receipt:
        return self._thread.run(self._client.publish_batch(topic, data, partition=partition, copies=copies), timeout_s)

    def publish_batch_nowait(
        self, topic: str, data: Whole, *, partition: int | None = None, copies: int = 0
    ) -> Future[Receipt]:
        """As ``publish_batch``, with a future for the receipt."""
        return self._thread.submit(self._client.publish_batch(topic, data, partition=partition, copies=copies))

    def wait_for_room(self, timeout_s: float | None = None) -> None:
        self._thread.run(self._client.wait_for_room(), timeout_s)

    def flush(self, timeout_s: float | None = None) -> None:
        self._thread.run(self._client.flush(), timeout_s)

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
        async def open_it() -> AsyncSubscription:
            return self._client.subscribe(
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
            )

        return Subscription(self._thread, self._thread.run(open_it()))

    def run(
        self, handler: Callable[[Received], None], pattern: str, *, group: str, concurrency: int = 10, **options: Any
    ) -> None:
        """Have a function called with every event, on up to ``concurrency`` threads, until the client is closed. Takes
        what ``weft.Client.run`` takes."""
        with ThreadPoolExecutor(concurrency, "weft-handler") as threads:

            async def handle(event: Received) -> None:
                await asyncio.get_running_loop().run_in_executor(threads, handler, event)

            work = self._client.run(handle, pattern, group=group, concurrency=concurrency, **options)
            self._thread.run(work)

    def fetch(
        self,
        stream: Stream,
        epoch: int,
        first_offset: int,
        end_offset: int | None = None,
        columns: Sequence[str] = (),
    ) -> Iterator[ReceivedBatch]:
        return self._each(self._thread.run(self._client.fetch(stream, epoch, first_offset, end_offset, columns)))

    def fetch_many(
        self,
        stream: Stream,
        epoch: int,
        first_offset: int,
        end_offset: int | None = None,
        columns: Sequence[str] = (),
    ) -> Iterator[list[ReceivedBatch]]:
        """As ``fetch``, but all batches of a message at once; the next message is fetched meanwhile."""
        return self.fetch_ranges([FetchRange(stream, epoch, first_offset, end_offset)], columns)

    def fetch_ranges(self, ranges: Sequence[FetchRange], columns: Sequence[str] = ()) -> Iterator[list[ReceivedBatch]]:
        """Ranges of any number of streams, one after the other in this order; the next message is fetched meanwhile."""
        ahead = self._thread.run(Ahead.begun(self._client.fetch_ranges(ranges, columns)))
        try:
            while not ahead.is_over:
                found = self._thread.run(ahead.take())
                if found is not None:
                    yield found
        finally:
            if not ahead.is_over:
                self._thread.run(ahead.close())

    # --- asking and answering each other ---------------------------------------------------------------------------

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
        """Ask one of those who serve a topic, and wait for the first reply."""
        asking = self._client.request(
            topic, payload, timeout_s=timeout_s, headers=headers, durable=durable, attempts=attempts
        )
        return self._thread.run(asking)

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
        """All replies, until the server says that there are no more. ``timeout_s``: for each of them."""
        replies = self._client.request_many(
            topic, payload, timeout_s=timeout_s, total_timeout_s=total_timeout_s, headers=headers, durable=durable
        )
        yield from self._each(replies)

    def serve(self, pattern: str, handler: Callable[[Request], Any], *, concurrency: int = 10) -> Server:
        """Have a function called, in threads, with every request to these topics that is handed to this client."""
        server = Server(self._thread, pattern, handler, concurrency)
        self._thread.run(server.begin(self._client, pattern, concurrency))
        return server

    def requests(self, pattern: str, *, concurrency: int = 10) -> Iterator[Request]:
        """The same to iterate over."""

        async def begin_it() -> AsyncServer:
            return self._client.requests(pattern, concurrency=concurrency)

        server = self._thread.run(begin_it())

        async def next_one() -> AsyncRequest | None:
            return await anext(server, None)

        try:
            while (request := self._thread.run(next_one())) is not None:
                yield Request(self._thread, request)
        finally:
            if not self._thread.is_closed:
                self._thread.run(server.close())

    # --- schemas ---------------------------------------------------------------------------------------------------

    @property
    def schemas(self) -> Schemas:
        return Schemas(self._thread, self._client.schemas)

    # --- keys and values -------------------------------------------------------------------------------------------

    def kv(self, bucket: str) -> Bucket:
        return Bucket(self._thread, self._client.kv(bucket))

    def buckets(self) -> list[BucketInfo]:
        return self._thread.run(self._client.buckets())

    # --- positions and questions -----------------------------------------------------------------------------------

    def positions(self, pattern: str, group: str = "", timestamp: datetime | None = None) -> list[StreamPositions]:
        return self._thread.run(self._client.positions(pattern, group, timestamp))

    def node_positions(self, pattern: str, group: str = "", timestamp: datetime | None = None) -> NodePositions:
        return self._thread.run(self._client.node_positions(pattern, group, timestamp))

    def commit(self, group: str, positions: Sequence[Position]) -> None:
        self._thread.run(self._client.commit(group, positions))

    def drop_group(self, group: str) -> None:
        self._thread.run(self._client.drop_group(group))

    def seek(self, group: str, pattern: str, where: Where) -> list[Position]:
        return self._thread.run(self._client.seek(group, pattern, where))

    def topics(self, pattern: str = ">") -> list[TopicInfo]:
        return self._thread.run(self._client.topics(pattern))

    def owner(self) -> str:
        return self._thread.run(self._client.owner())

    def check_publish(self, topics: Sequence[str]) -> None:
        self._thread.run(self._client.check_publish(topics))

    def status(self) -> Status:
        return self._thread.run(self._client.status())

    def peers(self) -> list[PeerInfo]:
        return self._thread.run(self._client.peers())

    def groups(self, group: str = "") -> list[GroupInfo]:
        return self._thread.run(self._client.groups(group))

    def set_group(self, group: str, policy: GroupPolicy) -> None:
        self._thread.run(self._client.set_group(group, policy))

    def dead_letters(self, group: str, event: EventId | None = None) -> list[DeadLetter]:
        return self._thread.run(self._client.dead_letters(group, event))

    def replay_dead(self, group: str, letters: Iterable[DeadLetter]) -> None:
        self._thread.run(self._client.replay_dead(group, letters))

    def drop_dead(self, group: str, letters: Iterable[DeadLetter]) -> None:
        self._thread.run(self._client.drop_dead(group, letters))

    def later(self) -> list[Waiting]:
        return self._thread.run(self._client.later())

    def cancel_later(self, event: EventId | str) -> Waiting:
        return self._thread.run(self._client.cancel_later(event))

    def schedules(self) -> list[ScheduleInfo]:
        return self._thread.run(self._client.schedules())

    def schedule(self, name: str) -> ScheduleInfo:
        return self._thread.run(self._client.schedule(name))

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
        work = self._client.add_schedule(
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
        return self._thread.run(work)

    def remove_schedule(self, name: str) -> None:
        self._thread.run(self._client.remove_schedule(name))

    def pause_schedule(self, name: str) -> None:
        self._thread.run(self._client.pause_schedule(name))

    def resume_schedule(self, name: str) -> datetime | None:
        return self._thread.run(self._client.resume_schedule(name))

    def explain(self, topic: str, origin: str = "") -> list[Recipient]:
        return self._thread.run(self._client.explain(topic, origin))

    def trace(self, event: EventId) -> EventWay:
        return self._thread.run(self._client.trace(event))

    def keys(self, key: str = "") -> list[KeyInfo]:
        return self._thread.run(self._client.keys(key))

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
        return self._thread.run(
            self._client.create_key(
                name, publish=publish, subscribe=subscribe, admin=admin, expires_s=expires_s, quota=quota, groups=groups
            )
        )

    def revoke_key(self, key: str) -> KeyInfo:
        return self._thread.run(self._client.revoke_key(key))

    def leave(self) -> str:
        return self._thread.run(self._client.leave())

    # --- life ------------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._thread.is_closed

    def close(self) -> None:
        """Drain and let go; of no effect the second time."""
        inner, self._inner = self._inner, None
        if inner is not None:
            try:
                self._thread.run(inner.close())
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _each(self, items: Any) -> Iterator[Any]:
        """An asynchronous iterator as a plain one, closed with it."""
        try:
            while True:
                try:
                    yield self._thread.run(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self._thread.run(items.aclose())


def connect(nodes: str | Sequence[str] | None = None, **options: Any) -> Client:
    """Connect to a mesh; takes what ``weft.connect`` takes."""
    return Client(asynchronous.connect(nodes, **options))


async def _connected(connecting: asynchronous.Connecting) -> asynchronous.Client:
    return await connecting


async def _receipt(published: Published) -> Receipt:
    return await published


async def _next(items: Any) -> Any:
    return await anext(items)
