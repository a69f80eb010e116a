"""``weft bench``, on a node as users start it."""

from __future__ import annotations

import pytest

from tests.cli.commands import Weft
from tests.up import RunningNode

pytestmark = pytest.mark.req("SEE-02")


def test_prints_rates_and_times(weft: Weft, node: RunningNode) -> None:
    outcome = weft("bench", *node.flags, "--events", "200", "--subscribers", "2")
    assert outcome.status == 0, outcome.err
    assert "published: 200 events in" in outcome.out and "delivered to 2 subscribers: 400 events in" in outcome.out
    assert "p99.9" in outcome.out and "receipt" in outcome.out and "delivery" in outcome.out and "█" in outcome.out


def test_as_json(weft: Weft, node: RunningNode) -> None:
    found = weft("bench", *node.flags, "--json", "--events", "100", "--batch", "10", "--in-flight", "2").document
    assert found["load"]["batch"] == 10 and found["load"]["topic"].startswith("bench.")
    assert (
        found["published"]["events"] == 100
        and found["delivered"] | {"events": [100], "missing": 0} == found["delivered"]
    )
    times = found["published"]["receipts"]
    assert 0 < times["least"] <= times["p50"] <= times["p99.9"] <= times["greatest"]
    assert sum(bar["count"] for bar in times["bars"]) == 10, "of each call"


def test_says_what_cannot_be(weft: Weft, node: RunningNode) -> None:
    outcome = weft("bench", *node.flags, "--publishers", "0", "--subscribers", "0")
    assert outcome.status == 1 and "neither publishers nor subscribers" in outcome.err
