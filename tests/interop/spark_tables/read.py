"""Read a Delta and an Iceberg table with Spark's own connectors: ``read.py JARS DELTA ICEBERG OUT``.

It runs on a Spark of its own, which knows nothing of weft. What was read is written to ``OUT/delta`` and
``OUT/iceberg`` as Parquet, and the columns' types as Spark names them to ``OUT/types.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

jars, delta, iceberg, out = sys.argv[1:]
settings = {
    "spark.jars": ",".join(map(str, sorted(Path(jars).glob("*.jar")))),
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
types = {}
for kind, place in (("delta", delta), ("iceberg", iceberg)):
    frame = spark.read.format(kind).load(place)
    types[kind] = dict(frame.dtypes)
    frame.coalesce(1).write.parquet(f"{out}/{kind}")
Path(out, "types.json").write_text(json.dumps(types))
spark.stop()
