"""Polls the nodes of a mesh, each over its own connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self, TypeVar

import weft
from weft.cli.connection import Target, connected
from weft.cli.dashboard.board import Answers
from weft.client import Client, NotAllowed, Options, PeerInfo, Recipient, Status, StreamPositions, TopicInfo
from weft.client.connecting import tls_files
from weft.errors import WeftError

ANSWER_S_MAX: Final = 5.0  # a node that takes longer has not answered this time
NODES_MAX: Final = 64  # of a larger mesh, only so many are asked themselves

T = TypeVar("T")


class Asking:
    """Asks the node of the context or flags, and with the same key the other nodes that it names."""

    def __init__(self, target: Target, pattern: str) -> None:
        self._target = target
        self._pattern = pattern
        self._stack = AsyncExitStack()
        self._others: dict[str, Client] = {}
        self.client: Client

    async def __aenter__(self) -> Self:
        self.client = await self._stack.enter_async_context(connected(self._target))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(client.close() for client in self._others.values()), return_exceptions=True)
        await self._stack.aclose()

    async def answers(self) -> Answers:
        """Raises if the first node fails; other nodes that do not answer are left out."""
        refused: list[str] = []

        async def allowed(what: str, question: Awaitable[T], otherwise: T) -> T:
            try:
                return await question
            except NotAllowed:
                refused.append(what)
                return otherwise

        status = await allowed("status", self.client.status(), None)
        peers: Sequence[PeerInfo] = await allowed("peers", self.client.peers(), [])
        topics: Sequence[TopicInfo] = await allowed("topics", self.client.topics(self._pattern), [])
        groups = await allowed("groups", self.client.groups(), [])
        node = self._target.nodes if status is None else status.node_id
        others = await self._ask_others([peer for peer in peers if peer.node_id != node])
        statuses = {node: status} if status is not None else {}
        return Answers(
            time.monotonic(),
            node,
            statuses | {each: found[0] for each, found in others.items()},
            peers,
            {node: topics} | {each: found[1] for each, found in others.items()},
            groups,
            refused,
        )

    async def streams(self, topic: str) -> list[StreamPositions]:
        return await self.client.positions(topic)

    async def recipients(self, topic: str) -> list[Recipient]:
        return await self.client.explain(topic)

    async def _ask_others(self, peers: Sequence[PeerInfo]) -> dict[str, tuple[Status, list[TopicInfo]]]:
        alive = [peer for peer in peers if peer.state == "alive" and peer.addresses][:NODES_MAX]
        found = await asyncio.gather(*(self._ask(peer) for peer in alive))
        return {peer.node_id: each for peer, each in zip(alive, found, strict=True) if each is not None}

    async def _ask(self, peer: PeerInfo) -> tuple[Status, list[TopicInfo]] | None:
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                client = self._others.get(peer.node_id) or await self._connect(peer)
                return await client.status(), await client.topics(self._pattern)
        except (TimeoutError, WeftError):
            if (lost := self._others.pop(peer.node_id, None)) is not None:
                await lost.close()
            return None

    async def _connect(self, peer: PeerInfo) -> Client:
        context = self._target.context
        client = await weft.connect(
            peer.addresses,
            insecure=context.insecure,
            tls=tls_files(context),
            token=context.token,
            learns=False,
            options=Options(connect_timeout_s=ANSWER_S_MAX),
        )
        self._others[peer.node_id] = client
        return client
