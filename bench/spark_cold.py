"""What a pipeline costs that is started for the occasion: ``python -m bench.spark_cold [--rows N] [--rounds N]``.

A secured node as ``weft up`` makes it, and ``weft pipeline run`` in fresh processes over TLS, as cron starts them: a
first ``archive`` of so many events, one with nothing new, an ``audit``, a ``replay``, and one that goes on, with a
trigger of a second: how long until the first row is in the table, and from there, from a publish to the row. What a
process took counts from its start to its end, Java and Python included. Two runs before them are not counted: they
write down Java's classes, which is done once on a machine and takes many seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from bench.figures import Figure, Format, add_formats, report
from bench.peers.process import children
from bench.spark_common import console, fill
from deltalake import DeltaTable

import weft
from tests.up import COMMAND, RunningNode, up
from weft.sync import connect

ROWS = 2_000_000
TOPICS = 20
ROUNDS = 3
CLASSES_KEPT_AFTER = 2  # runs on a machine, of which the second writes Java's classes down for all later ones
PUBLISHED = 40  # one by one, while a pipeline runs
PAUSE_S = 0.7  # between them: no multiple of the trigger, so that they come at any time in it
ENDS_S_MAX = 1200.0
PR_SET_CHILD_SUBREAPER = 36  # of Linux
BATCH = re.compile(r"archive +batch \d+ +([\d,]+) rows +([\d,]+) rows/s")
REPLAYED = re.compile(r"step (\d+) of (\d+): ([\d,]+) events, ([\d,]+)/s")


class Place:
    """One node, one table, and the files that say so."""

    def __init__(self, node: RunningNode, place: Path) -> None:
        self.node = node
        self.table = place / "table"
        self._place = place
        self._environ = os.environ | {
            "WEFT_CONFIG_DIR": str(node.config),
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "XDG_CACHE_HOME": str(place / "cache"),
        }

    def command(self, pipeline: str, sections: dict[str, dict[str, str]], *flags: str) -> list[str]:
        config = self._place / f"{pipeline}.toml"
        lines = [
            f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items())
            for name, each in sections.items()
        ]
        config.write_text("".join(lines))
        state = ("--state-dir", str(self._place / "state"))
        return [*COMMAND, "pipeline", "run", pipeline, "--config", str(config), *state, *flags]

    def archive(self, trigger: str, *flags: str, subscribe: str = "bench.>", table: Path | None = None) -> list[str]:
        sections = {
            "source": {"subscribe": f'"{subscribe}"'},
            "table": {"path": f'"{table or self.table}"'},
            "run": {"checkpoint": f'"{(table or self.table).with_suffix(".checkpoint")}"', "trigger": f'"{trigger}"'},
        }
        return self.command("archive", sections, *flags)

    def ended(self, command: list[str]) -> tuple[float, float, str]:
        """Wall time, CPU time, and what it said."""
        before, begun_s, others = os.times(), time.perf_counter(), set(children(os.getpid()))
        ended = subprocess.run(
            command, env=self._environ, capture_output=True, text=True, timeout=ENDS_S_MAX, check=False
        )
        took_s = time.perf_counter() - begun_s
        for left in set(children(os.getpid())) - others:
            os.waitpid(left, 0)  # Spark's Java, which ends a moment after its Python
        after = os.times()
        said = ended.stdout + ended.stderr
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command[3:7])} ended with {ended.returncode}:\n{said[-3000:]}")
        cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        return took_s, cpu_s, said

    @contextmanager
    def running(self, command: list[str]) -> Iterator[subprocess.Popen[str]]:
        with (self._place / "running.log").open("w") as log:
            process = subprocess.Popen(command, env=self._environ, stdout=log, stderr=log, text=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(ENDS_S_MAX)


class Figures:
    """What the rounds gave, by name."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)
        console.print(f"{name}: {value:,.2f}", style="dim")

    def figure(self, name: str, unit: str, goal: float | None = None, *, ceiling: bool = False) -> Figure:
        found = sorted(self.values[name])
        told = f"{found[0]:,.4g} to {found[-1]:,.4g}" if len(found) > 1 else ""
        return Figure(name, statistics.median(found), unit, goal=goal, ceiling=ceiling, note=told)


