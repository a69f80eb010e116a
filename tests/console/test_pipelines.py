"""Pipelines as the mesh hears of them: in the console, in every node's metrics, and with whose rights."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from tests.console.signing import Place, signed_in
from tests.up import END_TIMEOUT_S
from weft.client import blocking
from weft.client.connecting import tls_files
from weft.model.pipeline_reports import PIPELINES_BUCKET, PipelineReport, QueryReport, read_report_untrusted
from weft.pipelines.records import QueryRecord, RunRecord
from weft.pipelines.reporting import Reporter


def run_now() -> RunRecord:
    """Of this moment: one that is silent for a minute counts as lost."""
    now_us = time.time_ns() // 1000
    query = QueryRecord("archive", 3, 100, 50.0, 2.0, 7, 400)
    return RunRecord(
        name="plant-archive",
        pipeline="archive",
        pid=1,
        master="local[*]",
        config="/secret/archive.toml",
        started_us=now_us,
        updated_us=now_us,
        state="running",
        queries=(query,),
    )


def connect(place: Place, key: str) -> blocking.Client:
    context = place.node.context
    return blocking.connect(list(context.nodes), token=key, tls=tls_files(context))


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never comes to that"
        time.sleep(0.02)


@pytest.mark.req("SEE-01", "SEE-04")
def test_a_run_has_a_row_and_metrics_from_its_first_word_on(place: Place) -> None:
    said: list[str] = []
    reporter = Reporter(lambda: connect(place, place.admin), said.append)
    reporter.tell(run_now())
    with signed_in(place.node, place.admin) as http:
        until(lambda: http.get("/api/pipelines").json()["pipelines"])
        (shown,) = http.get("/api/pipelines").json()["pipelines"]
        assert (shown["name"], shown["pipeline"], shown["state"], shown["lag"], shown["rows"]) == (
            "plant-archive", "archive", "running", 7, 400,
        )  # fmt: skip
        assert "secret" not in str(shown), "others need not know where it runs"
        series = place.node.metrics()
        assert 'weft_pipeline_up{kind="archive",pipeline="plant-archive"} 1.0' in series
        assert 'weft_pipeline_lag_events{kind="archive",pipeline="plant-archive"} 7.0' in series
        reporter.tell(msgspec.structs.replace(run_now(), state="failed", error="no such table"))
        reporter.close()
        (shown,) = http.get("/api/pipelines").json()["pipelines"]
        assert (shown["state"], shown["error"]) == ("failed", "no such table")
    assert 'weft_pipeline_up{kind="archive",pipeline="plant-archive"} 0.0' in place.node.metrics()
    assert said == []


@pytest.mark.req("SEE-01")
def test_what_others_write_into_the_bucket_is_shown_only_if_it_is_a_report(place: Place) -> None:
    with connect(place, place.admin) as client, signed_in(place.node, place.admin) as http:
        bucket = client.kv(PIPELINES_BUCKET)
        for key, value in (("garbage", b"\xff{"), ("list", b"[]"), ("deep", b"[" * 5000), ("other", b'{"name": "x"}')):
            bucket.put(key, value)
        names = [each["name"] for each in http.get("/api/pipelines").json()["pipelines"]]
        assert not {"garbage", "list", "deep", "other"} & set(names)


@pytest.mark.req("SEE-01")
def test_pipelines_are_for_those_who_may_read_their_bucket(place: Place) -> None:
    said: list[str] = []
    with signed_in(place.node, place.few) as http:
        assert http.get("/api/pipelines").status_code == 403
    reporter = Reporter(lambda: connect(place, place.few), said.append)
    reporter.tell(run_now())
    reporter.close()
    assert len(said) == 1 and "cannot report its state to the mesh" in said[0]


def test_a_run_that_is_silent_is_lost_unless_it_is_over() -> None:
    report = PipelineReport("a", "archive", "running", 0, 0, queries=(QueryReport("q"),))
    assert not report.is_lost(59_000_000) and report.is_lost(61_000_000)
    ended = PipelineReport("a", "archive", "ended", 0, 0)
    assert not ended.is_lost(61_000_000) and ended.lag_events is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b'{"name":"a","pipeline":"x","state":"running","started_us":0,"updated_us":-5}',
        b'{"name":"b","pipeline":"x","state":"running","started_us":0,"updated_us":0}',
        b'{"name":"a","pipeline":"' + b"x" * 501 + b'","state":"running","started_us":0,"updated_us":0}',
    ],
)
def test_what_is_no_report_under_its_own_name_is_none(value: bytes) -> None:
    assert read_report_untrusted("a", value) is None
