"""Numbers that are counted where things happen: each costs an addition, and is read when somebody asks for the metrics.

Only the node's event loop writes them, and only the storage thread writes the sync latency, so they need no locks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import ceil
from typing import Final

from weft.gateway import BridgeFigures, CompactFigures, RequestFigures
from weft.limits import LINK_LATENCIES_KEPT
from weft.model.pipeline_reports import PipelineReport

OTHER: Final = "other"  # the label for everything beyond a bound

# A server's disk syncs in 0.1 to 10 ms; a sync that takes a second is worth a look.
SYNC_BUCKETS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)

# A step of the loop should take 20 ms at most (SEC-05); these show what takes longer.
DELAY_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


# From a hop on one machine to a reader that is an hour behind.
LATENCY_BUCKETS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0
)  # fmt: skip


# A request within a machine takes less than a millisecond; one that takes a minute is waiting for something.
REQUEST_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class ConnectionState(IntEnum):
    """The state of the link to a peer; the higher, the better."""

    DOWN = 0
    CONNECTING = 1
    UNHEALTHY = 2  # connected, but heartbeats are missing (PL-03)
    CONNECTED = 3


class Latencies:
    """The last LINK_LATENCIES_KEPT values, and quantiles of them."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=LINK_LATENCIES_KEPT)

    def add(self, value: float) -> None:
        self._values.append(value)

    def quantile(self, share: float) -> float | None:
        """The smallest value that at least this share of the window does not exceed; None if there is none."""
        ordered = sorted(self._values)
        return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


class Histogram:
    """How many values were at most each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


@dataclass(slots=True)
class PeerFigures:
    """One peer's link (PL-06). It is mutable because its link keeps it and adds to it."""

    state: ConnectionState = ConnectionState.DOWN
    reconnects: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    queue_depth: int = 0
    drops: int = 0
    rtt_ms: float | None = None
    send_latency_ms: Latencies = field(default_factory=Latencies)
    refused: dict[str, int] = field(default_factory=dict)  # fault -> how often; at most as many as the code has faults

    def sent(self, size: int, latency_s: float) -> None:
        """A frame has left; ``latency_s`` is how long it waited and was being written."""
        self.messages_sent += 1
        self.bytes_sent += size
        self.send_latency_ms.add(latency_s * 1000)

    def received(self, size: int) -> None:
        self.messages_received += 1
        self.bytes_received += size

    def refuse(self, fault: str, times: int) -> None:
        self.refused[fault] = self.refused.get(fault, 0) + times


@dataclass(frozen=True, slots=True)
class GroupFigures:
    group: str
    members: int
    lag_events: int
    lag_s: float
    redelivered: int = 0  # by this node since it started
    dead_letters: int = 0  # made by this node since it started


@dataclass(frozen=True, slots=True)
class KvFigures:
    """About buckets of keys and values."""

    buckets: int = 0
    keys: int = 0
    cached_bytes: int = 0
    gets: int = 0
    writes: int = 0
    conflicts: int = 0
    watches: int = 0
    ahead: int = 0  # entries that wait because a clock is ahead


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """What the log has of one topic."""

    topic: str
    events: int  # that ever came since the streams began
    size_bytes: int  # that are kept now


@dataclass(frozen=True, slots=True)
class CallFigures:
    """About requests and replies. ``times_s`` covers those that were answered here, from the request to the last
    reply."""

    servers: int = 0
    in_hand: int = 0
    waiting: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    times_s: Histogram = field(default_factory=lambda: Histogram(REQUEST_BUCKETS_S))


@dataclass(frozen=True, slots=True)
class LaterFigures:
    """About events for a later time."""

    pending: int = 0
    indexed: int = 0  # of them in memory
    overdue_s: float = 0.0  # how long the first one is overdue
    delivered: int = 0
    late: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """About schedules."""

    schedules: int = 0  # that the mesh has
    fired: int = 0  # by this node
    late: int = 0
    missed: int = 0  # times that nobody fired, as seen here
    refused: int = 0  # times whose owner may not publish there


@dataclass(frozen=True, slots=True)
class SchemaFigures:
    """About the schema of one pattern."""

    pattern: str
    checked: int = 0  # events that were checked here
    faults: int = 0  # events that broke it


@dataclass(frozen=True, slots=True)
class HistoryFigures:
    """About one archive table that is read where the log ends."""

    table: str
    is_up: bool = False  # it was listed, and could be read the last time
    files: int = 0
    files_unread: int = 0  # new files that are still being indexed
    files_damaged: int = 0
    reads: int = 0
    failures: int = 0  # clients whose request failed
    events: int = 0  # read from it
    size_bytes: int = 0  # of these events


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What a node can tell when it is asked, without having counted it."""

    log_bytes: int = 0
    log_streams: int = 0
    log_appended: int = 0  # batches since the start
    log_synced: int = 0
    log_cuts: int = 0  # streams that were cut on opening, behind what was promised
    log_lost_events: int = 0  # found damaged since the start
    disk_free_bytes: int = 0
    disk_full: bool = False  # publishes are refused because there is no room
    members: Mapping[str, int] = field(default_factory=dict)  # liveness -> nodes
    events_in_vain: int = 0  # copied here by peers, although nobody wants them
    clients: int = 0
    subscriptions: int = 0
    held_bytes: int = 0
    groups: Sequence[GroupFigures] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)  # cause -> how often
    turned_away: Mapping[tuple[str, str], int] = field(default_factory=dict)  # connections: (port, reason) -> how many
    datagrams: Mapping[str, int] = field(default_factory=dict)  # of devices: fate -> how many
    datagrams_rejected: Mapping[str, int] = field(default_factory=dict)  # reason -> how many
    compact: CompactFigures | None = None  # None: no devices are heard
    coaty: BridgeFigures | None = None  # None: no Coaty namespace is joined
    kv: KvFigures | None = None  # None: the node is not up
    calls: CallFigures | None = None  # None: the node is not up
    later: LaterFigures | None = None
    schedules: ScheduleFigures | None = None
    schemas: Sequence[SchemaFigures] = ()
    history: Sequence[HistoryFigures] = ()
    exmp: RequestFigures | None = None  # None: EXMP is not served
    certificate_expires_s: float | None = None  # None: there is none
    certificate_renewals: int = 0
    certificate_failures: int = 0
    topics: Sequence[TopicFigures] = ()  # the largest topics, and the rest as one
    pipelines: Sequence[PipelineReport] = ()
    spans_made: int = 0
    spans_dropped: int = 0
    keys: Mapping[str, int] | None = None  # keys of the mesh, by whether they are valid; None: there are none
