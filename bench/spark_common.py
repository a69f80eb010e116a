"""What benchmarks with Spark share: a session, rows of 221 bytes in a node's log, and runs taken in turn.

A row has a payload of 100 bytes, a key of 8, two headers, a timestamp, and where it is: topic, partition, offset,
origin, epoch. The node has a process of its own on the same machine, so Spark does not have the cores to itself.
"""

from __future__ import annotations

import asyncio
import functools
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import weft
from weft.client import Connecting
from weft.spark.session import session

BATCH_EVENTS = 1_000
PAYLOAD_BYTES = 100
FIRST_US = 1_760_000_000_000_000
IN_FLIGHT = 32
console = Console(stderr=True)


def bench_session(app: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """local[2], whose workers find this folder."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    defaults = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    spark = session(app, master="local[2]", conf=defaults | dict(conf or {}))
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@functools.cache
def headers(count: int) -> pa.MapArray:
    """Two for each of so many events."""
    names = pa.array(["trace-id", "content-type"] * count)
    values = pa.array([text for n in range(count) for text in (f"{n:016x}", "application/octet-stream")])
    return pa.MapArray.from_arrays(np.arange(0, 2 * count + 1, 2, dtype=np.int32), names, values)


def _fixed(data: np.ndarray[tuple[int], np.dtype[np.uint8]], width: int, count: int) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(data)]).cast(pa.binary())


def events(first: int, count: int) -> pa.RecordBatch:
    """No two have the same payload: Parquet would store it once."""
    numbers = np.arange(first, first + count)
    payloads = np.random.default_rng(first).integers(0, 256, count * PAYLOAD_BYTES, dtype=np.uint8)
    return pa.record_batch(
        {
            "timestamp": pa.array(numbers * 1000 + FIRST_US),
            "key": _fixed(numbers.astype(">u8").view(np.uint8), 8, count),
            "headers": headers(count),
            "payload": _fixed(payloads, PAYLOAD_BYTES, count),
        }
    )


async def fill(
    address: str, topics: Sequence[str], rows: int, batch_events: int = BATCH_EVENTS, using: Connecting | None = None
) -> None:
    """So many rows in all, the same number in each topic; ``using`` another client than one without security."""
    each = rows // len(topics)
    room = asyncio.Semaphore(IN_FLIGHT)

    async def publish(client: weft.Client, topic: str, first: int, count: int) -> None:
        try:
            await client.publish_batch(topic, events(first, count))
        finally:
            room.release()

    async with using or weft.connect(address, insecure=True) as client, asyncio.TaskGroup() as tasks:
        for topic in topics:
            for first in range(0, each, batch_events):
                await room.acquire()
                tasks.create_task(publish(client, topic, first, min(batch_events, each - first)))


@dataclass
class Run:
    """Something that reads ``rows`` rows; its rates fill up round by round."""

    name: str
    frame: Callable[[], DataFrame]
    rows: int
    goal: float | None = None
    rates: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def cpu_s_per_million(self) -> float:
        """Of all processes together: what neighbours on the machine change least."""
        return statistics.median(self.cpu_s) / self.rows * 1e6

    def once(self) -> float:
        """Rows per second into a sink that throws them away."""
        begin = time.perf_counter()
        self.frame().write.format("noop").mode("overwrite").save()
        return self.rows / (time.perf_counter() - begin)


def in_turn(runs: Sequence[Run], rounds: int, warm_ups: int = 2) -> None:
    """Some rounds to warm up, for the JVM compiles what is hot; then so many that count."""
    for number in range(1 - warm_ups, rounds + 1):
        console.print(f"round {number} of {rounds}" if number > 0 else "warming up", style="dim")
        for run in runs:
            before_s = tree_cpu_s()
            rate = run.once()
            if number > 0:
                run.rates.append(rate)
                run.cpu_s.append(tree_cpu_s() - before_s)


def tree_cpu_s() -> float:
    """CPU time so far of this process and of all that it started and that still run: Java, workers, nodes."""
    parents, ticks = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        number = int(place.parent.name)
        parents[number], ticks[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    tree = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(ticks.get(number, 0) for number in tree) / os.sysconf("SC_CLK_TCK")
