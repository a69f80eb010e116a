"""How many parts Spark makes when it shuffles: chosen by cores and by data, instead of always 200."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from weft.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
SHUFFLE_BYTES: Final = 64 * MIB  # of one part, the same as the source's tasks: it fits memory whatever is done with it
SHUFFLE_PARTITIONS_MAX: Final = 10_000  # Spark's scheduler, and the files of a stateful query, get slow before that
CORES_MAX: Final = 4096  # parts of the range that is counted
LOCAL: Final = re.compile(r"local(?:\[(\d{1,4}|\*)(?:,\d+)?\])?")


def partitions_for(cores: int, data_bytes: int | None) -> int:
    """One part for each core. If parts would get too large there are more, but always a multiple of the cores."""
    rounds = 1 if data_bytes is None else -(-data_bytes // (SHUFFLE_BYTES * cores))
    return min(max(rounds, 1) * cores, SHUFFLE_PARTITIONS_MAX)


def cores_of(spark: SparkSession) -> int:
    """How many tasks this session runs at a time, from its master or, if that does not say, from how it divides a
    range."""
    from pyspark.sql import functions as f

    found = LOCAL.fullmatch(spark.conf.get("spark.master", "") or "")
    if found:
        return 1 if found[1] is None else os.cpu_count() or 1 if found[1] == "*" else max(int(found[1]), 1)
    return max(spark.range(CORES_MAX).select(f.spark_partition_id()).distinct().count(), 1)


def choose_partitions(spark: SparkSession, data_bytes: int | None) -> str:
    """Set the number of parts for this session; return what was chosen and why, for people."""
    cores = cores_of(spark)
    chosen = partitions_for(cores, data_bytes)
    spark.conf.set(SHUFFLE_PARTITIONS, str(chosen))
    data = "" if data_bytes is None else f" and {data_bytes / MIB:,.0f} MiB of tables"
    return (
        f"{chosen} shuffle partitions for {cores} cores{data} ([spark.conf] {SHUFFLE_PARTITIONS} sets another number)"
    )
