"""Two tables: readings as they come from the mesh, and the latest of each sensor.

Spark runs this file when it builds the graph. ``format("weft")`` needs no registering: Spark finds the module
``pyspark_weft``, which comes with Weft, by the name of the format.
"""

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
MESH = {name: spark.conf.get(f"weft.{name}") for name in ("nodes", "insecure")}


@pipelines.table
def readings() -> DataFrame:
    """A streaming table: every run adds what came since the last one, each event once."""
    events = spark.readStream.format("weft").options(**MESH, startingOffsets="earliest").load("plant.*.temp")
    return events.select("topic", f.col("value").cast("string").cast("double").alias("celsius"), "timestamp")


@pipelines.materialized_view
def latest() -> DataFrame:
    """One row for each sensor."""
    newest = f.max_by("celsius", "timestamp").alias("celsius")
    return spark.read.table("readings").groupBy("topic").agg(newest, f.count("*").alias("readings"))
