"""Simulated connections: what is sent arrives late and in order, until the connection breaks and what is under way is
lost.

They take the place of gRPC below the real ``PeerLinks``: a node dials a connection, and makes calls on it that the
other node's handlers serve. Events travel in order. On the control stream, gossip may also be lost, repeated and
overtaken once both have said hello: membership has to live with worse than gRPC does to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, Protocol, TypeAlias

from weft.model import NodeId
from weft.testing.sim.calls import SimCall
from weft.testing.sim.loop import SimLoop
from weft.testing.sim.schedule import Schedule
from weft.transport.peers.byte_streams import AcceptedCall, LinkBroken
from weft.transport.peers.links import CONTROL_STREAM
from weft.wire.rpc import Metadata, RpcError, StatusCode

Edge: TypeAlias = tuple[NodeId, NodeId]
Handlers: TypeAlias = Mapping[str, Callable[[AcceptedCall], Awaitable[None]]]
BACKLOG_S_MAX: Final = 1.0  # of a link that is called well
NOTICE_S_MAX: Final = 0.1  # until an end notices a break
SILENT_S_MAX: Final = 20.0  # the same, if nobody says so: then only HTTP/2's pings find out
UNANSWERED_S: Final = 3600.0  # a dial into the void; the dialler gives up before


@dataclass(slots=True)
class Conditions:
    """What the network does to frames, at the moment. ``silent``: how often a break is noticed late, and how often a
    dial to nowhere is not answered. ``window_bytes``: what may be under way on a call and unread."""

    delay_s_max: float = 0.01
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    silent: float = 0.0
    window_bytes: int = 64_000


@dataclass(eq=False, slots=True)
class Host:
    """One life of a node, or a plain peer, which nobody can dial."""

    node_id: NodeId
    loop: SimLoop
    handlers: Handlers
    connections: dict[SimConnection, None] = field(default_factory=dict)


class Hosts(Protocol):
    def host(self, node: NodeId) -> Host | None:
        """Who answers at a node's address at the moment."""


@dataclass(slots=True)
class SimLink:
    """Two nodes of which at least one dials the other."""

    edge: Edge
    is_cut: bool = False
    slow_s: float = 0.0  # that each frame of events takes on the line
    stalled_s: float = 0.0  # nothing arrives before then
    connections: list[SimConnection] = field(default_factory=list)  # that stand, as far as anybody knows

    @property
    def stands(self) -> bool:
        return any(not each.broken for each in self.connections)

    def backlog_s(self, now_s: float) -> float:
        """How long frames take that are under way."""
        return max((each.arrival_s_max for each in self.connections), default=now_s) - now_s

    def trouble(self, now_s: float) -> str:
        """What is wrong with the link at rest: it may have one connection (PL-01), with nothing waiting in it."""
        standing = [each for each in self.connections if not each.broken]
        if len(self.connections) > 1 or len(standing) < len(self.connections):
            return f"has {len(self.connections)} connections, of which {len(standing)} stand"
        return "has a backlog" if self.backlog_s(now_s) >= BACKLOG_S_MAX else ""


