"""Nodes that have links and nothing else: real gRPC on loopback, and a record of what each was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.transport.held_port import held_port
from weft.core.messages import Copy, ReceivedCopies
from weft.errors import PeerError
from weft.membership import Message
from weft.model import Batch, Epoch, NodeId, Stream, parse_topic
from weft.security.key_exchange import KeyTalk
from weft.security.notary import NoNotary
from weft.transport.addresses import parse_address
from weft.transport.grpc.server import Server, ServerSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.transport.peers import LinkInput, LinkSettings, LinkView, PeerLinks, PlainGate
from weft.transport.peers.signed_states import StateNotary
from weft.wire.http2 import Http2Settings
from weft.wire.mesh.features import Feature, Hello
from weft.wire.mesh.lives import Life

PATIENCE_S = 30
MESH = "test"
# Quick to come back; everything else as people have it.
SETTINGS = LinkSettings(backoff_s_min=0.01, backoff_s_max=0.1)


@dataclass
class Record:
    """What a node was told, by its links as a listener and as an observer. ``until`` waits for something in it."""

    told: list[str] = field(default_factory=list)  # ups and downs
    reasons: list[str] = field(default_factory=list)  # of the downs
    plain: set[NodeId] = field(default_factory=set)
    inputs: list[LinkInput] = field(default_factory=list)
    members: list[tuple[NodeId, Message]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    gossip_refused: list[tuple[NodeId, str]] = field(default_factory=list)
    twins: list[tuple[Life, str]] = field(default_factory=list)  # of its own
    twins_seen: list[NodeId] = field(default_factory=list)  # of others
    talks: list[tuple[NodeId, KeyTalk]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    drops: int = 0
    frames_sent: int = 0
    frames_received: int = 0
    on_input: Callable[[LinkInput], None] = lambda _: None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def offsets(self) -> list[int]:
        return [
            copy.batch.base_offset for each in self.inputs if isinstance(each, ReceivedCopies) for copy in each.copies
        ]

    # --- the listener --------------------------------------------------------------------------------------------

    def link_up(self, peer: NodeId, hello: Hello, plain: bool) -> None:
        assert hello.node_id == peer
        if plain:
            self.plain.add(peer)
        self.told.append(f"up {peer}")
        self._changed.set()

    def link_down(self, peer: NodeId, reason: str) -> None:
        self.told.append(f"down {peer}")
        self.reasons.append(reason)
        self._changed.set()

    def peer_leaves(self, peer: NodeId, incarnation: int) -> None:
        self.told.append(f"{peer} {incarnation} leaves")
        self._changed.set()

    def received(self, event: LinkInput) -> None:
        self.inputs.append(event)
        self._changed.set()
        self.on_input(event)

    def received_keys(self, peer: NodeId, talk: KeyTalk) -> None:
        self.talks.append((peer, talk))
        self._changed.set()

    def received_member(self, peer: NodeId, message: Message) -> None:
        self.members.append((peer, message))
        self._changed.set()

    def twin_found(self, life: Life, told_by: str) -> None:
        self.twins.append((life, told_by))
        self._changed.set()


class Observer:
    """The other half of the record."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def link_up(self, peer: NodeId, address: str, dialled_by_us: bool, features: Iterable[Feature]) -> None:
        pass

    def link_down(self, peer: NodeId, reason: str) -> None:
        pass

    def link_refused(self, address: str, error: PeerError) -> None:
        self._record.refused.append(str(error))
        self._record._changed.set()

    def twins_seen(self, peer: NodeId, address: str) -> None:
        self._record.twins_seen.append(peer)
        self._record._changed.set()

    def dialling(self, address: str, peer: NodeId | None) -> None:
        pass

    def gossip_refused(self, peer: NodeId, what: str) -> None:
        self._record.gossip_refused.append((peer, what))
        self._record._changed.set()

    def dial_failed(self, address: str, reason: str, retry_s: float) -> None:
        assert 0 <= retry_s <= SETTINGS.backoff_s_max
        self._record.failed.append(reason)
        self._record._changed.set()

    def sent(self, peer: NodeId, size_bytes: int, latency_s: float) -> None:
        assert latency_s >= 0
        self._record.frames_sent += 1

    def received(self, peer: NodeId, size_bytes: int) -> None:
        self._record.frames_received += 1

    def dropped(self, peer: NodeId, frames: int) -> None:
        self._record.drops += frames
        self._record._changed.set()


class Defects:
    """Of the server: whatever peers do is none."""

    def connection_refused(self, host: str, reason: str) -> None: ...

    def connection_dropped(self, host: str, reason: str) -> None: ...

    def handler_failed(self, path: str, error: Exception) -> None:
        raise error


class TestNode:
    __test__ = False

    def __init__(self, name: str, settings: LinkSettings = SETTINGS, **hello: Any) -> None:
        self.id = NodeId(name)
        self.record = Record()
        self.hello = replace(Hello(self.id, frozenset(Feature), MESH, Epoch(1), 1), **hello)
        self.links = PeerLinks(
            lambda: self.hello,
            self.hello.mesh,
            settings,
            self.record,
            Random(name),  # noqa: S311  # jitter
            Observer(self.record),
            PlainGate(settings),
            NoNotary(),
            StateNotary(NoNotary()),
        )
        self._settings = settings
        self._server: Server | None = None
        self.address = ""

    async def start(self, address: str) -> None:
        limits = Http2Settings(message_bytes_max=self._settings.max_message_bytes)
        self._server = Server(self.links.handlers(), ServerSettings(EndpointSettings(limits)), Defects())
        self.address = f"127.0.0.1:{self._server.bind(*parse_address(address))}"
        await self._server.start()
        await self.links.start()

    async def stop(self, reason: str = "the test is over") -> None:
        await self.links.stop(reason)
        await self.kill()

    async def kill(self) -> None:
        """The server goes, and with it every connection that others dialled; nobody is told why."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    def view(self, peer: NodeId) -> LinkView:
        return next(view for view in self.links.links() if view.peer == peer)

    async def linked(self, *peers: TestNode) -> None:
        await self.record.until(
            lambda: {view.peer for view in self.links.links() if view.connected} >= {p.id for p in peers}
        )


@asynccontextmanager
async def running(*nodes: TestNode) -> AsyncIterator[None]:
    """All of them started, on ports that stay theirs; at the end all stopped, and nothing left over."""
    with ExitStack() as ports:
        for node in nodes:
            await node.start(f"127.0.0.1:{ports.enter_context(held_port())}")
        try:
            yield
        finally:
            for node in nodes:
                await node.stop()
            await settled(lambda: not any(map(_is_ours, asyncio.all_tasks())))


def _is_ours(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "weft/transport" in code.co_filename


async def settled(condition: Callable[[], bool]) -> None:
    """For what nobody tells of: look again at every turn of the loop."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


STREAM = Stream(parse_topic("plant.temp"), NodeId("node-a"), 0)
BATCH = Batch.from_columns([b"warm"], 1)


def copy(offset: int, *, size: int = 0) -> Copy:
    batch = Batch.from_columns([bytes(size)], 1) if size else BATCH
    return Copy(STREAM, Epoch(1), batch.with_base_offset(offset), offset)
