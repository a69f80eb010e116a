"""What reading in a group costs, and a request: ``python -m bench.consumers [--rounds N] [--events N] [--asks N]``.

Events have 100 bytes and are there already. A group reads them, by iterating over events, with a client in this process
on uvloop and one secured node in another. By hand, each event is acknowledged by itself. A round ends when the node
has the group's position behind the last event. ``bench.asking`` says how requests are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from bench.asking import asking
from bench.figures import Figure, add_formats, report
from bench.systems import PAYLOAD

from tests.up import RunningNode, up
from weft.client import Client, Received
from weft.model import Batch

ROUNDS = 3
EVENTS = 200_000
ASKS = 2_000
BATCH_EVENTS = 1_000
GOAL_BY_HAND = 0.5  # of plain iteration
TOPIC = "bench.consumers"

Reading = Callable[[Client, str, int], Awaitable[None]]


# --- acknowledging by hand -------------------------------------------------------------------------------------------


async def plainly(client: Client, group: str, events: int) -> None:
    """An event is handled when the next is asked for."""
    async with client.subscribe(TOPIC, group=group, start="earliest") as subscription:
        left = events
        async for _ in subscription:
            left -= 1
            if not left:
                break
        await subscription.close()


async def by_hand(client: Client, group: str, events: int, window: int = 1000) -> None:
    """Every event is acknowledged by itself."""
    async with client.subscribe(TOPIC, group=group, start="earliest", commit="manual", window=window) as subscription:
        left = events
        async for event in subscription:
            await subscription.ack(event)
            left -= 1
            if not left:
                break


async def by_hand_widely(client: Client, group: str, events: int) -> None:
    """With as many in hand as can be."""
    await by_hand(client, group, events, window=4096)


async def by_function(client: Client, group: str, events: int) -> None:
    """A function is called with every event."""
    left, done = events, asyncio.Event()

    async def handle(event: Received) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    running = asyncio.create_task(client.run(handle, TOPIC, group=group, start="earliest", window=4096))
    await done.wait()
    while await _position(client, group) < events:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


READINGS: dict[str, Reading] = {
    "plain iteration": plainly,
    "acknowledged by hand, window 1,000": by_hand,
    "acknowledged by hand, window 4,096": by_hand_widely,
    "client.run, a function per event": by_function,
}


async def acknowledging(node: RunningNode, rounds: int, events: int) -> list[Figure]:
    rates: dict[str, list[float]] = {name: [] for name in READINGS}
    async with node.client() as client:
        for _ in range(events // BATCH_EVENTS):
            await client.publish_batch(TOPIC, Batch.from_columns([PAYLOAD] * BATCH_EVENTS, 1))
        for number in range(rounds):
            for name, read in READINGS.items():
                gc.collect()
                group = f"g{number}-{list(READINGS).index(name)}"
                begin = time.perf_counter()
                await read(client, group, events)
                rates[name].append(events / (time.perf_counter() - begin))
                assert await _position(client, group) >= events - 1, "all of it was handled"
    medians = {name: statistics.median(values) for name, values in rates.items()}
    plain = medians["plain iteration"]
    return [
        *(Figure(name, value, "events/s") for name, value in medians.items()),
        *(
            Figure(f"{name}, beside plain iteration", value / plain, "x", GOAL_BY_HAND if "by hand" in name else None)
            for name, value in medians.items()
            if name != "plain iteration"
        ),
    ]


async def _position(client: Client, group: str) -> int:
    found = await client.groups(group)
    return sum(stream.position.offset for each in found for stream in each.streams)


# ---------------------------------------------------------------------------------------------------------------------


async def measure(rounds: int, events: int, asks: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as place, up(Path(place) / "node") as node:
        found = await acknowledging(node, rounds, events) if events else []
        return [*found, *(await asking(node, rounds, asks) if asks else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--events", type=int, default=EVENTS, help="0: do not measure reading")
    parser.add_argument("--asks", type=int, default=ASKS, help="0: do not measure requests")
    add_formats(parser)
    arguments = parser.parse_args()
    figures = uvloop.run(measure(arguments.rounds, arguments.events, arguments.asks))
    report(figures, "consumers", arguments.format)


if __name__ == "__main__":
    main()
