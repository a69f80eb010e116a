"""Comparing things on a noisy machine: short slices of every case in turn, over several rounds, medians at the end."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.figures import add_formats
from rich.console import Console
from rich.table import Table


@dataclass
class Case:
    """``run`` does ``per_run`` units of work. ``goal`` is the rate it should reach, in units per second."""

    name: str
    run: Callable[[], object]
    per_run: int = 1
    unit: str = "packets"
    goal: float | None = None
    note: str = ""
    rates: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def best(self) -> float:
        """What the quietest round gave: on a machine with neighbours, nearer to what the code can do."""
        return max(self.rates)


def measure(
    cases: Sequence[Case], rounds: int = 9, slice_s: float = 0.15, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Fill in ``rates``; one thread, one core. ``clock``: ``time.process_time`` for a second of this process's CPU."""
    for case in cases:
        case.run()  # imports, caches, the allocator
    console = Console(stderr=True)
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}", style="dim")
        for case in cases:
            case.rates.append(_rate(case, slice_s, clock))


def _rate(case: Case, slice_s: float, clock: Callable[[], float]) -> float:
    done = 0
    begin = clock()
    while True:
        case.run()
        done += 1
        elapsed = clock() - begin
        if elapsed >= slice_s:
            return done * case.per_run / elapsed


def report(cases: Sequence[Case], title: str) -> None:
    """A table for people, or JSON with ``--json``, or Markdown with ``--markdown``."""
    match _format():
        case "json":
            rows = [
                {
                    "name": c.name,
                    "rate": c.rate,
                    "best": c.best,
                    "unit": c.unit,
                    "goal": c.goal,
                    "note": c.note,
                    "rates": c.rates,
                }
                for c in cases
            ]
            print(json.dumps({"title": title, "machine": _machine(), "cases": rows}, indent=1))
        case "markdown":
            print(f"| {title} | median | best | goal | |\n|---|--:|--:|---|---|")
            for c in cases:
                print(f"| {c.name} | {_human(c.rate)} {c.unit}/s | {_human(c.best)} | {_goal(c)} | {c.note} |")
        case _:
            table = Table(title=f"{title} ({_machine()})")
            for heading in ("what", "median", "best", "goal", "note"):
                table.add_column(heading, justify="right" if heading in ("median", "best") else "left")
            for c in cases:
                table.add_row(c.name, f"{_human(c.rate)} {c.unit}/s", _human(c.best), _goal(c), c.note)
            Console(width=None if sys.stdout.isatty() else 140).print(table)


def _format() -> str:
    parser = argparse.ArgumentParser()
    add_formats(parser)
    return str(parser.parse_args().format)


def _goal(case: Case) -> str:
    if case.goal is None:
        return ""
    return f"{_human(case.goal)} {'reached' if case.rate >= case.goal else 'MISSED'}"


def _human(rate: float) -> str:
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if rate >= limit:
            return f"{rate / limit:.2f} {suffix}"
    return f"{rate:.1f}"


def _machine() -> str:
    return f"Python {platform.python_version()}, {platform.machine()}, one core"
