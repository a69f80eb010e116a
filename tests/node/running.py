"""A node in the test's own process, on loopback, with ports of its own choosing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from weft.node.config import NodeConfig
from weft.node.config.loading import load_config
from weft.node.runtime import Node


def config_of(data: Path, node_id: str = "a", file: Path | None = None, **overrides: Any) -> NodeConfig:
    """``overrides`` by dotted name, with two underscores for the dot: ``limits__clients_max=1``."""
    values: dict[str, object] = {
        "insecure": True,
        "node.data": data,
        "node.id": node_id,
        "listen.grpc": "127.0.0.1:0",
        "listen.admin": "127.0.0.1:0",
        "storage.prepared_bytes": 0,  # starts are many, and their events few
    }
    values |= {name.replace("__", "."): value for name, value in overrides.items()}
    return load_config(file, {}, values)


@asynccontextmanager
async def running_node(data: Path, node_id: str = "a", **overrides: Any) -> AsyncIterator[Node]:
    node = Node(config_of(data, node_id, **overrides))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
