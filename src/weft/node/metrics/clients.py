"""What clients publish, and what they get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.node.figures import Histogram
from weft.node.metrics.definition import Definition, Kind, family, histogram, single

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
REFUSED: Final = Definition("weft_refused_total", Kind.COUNTER, "Requests refused, by reason.", ("code",))


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


def of_clients(
    published: Flow, delivered: Flow, age_s: Histogram, wait_s: Histogram, refused: Mapping[str, int]
) -> Iterator[Metric]:
    yield single(PUBLISHED_EVENTS, published.events)
    yield single(PUBLISHED_BATCHES, published.batches)
    yield single(PUBLISHED_BYTES, published.bytes)
    yield single(DELIVERED_EVENTS, delivered.events)
    yield single(DELIVERED_BATCHES, delivered.batches)
    yield single(DELIVERED_BYTES, delivered.bytes)
    yield histogram(DELIVERY_AGE, age_s)
    yield histogram(DELIVERY_WAIT, wait_s)
    yield family(REFUSED, [((code,), count) for code, count in refused.items()])
