"""Figures of a link."""

from __future__ import annotations

import pytest

from weft.limits import LINK_LATENCIES_KEPT
from weft.transport.peers.watching import Traffic


@pytest.mark.req("PL-06")
def test_frames_bytes_and_latencies_add_up() -> None:
    traffic = Traffic()
    assert traffic.latency_s(0.95) == 0.0, "before the first frame"
    for number in range(100):
        traffic.sent(10, number / 100)
        traffic.received(3)
    assert (traffic.messages_sent, traffic.bytes_sent) == (100, 1000)
    assert (traffic.messages_received, traffic.bytes_received) == (100, 300)
    assert [traffic.latency_s(share) for share in (0.0, 0.5, 0.95, 1.0)] == [0.0, 0.5, 0.95, 0.99]


@pytest.mark.req("PL-06")
def test_latencies_are_those_of_the_last_frames() -> None:
    traffic = Traffic()
    for latency_s in [9.0] * 1000 + [1.0] * LINK_LATENCIES_KEPT:
        traffic.sent(1, latency_s)
    assert traffic.latency_s(1.0) == 1.0
