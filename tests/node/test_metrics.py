"""What Prometheus gets: the promised names, the numbers that were counted, a bounded number of labels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from weft.gateway import BridgeFigures, CompactFigures, RequestFigures
from weft.node.figures import (
    CallFigures,
    ConnectionState,
    GroupFigures,
    KvFigures,
    LaterFigures,
    NodeFigures,
    ScheduleFigures,
)
from weft.node.metrics import DEFINITIONS, GROUP_LABELS_MAX, PEER_LABELS_MAX, REFUSAL_LABELS_MAX, Metrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(metrics: Metrics) -> Series:
    """As Prometheus itself reads it."""
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return scrape(metrics)[(name, frozenset(labels.items()))]


def quiet() -> NodeFigures:
    return NodeFigures()


@pytest.mark.req("PL-06", "PL-02", "OBS-01")
def test_the_link_to_a_peer() -> None:
    metrics = Metrics(quiet)
    peer = metrics.peer("node-b")
    peer.state = ConnectionState.CONNECTED
    peer.reconnects = 2
    peer.queue_depth = 9
    peer.drops = 3
    peer.rtt_ms = 1.5
    for latency_ms in range(1, 101):
        peer.sent(10, latency_ms / 1000)
    peer.received(77)
    assert value(metrics, "weft_connection_state", peer="node-b") == 3
    assert value(metrics, "weft_reconnects_total", peer="node-b") == 2
    assert value(metrics, "weft_bytes_sent_total", peer="node-b") == 1000
    assert value(metrics, "weft_bytes_received_total", peer="node-b") == 77
    assert value(metrics, "weft_messages_sent_total", peer="node-b") == 100
    assert value(metrics, "weft_messages_received_total", peer="node-b") == 1
    assert value(metrics, "weft_queue_depth", peer="node-b") == 9
    assert value(metrics, "weft_drops_total", peer="node-b") == 3
    assert value(metrics, "weft_rtt_ms", peer="node-b") == 1.5
    assert value(metrics, "weft_send_latency_ms", peer="node-b", quantile="0.5") == pytest.approx(50)
    assert value(metrics, "weft_send_latency_ms", peer="node-b", quantile="0.95") == pytest.approx(95)


def test_a_peer_has_one_place_to_count() -> None:
    metrics = Metrics(quiet)
    assert metrics.peer("node-b") is metrics.peer("node-b")
    assert metrics.peer("node-b") is not metrics.peer("node-c")


def test_clients_and_the_log() -> None:
    figures = NodeFigures(
        log_bytes=5, log_streams=4, log_appended=9, log_synced=8, log_cuts=1, log_lost_events=2, disk_free_bytes=7,
        disk_full=True, members={"alive": 3, "dead": 1}, clients=6, subscriptions=11,
        events_in_vain=12, held_bytes=12,
    )  # fmt: skip
    metrics = Metrics(lambda: figures)
    metrics.published(100, 1000)
    metrics.published(1, 600)
    metrics.delivered_after(50, 500, 0.1, None)
    metrics.refused("too_large")
    metrics.synced(0.0003)
    metrics.synced(99.0)
    found = scrape(metrics)
    plain = {name: number for (name, labels), number in found.items() if not labels}
    assert plain["weft_published_events_total"] == 101
    assert plain["weft_published_batches_total"] == 2
    assert plain["weft_published_bytes_total"] == 1600
    assert plain["weft_delivered_events_total"] == 50
    assert plain["weft_delivered_batches_total"] == 1
    assert plain["weft_delivered_bytes_total"] == 500
    assert plain["weft_log_bytes"] == 5
    assert plain["weft_log_streams"] == 4
    assert plain["weft_log_appended_batches_total"] == 9
    assert plain["weft_log_synced_batches_total"] == 8
    assert plain["weft_log_cuts"] == 1
    assert plain["weft_log_lost_events"] == 2
    assert plain["weft_disk_free_bytes"] == 7
    assert plain["weft_disk_full"] == 1
    assert plain["weft_clients"] == 6
    assert plain["weft_events_in_vain_total"] == 12
    assert plain["weft_subscriptions"] == 11
    assert plain["weft_held_bytes"] == 12
    assert plain["weft_log_sync_seconds_count"] == 2
    assert plain["weft_log_sync_seconds_sum"] == pytest.approx(99.0003)
    assert found["weft_log_sync_seconds_bucket", frozenset({("le", "0.00025")})] == 0
    assert found["weft_log_sync_seconds_bucket", frozenset({("le", "0.0005")})] == 1
    assert found["weft_log_sync_seconds_bucket", frozenset({("le", "+Inf")})] == 2
    assert found["weft_members", frozenset({("liveness", "alive")})] == 3
    assert found["weft_refused_total", frozenset({("code", "too_large")})] == 1


def test_what_exmp_clients_do() -> None:
    figures = RequestFigures(
        connections=3,
        connections_refused=1,
        connections_ended={"bye-received": 4, "error-sent": 5},
        requests={("publish", "success"): 6, ("publish", "not_allowed"): 7},
        bytes_received=8,
        bytes_sent=9,
        subscriptions=2,
    )
    metrics = Metrics(lambda: NodeFigures(exmp=figures))
    assert value(metrics, "weft_exmp_connections") == 3
    assert value(metrics, "weft_exmp_connections_refused_total") == 1
    assert value(metrics, "weft_exmp_connections_ended_total", end="error-sent") == 5
    assert value(metrics, "weft_exmp_requests_total", operation="publish", outcome="success") == 6
    assert value(metrics, "weft_exmp_requests_total", operation="publish", outcome="not_allowed") == 7
    assert value(metrics, "weft_exmp_received_bytes_total") == 8
    assert value(metrics, "weft_exmp_sent_bytes_total") == 9
    assert value(metrics, "weft_exmp_subscriptions") == 2


def test_how_far_a_group_is_behind() -> None:
    metrics = Metrics(lambda: NodeFigures(groups=[GroupFigures("billing", 2, 40, 1.5)]))
    assert value(metrics, "weft_group_members", group="billing") == 2
    assert value(metrics, "weft_group_lag_events", group="billing") == 40
    assert value(metrics, "weft_group_lag_seconds", group="billing") == 1.5


def labels_of(metrics: Metrics, name: str) -> set[str]:
    return {text for (found, labels) in scrape(metrics) if found == name for _, text in labels}


@pytest.mark.req("PL-06")
def test_peers_beyond_the_bound_are_counted_together() -> None:
    metrics = Metrics(quiet)
    for number in range(PEER_LABELS_MAX + 50):
        metrics.peer(f"node-{number}").received(10)
    assert len(labels_of(metrics, "weft_bytes_received_total")) == PEER_LABELS_MAX + 1
    assert value(metrics, "weft_bytes_received_total", peer="other") == 500
    assert "other" not in labels_of(metrics, "weft_connection_state")


def test_a_forgotten_peer_makes_room_for_another() -> None:
    metrics = Metrics(quiet)
    for number in range(PEER_LABELS_MAX):
        metrics.peer(f"node-{number}")
    metrics.forget_peer("node-0")
    metrics.forget_peer("never-known")
    metrics.peer("late").received(1)
    assert value(metrics, "weft_bytes_received_total", peer="late") == 1
    assert "node-0" not in labels_of(metrics, "weft_bytes_received_total")


def test_groups_beyond_the_bound_are_one() -> None:
    groups = [GroupFigures(f"group-{number:04}", 1, 10, float(number)) for number in range(GROUP_LABELS_MAX + 3)]
    metrics = Metrics(lambda: NodeFigures(groups=groups))
    assert len(labels_of(metrics, "weft_group_lag_events")) == GROUP_LABELS_MAX + 1
    assert value(metrics, "weft_group_lag_events", group="other") == 30
    assert value(metrics, "weft_group_lag_seconds", group="other") == GROUP_LABELS_MAX + 2


def test_reasons_of_refusals_are_bounded() -> None:
    metrics = Metrics(quiet)
    for number in range(REFUSAL_LABELS_MAX + 5):
        metrics.refused(f"reason-{number}")
    assert value(metrics, "weft_refused_total", code="other") == 5


def test_two_nodes_in_one_process_count_apart() -> None:
    one, other = Metrics(quiet), Metrics(quiet)
    one.published(5, 5)
    assert value(other, "weft_published_events_total") == 0


def test_what_the_process_takes_is_told() -> None:
    assert value(Metrics(quiet), "process_resident_memory_bytes") > 0


def test_every_definition_is_exported_and_on_the_page() -> None:
    figures = NodeFigures(
        members={"alive": 1},
        groups=[GroupFigures("g", 1, 1, 1.0)],
        refusals={"no-key": 1},
        compact=CompactFigures(),
        coaty=BridgeFigures(events_in={"published": 1}, events_out={"published": 1}),
        exmp=RequestFigures(),
        kv=KvFigures(),
        calls=CallFigures(outcomes={"answered": 1}),
        later=LaterFigures(),
        schedules=ScheduleFigures(),
        certificate_expires_s=1.0,
        keys={"good": 1, "revoked": 0},
    )
    metrics = Metrics(lambda: figures)
    metrics.peer("b").sent(1, 0.1)
    metrics.peer("b").rtt_ms = 1.0
    metrics.refused("busy")
    told = {family.name for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())}
    names = [definition.name.removesuffix("_total") for definition in DEFINITIONS]
    assert set(names) == {name for name in told if name.startswith("weft_")}
    assert max(Counter(names).values()) == 1
    page = PAGE.read_text()
    for definition in DEFINITIONS:
        labels = ", ".join(f"`{label}`" for label in definition.labels)
        assert f"| `{definition.name}` | {definition.kind} | {labels} | {definition.help} |" in page
