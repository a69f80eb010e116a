"""Which events a micro-batch had, as Spark tells it, and what becomes of a span when they cannot be looked up."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from weft.client import Unavailable
from weft.client.blocking import Client
from weft.pipelines.tracing import BatchTraces, taken_by

SOURCES: list[dict[str, Any]] = [
    {"startOffset": '{"a": {"n/0/1": 4}}', "endOffset": '{"a": {"n/0/1": 9, "n/1/1": 2}, "b": {"m/0/7": 1}}'},
    {"startOffset": None, "endOffset": '{"c": {"n/0/1": 3}}'},
    {"startOffset": '{"d": {"n/0/1": 3}}', "endOffset": '{"d": {"n/0/1": 3}}'},
    {"startOffset": "12", "endOffset": "13"},  # of other sources
    {"startOffset": "null", "endOffset": None},
    {"startOffset": "{", "endOffset": "what"},
]
PROGRESS = {
    "sources": SOURCES,
    "timestamp": "2026-11-18T06:28:20.531Z",
    "durationMs": {"triggerExecution": 1500},
    "batchId": 3,
    "numInputRows": 7,
}


def test_ranges_of_a_batch_are_those_of_its_sources_that_read_a_mesh() -> None:
    assert [(str(each.place), each.first, each.end) for each in taken_by(PROGRESS)] == [
        ("a@n/0:e1", 4, 9),
        ("a@n/1:e1", 0, 2),
        ("b@m/0:e7", 0, 1),
        ("c@n/0:e1", 0, 3),
    ]
    assert list(taken_by({})) == []


@pytest.mark.req("SEE-03")
def test_a_batch_whose_events_cannot_be_looked_up_has_a_span_without_links() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def connect() -> Client:
        raise Unavailable("nobody is there")

    BatchTraces(provider.get_tracer("test"), "night", connect).finished("archive", PROGRESS)
    (batch,) = exporter.get_finished_spans()
    assert (batch.name, batch.links) == ("night batch", ())
    assert batch.start_time is not None and batch.end_time == batch.start_time + 1_500_000_000


def test_without_a_tracer_there_are_none() -> None:
    assert BatchTraces.if_configured("night", lambda: pytest.fail("it asks nobody")) is None
