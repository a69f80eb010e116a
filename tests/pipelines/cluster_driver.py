"""A driver that runs several pipelines on one session, one after the other, and notes how each of them ended.

    python -m tests.pipelines.cluster_driver PLAN OUTCOMES

PLAN is JSON: ``spark`` as in the configuration of a pipeline, and ``pipelines``, the configuration of each by its name.
A name may be followed by a word, for a pipeline that runs more than once: ``archive typed``.
A session of its own for each would take most of the time: a cluster starts executors for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from weft.configuration import Source, validated
from weft.pipelines.base import JobRun, Outcome, Streaming
from weft.pipelines.catalogue import find
from weft.pipelines.running import started
from weft.spark.session import session


def run(spark: SparkSession, name: str, values: dict[str, Any]) -> Outcome:
    """To its end. A job does what it plans."""
    pipeline = find(pipeline_of(name)).load()
    settings = validated(pipeline.settings, [Source("the plan", values)])
    if not isinstance(pipeline, Streaming):
        outcome: Outcome = pipeline.run(spark, settings, JobRun(execute=True, say=lambda _line: None))
        return outcome
    for query in started(pipeline, spark, settings, say=lambda _line: None):
        query.awaitTermination()
    return Outcome("done")


def pipeline_of(name: str) -> str:
    return name.partition(" ")[0]


def main(plan: Path, outcomes: Path) -> None:
    wanted = json.loads(plan.read_text())
    spark = session("weft tests", master=wanted["spark"]["master"], conf=wanted["spark"]["conf"])
    found: dict[str, dict[str, object]] = {}
    for name, values in wanted["pipelines"].items():
        try:
            outcome = run(spark, name, values)
        except Exception as error:  # others can still tell their story
            found[name] = {"ok": False, "summary": f"{type(error).__name__}: {error}", "rows": []}
        else:
            found[name] = {"ok": outcome.ok, "summary": outcome.summary, "rows": list(outcome.rows)}
        found[name]["master"] = spark.conf.get("spark.master")
    spark.stop()
    outcomes.write_text(json.dumps(found, default=str))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