class Network:
    def __init__(self, schedule: Schedule, chance: Random, hosts: Hosts) -> None:
        self.links: dict[Edge, SimLink] = {}
        self.conditions = Conditions()
        self.crossings = 0  # times that two nodes had more than one connection
        self.schedule = schedule
        self.chance = chance
        self._hosts = hosts

    # --- connections ---

    async def dial(self, source: Host, target: NodeId) -> SimConnection:
        """Between nodes: subject to all faults. Raise LinkBroken if there is nobody."""
        edge = edge_of(source.node_id, target)
        link = self.links.setdefault(edge, SimLink(edge))
        return await self._connect(source, target, link)

    async def dial_plain(self, source: Host, target: NodeId) -> SimConnection:
        """Of a plain peer: it breaks only with the node."""
        return await self._connect(source, target, None)

    async def _connect(self, source: Host, target: NodeId, link: SimLink | None) -> SimConnection:
        await asyncio.sleep(self.delay_s())
        host = self._hosts.host(target)
        stalled = link is not None and link.stalled_s > self.schedule.now_s
        if host is None or stalled or (link is not None and link.is_cut):
            if stalled or self.chance.random() < self.conditions.silent:
                await asyncio.sleep(UNANSWERED_S)
            raise LinkBroken("cannot connect: nobody is there", node=target)
        connection = SimConnection(self, link, source, host)
        if link is not None:
            self.crossings += bool(link.connections)
            link.connections.append(connection)
        try:
            await asyncio.sleep(self.delay_s())
        except asyncio.CancelledError:
            connection.close()
            raise
        return connection

    def break_link(self, link: SimLink) -> None:
        """What is under way is lost. Either end notices at once, soon, or, if the break is silent, after seconds."""
        for connection in list(link.connections):
            connection.break_()

    def gone(self, host: Host) -> None:
        """The process has ended: its connections break, and it notices nothing any longer."""
        for connection in list(host.connections):
            connection.break_()
            connection.leave(host)

    def cut(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self.links[edge].is_cut = True
            self.break_link(self.links[edge])

    def heal(self) -> None:
        self.conditions = Conditions()
        for link in self.links.values():
            link.is_cut = False
            link.slow_s = link.stalled_s = 0.0
            if link.backlog_s(self.schedule.now_s) > BACKLOG_S_MAX:
                self.break_link(link)

    def delay_s(self) -> float:
        return 0.0005 + self.chance.random() * self.conditions.delay_s_max


@dataclass(eq=False, slots=True)
class End:
    """One side of a connection. ``closed``: it knows that it is over."""

    host: Host
    calls: list[SimCall] = field(default_factory=list)
    closed: bool = False


class SimConnection:
    """PeerChannel for the dialler. ``broken``: nothing arrives, even if neither end has noticed yet."""

    def __init__(self, network: Network, link: SimLink | None, source: Host, target: Host) -> None:
        self.broken = False
        self.arrival_s_max = 0.0
        self._network = network
        self._link = link
        self._source = End(source)
        self._target = End(target)
        for end in (self._source, self._target):
            end.host.connections[self] = None
        network.schedule.note("network", f"{source.node_id}-{target.node_id} connect")

    # --- calls ---

    async def call(self, path: str, metadata: Metadata) -> SimCall:
        if self._source.closed:
            raise RpcError(StatusCode.UNAVAILABLE, "the connection is gone")
        window_bytes = self._network.conditions.window_bytes
        ours = SimCall(self._source.host.loop, partial(self._carry, self._source), window_bytes)
        theirs = SimCall(self._target.host.loop, partial(self._carry, self._target), window_bytes, metadata)
        ours.other, theirs.other = theirs, ours
        ours.lossy = theirs.lossy = path == CONTROL_STREAM
        self._source.calls.append(ours)
        self._carry(self._source, ours, partial(self._begin, path, theirs))
        return ours

    def _begin(self, path: str, call: SimCall) -> None:
        host = self._target.host
        if self._target.closed:
            return
        self._target.calls.append(call)
        call.task = host.loop.run_on(lambda: host.loop.create_task(_serve(host.handlers[path], call)))

    # --- frames ---

    def _carry(self, sender: End, call: SimCall, arrive: Callable[[], None]) -> None:
        """``arrive`` happens in a while, at the other end; perhaps never."""
        schedule, conditions, chance = self._network.schedule, self._network.conditions, self._network.chance
        slow_s = self._link.slow_s if self._link is not None and not call.lossy else 0.0
        times = 1
        if call.lossy and call.has_said_hello:
            times = 2 if chance.random() < conditions.duplication else 1
            times -= sum(chance.random() < conditions.loss for _ in range(times))
            if not times:
                call.credit_lost()
        for _ in range(times):
            begin_s = max(schedule.now_s, call.arrival_s) if slow_s else schedule.now_s
            arrival_s = begin_s + self._network.delay_s() + slow_s
            if not (call.lossy and call.has_said_hello and chance.random() < conditions.reordering):
                arrival_s = call.arrival_s = max(arrival_s, call.arrival_s)
            arrival_s = max(arrival_s, call.hello_s, 0.0 if self._link is None else self._link.stalled_s)
            self.arrival_s_max = max(self.arrival_s_max, arrival_s)
            schedule.at(arrival_s - schedule.now_s, partial(self._arrive, sender, arrive))

    def _arrive(self, sender: End, arrive: Callable[[], None]) -> None:
        if not self.broken and not self._other(sender).closed:
            arrive()

    # --- the end ---

    def close(self) -> None:
        """The dialler closes. What was sent still arrives; then the other end learns that it is over."""
        self._lose(self._source, "the channel was closed")
        wait_s = max(self._network.delay_s(), self.arrival_s_max - self._network.schedule.now_s)
        self._network.schedule.at(wait_s, self._closed_by_peer)

    async def wait_closed(self) -> None:
        """A socket is closed in no time."""

    def _closed_by_peer(self) -> None:
        if not self.broken:
            self._lose(self._target, "the peer closed the connection")

    def break_(self) -> None:
        if self.broken:
            return
        self.broken = True
        network = self._network
        network.schedule.note("network", f"{self._source.host.node_id}-{self._target.host.node_id} breaks")
        for end in (self._source, self._target):
            silent = network.chance.random() < network.conditions.silent
            wait_s = network.chance.random() * (SILENT_S_MAX if silent else NOTICE_S_MAX)
            network.schedule.at(wait_s, partial(self._lose, end, "the connection was lost"))

    def leave(self, host: Host) -> None:
        """This end belongs to a process that no longer exists."""
        self._lose(self._source if self._source.host is host else self._target, "the process has ended")

    def _lose(self, end: End, reason: str) -> None:
        if end.closed:
            return
        end.closed = True
        end.host.connections.pop(self, None)
        for call in end.calls:
            call.lose(RpcError(StatusCode.UNAVAILABLE, reason))
        if self._link is not None and self._source.closed and self._target.closed:
            self._link.connections.remove(self)

    def _other(self, end: End) -> End:
        return self._target if end is self._source else self._source


async def _serve(handler: Callable[[AcceptedCall], Awaitable[None]], call: SimCall) -> None:
    """As the gRPC server does."""
    try:
        await handler(call)
    except RpcError as error:
        call.finish(error)
    except asyncio.CancelledError:
        call.finish(RpcError(StatusCode.CANCELLED, "the call was cancelled"))
        raise
    else:
        call.finish(None)


def edge_of(one: NodeId, other: NodeId) -> Edge:
    return (one, other) if one < other else (other, one)


def other_end(edge: Edge, node: NodeId) -> NodeId:
    return edge[1] if edge[0] == node else edge[0]
