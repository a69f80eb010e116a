"""How fast ``archive`` is: ``python -m bench.spark_archive [--rows N] [--topics N] [--format F]``.

A log of so many events goes into a new table each round, from starting the query to its end: source, Spark, Parquet,
commit. In turn with it, the same events go from the source into a sink that throws them away, and rows in memory into
Parquet files by one thread: the limits on either side. ``--rows 50000000`` shows how it grows.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.figures import Figure, Format, report
from bench.mesh_nodes import node
from bench.spark_common import Run, bench_session, console, fill
from pyspark.sql import DataFrame, SparkSession

from weft.lake.files import Attempt
from weft.pipelines import archive, lake
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.lake.writing import FileWriter

ROWS = 4_000_000
ROUNDS = 5
GOAL = 800_000.0
WRITER_ROWS = 1_000_000


@dataclass
class Timed:
    """Something that handles ``rows`` rows in the seconds that it says."""

    name: str
    run: Callable[[], float]
    rows: int
    rates: list[float] = field(default_factory=list)

    def once(self) -> None:
        self.rates.append(self.rows / self.run())


class Bench:
    """One log, archived again and again."""

    def __init__(self, spark: SparkSession, address: str, rows: int, kind: str, place: Path) -> None:
        self._spark = spark
        self._place = place
        self._rows = rows
        self._settings = ArchiveSettings.model_validate(
            {
                "mesh": {"nodes": [address], "insecure": True},
                "source": {"subscribe": "bench.>"},
                "table": {"path": str(place / "table"), "format": kind},
                "run": {"checkpoint": str(place / "checkpoint"), "trigger": "available-now"},
            }
        )

    def archive(self) -> float:
        for name in ("table", "checkpoint"):
            shutil.rmtree(self._place / name, ignore_errors=True)
        begin = time.perf_counter()
        for query in archive.start(self._spark, self._settings):
            query.awaitTermination()
        took_s = time.perf_counter() - begin
        found = lake.read(self._spark, self._settings.table_settings()).count()
        assert found == self._rows, f"the table has {found} rows, not {self._rows}"
        return took_s

    def source(self) -> DataFrame:
        options = self._settings.mesh.options() | {"subscribe": self._settings.source.subscribe}
        return self._spark.read.format("weft").options(**options).load()

    def writer(self) -> Callable[[], float]:
        """One task's share of writing, without Spark around it."""
        frame = self.source().limit(min(WRITER_ROWS, self._rows))
        layout, table = self._settings.layout.events(), self._settings.table_settings()
        rows = frame.toArrow().to_batches(max_chunksize=10_000)
        batches, schema = [layout.laid_out(batch) for batch in rows], layout.columns()

        def write() -> float:
            begin = time.perf_counter()
            place = self._place / "alone"
            alone = replace(table, path=str(place))
            FileWriter(alone, schema, Attempt("bench", 0, 0, "00"), str).write_all(batches)
            took_s = time.perf_counter() - begin
            shutil.rmtree(place)
            return took_s

        return write

    def bytes_per_row(self) -> float:
        files = lake.open_table(self._settings.table_settings()).files()
        return sum(file.size_bytes for file in files) / self._rows


def measure(rows: int, topics: int, rounds: int, kind: str, place: Path) -> list[Figure]:
    with node(place, "one") as address:
        asyncio.run(fill(address, [f"bench.t{number}" for number in range(topics)], rows))
        spark = bench_session("weft bench archive")
        bench = Bench(spark, address, rows, kind, place)
        source = Run("source", bench.source, rows)
        runs = [
            Timed("archive", bench.archive, rows),
            Timed("limit: source into noop", lambda: rows / source.once(), rows),
            Timed("limit: Parquet files, one thread", bench.writer(), min(WRITER_ROWS, rows)),
        ]
        for number in range(rounds + 1):
            console.print(f"round {number} of {rounds}" if number else "warming up", style="dim")
            for run in runs:
                run.once()
        size = bench.bytes_per_row()
        spark.stop()
    figures = [_figure(run) for run in runs]
    return [*figures, Figure("the table's files", size, "bytes/event")]


def _figure(run: Timed) -> Figure:
    rates = sorted(run.rates[1:])  # without the round that warms up
    is_limit = run.name.startswith("limit")
    return Figure(
        run.name,
        rates[len(rates) // 2],
        "events/s",
        goal=None if is_limit else GOAL,
        limit=is_limit,
        note=f"best {rates[-1]:,.0f}",
    )


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
    report(figures, f"archive: {arguments.rows:,} events of {arguments.topics:,} topics to {arguments.kind}", output)


if __name__ == "__main__":
    main()
