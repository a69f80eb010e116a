"""What Prometheus collects: numbers that are counted as things happen, and numbers that are read from the node at each
scrape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weft.node.figures import (
    DELAY_BUCKETS_S,
    LATENCY_BUCKETS_S,
    OTHER,
    SYNC_BUCKETS_S,
    Histogram,
    NodeFigures,
    PeerFigures,
)
from weft.node.metrics import clients, gateways, links, mesh, node, security, services, tables
from weft.node.metrics.definition import Definition, Kind, family

PEER_LABELS_MAX: Final = 256  # ten series each: Prometheus can take that, and nobody looks at more links of one node
REFUSAL_LABELS_MAX: Final = 32  # codes of refusals; there are fifteen

SUBJECTS: Final = (links, clients, node, tables, mesh, security, gateways, services)
DEFINITIONS: Final = tuple(
    value for subject in SUBJECTS for value in vars(subject).values() if isinstance(value, Definition)
)


class Metrics(Collector):
    """Everything that one node counts. Each has its own ``registry``, so that several nodes can live in one process."""

    def __init__(self, read: Callable[[], NodeFigures]) -> None:
        """``read`` is called at every scrape, in the thread that collects."""
        self._read = read
        self._peers: dict[str, PeerFigures] = {}
        self._other_peers = PeerFigures()
        self._published = clients.Flow()
        self._delivered = clients.Flow()
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
        """The figures to which the link to this peer adds. Peers beyond the bound share one set of figures."""
        known = self._peers.get(node_id)
        if known is None:
            if len(self._peers) >= PEER_LABELS_MAX:
                return self._other_peers
            known = self._peers[node_id] = PeerFigures()
        return known

    def forget_peer(self, node_id: str) -> None:
        """Forget a node that is gone for good; another one gets its place."""
        self._peers.pop(node_id, None)

    def published(self, events: int, size: int) -> None:
        self._published.add(events, size)

    def delivered_after(self, events: int, size: int, age_s: float, here_s: float | None, times: int = 1) -> None:
        """Count a delivery to ``times`` subscribers: how old the events were, and how long this node had them (None:
        unknown).
        """
        self._delivered.add(events, size, times)
        self._delivery_age_s.add(age_s, events * times)
        if here_s is not None:
            self._delivery_wait_s.add(here_s, events * times)

    @property
    def flows(self) -> tuple[clients.Flow, clients.Flow]:
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
        yield from links.of_peers(self._peers, self._other_peers)
        yield from clients.of_clients(
            self._published, self._delivered, self._delivery_age_s, self._delivery_wait_s, self._refused
        )
        yield from node.of_log(figures, self._sync_s)
        yield from tables.of_pipelines(figures.pipelines, time.time_ns() // 1000)
        yield from mesh.of_mesh(figures)
        yield from security.of_security(figures)
        yield from gateways.of_devices(figures)
        if figures.coaty is not None:
            yield from gateways.of_coaty(figures.coaty)
        if figures.kv is not None:
            yield from services.of_kv(figures.kv)
        if figures.later is not None:
            yield from services.of_later(figures.later)
        if figures.schedules is not None:
            yield from services.of_schedules(figures.schedules)
        yield from services.of_schemas(figures.schemas)
        yield from tables.of_history(figures.history)
        if figures.exmp is not None:
            yield from gateways.of_exmp(figures.exmp)
        if figures.calls is not None:
            yield from services.of_calls(figures.calls)
        yield from node.of_process(figures, self.loop_delay_s)

    def describe(self) -> Iterable[Metric]:
        """Yield the metrics without numbers: the registry asks for their names before the node can be read."""
        return [family(definition, ()) for definition in DEFINITIONS if definition.kind is not Kind.HISTOGRAM]
