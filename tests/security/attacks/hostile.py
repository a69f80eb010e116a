"""A caller with a key that does what no SDK does, and what the node's process shows of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.up import RunningNode
from weft.client import Client
from weft.limits import MIB
from weft.transport.grpc.calls import ClientCall
from weft.wire.mesh import mesh_pb2 as pb

PATIENCE_S: Final = 60.0  # a bound, not an expectation
MESH: Final = "/weft.mesh.v1.Mesh"


def memory_bytes(node: RunningNode) -> int:
    """What the process holds in memory now."""
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


async def opened(client: Client, node: RunningNode, method: str, request: bytes) -> ClientCall:
    """A call with one message sent, of which nothing is read."""
    call = await client._nodes.open(node.grpc, f"{MESH}/{method}")
    call.write_nowait(request)
    return call


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


def metric(node: RunningNode, name: str) -> float:
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", node.metrics(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


async def fill(client: Client, topic: str, batches: int, size: int = 9 * MIB) -> pb.StreamRef:
    """Large batches of one stream; where they are."""
    for _ in range(batches):
        receipt = await client.publish(topic, bytes(size))
    return pb.StreamRef(
        topic=topic, origin=receipt.stream.origin, epoch=receipt.epoch, partition=receipt.stream.partition
    )
