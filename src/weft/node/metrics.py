"""The node's metrics for Prometheus: names, labels and help in one table (docs/metrics.md), numbers from ``figures``.

The number of labels is bounded: peers beyond PEER_LABELS_MAX are counted together as ``other``, and so are groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Final, assert_never

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from weft.gateway import BridgeFigures, CompactFigures, RequestFigures
from weft.model.pipeline_reports import PipelineReport
from weft.node.figures import (
    DELAY_BUCKETS_S,
    LATENCY_BUCKETS_S,
    OTHER,
    SYNC_BUCKETS_S,
    CallFigures,
    GroupFigures,
    Histogram,
    HistoryFigures,
    KvFigures,
    LaterFigures,
    NodeFigures,
    PeerFigures,
    ScheduleFigures,
    SchemaFigures,
)

PEER_LABELS_MAX: Final = 256  # ten series each: Prometheus can take that, and nobody looks at more links of one node
GROUP_LABELS_MAX: Final = 256  # for the same reasons
SCHEMA_LABELS_MAX: Final = 256  # for the same reasons
REFUSAL_LABELS_MAX: Final = 32  # codes of refusals; there are fifteen
US_PER_S: Final = 1_000_000
QUANTILES: Final = (0.5, 0.95)

Sample = tuple[tuple[str, ...], float]  # values of the labels, and the number


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


def _of_peer(name: str, kind: Kind, text: str) -> Definition:
    return Definition(name, kind, text, ("peer",))


STATE: Final = _of_peer(
    "weft_connection_state", Kind.GAUGE, "The link: 0 down, 1 connecting, 2 connected but unhealthy, 3 connected."
)
RECONNECTS: Final = _of_peer("weft_reconnects_total", Kind.COUNTER, "Links that came back after they were lost.")
BYTES_SENT: Final = _of_peer("weft_bytes_sent_total", Kind.COUNTER, "Bytes of messages sent to the peer.")
BYTES_RECEIVED: Final = _of_peer("weft_bytes_received_total", Kind.COUNTER, "Bytes of messages from the peer.")
MESSAGES_SENT: Final = _of_peer("weft_messages_sent_total", Kind.COUNTER, "Messages sent to the peer.")
MESSAGES_RECEIVED: Final = _of_peer("weft_messages_received_total", Kind.COUNTER, "Messages from the peer.")
QUEUE_DEPTH: Final = _of_peer("weft_queue_depth", Kind.GAUGE, "Frames that wait to be sent.")
DROPS: Final = _of_peer("weft_drops_total", Kind.COUNTER, "Frames dropped from a full queue; the log still has them.")
RTT: Final = _of_peer("weft_rtt_ms", Kind.GAUGE, "The last round trip of a heartbeat, in milliseconds.")
PEER_REFUSED: Final = Definition(
    "weft_peer_refused_total",
    Kind.COUNTER,
    "What the peer brought and was not taken, by reason.",
    ("peer", "reason"),
)
SEND_LATENCY: Final = Definition(
    "weft_send_latency_ms",
    Kind.GAUGE,
    "From the queue to the socket, in milliseconds: quantiles of the last frames.",
    ("peer", "quantile"),
)

PUBLISHED_EVENTS: Final = Definition("weft_published_events_total", Kind.COUNTER, "Events taken from clients, synced.")
PUBLISHED_BATCHES: Final = Definition("weft_published_batches_total", Kind.COUNTER, "Batches of these events.")
PUBLISHED_BYTES: Final = Definition("weft_published_bytes_total", Kind.COUNTER, "Bytes of these batches.")
DELIVERED_EVENTS: Final = Definition("weft_delivered_events_total", Kind.COUNTER, "Events sent to subscribers.")
DELIVERED_BATCHES: Final = Definition("weft_delivered_batches_total", Kind.COUNTER, "Batches sent to subscribers.")
DELIVERED_BYTES: Final = Definition("weft_delivered_bytes_total", Kind.COUNTER, "Bytes of these batches.")
DELIVERY_AGE: Final = Definition(
    "weft_delivery_age_seconds",
    Kind.HISTOGRAM,
    "Events sent to subscribers, by the age of the oldest in their batch: from its timestamp to its delivery.",
)
DELIVERY_WAIT: Final = Definition(
    "weft_delivery_wait_seconds",
    Kind.HISTOGRAM,
    "The same, from the sync that made it durable on this node; only what the node still remembers.",
)
TOPIC_EVENTS: Final = Definition(
    "weft_topic_events_total",
    Kind.COUNTER,
    "Events of the topic that came to this node's log, by whichever way; the largest topics by bytes.",
    ("topic",),
)
TOPIC_BYTES: Final = Definition(
    "weft_topic_log_bytes", Kind.GAUGE, "Bytes of the topic in this node's log; the same topics.", ("topic",)
)
PIPELINE_UP: Final = Definition(
    "weft_pipeline_up", Kind.GAUGE, "1 while the pipeline runs and is heard of, else 0.", ("pipeline", "kind")
)
PIPELINE_ROWS: Final = Definition(
    "weft_pipeline_rows_total", Kind.COUNTER, "Rows that the pipeline took, since its run began.", ("pipeline", "kind")
)
PIPELINE_LAG: Final = Definition(
    "weft_pipeline_lag_events",
    Kind.GAUGE,
    "Events of the mesh that the pipeline has not taken yet, at the end of its last batch.",
    ("pipeline", "kind"),
)
PIPELINE_BATCH: Final = Definition(
    "weft_pipeline_batch_seconds",
    Kind.GAUGE,
    "How long the last batch took, of its slowest query.",
    ("pipeline", "kind"),
)
PIPELINE_REPORT: Final = Definition(
    "weft_pipeline_report_timestamp_seconds", Kind.GAUGE, "When the pipeline last told of itself.", ("pipeline", "kind")
)
SPANS: Final = Definition("weft_trace_spans_total", Kind.COUNTER, "Spans of traced events that this node made.")
SPANS_DROPPED: Final = Definition(
    "weft_trace_spans_dropped_total", Kind.COUNTER, "Spans not made, because tracing.spans_per_s_max was reached."
)
REFUSED: Final = Definition("weft_refused_total", Kind.COUNTER, "Requests refused, by reason.", ("code",))

LOG_BYTES: Final = Definition("weft_log_bytes", Kind.GAUGE, "Bytes of all batches in the log.")
LOG_STREAMS: Final = Definition("weft_log_streams", Kind.GAUGE, "Streams in the log, copies of other nodes' included.")
LOG_APPENDED: Final = Definition("weft_log_appended_batches_total", Kind.COUNTER, "Batches appended since the start.")
LOG_SYNCED: Final = Definition(
    "weft_log_synced_batches_total", Kind.COUNTER, "Batches synced since the start; the rest has no receipt yet."
)
LOG_SYNC: Final = Definition("weft_log_sync_seconds", Kind.HISTOGRAM, "How long a sync of the log takes.")
LOG_CUTS: Final = Definition("weft_log_cuts", Kind.GAUGE, "Streams cut on opening: unfinished writes, never promised.")
LOG_LOST: Final = Definition("weft_log_lost_events", Kind.GAUGE, "Events that the log had promised and cannot read.")
DISK_FREE: Final = Definition("weft_disk_free_bytes", Kind.GAUGE, "Free space on the disk of the log.")
DISK_FULL: Final = Definition("weft_disk_full", Kind.GAUGE, "1 while events are refused for want of space, else 0.")

MEMBERS: Final = Definition("weft_members", Kind.GAUGE, "Nodes known, this one included, by liveness.", ("liveness",))
IN_VAIN: Final = Definition(
    "weft_events_in_vain_total",
    Kind.COUNTER,
    "Events copied here from other nodes, which nobody here or behind wants.",
)
CLIENTS: Final = Definition("weft_clients", Kind.GAUGE, "Client streams that are open.")
SUBSCRIPTIONS: Final = Definition("weft_subscriptions", Kind.GAUGE, "Subscriptions that are open.")
HELD: Final = Definition("weft_held_bytes", Kind.GAUGE, "Memory held for callers: not yet synced, or not yet taken.")
GROUP_MEMBERS: Final = Definition("weft_group_members", Kind.GAUGE, "Members of the group on this node.", ("group",))
GROUP_LAG_EVENTS: Final = Definition(
    "weft_group_lag_events", Kind.GAUGE, "Events that the group has not handled yet.", ("group",)
)
GROUP_LAG_S: Final = Definition(
    "weft_group_lag_seconds", Kind.GAUGE, "Age of the oldest event that the group has not handled yet.", ("group",)
)

GROUP_REDELIVERIES: Final = Definition(
    "weft_group_redeliveries_total", Kind.COUNTER, "Events given out again by this node, after they failed.", ("group",)
)
GROUP_DEAD_LETTERS: Final = Definition(
    "weft_group_dead_letters_total", Kind.COUNTER, "Events put aside as dead letters by this node.", ("group",)
)

REFUSALS: Final = Definition(
    "weft_refusals_total",
    Kind.COUNTER,
    "Calls, links and connections refused for reasons of security, by cause.",
    ("cause",),
)
CONNECTIONS_REFUSED: Final = Definition(
    "weft_connections_refused_total",
    Kind.COUNTER,
    "Connections refused or closed before anybody knew whose they are, by port and reason.",
    ("port", "reason"),
)
DATAGRAMS: Final = Definition(
    "weft_datagrams_total", Kind.COUNTER, "EMM and EMM-C datagrams of devices, by what became of them.", ("fate",)
)
DATAGRAMS_REJECTED: Final = Definition(
    "weft_datagrams_rejected_total", Kind.COUNTER, "Those that were refused, by reason.", ("reason",)
)
COMPACT_NEIGHBOURS: Final = Definition(
    "weft_emm_c_neighbours", Kind.GAUGE, "EMM-C nodes that have a relationship with this one."
)
COMPACT_SLOWDOWNS: Final = Definition(
    "weft_emm_c_slowdowns_total",
    Kind.COUNTER,
    "How often the rate to an EMM-C neighbour was halved because of congestion.",
)
COATY_IN: Final = Definition(
    "weft_coaty_in_events_total",
    Kind.COUNTER,
    "Events of a Coaty namespace, by what became of them on the way into the mesh.",
    ("fate",),
)
COATY_OUT: Final = Definition(
    "weft_coaty_out_events_total",
    Kind.COUNTER,
    "Events of the mesh for a Coaty namespace, by what became of them.",
    ("fate",),
)
COATY_NEIGHBOURS: Final = Definition("weft_coaty_neighbours", Kind.GAUGE, "Coaty agents that are connected.")
COATY_BRIDGES: Final = Definition(
    "weft_coaty_bridges", Kind.GAUGE, "Other bridges of this mesh that share the work with this node."
)
COATY_TOPICS: Final = Definition("weft_coaty_topics", Kind.GAUGE, "Topics of Floodsub that are listened to.")
COATY_TOPICS_REFUSED: Final = Definition(
    "weft_coaty_topics_refused", Kind.GAUGE, "Topics that agents want and that are not learned: there are too many."
)
COATY_QUESTIONS: Final = Definition(
    "weft_coaty_questions", Kind.GAUGE, "Questions of the mesh whose answers are awaited."
)
COATY_HELD: Final = Definition(
    "weft_coaty_held_events", Kind.GAUGE, "Events left to other bridges that the mesh does not have yet."
)
COATY_FORGOTTEN: Final = Definition(
    "weft_coaty_held_forgotten_total", Kind.COUNTER, "Those that could not be held on to: there were too many."
)
COATY_CONNECTIONS_REFUSED: Final = Definition(
    "weft_coaty_connections_refused_total", Kind.COUNTER, "Connections of agents that were one too many."
)
COATY_DISTRUSTED: Final = Definition(
    "weft_coaty_distrusted_total", Kind.COUNTER, "Messages of agents without a valid signature."
)
EXMP_CONNECTIONS: Final = Definition("weft_exmp_connections", Kind.GAUGE, "EXMP connections that are open.")
EXMP_CONNECTIONS_REFUSED: Final = Definition(
    "weft_exmp_connections_refused_total", Kind.COUNTER, "EXMP connections that were one too many."
)
EXMP_CONNECTIONS_ENDED: Final = Definition(
    "weft_exmp_connections_ended_total",
    Kind.COUNTER,
    "EXMP connections that ended, by how: `error-sent` for clients that broke the protocol.",
    ("end",),
)
EXMP_REQUESTS: Final = Definition(
    "weft_exmp_requests_total",
    Kind.COUNTER,
    "EXMP requests answered, by operation, and by `success` or the code of the failure.",
    ("operation", "outcome"),
)
EXMP_RECEIVED: Final = Definition(
    "weft_exmp_received_bytes_total", Kind.COUNTER, "Bytes of EXMP messages from clients."
)
EXMP_SENT: Final = Definition("weft_exmp_sent_bytes_total", Kind.COUNTER, "Bytes of EXMP messages to clients.")
EXMP_SUBSCRIPTIONS: Final = Definition(
    "weft_exmp_subscriptions", Kind.GAUGE, "Subscriptions of EXMP clients that are open."
)
KV_BUCKETS: Final = Definition("weft_kv_buckets", Kind.GAUGE, "Buckets of keys and values that this node holds.")
KV_KEYS: Final = Definition("weft_kv_keys", Kind.GAUGE, "Keys of all buckets; gone ones until they are forgotten.")
KV_CACHED: Final = Definition("weft_kv_cached_bytes", Kind.GAUGE, "Bytes of values in memory; others are in the log.")
KV_GETS: Final = Definition("weft_kv_gets_total", Kind.COUNTER, "Keys that were asked for.")
KV_WRITES: Final = Definition("weft_kv_writes_total", Kind.COUNTER, "Keys that were written or deleted here.")
KV_CONFLICTS: Final = Definition(
    "weft_kv_conflicts_total", Kind.COUNTER, "Writes that were refused because the key was at another revision."
)
KV_WATCHES: Final = Definition("weft_kv_watches", Kind.GAUGE, "Clients that watch a bucket.")
KV_AHEAD: Final = Definition(
    "weft_kv_entries_ahead", Kind.GAUGE, "Entries that wait because the clock of their node is ahead."
)
REQUESTS: Final = Definition(
    "weft_requests_total",
    Kind.COUNTER,
    "Requests of clients of this node, by how they ended: `no-server` if nobody serves the topic.",
    ("outcome",),
)
REQUEST_TIMES: Final = Definition(
    "weft_request_seconds", Kind.HISTOGRAM, "From a request of a client of this node to its last reply."
)
REQUEST_SERVERS: Final = Definition("weft_request_servers", Kind.GAUGE, "Clients of this node that serve requests.")
REQUESTS_IN_HAND: Final = Definition("weft_requests_in_hand", Kind.GAUGE, "Requests that servers of this node work on.")
REQUESTS_WAITING: Final = Definition("weft_requests_waiting", Kind.GAUGE, "Requests that wait for a server here.")
LATER_PENDING: Final = Definition("weft_later_pending", Kind.GAUGE, "Events that wait here for a later time.")
LATER_INDEXED: Final = Definition("weft_later_indexed", Kind.GAUGE, "Of those, the ones that are due soon, in memory.")
LATER_OVERDUE: Final = Definition(
    "weft_later_overdue_seconds", Kind.GAUGE, "How long the first of them is due already; 0: none is."
)
LATER_DELIVERED: Final = Definition("weft_later_delivered_total", Kind.COUNTER, "Events that were delivered when due.")
LATER_LATE: Final = Definition(
    "weft_later_late_total", Kind.COUNTER, "Of those, the ones that were delivered more than a second late."
)
LATER_CANCELLED: Final = Definition("weft_later_cancelled_total", Kind.COUNTER, "Events that were cancelled in time.")


def _of_table(name: str, kind: Kind, text: str) -> Definition:
    return Definition(name, kind, text, ("table",))


HISTORY_UP: Final = _of_table(
    "weft_history_up",
    Kind.GAUGE,
    "1 while the archive table can be asked, else 0: what the log has cut cannot be read.",
)
HISTORY_FILES: Final = _of_table("weft_history_files", Kind.GAUGE, "Files of the archive table that are in the index.")
HISTORY_UNREAD: Final = _of_table(
    "weft_history_unread_files", Kind.GAUGE, "New files of the archive table that are still being looked into."
)
HISTORY_DAMAGED: Final = _of_table(
    "weft_history_damaged_files", Kind.GAUGE, "Files of the archive table that cannot be read."
)
HISTORY_READS: Final = _of_table(
    "weft_history_reads_total", Kind.COUNTER, "Reads of the archive table for clients that got an answer."
)
HISTORY_FAILURES: Final = _of_table(
    "weft_history_failures_total", Kind.COUNTER, "Clients that were told that the archive table cannot be asked."
)
HISTORY_EVENTS: Final = _of_table(
    "weft_history_events_total", Kind.COUNTER, "Events that clients read from the archive table."
)
HISTORY_BYTES: Final = _of_table("weft_history_bytes_total", Kind.COUNTER, "Bytes of these events.")
SCHEMA_CHECKED: Final = Definition(
    "weft_schema_checked_events_total",
    Kind.COUNTER,
    "Events that were published here and looked at by the schema of their topic.",
    ("schema",),
)
SCHEMA_FAULTS: Final = Definition(
    "weft_schema_faults_total",
    Kind.COUNTER,
    "Of those, the ones that broke it; of a batch that is refused, the first one.",
    ("schema",),
)
SCHEDULES: Final = Definition("weft_schedule_schedules", Kind.GAUGE, "Schedules that the mesh has.")
SCHEDULE_FIRED: Final = Definition(
    "weft_schedule_fired_total", Kind.COUNTER, "Times of schedules that this node fired."
)
SCHEDULE_LATE: Final = Definition(
    "weft_schedule_late_total", Kind.COUNTER, "Of those, the ones that were fired more than a second late."
)
SCHEDULE_MISSED: Final = Definition(
    "weft_schedule_missed_total", Kind.COUNTER, "Times that nobody fired, as the node that fired the next one counts."
)
SCHEDULE_REFUSED: Final = Definition(
    "weft_schedule_refused_total", Kind.COUNTER, "Times that were not fired because the owner may no longer publish."
)
CERTIFICATE_EXPIRES: Final = Definition(
    "weft_certificate_expires_seconds", Kind.GAUGE, "Until the node's certificate ends; renewed with a third left."
)
CERTIFICATE_RENEWALS: Final = Definition(
    "weft_certificate_renewals_total", Kind.COUNTER, "New certificates since the start."
)
CERTIFICATE_FAILURES: Final = Definition(
    "weft_certificate_failures_total", Kind.COUNTER, "Renewals that failed; they are tried again."
)
API_KEYS: Final = Definition(
    "weft_api_keys", Kind.GAUGE, "API keys of the mesh that this node knows: good or revoked.", ("state",)
)
LOOP_DELAY: Final = Definition(
    "weft_loop_delay_seconds", Kind.HISTOGRAM, "How late the event loop comes to what is due: others held it up."
)

DEFINITIONS: Final = tuple(value for value in list(vars().values()) if isinstance(value, Definition))


class Metrics(Collector):
    """Everything that one node counts. Each has its own ``registry``, so that several nodes can live in one process."""

    def __init__(self, read: Callable[[], NodeFigures]) -> None:
        """``read`` is called at every scrape, in the thread that collects."""
        self._read = read
        self._peers: dict[str, PeerFigures] = {}
        self._other_peers = PeerFigures()
        self._published = Flow()
        self._delivered = Flow()
        self._refused: dict[str, int] = {}
        self._sync_s = Histogram(SYNC_BUCKETS_S)
        self._delivery_age_s = Histogram(LATENCY_BUCKETS_S)
        self._delivery_wait_s = Histogram(LATENCY_BUCKETS_S)
        self.loop_delay_s = Histogram(DELAY_BUCKETS_S)  # the watch of the loop adds to it
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    # --- what happens --------------------------------------------------------------------------------------------

    def peer(self, node_id: str) -> PeerFigures:
        """Where the link to this peer counts. Peers beyond the bound share one."""
        known = self._peers.get(node_id)
        if known is None:
            if len(self._peers) >= PEER_LABELS_MAX:
                return self._other_peers
            known = self._peers[node_id] = PeerFigures()
        return known

    def forget_peer(self, node_id: str) -> None:
        """The node is gone for good; another one gets its place."""
        self._peers.pop(node_id, None)

    def published(self, events: int, size: int) -> None:
        self._published.add(events, size)

    def delivered_after(self, events: int, size: int, age_s: float, here_s: float | None, times: int = 1) -> None:
        """How old these events were, and how long they had been here (None: unknown), for so many subscribers."""
        self._delivered.add(events, size, times)
        self._delivery_age_s.add(age_s, events * times)
        if here_s is not None:
            self._delivery_wait_s.add(here_s, events * times)

    @property
    def flows(self) -> tuple[Flow, Flow]:
        """What was accepted from clients, and what was sent to subscribers."""
        return self._published, self._delivered

    def refused(self, code: str) -> None:
        if code not in self._refused and len(self._refused) >= REFUSAL_LABELS_MAX:
            code = OTHER
        self._refused[code] = self._refused.get(code, 0) + 1

    def synced(self, latency_s: float) -> None:
        """Called from the storage thread."""
        self._sync_s.add(latency_s)

    # --- what is told --------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        figures = self._read()
        yield from self._of_peers()
        yield from self._of_clients()
        yield from self._of_log(figures)
        yield _family(TOPIC_EVENTS, [((each.topic,), each.events) for each in figures.topics])
        yield _family(TOPIC_BYTES, [((each.topic,), each.size_bytes) for each in figures.topics])
        yield from _of_pipelines(figures.pipelines, time.time_ns() // 1000)
        yield _single(SPANS, figures.spans_made)
        yield _single(SPANS_DROPPED, figures.spans_dropped)
        yield from _of_mesh(figures)
        yield from _of_security(figures)
        yield _family(DATAGRAMS, [((fate,), count) for fate, count in figures.datagrams.items()])
        yield _family(DATAGRAMS_REJECTED, [((reason,), count) for reason, count in figures.datagrams_rejected.items()])
        if figures.compact is not None:
            yield from _of_compact(figures.compact)
        if figures.coaty is not None:
            yield from _of_coaty(figures.coaty)
        if figures.kv is not None:
            yield from _of_kv(figures.kv)
        if figures.later is not None:
            yield from _of_later(figures.later)
        if figures.schedules is not None:
            yield from _of_schedules(figures.schedules)
        schemas = bounded_schemas(figures.schemas)
        yield _family(SCHEMA_CHECKED, [((each.pattern,), each.checked) for each in schemas])
        yield _family(SCHEMA_FAULTS, [((each.pattern,), each.faults) for each in schemas])
        yield from _of_history(figures.history)
        if figures.exmp is not None:
            yield from _of_exmp(figures.exmp)
        if figures.calls is not None:
            yield from _of_calls(figures.calls)
        yield _histogram(LOOP_DELAY, self.loop_delay_s)

    def describe(self) -> Iterable[Metric]:
        """Names without numbers: the registry asks before the node can be read."""
        return [_family(definition, ()) for definition in DEFINITIONS if definition.kind is not Kind.HISTOGRAM]

    def _of_peers(self) -> Iterator[Metric]:
        named = self._peers
        everybody = [*named.items(), (OTHER, self._other_peers)]
        counted: list[tuple[Definition, Callable[[PeerFigures], int]]] = [
            (RECONNECTS, lambda peer: peer.reconnects),
            (BYTES_SENT, lambda peer: peer.bytes_sent),
            (BYTES_RECEIVED, lambda peer: peer.bytes_received),
            (MESSAGES_SENT, lambda peer: peer.messages_sent),
            (MESSAGES_RECEIVED, lambda peer: peer.messages_received),
            (DROPS, lambda peer: peer.drops),
        ]
        for definition, number in counted:
            yield _family(definition, [((name,), number(peer)) for name, peer in everybody])
        yield _family(
            PEER_REFUSED,
            [((name, fault), count) for name, peer in everybody for fault, count in list(peer.refused.items())],
        )
        # The last state, or a median, of unrelated peers would mean nothing, so this is only for named ones.
        yield _family(STATE, [((name,), peer.state) for name, peer in named.items()])
        yield _family(QUEUE_DEPTH, [((name,), peer.queue_depth) for name, peer in named.items()])
        yield _family(RTT, [((name,), peer.rtt_ms) for name, peer in named.items() if peer.rtt_ms is not None])
        yield _family(
            SEND_LATENCY,
            [
                ((name, str(share)), value)
                for name, peer in named.items()
                for share in QUANTILES
                if (value := peer.send_latency_ms.quantile(share)) is not None
            ],
        )

    def _of_clients(self) -> Iterator[Metric]:
        yield _single(PUBLISHED_EVENTS, self._published.events)
        yield _single(PUBLISHED_BATCHES, self._published.batches)
        yield _single(PUBLISHED_BYTES, self._published.bytes)
        yield _single(DELIVERED_EVENTS, self._delivered.events)
        yield _single(DELIVERED_BATCHES, self._delivered.batches)
        yield _single(DELIVERED_BYTES, self._delivered.bytes)
        yield _histogram(DELIVERY_AGE, self._delivery_age_s)
        yield _histogram(DELIVERY_WAIT, self._delivery_wait_s)
        yield _family(REFUSED, [((code,), count) for code, count in self._refused.items()])

    def _of_log(self, figures: NodeFigures) -> Iterator[Metric]:
        yield _single(LOG_BYTES, figures.log_bytes)
        yield _single(LOG_STREAMS, figures.log_streams)
        yield _single(LOG_APPENDED, figures.log_appended)
        yield _single(LOG_SYNCED, figures.log_synced)
        yield _histogram(LOG_SYNC, self._sync_s)
        yield _single(LOG_CUTS, figures.log_cuts)
        yield _single(LOG_LOST, figures.log_lost_events)
        yield _single(DISK_FREE, figures.disk_free_bytes)
        yield _single(DISK_FULL, figures.disk_full)


@dataclass(slots=True)
class Flow:
    """Batches one way. It is mutable because every batch adds to it."""

    batches: int = 0
    events: int = 0
    bytes: int = 0

    def add(self, events: int, size: int, times: int = 1) -> None:
        self.batches += times
        self.events += events * times
        self.bytes += size * times


def _of_mesh(figures: NodeFigures) -> Iterator[Metric]:
    yield _family(MEMBERS, [((liveness,), count) for liveness, count in figures.members.items()])
    yield _single(IN_VAIN, figures.events_in_vain)
    yield _single(CLIENTS, figures.clients)
    yield _single(SUBSCRIPTIONS, figures.subscriptions)
    yield _single(HELD, figures.held_bytes)
    groups = bounded_groups(figures.groups)
    yield _family(GROUP_MEMBERS, [((each.group,), each.members) for each in groups])
    yield _family(GROUP_LAG_EVENTS, [((each.group,), each.lag_events) for each in groups])
    yield _family(GROUP_LAG_S, [((each.group,), each.lag_s) for each in groups])
    yield _family(GROUP_REDELIVERIES, [((each.group,), each.redelivered) for each in groups])
    yield _family(GROUP_DEAD_LETTERS, [((each.group,), each.dead_letters) for each in groups])


def _of_security(figures: NodeFigures) -> Iterator[Metric]:
    yield _family(REFUSALS, [((cause,), count) for cause, count in figures.refusals.items()])
    yield _family(CONNECTIONS_REFUSED, list(figures.turned_away.items()))
    if figures.certificate_expires_s is not None:
        yield _single(CERTIFICATE_EXPIRES, figures.certificate_expires_s)
        yield _single(CERTIFICATE_RENEWALS, figures.certificate_renewals)
        yield _single(CERTIFICATE_FAILURES, figures.certificate_failures)
    if figures.keys is not None:
        yield _family(API_KEYS, [((state,), count) for state, count in figures.keys.items()])


def _of_compact(figures: CompactFigures) -> Iterator[Metric]:
    yield _single(COMPACT_NEIGHBOURS, figures.neighbours)
    yield _single(COMPACT_SLOWDOWNS, figures.slowdowns)


def _of_coaty(figures: BridgeFigures) -> Iterator[Metric]:
    yield _family(COATY_IN, [((fate,), count) for fate, count in figures.events_in.items()])
    yield _family(COATY_OUT, [((fate,), count) for fate, count in figures.events_out.items()])
    yield _single(COATY_NEIGHBOURS, figures.neighbours)
    yield _single(COATY_BRIDGES, figures.bridges)
    yield _single(COATY_TOPICS, figures.topics)
    yield _single(COATY_TOPICS_REFUSED, figures.topics_refused)
    yield _single(COATY_QUESTIONS, figures.questions)
    yield _single(COATY_HELD, figures.held)
    yield _single(COATY_FORGOTTEN, figures.held_forgotten)
    yield _single(COATY_CONNECTIONS_REFUSED, figures.connections_refused)
    yield _single(COATY_DISTRUSTED, figures.distrusted)


def _of_exmp(figures: RequestFigures) -> Iterator[Metric]:
    yield _single(EXMP_CONNECTIONS, figures.connections)
    yield _single(EXMP_CONNECTIONS_REFUSED, figures.connections_refused)
    yield _family(EXMP_CONNECTIONS_ENDED, [((end,), count) for end, count in figures.connections_ended.items()])
    yield _family(EXMP_REQUESTS, list(figures.requests.items()))
    yield _single(EXMP_RECEIVED, figures.bytes_received)
    yield _single(EXMP_SENT, figures.bytes_sent)
    yield _single(EXMP_SUBSCRIPTIONS, figures.subscriptions)


def _of_kv(figures: KvFigures) -> Iterator[Metric]:
    yield _single(KV_BUCKETS, figures.buckets)
    yield _single(KV_KEYS, figures.keys)
    yield _single(KV_CACHED, figures.cached_bytes)
    yield _single(KV_GETS, figures.gets)
    yield _single(KV_WRITES, figures.writes)
    yield _single(KV_CONFLICTS, figures.conflicts)
    yield _single(KV_WATCHES, figures.watches)
    yield _single(KV_AHEAD, figures.ahead)


def _of_pipelines(reports: Iterable[PipelineReport], now_us: int) -> Iterator[Metric]:
    """Every node reports the same about every pipeline: what it wrote into a bucket."""
    known = [((each.name, each.pipeline), each) for each in reports]
    lags = [(labels, each.lag_events) for labels, each in known]
    running = [(labels, float(each.state == "running" and not each.is_lost(now_us))) for labels, each in known]
    yield _family(PIPELINE_UP, running)
    yield _family(PIPELINE_ROWS, [(labels, each.rows_total) for labels, each in known])
    yield _family(PIPELINE_LAG, [(labels, lag) for labels, lag in lags if lag is not None])
    slowest = [(labels, max((query.batch_s for query in each.queries), default=0.0)) for labels, each in known]
    yield _family(PIPELINE_BATCH, slowest)
    yield _family(PIPELINE_REPORT, [(labels, each.updated_us / US_PER_S) for labels, each in known])


def _of_calls(figures: CallFigures) -> Iterator[Metric]:
    yield _family(REQUESTS, [((outcome,), count) for outcome, count in list(figures.outcomes.items())])
    yield _histogram(REQUEST_TIMES, figures.times_s)
    yield _single(REQUEST_SERVERS, figures.servers)
    yield _single(REQUESTS_IN_HAND, figures.in_hand)
    yield _single(REQUESTS_WAITING, figures.waiting)


def _of_later(figures: LaterFigures) -> Iterator[Metric]:
    yield _single(LATER_PENDING, figures.pending)
    yield _single(LATER_INDEXED, figures.indexed)
    yield _single(LATER_OVERDUE, figures.overdue_s)
    yield _single(LATER_DELIVERED, figures.delivered)
    yield _single(LATER_LATE, figures.late)
    yield _single(LATER_CANCELLED, figures.cancelled)


def _of_schedules(figures: ScheduleFigures) -> Iterator[Metric]:
    yield _single(SCHEDULES, figures.schedules)
    yield _single(SCHEDULE_FIRED, figures.fired)
    yield _single(SCHEDULE_LATE, figures.late)
    yield _single(SCHEDULE_MISSED, figures.missed)
    yield _single(SCHEDULE_REFUSED, figures.refused)


def bounded_schemas(schemas: Iterable[SchemaFigures]) -> list[SchemaFigures]:
    """By pattern; those beyond the bound are one."""
    ordered = sorted(schemas, key=lambda each: each.pattern)
    rest = ordered[SCHEMA_LABELS_MAX:]
    if not rest:
        return ordered
    joined = SchemaFigures(OTHER, sum(each.checked for each in rest), sum(each.faults for each in rest))
    return [*ordered[:SCHEMA_LABELS_MAX], joined]


def bounded_groups(groups: Iterable[GroupFigures]) -> list[GroupFigures]:
    """By name; those beyond the bound are one, with the sum of their events and the longest of their times."""
    ordered = sorted(groups, key=lambda each: each.group)
    rest = ordered[GROUP_LABELS_MAX:]
    if not rest:
        return ordered
    joined = GroupFigures(
        OTHER,
        sum(each.members for each in rest),
        sum(each.lag_events for each in rest),
        max(each.lag_s for each in rest),
        sum(each.redelivered for each in rest),
        sum(each.dead_letters for each in rest),
    )
    return [*ordered[:GROUP_LABELS_MAX], joined]


def _single(definition: Definition, value: float) -> Metric:
    return _family(definition, [((), value)])


def _of_history(tables: Iterable[HistoryFigures]) -> Iterator[Metric]:
    """There are few tables, because each has a process."""
    found = [((each.table,), each) for each in tables]
    yield _family(HISTORY_UP, [(labels, float(each.is_up)) for labels, each in found])
    yield _family(HISTORY_FILES, [(labels, each.files) for labels, each in found])
    yield _family(HISTORY_UNREAD, [(labels, each.files_unread) for labels, each in found])
    yield _family(HISTORY_DAMAGED, [(labels, each.files_damaged) for labels, each in found])
    yield _family(HISTORY_READS, [(labels, each.reads) for labels, each in found])
    yield _family(HISTORY_FAILURES, [(labels, each.failures) for labels, each in found])
    yield _family(HISTORY_EVENTS, [(labels, each.events) for labels, each in found])
    yield _family(HISTORY_BYTES, [(labels, each.size_bytes) for labels, each in found])


def _family(definition: Definition, samples: Iterable[Sample]) -> Metric:
    family: CounterMetricFamily | GaugeMetricFamily
    match definition.kind:
        case Kind.COUNTER:
            family = CounterMetricFamily(definition.name, definition.help, labels=definition.labels)
        case Kind.GAUGE:
            family = GaugeMetricFamily(definition.name, definition.help, labels=definition.labels)
        case Kind.HISTOGRAM:
            raise AssertionError("a histogram is more than samples")
        case _:
            assert_never(definition.kind)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(definition: Definition, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
    bounds = [*map(str, histogram.bounds), "+Inf"]
    counts: list[tuple[str, float]] = list(zip(bounds, accumulate(histogram.counts), strict=True))
    family.add_metric((), buckets=counts, sum_value=histogram.sum)
    return family
