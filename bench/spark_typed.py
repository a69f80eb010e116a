"""What columns cost: ``python -m bench.spark_typed [--rows N] [--topics N] [--rounds N] [--format F]``.

A log of JSON events of about 200 bytes goes into a new table each round, in turn as raw events and as columns of a
schema with nine of them, from starting the query to its end. Beside events per second there is the CPU time of all
processes together (Java, workers, node), which neighbours on the machine change least.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench.figures import Figure, Format, report
from bench.mesh_nodes import node
from bench.spark_common import BATCH_EVENTS, FIRST_US, IN_FLIGHT, bench_session, console, tree_cpu_s
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import weft
from weft.pipelines import archive, lake
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.running import SLOW_START, SLOW_STARTS_MAX
from weft.schema import Kind, parse_schema, read_columns

ROWS = 2_000_000
ROUNDS = 5
GOAL = 300_000.0
DDL = (
    "device STRING NOT NULL, site STRING, seq BIGINT NOT NULL, temperature DOUBLE, humidity DOUBLE, status STRING, "
    "ok BOOLEAN, at TIMESTAMP, note STRING"
)


def payloads(first: int, count: int) -> list[bytes]:
    """No two are the same: Parquet would store them once."""
    chance = random.Random(first)  # noqa: S311  a seed is the point
    return [
        json.dumps(
            {
                "device": f"device-{number % 1000:05d}",
                "site": "plant-7/line-3",
                "seq": number,
                "temperature": round(chance.uniform(10, 90), 3),
                "humidity": round(chance.random(), 4),
                "status": chance.choice(["running", "idle", "stopped"]),
                "ok": chance.random() < 0.99,
                "at": f"2026-05-01T12:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1_000_000:06d}Z",
                "note": f"shift {number % 3}",
            }
        ).encode()
        for number in range(first, first + count)
    ]


def events(first: int, count: int) -> pa.Table:
    return pa.table(
        {
            "timestamp": pa.array([FIRST_US + number * 1000 for number in range(first, first + count)], pa.int64()),
            "key": pa.array([b"%08d" % number for number in range(first, first + count)], pa.binary()),
            "headers": pa.nulls(count, pa.map_(pa.string(), pa.string())),
            "payload": pa.array(payloads(first, count), pa.binary()),
        }
    )


async def fill(address: str, topics: int, rows: int) -> None:
    room = asyncio.Semaphore(IN_FLIGHT)

    async def publish(client: weft.Client, topic: str, first: int, count: int) -> None:
        try:
            await client.publish_batch(topic, events(first, count))
        finally:
            room.release()

    each = rows // topics
    async with weft.connect(address, insecure=True) as client:
        await client.schemas.set("bench.>", DDL, kind="ddl", mode="off")
        async with asyncio.TaskGroup() as tasks:
            for number in range(topics):
                for first in range(0, each, BATCH_EVENTS):
                    await room.acquire()
                    count = min(BATCH_EVENTS, each - first)
                    tasks.create_task(publish(client, f"bench.t{number}", number * each + first, count))


@dataclass
class Form:
    """One form of the archive; a table and a checkpoint of its own, made again each round."""

    name: str
    spark: SparkSession
    place: Path
    values: dict[str, Any]
    rows: int
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def settings(self) -> ArchiveSettings:
        here = {
            "table": {"path": str(self.place / "table"), **self.values.get("table", {})},
            "run": {"checkpoint": str(self.place / "checkpoint"), "trigger": "available-now"},
        }
        return ArchiveSettings.model_validate(self.values | here)

    def once(self, *, counts: bool) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        settings = self.settings()
        cpu_s, begin_s = tree_cpu_s(), time.perf_counter()
        for query in archive.start(self.spark, settings):
            query.awaitTermination()
        took_s, cpu_s = time.perf_counter() - begin_s, tree_cpu_s() - cpu_s
        found = lake.read(self.spark, settings.table_settings()).count()
        assert found == self.rows, f"the table has {found} rows, not {self.rows}"
        if counts:
            self.rates.append(self.rows / took_s)
            self.cpu_us.append(cpu_s / self.rows * 1e6)

    def figures(self, goal: float | None) -> list[Figure]:
        files = lake.open_table(self.settings().table_settings()).files()
        size = sum(file.size_bytes for file in files) / self.rows
        return [
            Figure(
                self.name, statistics.median(self.rates), "events/s", goal=goal, note=f"best {max(self.rates):,.0f}"
            ),
            Figure(
                f"{self.name}, CPU", statistics.median(self.cpu_us), "µs/event", note=f"best {min(self.cpu_us):.2f}"
            ),
            Figure(f"{self.name}, files", size, "bytes/event"),
        ]


def parsing() -> Figure:
    """Payloads to columns alone, in this process."""
    schema, made = parse_schema(Kind.DDL, DDL), pa.array(payloads(0, 100_000), pa.binary())
    spent = []
    for _ in range(5):
        begin_s = time.process_time()
        for first in range(0, len(made), 10_000):
            read_columns(schema, made.slice(first, 10_000))
        spent.append((time.process_time() - begin_s) / len(made) * 1e6)
    return Figure("limit: payloads to columns, one thread", min(spent), "µs/event", limit=True)


def measure(rows: int, topics: int, rounds: int, kind: str, place: Path) -> list[Figure]:
    rows -= rows % topics
    with node(place, "one") as address:
        asyncio.run(fill(address, topics, rows))
        spark = bench_session("weft bench typed")
        common: dict[str, Any] = {
            "mesh": {"nodes": [address], "insecure": True},
            "source": {"subscribe": "bench.>"},
            "table": {"format": kind},
        }
        raw = Form("archive, raw", spark, place / "raw", common, rows)
        typed = Form("archive, typed", spark, place / "typed", common | {"typed": {}}, rows)
        for number in range(rounds + 1):
            console.print(f"round {number} of {rounds}" if number else "warming up", style="dim")
            for form in (raw, typed):
                _patiently(partial(form.once, counts=number > 0))
        figures = [*raw.figures(None), *typed.figures(GOAL), parsing()]
        spark.stop()
    return figures


def _patiently(run: Callable[[], None]) -> None:
    """A busy machine may not start Spark's Python in the ten seconds that Spark allows: then the round begins again."""
    for _ in range(SLOW_STARTS_MAX):
        try:
            return run()
        except StreamingQueryException as error:
            if SLOW_START not in str(error):
                raise
            console.print("Spark's Python did not begin in time; the round is begun again", style="dim")
    return run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--format", dest="kind", choices=[each.value for each in lake.TableFormat], default="delta")
    parser.add_argument("--dir", type=Path, default=None, help="where logs and tables go")
    parser.add_argument("--json", dest="output", action="store_const", const="json", default="table")
    parser.add_argument("--markdown", dest="output", action="store_const", const="markdown")
    arguments = parser.parse_args()
    output: Format = arguments.output
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        figures = measure(arguments.rows, arguments.topics, arguments.rounds, arguments.kind, Path(place))
    size = sum(map(len, payloads(0, 1000))) / 1000
    report(figures, f"typed archive: {arguments.rows:,} JSON events of {size:.0f} bytes to {arguments.kind}", output)


if __name__ == "__main__":
    main()
