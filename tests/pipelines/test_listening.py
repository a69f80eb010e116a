"""Queries that are no pipelines, as the mesh hears of them. Spark calls it in tests/spark/test_spark_source.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weft.errors import UsageError
from weft.model.pipeline_reports import PipelineReport, read_report_untrusted
from weft.pipelines.listening import QueryReports, report_queries, run_name

ENDS = {"endOffset": '{"plant.a": {"n0/0/1": 7}}', "latestOffset": '{"plant.a": {"n0/0/1": 9}}'}
PROGRESS = {"runId": "r", "batchId": 3, "numInputRows": 50, "durationMs": {"triggerExecution": 500}, "sources": [ENDS]}


class Bucket:
    """A client with one bucket, which keeps the latest value of each key."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def kv(self, _: str) -> Bucket:
        return self

    def put(self, name: str, value: bytes, **_options: Any) -> None:
        self.values[name] = value

    def close(self) -> None:
        """Nothing to let go of."""

    def report(self, name: str) -> PipelineReport:
        found = read_report_untrusted(name, self.values[name])
        assert found is not None
        return found


def event(**values: object) -> Any:
    return SimpleNamespace(**values)


@pytest.mark.req("SPK-01", "SEE-01")
@pytest.mark.parametrize("error", [None, "no such table"])
def test_a_query_is_told_of_from_its_start_to_its_end(error: str | None) -> None:
    bucket, said = Bucket(), list[str]()
    client: Any = bucket
    reports = QueryReports(lambda: client, said.append)
    reports.onQueryProgress(event(progress=PROGRESS))  # of a query that nobody has seen begin
    reports.onQueryStarted(event(id="i", runId="r", name="my alarms!"))
    reports.onQueryProgress(event(progress=PROGRESS))
    reports.onQueryProgress(event(progress=PROGRESS))  # Spark repeats the last one while there is nothing to do
    reports.onQueryIdle(event(runId="r"))
    reports.onQueryTerminated(event(runId="r", exception=error))
    report = bucket.report("my-alarms")
    (query,) = report.queries
    assert (report.pipeline, report.state, report.error) == ("query", "failed" if error else "ended", error)
    assert (query.query, query.rows_total, query.rows_per_s, query.lag_events) == ("my alarms!", 50, 100.0, 2)
    assert list(bucket.values) == ["my-alarms"] and said == []


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("alarms", "alarms"),
        ("a b/c", "a-b-c"),
        ("x" * 80, "x" * 64),
        (None, "query-12345678"),
        ("äö", "query-12345678"),
    ],
)
def test_names_are_plain(name: str | None, called: str) -> None:
    assert run_name(name, "123456789-0") == called


def test_options_are_those_of_a_connection() -> None:
    spark: Any = None
    with pytest.raises(UsageError, match="no such option 'subscribe'"):
        report_queries(spark, subscribe="plant.>")
