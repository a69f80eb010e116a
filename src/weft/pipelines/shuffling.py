"""How many parts Spark makes of what it shuffles: by cores and by data, instead of always 200."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from weft.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
SHUFFLE_BYTES: Final = 64 * MIB  # of one part, as the source cuts tasks: it fits memory whatever is done to it
SHUFFLE_PARTITIONS_MAX: Final = 10_000  # Spark's scheduler, and the files of a stateful query, get slow before that
CORES_MAX: Final = 4096  # parts of the range that is counted
LOCAL: Final = re.compile(r"local(?:\[(\d{1,4}|\*)(?:,\d+)?\])?")


def partitions_for(cores: int, data_bytes: int | None) -> int:
    """One part for each core, and more if there is so much that parts would be large; whole rounds of all cores."""
    rounds = 1 if data_bytes is None else -(-data_bytes // (SHUFFLE_BYTES * cores))
    return min(max(rounds, 1) * cores, SHUFFLE_PARTITIONS_MAX)


def cores_of(spark: SparkSession) -> int:
    """How many tasks this session runs at a time: by its master, or else by the parts that it makes of a range."""
    from pyspark.sql import functions as f

    found = LOCAL.fullmatch(spark.conf.get("spark.master", "") or "")
    if found:
        return 1 if found[1] is None else os.cpu_count() or 1 if found[1] == "*" else max(int(found[1]), 1)
    return max(spark.range(CORES_MAX).select(f.spark_partition_id()).distinct().count(), 1)


def choose_partitions(spark: SparkSession, data_bytes: int | None) -> str:
    """Set it for this session; what was chosen and why, for people."""
    cores = cores_of(spark)
    chosen = partitions_for(cores, data_bytes)
    spark.conf.set(SHUFFLE_PARTITIONS, str(chosen))
    data = "" if data_bytes is None else f" and {data_bytes / MIB:,.0f} MiB of tables"
    return (
        f"{chosen} shuffle partitions for {cores} cores{data} ([spark.conf] {SHUFFLE_PARTITIONS} sets another number)"
    )
