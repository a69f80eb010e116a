"""The tables that ``health`` writes: their columns, and how decisions about a node become rows of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weft.pipelines.derived_tables import REJECTED, in_micros
from weft.pipelines.devices.node_health import US, Alert, Node, Protocol

# One row per node, as it was at ``decided_at``.
NODES: Final = {
    "protocol": "string",
    "node": "string",
    "status": "string",
    "since": "timestamp",
    "first_seen": "timestamp",
    "last_seen": "timestamp",
    "up_since": "timestamp",
    "uptime_s": "double",
    "interval_s": "double",
    "hops": "int",
    "delay_ms": "double",
    "delay_ms_max": "double",
    "signals": "bigint",
    "gaps": "bigint",
    "missed": "bigint",
    "outages": "bigint",
    "restarts": "bigint",
    "decided_at": "timestamp",
}
NODE_KEYS: Final = ("protocol", "node")
NODE_ORDER: Final = ("decided_at", "signals")

# One row per alert. ``last_seen`` and ``missed`` are about the silence before it.
ALERTS: Final = {
    "protocol": "string",
    "node": "string",
    "alert": "string",
    "at": "timestamp",
    "last_seen": "timestamp",
    "missed": "bigint",
}
ALERT_KEYS: Final = ("protocol", "node", "alert", "at")

OUTPUT: Final = in_micros(NODES | ALERTS | REJECTED)  # rows of all three tables; ``alert`` and ``rejected`` say which


def rows_of(
    protocol: Protocol, name: str, node: Node | None, alerts: Sequence[Alert], decided_us: int
) -> list[dict[str, Any]]:
    """Rows of ``OUTPUT``."""
    told = [
        {
            "protocol": str(protocol),
            "node": name,
            "alert": str(alert.kind),
            "at_us": alert.at_us,
            "last_seen_us": alert.last_us,
            "missed": alert.missed,
        }
        for alert in alerts
    ]
    return told if node is None else [*told, _node_row(protocol, name, node, decided_us)]


def _node_row(protocol: Protocol, name: str, node: Node, decided_us: int) -> dict[str, Any]:
    return {
        "protocol": str(protocol),
        "node": name,
        "status": str(node.status),
        "since_us": node.since_us,
        "first_seen_us": node.first_us,
        "last_seen_us": node.last_us,
        "up_since_us": node.up_since_us,
        "uptime_s": (node.last_us - node.up_since_us) / US,
        "interval_s": node.interval_s,
        "hops": node.hops,
        "delay_ms": _millis(node.delay_us),
        "delay_ms_max": _millis(node.delay_us_max),
        "signals": node.signals,
        "gaps": node.gaps,
        "missed": node.missed,
        "outages": node.outages,
        "restarts": node.restarts,
        "decided_at_us": decided_us,
    }


def _millis(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1000
