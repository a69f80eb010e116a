"""Spans around send and receive: there with a tracer, nothing at all without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weft.transport.peers.tracing import NOTHING, receiving, sending

# A tracer is set once for a process and for good, so what it does is looked at in one of its own.
WITH_A_TRACER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from weft.transport.peers.tracing import receiving, sending

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
with receiving("node-b", batches=2, size=100):
    with sending("node-c", batches=1, size=50):
        pass
for span in exporter.get_finished_spans():
    print(span.name, span.kind.name, span.attributes["weft.peer"], span.attributes["messaging.batch.message_count"],
          span.attributes["messaging.message.body.size"], span.parent is not None)
"""


@pytest.mark.req("PL-06", "OBS-01")
def test_spans_when_a_tracer_is_configured() -> None:
    done = subprocess.run([sys.executable, "-c", WITH_A_TRACER], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "weft.send PRODUCER node-c 1 50 True",
        "weft.receive CONSUMER node-b 2 100 False",
    ]


def test_nothing_is_made_without_a_tracer() -> None:
    assert sending("node-b", batches=1, size=1) is NOTHING
    assert receiving("node-b", batches=1, size=1) is NOTHING
    with sending("node-b", batches=1, size=1), receiving("node-b", batches=1, size=1):
        pass
