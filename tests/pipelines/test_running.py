"""Starting the queries of a pipeline, watching them, and saying what Spark says in one sentence. Without Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from weft.errors import UsageError
from weft.pipelines.base import Streaming
from weft.pipelines.records import Records, RunRecord
from weft.pipelines.running import SLOW_START, SLOW_STARTS_MAX, SparkFailed, spark_told, started, watch
from weft.pipelines.settings import StreamingSettings


def attempted(*errors: str) -> tuple[Sequence[Any], list[str]]:
    """What comes of a start that first fails like this, one after the other; and what people are told."""
    left, said = list(errors), list[str]()
    queries: Any = ["a query"]

    def start(_spark: Any, _settings: Any) -> Any:
        if left:
            raise RuntimeError(left.pop(0))
        return queries

    return started(Streaming("x", StreamingSettings, start), None, None, said.append), said  # type: ignore[arg-type]


@pytest.mark.req("LAK-05")
def test_python_that_begins_too_late_is_begun_again() -> None:
    slow = f"{SLOW_START}.\n\nJVM stacktrace: ..."
    assert attempted() == (["a query"], [])
    queries, said = attempted(slow, slow)
    assert (queries, len(said)) == (["a query"], 2)
    with pytest.raises(RuntimeError, match=SLOW_START):
        attempted(*[slow] * (SLOW_STARTS_MAX + 1))


def test_what_is_wrong_is_not_tried_again() -> None:
    with pytest.raises(RuntimeError, match="no such table"):
        attempted("no such table", "never seen")


JAVA_SAID = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3267)
"""
WORKER_SAID = """[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "x.py", line 1, in partitions
weft.client.errors.NotAllowed: not allowed to subscribe to "other.>"
"""


class OfSpark(Exception):
    """As Py4J and PySpark raise them."""


OfSpark.__module__ = "pyspark.errors.exceptions.captured"


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (JAVA_SAID, "Could not parse Master URL: 'nonsense'"),
        (WORKER_SAID, 'weft.client.errors.NotAllowed: not allowed to subscribe to "other.>"'),
        ("[TABLE_NOT_FOUND] there is no such table\n;; 'Project [*]", "[TABLE_NOT_FOUND] there is no such table"),
        ("", "no reason was given"),
    ],
)
def test_what_spark_says_on_a_page_becomes_a_sentence(page: str, sentence: str) -> None:
    with pytest.raises(SparkFailed) as caught, spark_told():
        raise OfSpark(page)
    assert str(caught.value) == f"Spark failed: {sentence}"


def test_what_others_raise_stays_as_it_is() -> None:
    for error in (UsageError("ours"), ZeroDivisionError("a defect")):
        with pytest.raises(type(error)), spark_told():
            raise error


class QueryWithoutJava:
    """A query whose Java has ended by the signal that is also for us."""

    id = name = "q"

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's
        os.kill(os.getpid(), signal.SIGTERM)
        raise OfSpark("Answer from Java side is empty")

    def stop(self) -> None:
        raise ConnectionRefusedError


class QueryThatBreaks(QueryWithoutJava):
    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's
        raise OfSpark("Answer from Java side is empty")


def test_a_signal_for_the_whole_service_stops_a_run(tmp_path: Path) -> None:
    """A service manager ends all of its processes at once, Spark's Java too."""
    record = RunRecord("night", "archive", 1, "local[2]", "a.toml", 1, 2, "running")
    query: Any = QueryWithoutJava()
    said: list[str] = []
    outcome, record = watch([query], record, Records(tmp_path), None, said.append)
    assert (outcome.summary, record.state, said) == ("stopped: q 0 rows", "stopped", ["stopping"])
    query = QueryThatBreaks()
    with pytest.raises(OfSpark):
        watch([query], record, Records(tmp_path), None, said.append)
