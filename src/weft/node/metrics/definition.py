"""What a metric is called and means, and how numbers become what Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import assert_never

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from weft.node.figures import Histogram

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


def single(definition: Definition, value: float) -> Metric:
    return family(definition, [((), value)])


def family(definition: Definition, samples: Iterable[Sample]) -> Metric:
    found: CounterMetricFamily | GaugeMetricFamily
    match definition.kind:
        case Kind.COUNTER:
            found = CounterMetricFamily(definition.name, definition.help, labels=definition.labels)
        case Kind.GAUGE:
            found = GaugeMetricFamily(definition.name, definition.help, labels=definition.labels)
        case Kind.HISTOGRAM:
            raise AssertionError("a histogram is more than samples")
        case _:
            assert_never(definition.kind)
    for labels, value in samples:
        found.add_metric(labels, value)
    return found


def histogram(definition: Definition, values: Histogram) -> Metric:
    found = HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
    bounds = [*map(str, values.bounds), "+Inf"]
    counts: list[tuple[str, float]] = list(zip(bounds, accumulate(values.counts), strict=True))
    found.add_metric((), buckets=counts, sum_value=values.sum)
    return found
