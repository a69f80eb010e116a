"""How one client puts load on a mesh. What is recorded of each receipt is for the caller to say."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Final

from weft.client import Backpressure, Client, Published
from weft.model import Batch

BURST: Final = 64  # single events in flight with one time stamp, and one receipt that is measured
STAMP: Final = struct.Struct("<8sQ")  # which run, and when in ns

Record = Callable[[float], None]  # how many seconds a receipt took
MakePayload = Callable[[], bytes]


class Budget:
    """How long a load lasts: a number of seconds or of events, whichever ends first."""

    def __init__(self, *, seconds: float | None = None, events: int | None = None) -> None:
        self.sent = 0
        self._events = events
        self._end_s = None if seconds is None else time.perf_counter() + seconds

    def take(self, wanted: int) -> int:
        """Take this many events from the budget, or as many as are left; 0 if it is used up."""
        if self._end_s is not None and time.perf_counter() >= self._end_s:
            return 0
        given = wanted if self._events is None else min(wanted, self._events - self.sent)
        self.sent += given
        return given


class Payloads:
    """Payloads that tell when they were made, and in which run: other clocks than ours are not compared with."""

    def __init__(self, run: bytes, size: int) -> None:
        self._run = run
        self._filler = b"." * (size - STAMP.size)
        self.is_stamped = size >= STAMP.size
        self._plain = b"." * size

    def make(self) -> bytes:
        return STAMP.pack(self._run, time.perf_counter_ns()) + self._filler if self.is_stamped else self._plain

    def age_s(self, payload: bytes) -> float | None:
        """The time since it was made; None for a payload that this run did not make."""
        if not self.is_stamped or len(payload) < STAMP.size:
            return None
        run, begun_ns = STAMP.unpack_from(payload)
        return (time.perf_counter_ns() - begun_ns) / 1e9 if run == self._run else None


async def one_by_one(client: Client, topics: Sequence[str], make: MakePayload, budget: Budget, record: Record) -> None:
    """Publish, wait for the receipt, publish the next."""
    for topic in cycle(topics):
        if not budget.take(1):
            return
        begin = time.perf_counter()
        await client.publish(topic, make())
        record(time.perf_counter() - begin)


async def singles(
    client: Client,
    topics: Sequence[str],
    make: MakePayload,
    budget: Budget,
    record: Record,
    in_flight: int,
    burst: int = BURST,
) -> None:
    """Single events, to the topics in turn, without waiting for each. A burst has one payload, and the receipt of its
    last event is recorded."""
    burst = min(burst, in_flight)
    room, names = asyncio.Semaphore(max(in_flight // burst, 1)), cycle(topics)

    async def settle(begin: float, ticket: Published) -> None:
        try:
            await ticket
            record(time.perf_counter() - begin)
        finally:
            room.release()

    async with asyncio.TaskGroup() as tasks:
        while count := budget.take(burst):
            await room.acquire()
            payload, begin = make(), time.perf_counter()
            for topic in islice(names, count):
                try:
                    ticket = client.publish_nowait(topic, payload)
                except Backpressure:
                    ticket = await publish_soon(client, topic, payload)
            tasks.create_task(settle(begin, ticket))


async def publish_soon(client: Client, topic: str, payload: bytes) -> Published:
    """As ``publish_nowait``, once there is room."""
    while True:
        try:
            return client.publish_nowait(topic, payload)
        except Backpressure:
            await client.wait_for_room()


class BatchCalls:
    """Calls with a batch each, some of them under way at once."""

    def __init__(self, client: Client, tasks: asyncio.TaskGroup, calls: int, record: Record) -> None:
        self._client, self._tasks, self._record = client, tasks, record
        self._room = asyncio.Semaphore(calls)

    async def publish(self, topic: str, payload: bytes, count: int) -> None:
        """So many events, made into a batch as an application would, once there is room for one more call."""
        await self._room.acquire()
        self._tasks.create_task(self._call(topic, payload, count))

    async def _call(self, topic: str, payload: bytes, count: int) -> None:
        try:
            begin = time.perf_counter()
            await self._client.publish_batch(topic, Batch.from_columns([payload] * count, time.time_ns() // 1000))
            self._record(time.perf_counter() - begin)
        finally:
            self._room.release()


async def in_batches(
    client: Client, topics: Sequence[str], make: MakePayload, budget: Budget, record: Record, batch: int, calls: int
) -> None:
    async with asyncio.TaskGroup() as tasks:
        under_way = BatchCalls(client, tasks, calls, record)
        for topic in cycle(topics):
            if not (count := budget.take(batch)):
                return
            await under_way.publish(topic, make(), count)


async def at_rate(calls_per_s: float, call: Callable[[], bool]) -> None:
    """An open loop: call at fixed times, however long calls take, until one returns False."""
    begin = time.perf_counter()
    number = 0
    while call():
        number += 1
        if (wait_s := begin + number / calls_per_s - time.perf_counter()) > 0:
            await asyncio.sleep(wait_s)


async def paced(
    client: Client,
    topics: Sequence[str],
    make: MakePayload,
    budget: Budget,
    record: Record,
    batch: int,
    calls_per_s: float,
) -> None:
    """Hand in at a rate, whether or not anything has arrived, as devices and people do."""
    names = cycle(topics)

    async def publish(topic: str, payload: bytes, count: int) -> None:
        begin = time.perf_counter()
        if batch == 1:
            await client.publish(topic, payload)
        else:
            await client.publish_batch(topic, Batch.from_columns([payload] * count, time.time_ns() // 1000))
        record(time.perf_counter() - begin)

    async with asyncio.TaskGroup() as tasks:

        def call() -> bool:
            if count := budget.take(batch):
                tasks.create_task(publish(next(names), make(), count))
            return count > 0

        await at_rate(calls_per_s, call)
