"""What each test costs, for `make test-costs`: seconds of wall and of CPU, with the processes that it starts.

A plugin that is loaded by name (`-p tests.costs`). Each worker of xdist adds lines to a file of its own,
`build/costs/<worker>.jsonl`; `python -m tools.costs` adds them up.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

COSTS = Path(__file__).parent.parent / "build" / "costs"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """CPU that this process and everything below it has used so far, ended children included."""
    ticks: dict[int, tuple[int, int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                # pid (comm) state ppid ...: utime, stime, cutime, cstime are fields 14 to 17 (proc(5)).
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            ticks[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    for pid in sorted(ticks):  # a child's number is nearly always above its parent's
        if ticks[pid][0] in family:
            family.add(pid)
    return sum(ticks[pid][1] for pid in family) / TICKS_PER_S


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    wall, cpu = time.monotonic(), cpu_s()
    try:
        return (yield)
    finally:
        COSTS.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        line = {"test": item.nodeid, "wall_s": round(time.monotonic() - wall, 3), "cpu_s": round(cpu_s() - cpu, 3)}
        with (COSTS / f"{worker}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
