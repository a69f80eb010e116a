"""Weft as its users drive it: ``weft up`` in a process of its own, and the SDK."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from bench.mesh_nodes import AS_USERS_START, Place, insecure_pair, secured_pair
from bench.systems import (
    CALL_EVENTS,
    CALLS_IN_FLIGHT,
    DONE_S_MAX,
    PAYLOAD,
    Crowd,
    Sample,
    Stopwatch,
    System,
    flood_sample,
    paced_sample,
    replayed,
)

import weft
from tests.up import COMMAND, RunningNode, up
from weft.client import Client, NoServer, Subscription
from weft.load.work import BatchCalls, Budget, in_batches, one_by_one, singles

BURST = 4_096  # single events; one ticket of so many is awaited
BURSTS_MAX = 16
WARM_UP_S = 0.5  # of two nodes with a link


def fixed() -> bytes:
    """The payload where it does not matter which event it was."""
    return PAYLOAD


def no_record(took_s: float) -> None:
    """Where only the rate counts."""


class Weft(System):
    """One node. Works of the same kind in later rounds have topics of their own."""

    def __init__(self, node: RunningNode, ready_s: float, is_secured: bool, place: Path) -> None:
        self.node, self.pid, self.ready_s, self.is_secured = node, node.process.pid, ready_s, is_secured
        self._place, self._stack = place, ExitStack()
        self._pair: tuple[Place, Place] | None = None  # for the hop
        self._clients: list[Client] = []
        self._topics = 0
        self._stored = ""  # the topic to replay

    @classmethod
    @asynccontextmanager
    async def started(cls, place: Path, is_secured: bool = False) -> AsyncIterator[Weft]:
        flags = () if is_secured else ("--insecure",)
        begin = time.perf_counter()
        with up(place / "node", *flags, environ=AS_USERS_START) as node:
            system = cls(node, time.perf_counter() - begin, is_secured, place)
            with system._stack:
                yield system
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
        clients, topics = await self._connect(connections), [self._fresh()]
        await asyncio.gather(*(client.publish(topics[0], PAYLOAD) for client in clients))
        times: list[float] = []
        begin = time.perf_counter()
        budget = Budget(seconds=seconds)
        await asyncio.gather(*(one_by_one(client, topics, fixed, budget, times.append) for client in clients))
        return Sample(len(times), time.perf_counter() - begin, {"receipt": times})

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        (publisher,) = await self._connect(1)
        return await paced(publisher, await self._connect(subscribers), self._fresh(), seconds, rate)

    async def hop(self, seconds: float, rate: float) -> Sample:
        """Two more nodes with a link between them, of which this row alone has need."""
        is_new = self._pair is None
        if self._pair is None:
            pair = secured_pair if self.is_secured else insecure_pair
            self._pair = self._stack.enter_context(pair(self._place))
        near, far = self._pair
        async with near.client() as publisher, far.client() as reader:
            if is_new:  # as for all systems: what a first client has loaded is not the cost of any event
                await paced(publisher, [reader], self._fresh(), WARM_UP_S, rate)
            return await paced(publisher, [reader], self._fresh(), seconds, rate)

    async def singles(self, seconds: float, topics: int) -> Sample:
        (client,) = await self._connect(1)
        names, in_flight = [f"bench.turn{topic}" for topic in range(topics)], BURST * BURSTS_MAX
        await singles(client, names, fixed, Budget(events=topics), no_record, in_flight)
        budget = Budget(seconds=seconds)
        begin = time.perf_counter()
        await singles(client, names, fixed, budget, no_record, in_flight, BURST)
        return Sample(budget.sent, time.perf_counter() - begin)

    async def thousands(self, seconds: float) -> Sample:
        (client,) = await self._connect(1)
        budget = Budget(seconds=seconds)
        begin = time.perf_counter()
        await in_batches(client, [self._fresh()], fixed, budget, no_record, CALL_EVENTS, CALLS_IN_FLIGHT)
        return Sample(budget.sent, time.perf_counter() - begin)

    async def blobs(self, seconds: float) -> Sample:
        return await self.thousands(seconds)  # to Weft a batch is both: one message, and 1,000 events

    async def replay(self, seconds: float, events: int) -> Sample:
        (client,) = await self._connect(1)
        if not self._stored:
            self._stored = self._fresh()
            budget = Budget(events=events)
            await in_batches(client, [self._stored], fixed, budget, no_record, CALL_EVENTS, CALLS_IN_FLIGHT)

        async def to_arrow() -> None:
            seen = 0
            async with client.subscribe(self._stored, start="earliest") as subscription:
                async for batch in subscription.batches():
                    seen += batch.record_batch.num_rows
                    if seen >= events:
                        return

        async def to_objects() -> None:
            seen = 0
            async with client.subscribe(self._stored, start="earliest") as subscription:
                async for _ in subscription:
                    seen += 1
                    if seen >= events:
                        return

        works = {"to Arrow": to_arrow, "to objects": to_objects}
        return Sample(values={name: await replayed(seconds / 2, events, read) for name, read in works.items()})

    async def flood(self, seconds: float, subscribers: int) -> Sample:
        topic, crowd = self._fresh(), Crowd(subscribers)
        (publisher,) = await self._connect(1)
        subscriptions = await subscribed(await self._connect(subscribers), topic)

        async def read(number: int, subscription: Subscription) -> None:
            async for batch in subscription.batches():
                crowd.saw(number, batch.record_batch.num_rows)

        async with asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(read(*each)) for each in enumerate(subscriptions)]
            calls = BatchCalls(publisher, tasks, CALLS_IN_FLIGHT, no_record)
            sample = await flood_sample(seconds, crowd, lambda _: calls.publish(topic, PAYLOAD, CALL_EVENTS))
            for reader in readers:
                reader.cancel()
        return sample

    async def asking(self, seconds: float) -> Sample:
        """Without the log, as NATS does it."""
        asker, server = await self._connect(2)
        topic, times = self._fresh(), list[float]()
        serving = server.serve(topic, lambda request: request.payload)
        try:
            async with asyncio.timeout(DONE_S_MAX):
                while not await is_served(asker, topic):
                    await asyncio.sleep(0.02)
            begin = time.perf_counter()
            while (sent := time.perf_counter()) < begin + seconds:
                await asker.request(topic, PAYLOAD, durable=False)
                times.append(time.perf_counter() - sent)
            return Sample(len(times), time.perf_counter() - begin, {"receipt": times})
        finally:
            await serving.close()

    async def commands(self) -> Sample:
        flags = () if self.is_secured else self.node.flags
        environ = {**os.environ, "WEFT_CONFIG_DIR": str(self.node.config)}
        wanted = {"weft --help": ("--help",), "weft pub": ("pub", *flags, "bench.command", "21.5")}
        spent_s = {name: await asyncio.to_thread(command_cpu_s, words, environ) for name, words in wanted.items()}
        return Sample(values=spent_s)


async def is_served(client: Client, topic: str) -> bool:
    try:
        await client.request(topic, PAYLOAD, durable=False)
        return True
    except NoServer:
        return False


async def paced(publisher: Client, readers: Sequence[Client], topic: str, seconds: float, rate: float) -> Sample:
    """Publish at a rate by one client, read by others."""
    watch = Stopwatch()
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

    for subscription in await subscribed(readers, topic):
        spawn(read(subscription))
    await publisher.publish(topic, b"the stream is known to all before it counts")
    try:
        return await paced_sample(seconds, rate, len(readers), watch, lambda: spawn(publish()))
    finally:
        for task in tasks:
            task.cancel()


async def subscribed(clients: Sequence[Client], topic: str) -> list[Subscription]:
    """An open subscription of each."""
    made = [client.subscribe(topic, start="earliest") for client in clients]
    for subscription in made:
        await subscription.opened()
    return made


def command_cpu_s(words: Sequence[str], environ: Mapping[str, str]) -> float:
    """What a ``weft`` command takes of the processor, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*COMMAND, *words], check=True, env=environ, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
