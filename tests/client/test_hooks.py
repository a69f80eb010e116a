"""What an application can watch."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span

from tests.client.fake import FakeNode, error, running
from tests.client.story import Record, connect
from tests.up import END_TIMEOUT_S, RunningNode, up
from weft.client import Hooks, NotAllowed, Received, Request, blocking
from weft.client.connecting import tls_files
from weft.model import Batch, Event
from weft.wire.mesh import mesh_pb2 as pb


@pytest.mark.req("SDK-02")
async def test_hooks_tell_of_connections_batches_and_retries() -> None:
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
    assert sorted(hooks.of("connected")) == [("node-a", "publish"), ("node-a", "subscribe")]
    assert [(purpose, "full" in reason) for purpose, _, reason in hooks.of("retry")] == [("publish", True)]
    ((topic, events, size, latency_s),) = hooks.of("published")
    assert (topic, events) == ("a", 3)
    assert size > 0
    assert latency_s >= 0
    assert [(topic, events) for topic, events, _ in hooks.of("delivered")] == [("a", 3)]
    assert [(topic, events) for topic, events, _ in hooks.of("failed")] == [("b", 1)]


@pytest.mark.req("SDK-02")
async def test_a_subscription_that_is_refused_was_never_connected_and_so_is_not_lost() -> None:
    node, hooks = FakeNode(), Record()
    node.faults.refuse_open = [error(pb.ERROR_NOT_ALLOWED, "no")]
    async with running(node) as addresses, connect(addresses, hooks) as client:
        with pytest.raises(NotAllowed):
            await client.subscribe("a").opened()
    assert hooks.seen == []


@pytest.mark.req("SDK-02")
async def test_a_subscription_that_cannot_be_opened_yet_tells_that_it_tries_again() -> None:
    node, hooks = FakeNode(), Record()
    node.faults.refuse_open = [error(pb.ERROR_BUSY, "full")]
    async with running(node) as addresses, connect(addresses, hooks) as client:
        await client.subscribe("a").opened()
    assert hooks.of("disconnected") == []
    assert [(purpose, "full" in reason) for purpose, _, reason in hooks.of("retry")] == [("subscribe", True)]
    assert hooks.of("connected") == [("node-a", "subscribe")]


@pytest.mark.req("SDK-02")
async def test_why_a_publish_waits_is_told_at_every_try_and_logged_as_a_warning_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "weft.client"):
        node, hooks = FakeNode(), Record()
        async with running(node) as addresses, connect(addresses, hooks) as client:
            await client.publish("a", b"1")
            node.faults.refuse = [error(pb.ERROR_DISK_FULL, "no room", free="3")] * 3
            await client.publish("a", b"2")
    reasons = {reason for _, _, reason in hooks.of("retry")}
    assert reasons == {"no room (node node-a, free 3)"}, "the connection is well"
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "a is refused for now, trying again in" in warnings[0]
    assert "no room (node node-a, free 3)" in warnings[0]


@pytest.mark.req("SDK-02")
async def test_a_hook_that_fails_is_logged_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Hooks):
        def on_published(self, topic: str, events: int, size_bytes: int, latency_s: float) -> None:
            raise RuntimeError("my mistake")

    async with running(FakeNode()) as addresses, connect(addresses, Broken()) as client:
        await client.publish("a", b"1")
    assert "hook on_published failed" in caplog.text
    assert "my mistake" in caplog.text


@pytest.mark.req("SDK-02")
async def test_connections_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "weft.client"):
        async with running(FakeNode()) as addresses, connect(addresses) as client:
            await client.publish("a", b"1")
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
async def test_there_is_a_span_per_batch_and_events_carry_the_current_one(spans: InMemorySpanExporter) -> None:
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
    (sent,) = named(spans, "a publish")
    assert sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 4
    (handled,) = named(spans, "a handle")
    (around,) = named(spans, "mine")
    assert around.context is not None
    assert parent_of(handled) == around.context.span_id
    (failed,) = named(spans, "b publish")
    assert not failed.status.is_ok


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def linked_from(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def span_id(span: Span) -> int:
    return span.get_span_context().span_id


@pytest.mark.req("SDK-02", "OBS-01")
async def test_batches_belong_to_the_spans_of_their_own_publishes(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    """A client outlives the spans in which it was made, first used and subscribed."""
    tracer = trace.get_tracer("test")

    with up(tmp_path / "data") as node, tracer.start_as_current_span("start") as start:
        async with node.client() as client:
            with tracer.start_as_current_span("first") as first:
                await client.publish("in.first", b"1")
            token = context.attach(context.Context())
            await client.publish("in.none", b"2")
            await client.publish_batch("in.none", Batch.from_events([Event(b"3", 1)]))
            context.detach(token)
            with tracer.start_as_current_span("second") as second:
                await client.publish("in.second", b"4")
                await client.publish_batch("in.second", Batch.from_events([Event(b"5", 1)]))
                client.publish_nowait("in.several", b"6")
            client.publish_nowait("in.several", b"7")
            await client.flush()
    assert [parent_of(span) for span in named(spans, "in.first publish")] == [span_id(first)]
    assert [parent_of(span) for span in named(spans, "in.none publish")] == [None, None]
    assert [parent_of(span) for span in named(spans, "in.second publish")] == [span_id(second)] * 2
    (several,) = named(spans, "in.several publish")
    assert (parent_of(several), linked_from(several)) == (None, [span_id(second), span_id(start)])


@pytest.mark.req("SDK-02", "OBS-01")
async def test_what_handlers_do_is_in_no_span_that_the_client_began_in(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    """Otherwise all that they do later would belong to a span that is long over."""
    traces: list[int] = []

    def note() -> None:
        traces.append(trace.get_current_span().get_span_context().trace_id)

    def answer(_request: Request) -> bytes:
        note()
        return b"ok"

    async def answer_in_a_task(request: Request) -> bytes:
        return answer(request)

    with up(tmp_path / "data") as node:
        handled = asyncio.Semaphore(0)

        def handle(_event: Received) -> None:
            note()
            handled.release()

        async with AsyncExitStack() as opened:
            with trace.get_tracer("test").start_as_current_span("first") as first:
                client = await opened.enter_async_context(node.client())
                handling = asyncio.create_task(client.run(handle, "event", group="g", start="earliest"))
                for topic, handler in (("plain", answer), ("task", answer_in_a_task)):
                    server = await opened.enter_async_context(client.serve(topic, handler))
                    await server.opened()
            for topic in ("plain", "task"):
                for durable in (False, True):
                    await client.request(topic, b"?", durable=durable)
            for _ in range(2):  # of a batch, only the first event says which trace the batch is in
                client.publish_nowait("event", b"!")
            for _ in range(2):
                await handled.acquire()
            handling.cancel()
    assert (len(traces), first.get_span_context().trace_id in traces) == (6, False)


def wait_for_server(node: RunningNode) -> None:
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while "weft_request_servers 1.0" not in node.metrics():
        assert time.monotonic() < deadline_s, "nobody serves"
        time.sleep(0.02)


@pytest.mark.req("SDK-02", "OBS-01")
def test_a_blocking_client_keeps_nothing_of_the_spans_it_was_first_used_in(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    """Replies are read by a task of the client, which the first request began."""
    tracer = trace.get_tracer("test")
    with up(tmp_path / "data") as node, ThreadPoolExecutor(1) as others, ExitStack() as closing:
        files = node.context
        with tracer.start_as_current_span("first") as first:
            client = blocking.connect(list(files.nodes), token=files.token, tls=tls_files(files))
            closing.callback(client.close)  # who answers waits until then, whatever goes wrong here
            serving = client.requests("ask")
            answering = others.submit(lambda: [next(serving).reply(b"answer") for _ in range(2)])
            wait_for_server(node)  # requests before it would be answered by nobody
            client.request("ask", b"1", timeout_s=END_TIMEOUT_S)
            client.publish("other", b"1")
        client.request("ask", b"2", timeout_s=END_TIMEOUT_S)
        client.publish("other", b"2")
        answering.result(END_TIMEOUT_S)
        assert isinstance(serving, Generator)
        serving.close()
    assert [parent_of(span) for span in named(spans, "ask publish")] == [span_id(first), None]
    assert [parent_of(span) for span in named(spans, "other publish")] == [span_id(first), None]
    inbox = [span for span in spans.get_finished_spans() if span.name.startswith("weft.inbox")]
    assert [parent_of(span) for span in inbox] == [None, None], "who answers has no part in the spans of who asked"


async def test_without_a_tracer_events_are_left_alone() -> None:
    async with running(FakeNode()) as addresses, connect(addresses) as client:
        subscription = client.subscribe("a")
        await subscription.opened()
        await client.publish("a", b"1")
        assert (await anext(subscription)).headers is None
