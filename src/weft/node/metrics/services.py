"""What is built on events: keys and values, requests, events for later, schedules, schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.node.figures import OTHER, CallFigures, KvFigures, LaterFigures, ScheduleFigures, SchemaFigures
from weft.node.metrics.definition import Definition, Kind, family, histogram, single

SCHEMA_LABELS_MAX: Final = 256  # for the same reasons as PEER_LABELS_MAX

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


def of_kv(figures: KvFigures) -> Iterator[Metric]:
    yield single(KV_BUCKETS, figures.buckets)
    yield single(KV_KEYS, figures.keys)
    yield single(KV_CACHED, figures.cached_bytes)
    yield single(KV_GETS, figures.gets)
    yield single(KV_WRITES, figures.writes)
    yield single(KV_CONFLICTS, figures.conflicts)
    yield single(KV_WATCHES, figures.watches)
    yield single(KV_AHEAD, figures.ahead)


def of_calls(figures: CallFigures) -> Iterator[Metric]:
    yield family(REQUESTS, [((outcome,), count) for outcome, count in list(figures.outcomes.items())])
    yield histogram(REQUEST_TIMES, figures.times_s)
    yield single(REQUEST_SERVERS, figures.servers)
    yield single(REQUESTS_IN_HAND, figures.in_hand)
    yield single(REQUESTS_WAITING, figures.waiting)


def of_later(figures: LaterFigures) -> Iterator[Metric]:
    yield single(LATER_PENDING, figures.pending)
    yield single(LATER_INDEXED, figures.indexed)
    yield single(LATER_OVERDUE, figures.overdue_s)
    yield single(LATER_DELIVERED, figures.delivered)
    yield single(LATER_LATE, figures.late)
    yield single(LATER_CANCELLED, figures.cancelled)


def of_schedules(figures: ScheduleFigures) -> Iterator[Metric]:
    yield single(SCHEDULES, figures.schedules)
    yield single(SCHEDULE_FIRED, figures.fired)
    yield single(SCHEDULE_LATE, figures.late)
    yield single(SCHEDULE_MISSED, figures.missed)
    yield single(SCHEDULE_REFUSED, figures.refused)


def of_schemas(figures: Iterable[SchemaFigures]) -> Iterator[Metric]:
    schemas = bounded_schemas(figures)
    yield family(SCHEMA_CHECKED, [((each.pattern,), each.checked) for each in schemas])
    yield family(SCHEMA_FAULTS, [((each.pattern,), each.faults) for each in schemas])


def bounded_schemas(schemas: Iterable[SchemaFigures]) -> list[SchemaFigures]:
    """Sort schemas by pattern. Those beyond the bound become one."""
    ordered = sorted(schemas, key=lambda each: each.pattern)
    rest = ordered[SCHEMA_LABELS_MAX:]
    if not rest:
        return ordered
    joined = SchemaFigures(OTHER, sum(each.checked for each in rest), sum(each.faults for each in rest))
    return [*ordered[:SCHEMA_LABELS_MAX], joined]
