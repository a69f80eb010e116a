"""How fast Spark reads the mesh: ``python -m bench.spark [--rows N] [--topics N] [--rounds N] [--json | --markdown]``.

The same rows from a node, from Parquet files and from Arrow batches that workers have in memory, into a sink that
throws them away, one after the other in turn. The last two are what Spark itself can do on this machine.
``--topics 1000`` and ``--rows 50000000 --rounds 1 --warm-ups 0`` show how it grows.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from bench.figures import Figure, Format, add_formats, report
from bench.mesh_nodes import node
from bench.spark_common import Run, bench_session, fill, in_turn
from bench.spark_memory import InMemory
from pyspark.sql import DataFrame, SparkSession

ROWS = 1_000_000
ROUNDS = 7
GOAL_OF_MEMORY = 0.9  # of what a source in Python can do at all


def frames(spark: SparkSession, address: str, rows: int, parquet: Path) -> list[Run]:
    def mesh() -> DataFrame:
        return spark.read.format("weft").options(nodes=address, insecure="true", subscribe="bench.>").load()

    def files() -> DataFrame:
        return spark.read.parquet(str(parquet))

    def memory() -> DataFrame:
        return spark.read.format("in_memory").options(rows=str(rows), partitions="8").load()

    mesh().write.parquet(str(parquet))
    assert files().count() == rows, "the files have the same rows"
    return [Run("mesh", mesh, rows), Run("Parquet", files, rows), Run("Arrow in memory", memory, rows)]


def measure(rows: int, topics: int, rounds: int, warm_ups: int, place: Path) -> list[Figure]:
    with node(place, "one") as address:
        names = [f"bench.t{number}" for number in range(topics)]
        asyncio.run(fill(address, names, rows))
        spark = bench_session("weft bench")
        spark.dataSource.register(InMemory)
        runs = frames(spark, address, rows, place / "rows.parquet")
        in_turn(runs, rounds, warm_ups)
        spark.stop()
    mesh, parquet, memory = runs
    return [
        rate(memory, limit=True),
        rate(parquet, limit=True),
        rate(mesh, goal=memory.rate * GOAL_OF_MEMORY),
        *(Figure(f"{run.name}, CPU of all processes", run.cpu_s_per_million, "s per million rows") for run in runs),
    ]


def rate(run: Run, *, goal: float | None = None, limit: bool = False) -> Figure:
    name = f"limit: {run.name}" if limit else run.name
    return Figure(name, run.rate, "rows/s", goal=goal, limit=limit, note=f"best {max(run.rates):,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--warm-ups", type=int, default=2, help="none are needed where a round takes minutes")
    parser.add_argument("--dir", type=Path, default=None, help="where logs and files go")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        figures = measure(arguments.rows, arguments.topics, arguments.rounds, arguments.warm_ups, Path(place))
    report(figures, f"Spark: {arguments.rows:,} rows in {arguments.topics:,} topics, into noop", output)


if __name__ == "__main__":
    main()
