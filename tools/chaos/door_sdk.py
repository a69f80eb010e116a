"""The SDK's door: publishers, readers, members of a group, keys and values."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import weft
from tools.chaos.load import Ends, Load, step_over
from weft.client import Backpressure, Client, Connecting, LogCorrupt, NotAllowed, Received, Unauthenticated
from weft.errors import WeftError
from weft.model import Epoch, NodeId, Position, Receipt, Stream, Topic

GROUP: Final = "workers"
WORK: Final = "chaos.sdk0.>"  # what the group reads
READ: Final = "chaos.>"
BUCKET: Final = "chaos"
KEYS: Final = 40
NACKED: Final = 0.02
POISON: Final = 400  # one event of so many is refused each time
PUT_S: Final = 8.0
KV_RATE: Final = 8.0
LAST_RECEIPTS_S: Final = 150.0


def receipt_facts(receipt: Receipt) -> dict[str, Any]:
    stream = receipt.stream
    place = [str(stream.topic), str(stream.origin), stream.partition, receipt.epoch, receipt.first_offset]
    return {"place": place, "copies": receipt.copies}


def event_facts(event: Received) -> dict[str, Any]:
    stream = event.stream
    place = [str(stream.topic), str(stream.origin), stream.partition, event.epoch, event.offset]
    return {"place": place, "text": event.payload.decode(errors="replace")}


async def publish(load: Load) -> None:
    """Single events with many under way, as services do."""
    await _publish(load, 1)


async def publish_safely(load: Load) -> None:
    """Each receipt waits for two nodes."""
    await _publish(load, 2)


async def publish_as_guest(load: Load) -> None:
    """At the node that stays for a while only. It has the address of that node from its environment. What the node
    has when it leaves is on another one too."""
    tls = weft.TlsFiles(Path(load.settings.root))
    guest = weft.connect([os.environ["CHAOS_GUEST"]], tls=tls, token=load.settings.token, learns=False)
    await _publish(load, 2, guest)


async def _publish(load: Load, copies: int, connecting: Connecting | None = None) -> None:
    waiting: set[asyncio.Task[None]] = set()
    async with connecting or load.client() as client:
        async for number in load.paced(load.settings.rate):
            mark = load.mark(number)
            load.journal.note("tried", id=mark, topic=load.topic(number))
            try:
                ticket = client.publish_nowait(load.topic(number), mark, copies=copies)
            except Backpressure:
                load.journal.note("refused", id=mark, why="Backpressure")
                await load.rest(1.0)
                continue
            task = asyncio.create_task(_receive(load, mark, ticket))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        if waiting:
            await asyncio.wait(waiting, timeout=LAST_RECEIPTS_S)


async def _receive(load: Load, mark: str, ticket: Any) -> None:
    try:
        load.journal.note("acked", id=mark, **receipt_facts(await ticket))
    except WeftError as error:
        load.journal.note("failed", id=mark, why=type(error).__name__)


async def publish_until_refused(load: Load) -> None:
    """With a key that is revoked at some time; it is in the environment, not in a file."""
    async with load.client(token=os.environ["CHAOS_KEY"]) as client:
        async for number in load.paced(10.0):
            mark = load.mark(number)
            load.journal.note("tried", id=mark, topic=load.topic(number))
            try:
                async with asyncio.timeout(20):
                    load.journal.note("acked", id=mark, **receipt_facts(await client.publish(load.topic(number), mark)))
            except (Unauthenticated, NotAllowed) as error:
                load.journal.note("shut_out", id=mark, why=type(error).__name__)
                return
            except (WeftError, TimeoutError) as error:
                load.journal.note("failed", id=mark, why=type(error).__name__)


async def read(load: Load) -> None:
    """Everything, from the beginning, over what repairs have given up."""
    async with load.client() as client, asyncio.TaskGroup() as group:
        reading = group.create_task(_read(load, client))
        await load.over.wait()
        reading.cancel()


async def _read(load: Load, client: Client) -> None:
    ends: Ends = {}
    while True:
        places = [
            Position(Stream(Topic(topic), NodeId(origin), partition), Epoch(epoch), end)
            for (topic, origin, partition, epoch), end in ends.items()
        ]
        try:
            async with client.subscribe(READ, start=places or "earliest") as events:
                async for event in events:
                    facts = event_facts(event)
                    load.journal.note("delivered", **facts)
                    *stream, offset = facts["place"]
                    ends[tuple(stream)] = offset + 1
        except LogCorrupt as error:
            load.journal.note("subscription_ended", why=str(error))
            step_over(ends, str(error))
            await load.rest(1.0)


async def work(load: Load) -> None:
    """A member of a group that settles each event, and cannot handle some."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(load.client())
        events = client.subscribe(
            WORK,
            group=GROUP,
            member=load.name,
            start="earliest",
            commit="manual",
            max_deliveries=3,
            retry_s=(0.5, 2.0),
            retry="set_aside",
        )
        await stack.enter_async_context(events)
        async with asyncio.TaskGroup() as group:
            working = group.create_task(_work(load, events))
            await load.over.wait()
            working.cancel()


async def _work(load: Load, events: Any) -> None:
    async for event in events:
        facts = event_facts(event)
        number = int(facts["text"].strip("#").split("/")[1])
        if number % POISON == 7 or load.chance.random() < NACKED:
            load.journal.note("nacked", **facts)
            await events.nack(event, reason="chaos")
        else:
            load.journal.note("handled", **facts)  # before the acknowledgement: it is done
            await events.ack(event)


async def put(load: Load) -> None:
    """Keys are written at every node, so nodes write the same keys at the same time."""
    async with AsyncExitStack() as stack:
        writers = []
        for name in load.settings.nodes:
            writers.append((name, await stack.enter_async_context(load.client(name))))
        waiting: set[asyncio.Task[None]] = set()
        async for number in load.paced(KV_RATE):
            name, client = load.chance.choice(writers)
            key = f"k{load.chance.randrange(KEYS)}"
            task = asyncio.create_task(_put(load, name, client.kv(BUCKET), key, load.mark(number)))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        if waiting:
            await asyncio.wait(waiting, timeout=PUT_S * 2)


async def _put(load: Load, node: str, bucket: Any, key: str, value: str) -> None:
    load.journal.note("put", node=node, key=key, value=value)
    try:
        async with asyncio.timeout(PUT_S):
            revision = await bucket.put(key, value)
        load.journal.note("put_acked", node=node, key=key, value=value, revision=str(revision))
    except (WeftError, TimeoutError) as error:
        load.journal.note("put_failed", node=node, key=key, value=value, why=type(error).__name__)
