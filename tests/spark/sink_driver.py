"""A Spark application for the tests of the sink: a directory of lines into topics, with everything against it.

It is killed at any moment and started again. Each run spreads the rows over tasks in another way and another order, and
where Spark tries tasks again, one of each micro-batch fails at first, after it has written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from weft.spark.session import session

TOPICS = 3
MASTER = "local[2,3]"  # the second number: how often a task may be tried


def start(spark: SparkSession, lines: Path, checkpoint: Path, node: str, seed: int, *, fails: bool) -> StreamingQuery:
    """Write the lines of all files to ``out.t0`` and so on, a file at a time, until there are no more."""

    def unruly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            order = np.random.default_rng(seed).permutation(batch.num_rows)
            yield batch.take(pa.array(order))
            if fails and context.attemptNumber() == 0 and context.partitionId() == 0:
                raise RuntimeError("this task fails at first")

    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(lines))
    spread = rows.repartition(2, expr(f"hash(value, {seed})"))
    events = spread.selectExpr("value", f"concat('out.t', pmod(hash(value), {TOPICS})) topic")
    writer = events.mapInArrow(unruly, events.schema).writeStream.format("weft")
    options = {"nodes": node, "insecure": "true", "checkpointLocation": str(checkpoint)}
    return writer.options(**options).trigger(availableNow=True).start()


def main(lines: Path, checkpoint: Path, node: str, seed: int) -> None:
    spark = session("sink", master=MASTER, conf={"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    start(spark, lines, checkpoint, node, seed, fails=True).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
