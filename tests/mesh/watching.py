"""Waiting for what a mesh comes to by itself, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.node.raw_client import WAIT_S
from weft.core.views import explain
from weft.model import NodeId, Topic
from weft.node.runtime import Node


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Ask again and again, with a pause that grows: what is waited for comes over sockets."""
    pause_s = 0.005
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = condition()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.2)


def neighbours(node: Node) -> set[str]:
    return {str(link.peer) for link in node.links.links() if link.connected}


def recipients(node: Node, topic: str) -> dict[str, tuple[NodeId, ...]]:
    """Who gets a topic that this node publishes, and over which path."""
    return {each.node_id: each.path for each in explain(node.broker, Topic(topic)) if each.path}


def topics_at(node: Node) -> set[str]:
    """Topics of users that the node has events of."""
    return {info.stream.topic for info in node.log.streams() if not info.stream.topic.startswith("weft.")}
