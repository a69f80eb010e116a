"""Spark's Kafka source as jars, fetched by Maven into ``build/peers/spark-kafka`` once.

The connector belongs to one version of Spark. The one of the installed Spark is asked for first; where Maven has none,
the newest of before is taken, which works as long as Spark keeps the interfaces that it uses: the bench says which it
is.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyspark
from bench.peers.kafka import COPY, FETCH_S_MAX, HERE

PLACE = HERE.parents[1] / "build" / "peers" / "spark-kafka"
# Spark's version, and that of a small module of it which Maven lacks for some.
BEFORE = [("4.2.0", "4.2.0"), ("4.2.0", "4.1.0-preview1")]
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")  # Spark has all others


@dataclass(frozen=True)
class Connector:
    version: str
    jars: str  # as spark.jars takes them


def fetch() -> Connector:
    """RuntimeError if there is none."""
    if not (found := _fetched()):
        for versions in ((pyspark.__version__,) * 2, *BEFORE):
            if _copy(*versions) and (found := _fetched()):
                break
    if not found:
        raise RuntimeError("Maven gives no Kafka source for Spark")
    source = next(jar for jar in found if jar.name.startswith(NEEDED[0]))
    return Connector(source.stem.rpartition("_2.13-")[2], ",".join(map(str, found)))


def _fetched() -> list[Path]:
    """One jar of each that is needed, or none."""
    found = [jar for name in NEEDED for jar in sorted(PLACE.glob(f"{name}*.jar"))]
    return found if len(found) == len(NEEDED) else []


def _copy(spark: str, tokens: str) -> bool:
    shutil.rmtree(PLACE, ignore_errors=True)
    words = ["mvn", "-q", "-B", "-f", str(HERE / "java_spark"), COPY, f"-DoutputDirectory={PLACE}"]
    words += ["-DincludeScope=runtime", f"-Dspark.version={spark}", f"-Dtokens.version={tokens}"]
    return subprocess.run(words, check=False, timeout=FETCH_S_MAX, capture_output=True).returncode == 0
