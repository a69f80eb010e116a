"""A peer with full control over every byte that it sends, and over whether it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc

from tests.transport.peers.nodes import MESH, PATIENCE_S, TestNode
from weft.wire.mesh import peerlink_pb2 as pb
from weft.wire.mesh.features import Feature

FEATURES = sorted(Feature)


def hello(
    node_id: str = "evil", version: int = 1, mesh: str = MESH, features: Sequence[str] = FEATURES
) -> pb.PeerMessage:
    return pb.PeerMessage(
        handshake=pb.Handshake(node_id=node_id, protocol_version=version, features=features, mesh=mesh, incarnation=1)
    )


class RawPeer:
    """The two streams of a link that it dials."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.events: Any = None
        self.control: Any = None

    def open(self, method: str, dial: str = "1") -> Any:
        return self._channel.stream_stream(f"/PeerLink/{method}")(metadata=(("weft-dial", dial),))

    async def link(self, node_id: str = "evil", mesh: str = MESH) -> None:
        said = hello(node_id, mesh=mesh).SerializeToString()
        self.events = self.open("EventStream")
        await self.events.write(said)
        await self.events.read()
        self.control = self.open("ControlStream")
        await self.control.write(said)
        await self.control.read()


@asynccontextmanager
async def raw_peer(node: TestNode) -> AsyncIterator[RawPeer]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(node.address, options=options) as channel:
        yield RawPeer(channel)


async def fate(call: Any) -> tuple[grpc.StatusCode, str]:
    async with asyncio.timeout(PATIENCE_S):
        return await call.code(), await call.details()
