"""Signing in to a node's console over HTTP, as its pages do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.up import END_TIMEOUT_S, RunningNode

MARK = {"x-weft-console": "1"}


@dataclass(frozen=True)
class Place:
    """A node, and keys for it: one that may do everything, one for ``orders.>``."""

    node: RunningNode
    data: Path
    admin: str
    few: str


def stranger(node: RunningNode) -> httpx.Client:
    return httpx.Client(base_url=f"http://{node.admin}", trust_env=False, timeout=END_TIMEOUT_S)


@contextmanager
def signed_in(node: RunningNode, key: str) -> Iterator[httpx.Client]:
    with stranger(node) as http:
        answer = http.post("/api/sign-in", json={"key": key}, headers=MARK)
        assert answer.status_code == 204, answer.text
        yield http


def who(key: str) -> str:
    """As the node names whoever shows this key."""
    return f"key {key.split('_')[1]}"


def publish(http: httpx.Client, topic: str, payload: str = "x", **more: object) -> httpx.Response:
    return http.post("/api/publish", json={"topic": topic, "payload": payload, **more}, headers=MARK)


def told(http: httpx.Client, path: str, **query: str) -> Iterator[tuple[str, Any]]:
    """What a server-sent stream says, event by event."""
    with http.stream("GET", path, params=query) as answer:
        assert answer.status_code == 200, answer.read()
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))
