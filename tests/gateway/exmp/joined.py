"""A node with EXMP, and clients for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.node.running import running_node
from weft import exmp
from weft.exmp import Client, JsonObject
from weft.node.runtime import Node

PATIENCE_S = 60.0  # of a test; nothing takes nearly as long


def address_of(node: Node, scheme: str = "exmp") -> str:
    (found,) = [
        listener.split()[1]
        for gateway in node.gateways
        for listener in gateway.listeners
        if listener.startswith(f"{scheme} ")
    ]
    return found


@asynccontextmanager
async def joined(data: Path, **settings: Any) -> AsyncIterator[tuple[Node, Client]]:
    async with (
        running_node(data, gateway__exmp__tcp="127.0.0.1:0", **settings) as node,
        exmp.connect(address_of(node)) as client,
    ):
        yield node, client


async def refused(client: Client | exmp.Peer, op: str, data: JsonObject | None = None) -> tuple[str | None, str]:
    """Code and description of the failure that this call is answered with."""
    with pytest.raises(exmp.Failure) as caught:
        await client.call(op, data)
    return caught.value.code, caught.value.description


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
