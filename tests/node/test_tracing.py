"""Spans of a node, step by step: what is told when a stage fails, and what bounds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler

from weft.core import messages as core
from weft.core.subscriptions import Subscriptions
from weft.errors import UsageError
from weft.log import Appended, Log
from weft.model import Batch, Epoch, Event, NodeId, Position, Stream, Topic
from weft.model.traces import TRACEPARENT, SpanRef
from weft.node import tracing
from weft.node.tracing import NodeTracing
from weft.telemetry import open_telemetry, parse_endpoint

STREAM = Stream(Topic("t"), NodeId("a"), 0)
EPOCH = Epoch(1)
B = NodeId("b")
SPAN = SpanRef(0xABC, 0xDEF)


class FakeLog:
    """``Log`` as far as spans need it."""

    appended = 1

    class State:
        durable, end = 0, 100

    def find(self, stream: Stream, epoch: Epoch) -> State:
        return self.State()


class FakeSubscriptions:
    def get(self, number: int) -> None:
        return None


class Traced:
    def __init__(self, spans_per_s_max: int = 1000, sampler: Sampler | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.node = NodeTracing(
            self.provider.get_tracer("test"),
            NodeId("n"),
            cast(Log, FakeLog()),
            cast(Subscriptions, FakeSubscriptions()),
            spans_per_s_max,
        )

    def step(self, event: core.Input, *effects: core.Effect, at_ns: int = 1000) -> None:
        self.node.stepped(event, effects, at_ns, at_ns + 10)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.spans]


@pytest.fixture
def traced() -> Iterator[Traced]:
    yield Traced()


def batch(*spans: SpanRef | None, offset: int = 0) -> Batch:
    headers = [None if span is None else {TRACEPARENT: span.traceparent} for span in spans]
    return Batch.from_events([Event(b"x", 1, headers=each) for each in headers]).with_base_offset(offset)


def copy(*spans: SpanRef | None, offset: int = 0) -> core.Copy:
    return core.Copy(STREAM, EPOCH, batch(*spans, offset=offset), 0)


def publish(request: int, *spans: SpanRef | None) -> core.PublishAll:
    return core.PublishAll([core.Publish(request, Topic("t"), 0, batch(*spans))])


def receipt(request: int) -> core.Receipts:
    return core.Receipts((core.Receipted(request, Appended(STREAM, EPOCH, 5, 1, 1), 1),))


@pytest.mark.req("SEE-03", "PL-06")
def test_a_publish_is_an_append_and_a_sync_in_the_trace_of_its_event(traced: Traced) -> None:
    traced.step(publish(1, SPAN), at_ns=1000)
    assert traced.spans == []
    traced.step(core.Synced(1, {}), receipt(1), at_ns=5000)
    assert traced.names == ["weft.append", "weft.sync"]
    assert [(each.start_time, each.end_time) for each in traced.spans] == [(1000, 1010), (1010, 5000)]
    for each in traced.spans:
        assert each.parent is not None and (each.parent.trace_id, each.parent.span_id) == SPAN
        assert each.attributes is not None and each.attributes["weft.offset"] == 5


def test_a_receipt_that_waits_for_copies_does_not_make_the_sync_longer(traced: Traced) -> None:
    traced.step(publish(1, SPAN), at_ns=1000)
    traced.step(core.Synced(1, {}), at_ns=5000)
    traced.step(core.Tick(), receipt(1), at_ns=9000)
    assert traced.spans[1].end_time == 5000


def test_a_refused_publish_is_an_append_that_failed(traced: Traced) -> None:
    traced.step(publish(1, SPAN), core.Refused(1, UsageError("too late")))
    (span,) = traced.spans
    assert (span.name, span.status.is_ok, span.status.description) == ("weft.append", False, "too late")


def test_events_without_a_trace_have_no_spans(traced: Traced) -> None:
    traced.step(publish(1, None), receipt(1))
    traced.step(core.ReceivedCopies(B, (copy(None),)))
    traced.step(core.Synced(2, {}), core.SendCopies(B, (copy(None),)))
    traced.step(core.ReceivedAcks(B, (Position(STREAM, EPOCH, 9),)))
    assert traced.spans == []


def test_a_copy_is_forwarded_until_the_peer_has_it_or_its_link_is_lost(traced: Traced) -> None:
    traced.step(core.Tick(), core.SendCopies(B, (copy(SPAN, offset=0), copy(SPAN, offset=1))), at_ns=1000)
    traced.step(core.ReceivedAcks(B, (Position(STREAM, EPOCH, 1),)), at_ns=3000)
    (forward,) = traced.spans
    assert (forward.name, forward.start_time, forward.end_time) == ("weft.forward", 1010, 3000)
    traced.step(core.LinkDown(B), at_ns=4000)
    assert [each.status.is_ok for each in traced.spans] == [True, False]
    traced.step(core.LinkDown(B), at_ns=5000)
    assert len(traced.spans) == 2


def test_a_copy_of_a_peer_is_an_append_and_a_sync(traced: Traced) -> None:
    traced.step(core.ReceivedCopies(B, (copy(SPAN), copy(SPAN, offset=200))), at_ns=1000)
    traced.step(core.Synced(1, {}), at_ns=2000)
    assert traced.names == ["weft.append", "weft.sync"], "the second one was not taken"


def test_each_trace_of_a_batch_has_its_own_spans(traced: Traced) -> None:
    others = [SpanRef(number + 1, 1) for number in range(3)]
    traced.step(core.Tick(), core.Deliver((7,), (core.Delivered(STREAM, EPOCH, batch(*others, *others).data, 1),)))
    assert traced.names == ["weft.deliver"] * 3
    assert {each.parent.trace_id for each in traced.spans if each.parent} == {1, 2, 3}
    first = traced.spans[0].attributes
    assert first is not None
    assert (first["weft.offset"], first["messaging.batch.message_count"]) == (1, 5), "what was asked for, not all"


def test_spans_are_bounded_in_a_second() -> None:
    traced = Traced(spans_per_s_max=3)
    for number in range(4):
        traced.step(publish(number, SPAN), core.Refused(number, UsageError("no")), at_ns=1000)
    assert (len(traced.spans), traced.node.made, traced.node.dropped) == (3, 3, 1)
    traced.step(publish(9, SPAN), core.Refused(9, UsageError("no")), at_ns=2_000_000_000)
    assert len(traced.spans) == 4


def test_what_is_under_way_is_bounded(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "WAITING_MAX", 2)
    for number in range(5):
        traced.step(publish(number, SPAN))
        traced.step(core.ReceivedCopies(B, (copy(SPAN),)), core.SendCopies(B, (copy(SPAN, offset=number),)))
    traced.step(core.LinkDown(B))
    assert traced.names == ["weft.forward"] * 2
    traced.step(core.Synced(1, {}), *(receipt(number) for number in range(5)))
    assert traced.names.count("weft.append") == 4


def test_a_gateway_begins_traces_as_often_as_it_is_told() -> None:
    assert Traced(sampler=ParentBased(ALWAYS_OFF)).node.begin("emm", Topic("t"), 3) is None
    traced = Traced()
    span = traced.node.begin("emm", Topic("t"), 3)
    (made,) = traced.spans
    assert span is not None and made.context is not None and made.parent is None
    assert span == (made.context.trace_id, made.context.span_id)


@pytest.mark.parametrize(
    "url",
    ["", "a:4318", "ftp://a", "http://", "http://a:0", "http://a:99999", "http://u:p@a", "http://a" * 999],
)
def test_an_endpoint_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="OTLP"):
        parse_endpoint(url)


def test_an_endpoint_has_its_usual_path_unless_it_says_another() -> None:
    assert parse_endpoint("http://a:4318") == parse_endpoint("http://a:4318/") == "http://a:4318/v1/traces"
    assert parse_endpoint("https://a/otlp/traces") == "https://a/otlp/traces"


def test_without_the_sdk_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UsageError, match=r"pip install 'weft\[tracing\]'"):
        open_telemetry("http://a:4318", service="weft", facts={}, sample=1.0)
