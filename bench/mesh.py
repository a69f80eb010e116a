"""How fast the mesh is: ``python -m bench.mesh [--scale S] [--dir DIR] [--json | --markdown]``.

One node, then two with a link between them; the client has a process of its own. Everything published is synced before
its receipt. The machine's own limits (a synced write, an empty gRPC call) are measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.figures import Figure, Format, add_formats, report
from bench.mesh_nodes import node
from bench.mesh_work import (
    latencies,
    publish_and_read,
    publish_batches,
    publish_events,
    publish_one_at_a_time,
    replay,
)
from bench.transport_kinds import serve_weft, weft_client
from rich.console import Console

import weft

EVENTS = 400_000
BATCHED_EVENTS = 2_000_000
LATENCY_S = 10.0
LATENCY_RATE = 200.0
ROUNDS = 5
console = Console(stderr=True)


class Bench:
    """Rounds of everything in turn, so that a noisy minute hits all of it; medians at the end."""

    def __init__(self, scale: float, one: weft.Client, far: weft.Client) -> None:
        self.scale = scale
        self.one = one  # at the node that is published to
        self.far = far  # at its neighbour
        self.rates: dict[str, list[float]] = {}
        self.times: dict[str, list[float]] = {}

    async def round(self, number: int) -> None:
        events, batched = int(EVENTS * self.scale), int(BATCHED_EVENTS * self.scale) // 1000 * 1000
        await self._rate("publish, single events", lambda: publish_events(self.one, f"single.r{number}", events))
        await self._rate("publish, batches of 1,000", lambda: publish_batches(self.one, f"batch.r{number}", batched))
        await self._rate("replay, to Arrow", lambda: replay(self.one, f"batch.r{number}", batched))
        await self._rate(
            "publish and deliver, one node",
            lambda: publish_and_read(self.one, self.one, f"through.r{number}", batched // 2),
        )
        await self._rate(
            "publish and deliver, one hop",
            lambda: publish_and_read(self.one, self.far, f"hop.r{number}", batched // 2),
        )
        self.times.setdefault("receipt, one at a time", []).extend(
            await publish_one_at_a_time(self.one, f"lone.r{number}", int(500 * self.scale) + 50)
        )
        seconds = LATENCY_S * self.scale / ROUNDS + 1
        for name, reader in (("one node", self.one), ("one hop", self.far)):
            seen = await latencies(self.one, reader, f"gentle.{name[4:]}.r{number}", seconds, LATENCY_RATE)
            self.times.setdefault(f"receipt at {LATENCY_RATE:.0f}/s, {name}", []).extend(seen.receipts)
            self.times.setdefault(f"delivery at {LATENCY_RATE:.0f}/s, {name}", []).extend(seen.deliveries)

    async def _rate(self, name: str, work: Callable[[], Awaitable[float]]) -> None:
        self.rates.setdefault(name, []).append(await work())

    def figures(self) -> list[Figure]:
        goals = {"publish, single events": 1e6, "publish, batches of 1,000": 2e6, "replay, to Arrow": 5e6}
        figures = [
            Figure(name, statistics.median(rates), "events/s", goal=goals.get(name), note=f"best {max(rates):,.0f}")
            for name, rates in self.rates.items()
        ]
        for name, times in self.times.items():
            goal_us = 600.0 if name.startswith("delivery") and name.endswith("one node") else None
            figures += percentiles(name, times, goal_p50_us=goal_us)
        return figures


def percentiles(
    name: str, times_s: Sequence[float], *, goal_p50_us: float | None = None, limit: bool = False
) -> list[Figure]:
    ordered = sorted(times_s)
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    return [
        Figure(
            f"{name}, {label}",
            ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e6,
            "µs",
            goal=goal_p50_us if label == "p50" else None,
            ceiling=True,
            limit=limit,
        )
        for label, share in shares.items()
    ]


def synced_writes(place: Path, count: int) -> list[float]:
    """The disk's own: 4 KiB written and synced, again and again into a file of that size."""
    took = []
    with (place / "limit").open("wb", buffering=0) as file:
        file.write(bytes(4096))
        for _ in range(count):
            begin = time.perf_counter()
            file.seek(0)
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begin)
    return took


async def empty_calls(count: int) -> list[float]:
    """gRPC's own: a message there and back on an open stream, with a server in the same process that does nothing."""
    port = await serve_weft(None)
    took = []
    async with weft_client(port, None) as talk:
        for _ in range(count):
            begin = time.perf_counter()
            await talk.ask(b"x" * 200)
            took.append(time.perf_counter() - begin)
    return took


async def run(scale: float, place: Path) -> list[Figure]:
    with ExitStack() as nodes:
        address = nodes.enter_context(node(place, "one"))
        far_address = nodes.enter_context(node(place, "far", [address]))
        async with (
            weft.connect(address, insecure=True) as one,
            weft.connect(far_address, insecure=True) as far,
        ):
            bench = Bench(scale, one, far)
            limits_disk: list[float] = []
            limits_grpc: list[float] = []
            for number in range(ROUNDS):
                console.print(f"round {number + 1} of {ROUNDS}", style="dim")
                limits_disk += synced_writes(place, 200)
                limits_grpc += await empty_calls(200)
                await bench.round(number)
            return [
                *percentiles("limit: 4 KiB write and fdatasync", limits_disk, limit=True),
                *percentiles("limit: message there and back, gRPC, one process", limits_grpc, limit=True),
                *bench.figures(),
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of everything")
    parser.add_argument("--dir", type=Path, default=None, help="where the logs go; a disk like the one you will use")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        figures = asyncio.run(run(arguments.scale, Path(place)))
    report(figures, "mesh: 100-byte events, synced before the receipt", output)


if __name__ == "__main__":
    main()