def round_of(place: Place, rows: int, figures: Figures, number: int) -> None:
    place.table = place.table.with_name(f"table{number}")
    took_s, cpu_s, said = place.ended(place.archive("available-now"))
    figures.add("archive: the whole run", took_s)
    figures.add("archive: the whole run, CPU", cpu_s)
    counts = [(_number(count), _number(rate)) for count, rate in BATCH.findall(said)]
    assert sum(count for count, _ in counts) == rows, said
    figures.add("archive: in its batch", max(counts)[1])
    took_s, cpu_s, said = place.ended(place.archive("available-now"))
    assert not BATCH.findall(said), said
    figures.add("archive: nothing new", took_s)
    figures.add("archive: nothing new, CPU", cpu_s)
    table = {"path": f'"{place.table}"'}
    took_s, cpu_s, said = place.ended(place.command("audit", {"audit": {"subscribe": '"bench.>"'}, "table": table}))
    assert f"{TOPICS} streams with {rows:,} events in the table agree" in said, said
    figures.add("audit", took_s)
    figures.add("audit, CPU", cpu_s)
    wanted = {"topics": '"bench.>"', "prefix": f'"again{number}."'}
    took_s, cpu_s, said = place.ended(place.command("replay", {"replay": wanted, "table": table}, "--execute"))
    assert f"{rows:,} events written" in said, said
    steps = REPLAYED.findall(said)
    figures.add("replay: while it writes", _number(steps[-1][3]))
    figures.add("replay: the whole run", took_s)
    figures.add("replay: the whole run, CPU", cpu_s)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def freshness(place: Place, figures: Figures, number: int) -> None:
    """Events that come one by one: when is each in the table?"""
    topic, table = f"fresh{number}.t", place.table.with_name(f"fresh{number}")
    context = place.node.context
    assert context.tls_root is not None
    tls = weft.TlsFiles(Path(context.tls_root))
    with connect(list(context.nodes), token=context.token, tls=tls) as client:
        client.publish(topic, b"first")
        begun_s = time.time()
        with place.running(place.archive("1 second", subscribe=topic, table=table)) as process:
            watch = Watch(table)
            while not watch.look():
                assert process.poll() is None, (place.table.parent / "running.log").read_text()
                time.sleep(0.02)
            figures.add("first row visible, from the start of the process", watch.seen[0] - begun_s)
            published = {}
            for index in range(1, PUBLISHED + 1):
                published[index] = time.time()
                client.publish(topic, b"%d" % index)
                due_s = time.time() + PAUSE_S
                while time.time() < due_s:
                    watch.look()
                    time.sleep(0.02)
            while len(watch.seen) <= PUBLISHED:
                watch.look()
                time.sleep(0.02)
    lags = sorted(watch.seen[index] - at_s for index, at_s in published.items())
    figures.add("publish to visible, p50", statistics.median(lags))
    figures.add("publish to visible, the slowest", lags[-1])


class Watch:
    """A Delta table, seen as any reader sees it: which events are in it, and when that was seen first."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._version = -1
        self._files: set[str] = set()
        self.seen: dict[int, float] = {}  # by offset

    def look(self) -> bool:
        """Whether there is a row."""
        if not (self._table / "_delta_log" / f"{self._version + 1:020}.json").exists():
            return bool(self.seen)
        now_s = time.time()
        found = DeltaTable(self._table)
        self._version = found.version()
        for uri in set(found.file_uris()) - self._files:
            self._files.add(uri)
            offsets: pa.ChunkedArray = pq.read_table(uri, columns=["offset"], partitioning=None).column("offset")
            for offset in offsets.to_pylist():
                self.seen.setdefault(offset, now_s)
        return bool(self.seen)


def adopt_orphans() -> None:
    """What a process leaves behind becomes a child of this one, so that its CPU time is known."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("this kernel lets nobody adopt orphans")


def measure(rows: int, rounds: int, place: Path) -> list[Figure]:
    adopt_orphans()
    figures = Figures()
    with up(place / "node", environ={"WEFT_STORAGE_PREPARED_BYTES": str(66 << 20)}) as node:
        topics = [f"bench.t{number}" for number in range(TOPICS)]
        asyncio.run(fill("", topics, rows, using=node.client()))
        here = Place(node, place)
        for number in range(CLASSES_KEPT_AFTER):
            here.ended(here.archive("available-now", subscribe="nothing.>", table=place / f"nothing{number}"))
        for number in range(rounds):
            console.print(f"round {number + 1} of {rounds}", style="dim")
            round_of(here, rows, figures, number)
            freshness(here, figures, number)
    made = figures.figure
    return [
        made("archive: in its batch", "events/s", goal=300_000),
        made("archive: the whole run", "s"),
        made("archive: the whole run, CPU", "s"),
        made("archive: nothing new", "s", goal=8.0, ceiling=True),
        made("archive: nothing new, CPU", "s"),
        made("audit", "s", goal=15.0, ceiling=True),
        made("audit, CPU", "s"),
        made("replay: while it writes", "events/s", goal=100_000),
        made("replay: the whole run", "s"),
        made("replay: the whole run, CPU", "s"),
        made("first row visible, from the start of the process", "s"),
        made("publish to visible, p50", "s", goal=2.0, ceiling=True),
        made("publish to visible, the slowest", "s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--dir", type=Path, default=None, help="where logs and tables go")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        figures = measure(arguments.rows, arguments.rounds, Path(place))
    report(figures, f"cold pipelines: {arguments.rows:,} events of {TOPICS} topics, TLS, fresh processes", output)


if __name__ == "__main__":
    main()
