"""Weft as its users drive it: ``weft up`` in a process of its own, and the SDK."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.systems import CALL_EVENTS, CALLS_IN_FLIGHT, PAYLOAD, Sample, Stopwatch, System, paced_sample

import weft
from tests.up import RunningNode, up
from weft.client import Backpressure, Client, Published, Subscription
from weft.model import Batch

TICKET_EVERY = 4_096  # events; one ticket of so many is awaited
TICKETS_MAX = 16
PAYLOADS = [PAYLOAD] * CALL_EVENTS


class Weft(System):
    """One node. Works of the same kind in later rounds have topics of their own."""

    def __init__(self, node: RunningNode, ready_s: float, is_secured: bool) -> None:
        self.node, self.pid, self.ready_s, self.is_secured = node, node.process.pid, ready_s, is_secured
        self._clients: list[Client] = []
        self._topics = 0

    @classmethod
    @asynccontextmanager
    async def started(cls, place: Path, is_secured: bool = False) -> AsyncIterator[Weft]:
        flags = ("--log-level", "info") if is_secured else ("--log-level", "info", "--insecure")
        begin = time.perf_counter()
        with up(place, *flags) as node:
            system = cls(node, time.perf_counter() - begin, is_secured)
            try:
                yield system
            finally:
                await system.close()
                await asyncio.to_thread(node.end)

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients))
        self._clients.clear()

    async def _connect(self, count: int) -> list[Client]:
        """Clients with a connection each, which is open."""
        made = []
        for _ in range(count):
            made.append(await (self.node.client() if self.is_secured else weft.connect(self.node.grpc, insecure=True)))
        self._clients += made
        return made

    def _fresh(self) -> str:
        self._topics += 1
        return f"bench.t{self._topics}"

    async def lone(self, seconds: float) -> Sample:
        return await self.waiting(seconds, 1)

    async def waiting(self, seconds: float, connections: int) -> Sample:
        clients, topic = await self._connect(connections), self._fresh()
        await asyncio.gather(*(client.publish(topic, PAYLOAD) for client in clients))
        times: list[float] = []
        begin = time.perf_counter()
        end = begin + seconds

        async def publish(client: Client) -> None:
            now = time.perf_counter()
            while (sent := now) < end:
                await client.publish(topic, PAYLOAD)
                now = time.perf_counter()
                times.append(now - sent)

        await asyncio.gather(*map(publish, clients))
        return Sample(len(times), time.perf_counter() - begin, {"receipt": times})

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        topic, watch = self._fresh(), Stopwatch()
        (publisher,) = await self._connect(1)
        tasks: set[asyncio.Task[None]] = set()

        async def read(subscription: Subscription) -> None:
            async for event in subscription:
                if event.offset:
                    watch.delivery(event.payload)

        async def publish() -> None:
            number, payload = watch.hand_in()
            await publisher.publish(topic, payload)
            watch.receipt(number)

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            task = asyncio.create_task(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        for subscription in await self._subscribe(topic, subscribers):
            spawn(read(subscription))
        await publisher.publish(topic, b"the stream is known to all before it counts")
        try:
            return await paced_sample(seconds, rate, subscribers, watch, lambda: spawn(publish()))
        finally:
            for task in tasks:
                task.cancel()

    async def _subscribe(self, topic: str, count: int) -> list[Subscription]:
        made = [client.subscribe(topic, start="earliest") for client in await self._connect(count)]
        for subscription in made:
            await subscription.opened()
        return made

    async def singles(self, seconds: float, topics: int) -> Sample:
        (client,) = await self._connect(1)
        first = self._fresh()
        names = [f"{first}.{topic}" for topic in range(topics)]
        for name in names:
            await self._publish_nowait(client, name)
        await client.flush()
        tickets: deque[Published] = deque()
        sent = 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            for number in range(sent, sent + TICKET_EVERY):
                try:
                    ticket = client.publish_nowait(names[number % topics], PAYLOAD)
                except Backpressure:
                    ticket = await self._publish_nowait(client, names[number % topics])
            sent += TICKET_EVERY
            tickets.append(ticket)
            if len(tickets) > TICKETS_MAX:
                await tickets.popleft()
        await client.flush()
        return Sample(sent, time.perf_counter() - begin)

    @staticmethod
    async def _publish_nowait(client: Client, topic: str) -> Published:
        while True:
            try:
                return client.publish_nowait(topic, PAYLOAD)
            except Backpressure:
                await client.wait_for_room()

    async def thousands(self, seconds: float) -> Sample:
        """Batches of 1,000 events, built as they go."""
        (client,) = await self._connect(1)
        topic, room, sent = self._fresh(), asyncio.Semaphore(CALLS_IN_FLIGHT), 0

        async def publish() -> None:
            try:
                await client.publish_batch(topic, Batch.from_columns(PAYLOADS, time.time_ns() // 1000))
            finally:
                room.release()

        begin = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            while time.perf_counter() - begin < seconds:
                await room.acquire()
                tasks.create_task(publish())
                sent += CALL_EVENTS
        return Sample(sent, time.perf_counter() - begin)

    async def blobs(self, seconds: float) -> Sample:
        return await self.thousands(seconds)  # to Weft a batch is both: one message, and 1,000 events
