"""Weft's source for Spark beside Spark's own source for Kafka: ``python -m bench.spark_kafka [--rows N] [--rounds N]``.

One node and one Kafka broker on loopback, both without TLS, hold the same rows: keys of 8 bytes, payloads of 100, two
headers. One Spark, ``local[2]``, reads them from either in turn, with the same query: into nothing, aggregated, and
written to Parquet files, as a batch and as a stream. Kafka's topic has as many partitions as Weft's source makes tasks.

CPU is that of Spark: the driver, its Java, which has the executors in it, and the Python workers. That of the servers
is told beside it. Kafka's jars, and those of its source, come by Maven (bench/peers).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Comparison, Format, add_formats, report_comparisons
from bench.peers import kafka
from bench.peers.process import cpu_s
from bench.peers.spark_connector import fetch
from bench.spark_common import bench_session, console, fill
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.up import up
from weft.spark.planning import SPARK_PARTITIONS

ROWS = 2_000_000
ROUNDS = 5
WARM_UPS = 2
OURS, THEIRS = "Weft", "Kafka"
TOPIC = "bench.t0"
KAFKA_TOPIC = "bench"
PRODUCER = {
    "kafka.batch.size": "1000000",
    "kafka.linger.ms": "20",
    "kafka.compression.type": "none",
    "kafka.delivery.timeout.ms": "600000",  # a busy machine takes its time
}
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]


@dataclass(frozen=True)
class Source:
    """One system as Spark reads it: format and options; and the pid of its server."""

    name: str
    format: str
    options: dict[str, str]
    pid: int

    def batch(self, spark: SparkSession, columns: list[str]) -> DataFrame:
        return spark.read.format(self.format).options(**self._options(columns)).load().select(columns)

    def stream(self, spark: SparkSession, columns: list[str]) -> DataFrame:
        options = self._options(columns) | {"startingOffsets": "earliest"}
        return spark.readStream.format(self.format).options(**options).load().select(columns)

    def _options(self, columns: list[str]) -> dict[str, str]:
        """As the documentation of each has it: Spark tells Kafka's source itself which columns it needs."""
        if self.name == OURS:
            return self.options | {"columns": ",".join(columns)}
        return self.options | {"includeHeaders": str("headers" in columns).lower()}


@dataclass
class Job:
    """Something that Spark does with all rows of a source, and what each round of it took."""

    name: str
    run: Callable[[Source], None]
    wall_s: dict[str, list[float]] = field(default_factory=dict)
    spark_cpu_s: dict[str, list[float]] = field(default_factory=dict)
    server_cpu_s: dict[str, list[float]] = field(default_factory=dict)

    def once(self, source: Source, others: list[int], *, counts: bool) -> None:
        spark_s, server_s, begun_s = _spark_cpu_s(others), cpu_s(source.pid), time.perf_counter()
        self.run(source)
        took_s = time.perf_counter() - begun_s
        if counts:
            self.wall_s.setdefault(source.name, []).append(took_s)
            self.spark_cpu_s.setdefault(source.name, []).append(_spark_cpu_s(others) - spark_s)
            self.server_cpu_s.setdefault(source.name, []).append(cpu_s(source.pid) - server_s)


def _spark_cpu_s(servers: list[int]) -> float:
    """Of this process and all it started, but for the servers."""
    return cpu_s(os.getpid()) - sum(map(cpu_s, servers))


class Jobs:
    def __init__(self, spark: SparkSession, place: Path, rows: int) -> None:
        self._spark = spark
        self._place = place
        self._rows = rows

    def all(self) -> list[Job]:
        return [
            Job("read, all columns", self.read_all),
            Job("read, key and value", self.read_values),
            Job("aggregated", self.aggregate),
            Job("written to Parquet", self.write),
            Job("a stream, aggregated", self.stream_aggregate),
            Job("a stream, written to Parquet", self.stream_write),
        ]

    def read_all(self, source: Source) -> None:
        source.batch(self._spark, COLUMNS).write.format("noop").mode("overwrite").save()

    def read_values(self, source: Source) -> None:
        source.batch(self._spark, ["key", "value"]).write.format("noop").mode("overwrite").save()

    def aggregate(self, source: Source) -> None:
        found = _aggregated(source.batch(self._spark, ["key", "value", "offset"])).collect()
        assert sum(row.events for row in found) == self._rows, f"{source.name}: all rows are counted"

    def write(self, source: Source) -> None:
        place = self._clear("rows")
        source.batch(self._spark, COLUMNS).write.parquet(str(place))
        self._check(source, place)

    def stream_aggregate(self, source: Source) -> None:
        found: list[int] = []

        def take(rows: DataFrame, batch: int) -> None:
            del batch
            found.append(sum(row.events for row in rows.collect()))

        frame = _aggregated(source.stream(self._spark, ["key", "value", "offset"]))
        writing = frame.writeStream.foreachBatch(take).outputMode("complete")
        self._run_stream(writing)
        assert found[-1] == self._rows, f"{source.name}: all rows are counted"

    def stream_write(self, source: Source) -> None:
        place = self._clear("rows")
        writing = source.stream(self._spark, COLUMNS).writeStream.format("parquet").option("path", str(place))
        self._run_stream(writing)
        self._check(source, place)

    def _run_stream(self, writing: object) -> None:
        checkpoint = str(self._clear("checkpoint"))
        query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()  # type: ignore[attr-defined]
        query.awaitTermination()

    def _clear(self, name: str) -> Path:
        place = self._place / name
        shutil.rmtree(place, ignore_errors=True)
        return place

    def _check(self, source: Source, place: Path) -> None:
        import pyarrow.parquet as pq

        rows = sum(pq.read_metadata(file).num_rows for file in place.glob("*.parquet"))
        assert rows == self._rows, f"{source.name}: {rows} rows were written"


