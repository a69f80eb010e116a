"""What an application can watch."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.client.fake import FakeNode, error, running
from tests.client.story import Record, connect, play
from weft.client import Hooks, NotAllowed
from weft.wire.mesh import mesh_pb2 as pb


@pytest.mark.req("SDK-02")
def test_hooks_tell_of_connections_batches_and_retries() -> None:
    async def story() -> Record:
        node, hooks = FakeNode(), Record()
        node.faults.refuse = [error(pb.ERROR_BUSY, "full")]
        async with running(node) as addresses, connect(addresses, hooks) as client:
            subscription = client.subscribe("a")
            await subscription.opened()
            for _ in range(3):
                client.publish_nowait("a", b"x")
            await client.flush()
            await anext(subscription)
            node.faults.refuse = [error(pb.ERROR_NOT_ALLOWED, "no")]
            with pytest.raises(NotAllowed):
                await client.publish("b", b"y")
        return hooks

    hooks = play(story())
    assert sorted(hooks.of("connected")) == [("node-a", "publish"), ("node-a", "subscribe")]
    assert [(purpose, "full" in reason) for purpose, _, reason in hooks.of("retry")] == [("publish", True)]
    ((topic, events, size, latency_s),) = hooks.of("published")
    assert (topic, events) == ("a", 3)
    assert size > 0
    assert latency_s >= 0
    assert [(topic, events) for topic, events, _ in hooks.of("delivered")] == [("a", 3)]
    assert [(topic, events) for topic, events, _ in hooks.of("failed")] == [("b", 1)]


@pytest.mark.req("SDK-02")
def test_a_hook_that_fails_is_logged_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Hooks):
        def on_published(self, topic: str, events: int, size_bytes: int, latency_s: float) -> None:
            raise RuntimeError("my mistake")

    async def story() -> None:
        async with running(FakeNode()) as addresses, connect(addresses, Broken()) as client:
            await client.publish("a", b"1")

    play(story())
    assert "hook on_published failed" in caplog.text
    assert "my mistake" in caplog.text


@pytest.mark.req("SDK-02")
def test_connections_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with running(FakeNode()) as addresses, connect(addresses) as client:
            await client.publish("a", b"1")

    with caplog.at_level(logging.INFO, "weft.client"):
        play(story())
    assert "publishing to node-a" in caplog.text


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


@pytest.mark.req("SDK-02")
def test_there_is_a_span_per_batch_and_events_carry_the_current_one(spans: InMemorySpanExporter) -> None:
    async def story() -> None:
        node = FakeNode()
        async with running(node) as addresses, connect(addresses) as client:
            subscription = client.subscribe("a")
            await subscription.opened()
            with trace.get_tracer("test").start_as_current_span("mine") as mine:
                for _ in range(3):
                    client.publish_nowait("a", b"x")
            client.publish_nowait("a", b"y", headers={"h": "v"})
            await client.flush()
            events = [await anext(subscription) for _ in range(4)]
            trace_id = f"{mine.get_span_context().trace_id:032x}"
            assert events[0].headers is not None
            assert trace_id in events[0].headers["traceparent"]
            assert events[3].headers == {"h": "v"}
            node.faults.refuse = [error(pb.ERROR_NOT_ALLOWED, "no")]
            with pytest.raises(NotAllowed):
                await client.publish("b", b"y")

    play(story())
    (sent,) = named(spans, "a publish")
    assert sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 4
    (received,) = named(spans, "a receive")
    (mine,) = named(spans, "mine")
    assert mine.context is not None
    assert [link.context.span_id for link in received.links] == [mine.context.span_id]
    (failed,) = named(spans, "b publish")
    assert not failed.status.is_ok


def test_without_a_tracer_events_are_left_alone() -> None:
    async def story() -> None:
        async with running(FakeNode()) as addresses, connect(addresses) as client:
            subscription = client.subscribe("a")
            await subscription.opened()
            await client.publish("a", b"1")
            assert (await anext(subscription)).headers is None

    play(story())
