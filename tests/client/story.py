"""What the stories of the client share: options that do not make anybody wait, and hooks that remember."""

from __future__ import annotations

from typing import Any

import weft
from weft.client import Connecting, Hooks, Options


def quick(**changes: Any) -> Options:
    """Options with short pauses; the bounds are for tests that fail."""
    settings = {"backoff_s_min": 0.01, "backoff_s_max": 0.05, "connect_timeout_s": 20.0, "close_timeout_s": 20.0}
    return Options(**{**settings, "handled_interval_s": 0.01, **changes})


def connect(addresses: str | list[str], hooks: Hooks | None = None, **changes: Any) -> Connecting:
    connecting: Connecting = made_of(
        weft.connect(addresses, insecure=True, options=quick(**changes), hooks=hooks, chance=lambda: 0.5)
    )
    return connecting


def made_of(connecting: Connecting) -> Any:
    """Of the fixture ``either_client``, the blocking client behind the same interface."""
    return connecting


class Record(Hooks):
    """Hooks that remember what they were told."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [facts[1:] for facts in self.seen if facts[0] == name]

    def on_connected(self, address: str, node: str, purpose: str) -> None:
        self.seen.append(("connected", node, purpose))

    def on_disconnected(self, address: str, node: str, purpose: str, reason: str) -> None:
        self.seen.append(("disconnected", node, purpose, reason))

    def on_retry(self, purpose: str, delay_s: float, reason: str) -> None:
        self.seen.append(("retry", purpose, delay_s, reason))

    def on_published(self, topic: str, events: int, size_bytes: int, latency_s: float) -> None:
        self.seen.append(("published", topic, events, size_bytes, latency_s))

    def on_publish_failed(self, topic: str, events: int, reason: str) -> None:
        self.seen.append(("failed", topic, events, reason))

    def on_delivered(self, topic: str, events: int, size_bytes: int) -> None:
        self.seen.append(("delivered", topic, events, size_bytes))