def _aggregated(frame: DataFrame) -> DataFrame:
    """By the last byte of the key: 256 groups."""
    return frame.groupBy(f.substring("key", -1, 1).alias("of")).agg(
        f.count("*").alias("events"), f.sum(f.octet_length("value")).alias("size"), f.max("offset").alias("last")
    )


def measure(rows: int, rounds: int, place: Path) -> tuple[list[Comparison], str]:
    connector = fetch()
    (place / "kafka").mkdir()
    with (
        up(place / "node", "--insecure") as node,
        kafka.kafka_server(place / "kafka", partitions=SPARK_PARTITIONS) as broker,
    ):
        asyncio.run(fill(node.grpc, [TOPIC], rows))
        spark = bench_session("weft beside kafka", {"spark.jars": connector.jars})
        ours = Source(OURS, "weft", {"nodes": node.grpc, "insecure": "true", "subscribe": TOPIC}, node.process.pid)
        servers = f"127.0.0.1:{broker.port}"
        options = {"kafka.bootstrap.servers": servers, "subscribe": KAFKA_TOPIC}
        theirs = Source(THEIRS, "kafka", options, broker.pid)
        _copy(spark, ours, servers)
        same(spark, ours, theirs, rows)
        jobs = Jobs(spark, place, rows).all()
        for number in range(1 - WARM_UPS, rounds + 1):
            console.print(f"round {number} of {rounds}" if number > 0 else "warming up", style="dim")
            for job in jobs:
                for source in (ours, theirs) if number % 2 else (theirs, ours):
                    job.once(source, [ours.pid, theirs.pid], counts=number > 0)
        version = spark.version
        spark.stop()
    title = f"Spark {version}, {rows:,} rows, its Kafka source {connector.version}"
    return [row for job in jobs for row in comparisons(job, rows)], title


def _copy(spark: SparkSession, ours: Source, servers: str) -> None:
    """The rows of the node, into a topic with as many partitions as our source makes tasks."""
    rows = ours.batch(spark, ["key", "value", "offset", "headers"])
    pairs = f.expr(
        "transform(map_entries(headers), each -> struct(each.key AS key, cast(each.value AS binary) AS value))"
    )
    placed = rows.select(
        "key", "value", pairs.alias("headers"), f.expr(f"cast(offset % {SPARK_PARTITIONS} AS int) AS partition")
    )
    options = {"kafka.bootstrap.servers": servers, "topic": KAFKA_TOPIC, **PRODUCER}
    placed.write.format("kafka").options(**options).save()


def same(spark: SparkSession, ours: Source, theirs: Source, rows: int) -> None:
    """Both give the same keys, values and headers."""
    digests = []
    for source in (ours, theirs):
        frame = source.batch(spark, ["key", "value", "headers"])
        headers = f.expr("transform(map_entries(headers), each -> concat(each.key, cast(each.value AS string)))")
        if source.name == THEIRS:
            headers = f.expr("transform(headers, each -> concat(each.key, cast(each.value AS string)))")
        hashed = frame.select(f.xxhash64("key", "value", f.sort_array(headers)).alias("hash"))
        digests.append(hashed.agg(f.count("*"), f.sum(f.shiftright("hash", 20))).collect()[0])
    assert digests[0] == digests[1] and digests[0][0] == rows, f"the same rows in both: {digests}"


def comparisons(job: Job, rows: int) -> list[Comparison]:
    def per_million(taken: dict[str, list[float]]) -> dict[str, float]:
        return {name: statistics.median(each) / rows * 1e6 for name, each in taken.items()}

    rates = {name: rows / statistics.median(each) for name, each in job.wall_s.items()}
    unit = "s per million rows"
    return [
        Comparison(job.name, "rows/s", [OURS], rates, goal=1.0),
        Comparison(f"{job.name}, CPU of Spark", unit, [OURS], per_million(job.spark_cpu_s), ceiling=True, goal=1.0),
        Comparison(f"{job.name}, CPU of the server", unit, [OURS], per_million(job.server_cpu_s), ceiling=True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--dir", type=Path, default=None, help="where logs and files go")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    if why := kafka.why_not():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        rows, title = measure(arguments.rows, arguments.rounds, Path(place))
    report_comparisons(rows, [OURS, THEIRS], title, output)


if __name__ == "__main__":
    main()
