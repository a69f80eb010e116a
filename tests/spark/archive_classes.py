"""Keep the classes that Spark loads in an archive, from which the Javas of tests start with half the work.

Run by ``make peers``, and so by ``make test``: ``python -m tests.spark.archive_classes FILE``. A session does what most
tests do; its Java writes the archive when it ends (JEP 350). ``tests/conftest.py`` has the other Javas use the file. A
Java that runs another Spark does not, and starts as it would without.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from weft.client.blocking import Client
from weft.spark.session import SUBMIT_VARIABLE, session
from weft.testing import blocking_mesh

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"


def use(spark: SparkSession, client: Client, address: str, place: Path) -> None:
    """A stream from topics with state, one into topics, and a table of files."""
    for number in range(10):
        client.publish("plant.a", b"%d" % number)
    mesh = {"nodes": address, "insecure": "true"}
    wanted = {**mesh, "subscribe": "plant.>"}
    events = spark.readStream.format("weft").options(**wanted).load()
    counted = events.withWatermark("timestamp", "1 minute").groupBy("topic", "timestamp").count()
    rows = counted.writeStream.format("parquet").outputMode("append").option("path", str(place / "counts"))
    copies = events.selectExpr("value", "'copies' topic").writeStream.format("weft").options(**mesh)
    for name, writer in (("counts", rows), ("copies", copies)):
        writer = writer.option("checkpointLocation", str(place / f"checkpoint-{name}"))
        writer.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.format("weft").options(**wanted).load()
    found.write.partitionBy("topic").parquet(str(place / "events"))
    read = spark.read.parquet(str(place / "events"))
    read.join(read.groupBy("topic").count(), "topic").orderBy("offset").collect()


def main(file: Path) -> None:
    fresh = file.with_suffix(".new")
    # For this Java only: Spark's start script runs others, and each would write the file.
    os.environ[SUBMIT_VARIABLE] = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable"
    os.environ.setdefault(JAVA_OPTIONS, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # as in tests
    with tempfile.TemporaryDirectory() as place, blocking_mesh(1) as mesh, mesh.client() as client:
        spark = session("classes", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
        use(spark, client, mesh.address("n0"), Path(place))
        java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # of a session that is no Connect client
        spark.stop()
        java.stdin.close()  # which ends it
        java.wait()
    fresh.replace(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
