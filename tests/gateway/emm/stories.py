"""A node with a gateway in the test's own process, a device's socket, and a client of the node."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import weft
from tests.node.running import config_of
from weft.client import Received
from weft.gateway.emm.gateway import EmmGateway
from weft.node.config import NodeConfig
from weft.node.runtime import Node
from weft.security.files import private_directory

WAIT_S = 20.0


class Site:
    """The node, its gateway, a client that sees everything, and a device's socket."""

    def __init__(self, node: Node, client: weft.Client) -> None:
        self.node = node
        self.client = client
        found = next(each for each in node.gateways if isinstance(each, EmmGateway))
        self.gateway = found
        self.sockets: list[socket.socket] = []

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens for UDP."""
        listener = next(each for each in self.gateway.listeners if each.startswith("emm "))
        host, _, port = listener.removeprefix("emm ").rpartition(":")
        return host.strip("[]"), int(port)

    def device(self) -> socket.socket:
        host, port = self.address
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        made.connect((host, port))
        made.setblocking(False)
        self.sockets.append(made)
        return made

    async def events(self, pattern: str, count: int) -> list[Received]:
        """The first so many, from the beginning."""
        found = []
        async with asyncio.timeout(WAIT_S):
            async with self.client.subscribe(pattern, start="earliest") as events:
                async for event in events:
                    found.append(event)
                    if len(found) == count:
                        return found
        raise AssertionError("the subscription ended")

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.01)


async def received(device: socket.socket) -> bytes:
    """What the device gets next."""
    async with asyncio.timeout(WAIT_S):
        return await asyncio.get_running_loop().sock_recv(device, 2048)


def now_s() -> int:
    return int(time.time())


@asynccontextmanager
async def site(data: Path, config: NodeConfig | None = None, **overrides: Any) -> AsyncIterator[Site]:
    private_directory(data)
    settings = {"gateway__emm__udp": "127.0.0.1:0", "gateway__emm__heartbeat_interval_s": 1, **overrides}
    node = Node(config or config_of(data, **settings))
    await node.start()
    try:
        async with weft.connect(node.grpc_address, insecure=True) as client:
            made = Site(node, client)
            try:
                yield made
            finally:
                for device in made.sockets:
                    device.close()
    finally:
        await node.stop()
