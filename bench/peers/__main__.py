"""Weft beside its peers in one run: ``python -m bench.peers [--rounds N] [--scale S] [--only ROWS] [--docs]``.

All servers run at once on loopback, and rounds go through them in turn; events have 100 bytes. What is not installed is
named and left out. The results go to ``build/peers.json``; ``--docs`` also writes docs/benchmarks.md and its pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from bench.mesh import Pool
from bench.peers.fleet import KINDS, WITH_MTLS, Fleet, started
from bench.peers.limits import machine_limits
from bench.peers.page import write_page
from bench.peers.process import cpu_s, resident_mb
from bench.systems import CALL_EVENTS, LeftOut, Sample, System
from rich.console import Console

ROOT = Path(__file__).parents[2]
WORK_S = 1.0  # of each system, row and round
WARM_S = 1.0
TASK_S_MAX = 90.0
REPLAY_EVENTS = 500_000
console = Console(stderr=True)

Work = Callable[[System, float], Awaitable[Sample]]


@dataclass(frozen=True)
class Measure:
    name: str
    take: Callable[[Pool], float]
    unit: str
    is_ceiling: bool = False  # less is better


@dataclass(frozen=True)
class Row:
    name: str
    work: Work
    measures: Sequence[Measure]
    has_mtls: bool = False


@dataclass
class Result:
    """A figure of all systems; ``ratios`` are to the best synced peer of the same run."""

    name: str
    unit: str
    is_ceiling: bool
    is_mtls: bool
    values: Mapping[str, float]
    notes: Sequence[str] = ()
    ratios: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        peers = [self.values[kind.name] for kind in KINDS[1:] if kind.is_synced and kind.name in self.values]
        best = (min if self.is_ceiling else max)(peers, default=0.0)
        self.ratios = {name: value / best for name, value in self.values.items()} if best else {}


def percentiles(kind: str) -> list[Measure]:
    shares = {"p50": 0.5, "p99": 0.99}
    return [
        Measure(f"{kind} {name}", partial(Pool.percentile_ms, kind=kind, share=share), "ms", True)
        for name, share in shares.items()
    ]


RATE = Measure("", Pool.rate, "/s")
CPU = Measure("server CPU per event", Pool.cpu_us, "µs", True)


def value(name: str, unit: str, *, is_ceiling: bool = False) -> Measure:
    return Measure(name, partial(Pool.value, name=name), unit, is_ceiling)


async def memory(system: System, _: float) -> Sample:
    return Sample(values={"memory": resident_mb(system.pid)})


def paced(rate: int, subscribers: int, *, has_mtls: bool = False) -> Row:
    measures = [*(percentiles("receipt") if subscribers == 1 else []), *percentiles("delivery")]
    name = f"at {rate:,}/s to {subscribers}"
    return Row(name, lambda system, s: system.paced(2 * s, rate, subscribers), measures, has_mtls)


def flood(subscribers: int) -> Row:
    return Row(f"flood to {subscribers}, events to each", lambda system, s: system.flood(s, subscribers), [RATE])


def topics(count: int) -> Row:
    return Row(f"single events to {count:,} topics in turn", lambda system, s: system.singles(s, count), [RATE])


def replay_work(system: System, seconds: float) -> Awaitable[Sample]:
    events = int(REPLAY_EVENTS * min(seconds / WORK_S, 1.0)) // CALL_EVENTS * CALL_EVENTS
    return system.replay(seconds, events)


MEMORY = [value("memory", "MB", is_ceiling=True)]
ROWS = [
    Row("idle", memory, MEMORY),
    Row("one at a time", lambda system, s: system.lone(s), [*percentiles("receipt"), CPU], has_mtls=True),
    paced(200, 1, has_mtls=True),
    paced(1_000, 1),
    paced(1_000, 10),
    paced(1_000, 100),
    Row("one hop at 200/s", lambda system, s: system.hop(2 * s, 200), percentiles("delivery")),
    Row("request and reply", lambda system, s: system.asking(s), percentiles("receipt"), has_mtls=True),
    Row("single events, many in flight", lambda system, s: system.singles(s, 1), [RATE, CPU], has_mtls=True),
    Row("1,000 events a call", lambda system, s: system.thousands(s), [RATE, CPU], has_mtls=True),
    Row("replay", replay_work, [value("to Arrow", "/s"), value("to objects", "/s")], has_mtls=True),
    flood(1),
    flood(10),
    flood(100),
    Row(
        "256 connections, each waiting",
        lambda system, s: system.waiting(s, 256),
        [RATE, *percentiles("receipt")],
        has_mtls=True,
    ),
    topics(100),
    topics(10_000),
    topics(100_000),
    Row("after all of this", memory, MEMORY),
]


class Comparing:
    def __init__(self, rounds: int, scale: float, fleet: Fleet) -> None:
        self._rounds, self._scale, self._fleet = rounds, scale, fleet
        self.failures: list[str] = []

    async def warm_up(self) -> None:
        """Virtual machines compile what is used often: a second of it before anything counts."""
        for system in [*self._fleet.plain.values(), *self._fleet.mtls.values()]:
            for work in (system.lone, partial(system.singles, topics=1)):
                await work(WARM_S)
                await system.close()

    async def rows(self, rows: Sequence[Row]) -> list[Result]:
        found: list[Result] = []
        for row in rows:
            found += await self._row(row, self._fleet.plain, is_mtls=False)
            if row.has_mtls:
                found += await self._row(row, self._fleet.mtls, is_mtls=True)
        return found

    async def _row(self, row: Row, systems: Mapping[str, System], *, is_mtls: bool) -> list[Result]:
        pools = {name: Pool() for name in systems}
        notes: dict[str, str] = {}
        title = f"{row.name}, mTLS" if is_mtls else row.name
        for number in range(self._rounds):
            for name in [name for name in systems if name not in notes]:
                begin = time.perf_counter()
                try:
                    await self._measure(row, systems[name], pools[name])
                except LeftOut as why:
                    notes[name] = f"{name} has no {why}"
                except Exception as failure:  # the other rows and systems are worth having
                    notes[name] = f"{name} FAILED: {failure!r}"
                    self.failures.append(f"{title}: {notes[name]}")
                took_s = time.perf_counter() - begin
                console.print(f"{title}: round {number + 1}, {name}, {took_s:.1f} s", style="dim")
        good = {name: pool for name, pool in pools.items() if pool.samples and name not in notes}
        return [self._result(title, measure, good, list(notes.values()), is_mtls) for measure in row.measures]

    @staticmethod
    def _result(title: str, measure: Measure, pools: Mapping[str, Pool], notes: list[str], is_mtls: bool) -> Result:
        name = f"{title}, {measure.name}" if measure.name else title
        values = {system: measure.take(pool) for system, pool in pools.items()}
        return Result(name, measure.unit, measure.is_ceiling, is_mtls, values, notes)

    async def _measure(self, row: Row, system: System, pool: Pool) -> None:
        gc.collect()
        before_s = cpu_s(system.pid)
        try:
            async with asyncio.timeout(TASK_S_MAX):
                sample = await row.work(system, WORK_S * self._scale)
        finally:
            await system.close()
        pool.cpu_s.append(cpu_s(system.pid) - before_s)
        pool.samples.append(sample)


async def compare(rounds: int, scale: float, rows: Sequence[Row], systems: str, place: Path) -> dict[str, Any]:
    begin = time.time()
    limits = machine_limits(place)
    async with started(place, lambda name: bool(re.search(systems, name, re.IGNORECASE))) as fleet:
        for name, why in fleet.left_out.items():
            console.print(f"{name} is left out: {why}")
        comparing = Comparing(rounds, scale, fleet)
        await comparing.warm_up()
        results = await comparing.rows(rows)
    limits = {name: [*each, machine_limits(place)[name][0]] for name, each in limits.items()}
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begin)),
        "commit": _commit(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "took_s": round(time.time() - begin),
        "rounds": rounds,
        "scale": scale,
        "systems": [
            {"name": kind.name, "durability": kind.durability, "synced": kind.is_synced, "mtls": kind.name in WITH_MTLS}
            for kind in KINDS
        ],
        "left_out": dict(fleet.left_out),
        "limits": limits,
        "results": [vars(result) for result in results],
        "failures": comparing.failures,
    }


def _commit() -> str:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="seconds of work of each system, row and round")
    parser.add_argument("--only", default="", help="rows with this in their name, a regular expression")
    parser.add_argument("--systems", default="", help="systems with this in their name, a regular expression")
    parser.add_argument("--dir", type=Path, default=None, help="where the logs go; a disk like the one you will use")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and its pictures, too")
    parser.add_argument("--from", dest="source", type=Path, help="no run: results of an earlier one, as JSON")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if re.search(arguments.only, row.name, re.IGNORECASE)]
    if not rows:
        sys.exit(f"no row has {arguments.only!r} in its name; there are: {'; '.join(row.name for row in ROWS)}")
    if arguments.source:
        results = json.loads(arguments.source.read_text())
    else:
        with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
            work = compare(arguments.rounds, arguments.scale, rows, arguments.systems, Path(place))
            results = uvloop.run(work)
        target = ROOT / "build" / "peers.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(results, indent=1))
    print(write_page(results, ROOT / "docs" if arguments.docs else None))
    if results["failures"]:
        sys.exit("\n".join(results["failures"]))


if __name__ == "__main__":
    main()
