"""Spans of what a node does with traced events: append, sync, forward, deliver (SEE-03, PL-06).

Everything that a node does passes through steps of its broker, so watching inputs and effects shows every hop:

======================  =============================================================================================
``weft.append``         a publish or a peer's copy: the step that writes it; it is not durable yet at the end of that
``weft.sync``           from the end of that step to the sync that made it durable
``weft.forward``        a copy for a peer, until the peer has it synced and says so
``weft.deliver``        a batch for a subscriber: read, and handed to its stream
======================  =============================================================================================

A span is made for a batch and a trace, not for an event, and only when the stage is over, so a stage under way is just
a few numbers. Its parent is the span in which the events were published. Traces that the publisher did not sample cost
a look into the batch; with tracing off, there is no ``NodeTracing`` at all.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from weft.core import messages as core
from weft.core.subscriptions import Subscriptions
from weft.log import Log
from weft.model import Batch, Epoch, NodeId, Stream, Topic
from weft.model.batch_header import events_from
from weft.model.traces import SpanRef, sampled_spans

WAITING_MAX: Final = 4096  # stages under way, of each kind; further ones get no span
REMEMBERED_MAX: Final = 1024  # batches whose traces are known from the stage before
NS_PER_S: Final = 1_000_000_000

Spans = tuple[SpanRef, ...]


class Appending(NamedTuple):
    """Traced events that are written and not safe yet. ``peer``: the peer that brought them; None for a publish."""

    spans: Spans
    began_ns: int
    written_ns: int
    ticket: int
    synced_ns: int = 0  # 0: not yet


class CopyAppending(NamedTuple):
    peer: NodeId
    stream: Stream
    epoch: Epoch
    first_offset: int
    events: int
    stage: Appending


class Forwarding(NamedTuple):
    spans: Spans
    began_ns: int
    first_offset: int
    events: int


class NodeTracing:
    """``StepWatch`` of the engine. ``spans_per_s_max``: publishers decide what is traced, but may not cost more than
    this."""

    def __init__(
        self, tracer: Tracer, node_id: NodeId, log: Log, subscriptions: Subscriptions, spans_per_s_max: int
    ) -> None:
        self.made = 0
        self.dropped = 0  # spans that were not made, because there were too many
        self._tracer = tracer
        self._node_id = node_id
        self._log = log
        self._subscriptions = subscriptions
        self._spans_per_s_max = spans_per_s_max
        self._second = 0
        self._made_in_second = 0
        self._publishes: dict[int, Appending] = {}  # by request
        self._copies: deque[CopyAppending] = deque()  # by ticket
        self._forwards: dict[tuple[NodeId, Stream, Epoch], deque[Forwarding]] = {}
        self._forwards_count = 0
        self._known: OrderedDict[tuple[Stream, Epoch, int], Spans] = OrderedDict()  # by base offset

    def now_ns(self) -> int:
        return time.time_ns()

    def begin(self, gateway: str, topic: Topic, events: int) -> SpanRef | None:
        """Begin a trace here, for events of a gateway whose protocol has no traces. None: it is not sampled."""
        if not self._may_make(self.now_ns()):
            self.dropped += 1
            return None
        attributes = {**_facts(topic, events), "weft.gateway": gateway, "messaging.operation": "publish"}
        span = self._tracer.start_span(f"{topic} publish", Context(), SpanKind.PRODUCER, attributes)
        span.end()
        context = span.get_span_context()
        if not context.trace_flags & TraceFlags.SAMPLED:
            return None
        self.made += 1
        return SpanRef(context.trace_id, context.span_id)

    # --- steps ---------------------------------------------------------------------------------------------------

    def stepped(self, event: core.Input, effects: Sequence[core.Effect], began_ns: int, decided_ns: int) -> None:
        match event:
            case core.PublishAll(publishes):
                for publish in publishes:
                    spans = sampled_spans(publish.batch)
                    if spans and len(self._publishes) < WAITING_MAX:
                        stage = Appending(spans, began_ns, decided_ns, self._log.appended)
                        self._publishes[publish.request] = stage
            case core.ReceivedCopies(peer, copies):
                for copy in copies:
                    self._copied(peer, copy, began_ns, decided_ns)
            case core.Synced(ticket):
                self._synced(ticket, began_ns)
            case core.ReceivedAcks(peer, positions):
                for position in positions:
                    self._acked((peer, position.stream, position.epoch), position.offset, began_ns, error="")
            case core.LinkDown(peer):
                for key in [key for key in self._forwards if key[0] == peer]:
                    self._acked(key, None, began_ns, error="the link to the peer was lost")
            case _:
                pass
        for effect in effects:
            match effect:
                case core.Receipts(receipts):
                    for receipted in receipts:
                        self._receipted(receipted, began_ns)
                case core.Refused(request, error):
                    self._refused(request, str(error))
                case core.SendCopies(peer, copies):
                    for copy in copies:
                        self._forwarded(peer, copy, decided_ns)
                case core.Deliver(subscriptions, batches):
                    for subscription in subscriptions:
                        self._delivered(subscription, batches, decided_ns)
                case _:
                    pass

    # --- append and sync -----------------------------------------------------------------------------------------

    def _copied(self, peer: NodeId, copy: core.Copy, began_ns: int, decided_ns: int) -> None:
        batch = copy.batch
        state = self._log.find(copy.stream, copy.epoch)
        if state is None or not state.durable < batch.end_offset <= state.end:
            return  # it was here before, or was refused
        spans = self._spans_of(copy.stream, copy.epoch, batch)
        if spans and len(self._copies) < WAITING_MAX:
            stage = Appending(spans, began_ns, decided_ns, self._log.appended)
            self._copies.append(CopyAppending(peer, copy.stream, copy.epoch, batch.base_offset, len(batch), stage))

    def _synced(self, ticket: int, now_ns: int) -> None:
        while self._copies and self._copies[0].stage.ticket <= ticket:
            copy = self._copies.popleft()
            facts = {**_place(copy.stream, copy.epoch, copy.first_offset, copy.events), "weft.peer": copy.peer}
            self._appended(copy.stage, now_ns, facts, SpanKind.CONSUMER)
        for request, stage in self._publishes.items():
            if stage.ticket <= ticket and not stage.synced_ns:
                self._publishes[request] = stage._replace(synced_ns=now_ns)  # the receipt may wait for copies

    def _receipted(self, receipted: core.Receipted, now_ns: int) -> None:
        stage = self._publishes.pop(receipted.request, None)
        if stage is None or receipted.repeated:
            return
        place = receipted.place
        facts = _place(place.stream, place.epoch, place.first_offset, place.count)
        self._appended(stage, stage.synced_ns or now_ns, facts, SpanKind.CONSUMER)

    def _appended(self, stage: Appending, synced_ns: int, facts: dict[str, str | int], kind: SpanKind) -> None:
        self._make("weft.append", kind, stage.spans, stage.began_ns, stage.written_ns, facts)
        self._make("weft.sync", SpanKind.INTERNAL, stage.spans, stage.written_ns, synced_ns, facts)

    def _refused(self, request: int, reason: str) -> None:
        stage = self._publishes.pop(request, None)
        if stage is not None:
            self._make("weft.append", SpanKind.CONSUMER, stage.spans, stage.began_ns, stage.written_ns, {}, reason)

    # --- forward and deliver -------------------------------------------------------------------------------------

    def _forwarded(self, peer: NodeId, copy: core.Copy, now_ns: int) -> None:
        spans = self._spans_of(copy.stream, copy.epoch, copy.batch)
        if spans and self._forwards_count < WAITING_MAX:
            self._forwards_count += 1
            waiting = self._forwards.setdefault((peer, copy.stream, copy.epoch), deque())
            waiting.append(Forwarding(spans, now_ns, copy.batch.base_offset, len(copy.batch)))

    def _acked(self, key: tuple[NodeId, Stream, Epoch], offset: int | None, now_ns: int, *, error: str) -> None:
        """End the spans of what a peer acknowledged, up to this offset; None: of everything that waits."""
        waiting = self._forwards.get(key)
        if waiting is None:
            return
        peer, stream, epoch = key
        while waiting and (offset is None or waiting[0].first_offset + waiting[0].events <= offset):
            forward = waiting.popleft()
            self._forwards_count -= 1
            facts = {**_place(stream, epoch, forward.first_offset, forward.events), "weft.peer": peer}
            self._make("weft.forward", SpanKind.PRODUCER, forward.spans, forward.began_ns, now_ns, facts, error)
        if not waiting:
            del self._forwards[key]

    def _delivered(self, number: int, batches: Iterable[core.Delivered], began_ns: int) -> None:
        subscription = self._subscriptions.get(number)
        group = "" if subscription is None else subscription.group
        for each in batches:
            batch = Batch.read_stored(each.data)
            spans = self._spans_of(each.stream, each.epoch, batch, each.first_offset)
            if spans:
                first, count = max(each.first_offset, batch.base_offset), events_from(each.data, each.first_offset)
                facts = _place(each.stream, each.epoch, first, count)
                facts["weft.subscription"] = number
                if group:
                    facts["messaging.consumer.group.name"] = group
                self._make("weft.deliver", SpanKind.PRODUCER, spans, began_ns, self.now_ns(), facts)

    # --- which traces --------------------------------------------------------------------------------------------

    def _spans_of(self, stream: Stream, epoch: Epoch, batch: Batch, first_offset: int = 0) -> Spans:
        if first_offset > batch.base_offset:
            return sampled_spans(batch, first_offset)
        place = (stream, epoch, batch.base_offset)
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = sampled_spans(batch)
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        return known

    def _make(
        self,
        name: str,
        kind: SpanKind,
        spans: Spans,
        began_ns: int,
        ended_ns: int,
        facts: dict[str, str | int],
        error: str = "",
    ) -> None:
        for parent in spans:
            if not self._may_make(ended_ns):
                self.dropped += 1
                continue
            self.made += 1
            span = self._tracer.start_span(
                name, _inside(parent), kind, {**facts, "weft.node": self._node_id}, start_time=began_ns
            )
            if error:
                span.set_status(StatusCode.ERROR, error)
            span.end(ended_ns)

    def _may_make(self, now_ns: int) -> bool:
        second = now_ns // NS_PER_S
        if second != self._second:
            self._second, self._made_in_second = second, 0
        self._made_in_second += 1
        return self._made_in_second <= self._spans_per_s_max


def _inside(parent: SpanRef) -> Context:
    context = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(context), Context())


def _facts(topic: Topic, events: int) -> dict[str, str | int]:
    return {
        "messaging.system": "weft",
        "messaging.destination.name": topic,
        "messaging.batch.message_count": events,
    }


def _place(stream: Stream, epoch: Epoch, first_offset: int, count: int) -> dict[str, str | int]:
    return {
        **_facts(stream.topic, count),
        "weft.origin": stream.origin,
        "weft.partition": stream.partition,
        "weft.epoch": epoch,
        "weft.offset": first_offset,
    }
