"""What is done to the mesh to measure it: floods of publishes, replays, and a gentle rate for latencies.

Each function does one round and returns what it saw. The client and the node have a core each.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from weft import Client
from weft.model import Batch

PAYLOAD = os.urandom(100)
BATCH_EVENTS = 1_000
IN_FLIGHT = 64  # batches that await their receipts


@dataclass(frozen=True)
class Latencies:
    """Seconds from handing an event in: until its receipt, and until a subscriber had it."""

    receipts: Sequence[float]
    deliveries: Sequence[float]


async def publish_events(client: Client, topic: str, count: int) -> float:
    """Single events, as many under way as the client allows; events per second, each with its receipt."""
    begin = time.perf_counter()
    waiting = []
    for number in range(count):
        waiting.append(client.publish_nowait(topic, PAYLOAD))
        if number % 4096 == 4095:
            await waiting[max(0, number - 65_536)]
    await client.flush()
    await waiting[-1]
    took_s = time.perf_counter() - begin
    assert all(each.result() for each in waiting), "every event has a receipt"
    return count / took_s


async def publish_batches(client: Client, topic: str, count: int) -> float:
    """Batches of 1,000 events, built as they go; events per second."""
    payloads = [PAYLOAD] * BATCH_EVENTS
    room = asyncio.Semaphore(IN_FLIGHT)

    async def one() -> None:
        try:
            await client.publish_batch(topic, Batch.from_columns(payloads, time.time_ns() // 1000))
        finally:
            room.release()

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(count // BATCH_EVENTS):
            await room.acquire()
            tasks.create_task(one())
    return count / (time.perf_counter() - begin)


async def replay(client: Client, topic: str, count: int) -> float:
    """Everything of a topic from its beginning, decoded to Arrow; events per second."""
    begin = time.perf_counter()
    seen = 0
    async with client.subscribe(topic, start="earliest") as subscription:
        async for batch in subscription.batches():
            seen += batch.record_batch.num_rows
            if seen >= count:
                break
    return seen / (time.perf_counter() - begin)


async def publish_and_read(publisher: Client, reader: Client, topic: str, count: int) -> float:
    """Batches through the mesh to a subscriber that reads along; events per second."""
    async with reader.subscribe(topic, start="earliest") as subscription:
        await subscription.opened()
        begin = time.perf_counter()

        async def read() -> None:
            seen = 0
            async for batch in subscription.batches():
                seen += batch.record_batch.num_rows
                if seen >= count:
                    return

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            tasks.create_task(publish_batches(publisher, topic, count))
        return count / (time.perf_counter() - begin)


async def latencies(publisher: Client, reader: Client, topic: str, seconds: float, rate: float) -> Latencies:
    """An event every so often, whether or not the ones before it have arrived (an open loop)."""
    receipts: list[float] = []
    deliveries: list[float] = []
    count = int(seconds * rate)
    async with reader.subscribe(topic, start="earliest") as subscription:
        await subscription.opened()
        await publisher.publish(topic, b"0")  # the stream is known everywhere before it counts

        async def read() -> None:
            async for event in subscription:
                if event.offset:
                    deliveries.append(time.perf_counter() - float(event.payload))
                if event.offset == count:
                    return

        async def publish() -> None:
            begin = time.perf_counter()
            await publisher.publish(topic, str(begin))
            receipts.append(time.perf_counter() - begin)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            begin = time.perf_counter()
            for number in range(count):
                await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
                tasks.create_task(publish())
    return Latencies(receipts, deliveries)


async def publish_one_at_a_time(client: Client, topic: str, count: int) -> list[float]:
    """Seconds until each receipt, with nothing else under way."""
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        await client.publish(topic, PAYLOAD)
        took.append(time.perf_counter() - begin)
    return took
