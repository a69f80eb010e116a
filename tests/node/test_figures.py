"""Numbers that are counted where things happen: quantiles of a window, buckets."""

from __future__ import annotations

from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.limits import LINK_LATENCIES_KEPT
from weft.node.figures import Histogram, Latencies, PeerFigures

NUMBERS = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def test_without_values_there_is_no_quantile() -> None:
    assert Latencies().quantile(0.5) is None


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 50), (0.95, 95), (1.0, 100)])
def test_quantiles_of_a_hundred(share: float, expected: float) -> None:
    latencies = Latencies()
    for value in range(100, 0, -1):
        latencies.add(value)
    assert latencies.quantile(share) == expected


@given(NUMBERS)
def test_half_is_the_median(values: list[float]) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    assert latencies.quantile(0.5) == median_low(values)


def test_only_the_last_values_count() -> None:
    latencies = Latencies()
    for value in [1000.0] * 10 + [1.0] * LINK_LATENCIES_KEPT:
        latencies.add(value)
    assert latencies.quantile(1.0) == 1.0


@given(NUMBERS)
def test_a_histogram_counts_what_is_at_most_each_bound(values: list[float]) -> None:
    bounds = (1.0, 10.0, 1000.0)
    histogram = Histogram(bounds)
    for value in values:
        histogram.add(value)
    for number, bound in enumerate(bounds):
        assert sum(histogram.counts[: number + 1]) == sum(value <= bound for value in values)
    assert sum(histogram.counts) == len(values)
    assert histogram.sum == pytest.approx(sum(values))


def test_a_peer_counts_frames_and_their_time() -> None:
    peer = PeerFigures()
    peer.sent(100, 0.002)
    peer.sent(50, 0.004)
    peer.received(7)
    assert (peer.messages_sent, peer.bytes_sent) == (2, 150)
    assert (peer.messages_received, peer.bytes_received) == (1, 7)
    assert peer.send_latency_ms.quantile(1.0) == 4.0
