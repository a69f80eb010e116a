"""What an open console costs its node: ``python -m bench.console [--rounds N] [--seconds S] [--json]``.

A secured node as ``weft up`` starts it, and somebody who is signed in and looks at the live page. Rounds go by turns:
without and with the page open, idle and under load (events of 100 bytes, a hundred in a call, one subscriber). Counted
is the processor time of the node, which does not depend on what else the machine does; at full load, what it spends on
the page is what it cannot spend on events.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from bench.peers.process import cpu_s

from tests.console.signing import signed_in, told
from tests.up import RunningNode, up
from weft.load.measure import Load, measure

ROUNDS = 3
WORK_S = 4.0
GOAL_PERCENT = 2.0


@dataclass
class Samples:
    """Of all rounds, with or without a page open."""

    idle: list[float] = field(default_factory=list)  # share of a core
    cpu_us: list[float] = field(default_factory=list)  # per event
    events_per_s: list[float] = field(default_factory=list)


@contextmanager
def page_open(node: RunningNode) -> Iterator[None]:
    """Somebody looks at the live figures: the node sends them every two seconds."""
    key = node.context.token
    assert key is not None, "of a secured node"
    with signed_in(node, key) as http:
        feed = told(http, "/api/live")
        assert next(feed)[0] == "snapshot"
        is_over = threading.Event()

        def look() -> None:
            for _ in feed:
                if is_over.is_set():
                    return

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        yield
        is_over.set()
        looking.join()


async def worked(node: RunningNode, number: int, seconds: float) -> tuple[float, float]:
    """Processor time per event, in µs, and events per second."""
    load = Load(f"bench.console.{number}", subscribers=1, batch=100, in_flight=8, seconds=seconds)
    before_s = cpu_s(node.process.pid)
    report = await measure(load, node.client, secrets.token_bytes(8))
    return (cpu_s(node.process.pid) - before_s) / report.sent * 1e6, report.sent / report.sent_s


def measured(node: RunningNode, rounds: int, seconds: float) -> tuple[Samples, Samples]:
    closed, opened = Samples(), Samples()
    uvloop.run(worked(node, 0, seconds))  # caches and connections
    for number in range(rounds):
        for samples in (closed, opened):
            with page_open(node) if samples is opened else nullcontext():
                before_s = cpu_s(node.process.pid)
                time.sleep(seconds)
                samples.idle.append((cpu_s(node.process.pid) - before_s) / seconds)
                cost_us, rate = uvloop.run(worked(node, 2 * number + 1 + (samples is opened), seconds))
                samples.cpu_us.append(cost_us)
                samples.events_per_s.append(rate)
    return closed, opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=WORK_S)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, up(Path(place) / "a", "--node-id", "a") as node:
        closed, opened = measured(node, wanted.rounds, wanted.seconds)
    figures = {
        "idle_percent_closed": statistics.fmean(closed.idle) * 100,
        "idle_percent_open": statistics.fmean(opened.idle) * 100,
        "cpu_us_per_event_closed": statistics.median(closed.cpu_us),
        "cpu_us_per_event_open": statistics.median(opened.cpu_us),
        "events_per_s_closed": statistics.median(closed.events_per_s),
        "events_per_s_open": statistics.median(opened.events_per_s),
    }
    figures["cost_percent"] = figures["idle_percent_open"] - figures["idle_percent_closed"]
    if wanted.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    else:
        for name, value in figures.items():
            print(f"{name:28} {value:12,.2f}")
    print(
        f"an open page costs {figures['cost_percent']:.2f} % of a core; the goal is {GOAL_PERCENT:.0f} %",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
