"""What reading in a group costs, and a request: ``python -m bench.consumers [--rounds N] [--events N] [--asks N]``.

Events have 100 bytes and are there already. A group reads them, by iterating over events, with a client in this process
on uvloop and one secured node in another. By hand, each event is acknowledged by itself. A round ends when the node
has the group's position behind the last event. ``bench.consumers_asking`` says how requests are measured.

``--later N`` measures something else: a node where N events wait for a later time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvloop
from bench.consumers_asking import asking
from bench.figures import Figure, add_formats, report
from bench.systems import PAYLOAD

from tests.up import RunningNode, up
from weft.client import Backpressure, Client, Received
from weft.limits import MIB
from weft.model import Batch

ROUNDS = 3
EVENTS = 200_000
ASKS = 2_000
BATCH_EVENTS = 1_000
GOAL_BY_HAND = 0.5  # of plain iteration
GOAL_START_S = 5.0
LATER_AHEAD_S = 30 * 86_400
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


# --- waiting for later -----------------------------------------------------------------------------------------------


async def fill(node: RunningNode, events: int) -> float:
    """Publish events that are due within thirty days, the first in an hour; how long it took."""
    async with node.client() as client:
        now = datetime.fromtimestamp(time.time(), UTC)
        begin_s = time.perf_counter()
        for number in range(events):
            due = now + timedelta(hours=1, seconds=number * 7919 % LATER_AHEAD_S)
            try:
                client.publish_nowait(TOPIC, PAYLOAD, deliver_at=due)
            except Backpressure:
                await client.wait_for_room()
                client.publish_nowait(TOPIC, PAYLOAD, deliver_at=due)
        await client.flush()
        return time.perf_counter() - begin_s


async def deliver(node: RunningNode, events: int) -> float:
    """After a restart: how long it takes until something that is published for now comes back."""
    async with node.client() as client, client.subscribe("bench.soon") as subscription:
        begin_s = time.perf_counter()
        for _ in range(events):
            await client.publish("bench.soon", PAYLOAD, delay=0)
            await anext(subscription)
        return (time.perf_counter() - begin_s) / events


def memory_mib(node: RunningNode) -> float:
    return _metric(node, "process_resident_memory_bytes") / MIB


def _metric(node: RunningNode, name: str) -> float:
    return next(float(line.split()[1]) for line in node.metrics().splitlines() if line.startswith(f"{name} "))


def waiting(events: int) -> list[Figure]:
    """A node with so many waiting events: its memory, and how long it takes to start."""
    limit = dict.fromkeys(("WEFT_LATER_PENDING_OF_KEY_MAX", "WEFT_LATER_PENDING_MAX"), str(2 * events))
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "later"
        with up(data, environ=limit) as node:
            node.end_quietly()
        begin_s = time.perf_counter()
        with up(data, environ=limit) as node:
            empty_s, empty_cpu_s = time.perf_counter() - begin_s, _metric(node, "process_cpu_seconds_total")
            empty_mib = memory_mib(node)
            took_s = uvloop.run(fill(node, events))
            full_mib = memory_mib(node)
            assert _metric(node, "weft_later_pending") == events, "all of them wait"
            node.end_quietly()
        begin_s = time.perf_counter()
        with up(data, environ=limit) as node:
            started_s, started_cpu_s = time.perf_counter() - begin_s, _metric(node, "process_cpu_seconds_total")
            pending, indexed = _metric(node, "weft_later_pending"), _metric(node, "weft_later_indexed")
            again_mib = memory_mib(node)
            round_trip_s = uvloop.run(deliver(node, 100))
            node.end_quietly()
    assert pending == events, "all of them still wait"
    return [
        Figure("waiting events", events, "events"),
        Figure("taken for later", events / took_s, "events/s"),
        Figure("start without any", empty_s, "s", note=f"{empty_cpu_s:.1f} s of processor time"),
        Figure("memory of an empty node", empty_mib, "MiB"),
        Figure("memory after taking them", full_mib, "MiB"),
        Figure(
            "start with them, as a process, until it says ready",
            started_s,
            "s",
            GOAL_START_S,
            ceiling=True,
            note=f"{started_cpu_s:.1f} s of processor time",
        ),
        Figure("memory after the start", again_mib, "MiB", note=f"{indexed:.0f} of them are in memory"),
        Figure("publish for now and get it back, after the start", round_trip_s * 1000, "ms"),
    ]


async def measure(rounds: int, events: int, asks: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as place, up(Path(place) / "node") as node:
        found = await acknowledging(node, rounds, events) if events else []
        return [*found, *(await asking(node, rounds, asks) if asks else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--events", type=int, default=EVENTS, help="0: do not measure reading")
    parser.add_argument("--asks", type=int, default=ASKS, help="0: do not measure requests")
    parser.add_argument("--later", type=int, default=0, metavar="N", help="measure N events that wait, instead")
    add_formats(parser)
    arguments = parser.parse_args()
    if arguments.later:
        figures = waiting(arguments.later)
    else:
        figures = uvloop.run(measure(arguments.rounds, arguments.events, arguments.asks))
    report(figures, "consumers", arguments.format)


if __name__ == "__main__":
    main()
