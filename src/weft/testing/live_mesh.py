"""A mesh of real nodes in this process, for tests of programs that use Weft, with faults to inject.

Nodes have temporary directories and free ports on loopback. Every link between two nodes goes over a wire that can be
cut. docs/testing-with-weft.md shows how to use it.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from weft import client as sdk
from weft.errors import UsageError
from weft.model import NodeId, parse_node_id
from weft.node.config.loading import load_config
from weft.node.runtime import Node
from weft.testing.wires import Wire

POLL_S: Final = 0.01
SETTLE_TIMEOUT_S: Final = 20.0

# A test has no time for waits that suit production. Nobody dials around a wire that was cut.
SETTINGS: Final[Mapping[str, object]] = {
    "insecure": True,
    "listen.admin": "127.0.0.1:0",
    "link.backoff_s_min": 0.1,
    "link.backoff_s_max": 0.5,
    "membership.gossip_interval_s": 0.2,
    "membership.rejoin_interval_s": 300.0,
    "shutdown.drain_timeout_s": 2.0,
    "storage.prepared_bytes": 0,
}

# Which of the nodes before it each node dials.
SHAPES: Final[dict[str, Callable[[int, int], list[int]]]] = {
    "full": lambda number, _: list(range(number)),
    "chain": lambda number, _: list(range(max(0, number - 1), number)),
    "ring": lambda number, count: [number - 1, 0][: 1 + (number == count - 1 and number > 1)] if number else [],
    "star": lambda number, _: [0] if number else [],
}


@dataclass(slots=True)
class Place:
    """Where a node lives, also while it does not run."""

    name: NodeId
    data: Path
    dials: list[Wire]
    address: str = "127.0.0.1:0"  # the port stays the same once there is one
    node: Node | None = None
    kept_port: socket.socket | None = None  # while it does not run: the system would give the port to somebody else

    def keep_port(self) -> None:
        host, _, port = self.address.rpartition(":")
        self.kept_port = socket.socket()
        self.kept_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.kept_port.bind((host, int(port)))

    def give_port_back(self) -> None:
        if self.kept_port is not None:
            self.kept_port.close()
            self.kept_port = None


class Mesh:
    """``nodes``: how many, or their names. ``links``: full, chain, ring, star, or pairs of names.

    ``settings`` are those of weft.toml, by dotted name, for all nodes. ``async with`` starts it, and stops it.
    """

    def __init__(
        self,
        nodes: int | Sequence[str] = 3,
        links: str | Iterable[tuple[str, str]] = "full",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        names = [f"n{number}" for number in range(nodes)] if isinstance(nodes, int) else list(nodes)
        self.names: tuple[NodeId, ...] = tuple(map(parse_node_id, names))
        if not self.names or len(set(self.names)) < len(self.names):
            raise UsageError("a mesh has at least one node, and each node has a different name", nodes=", ".join(names))
        self._settings = {**SETTINGS, **(settings or {})}
        self._wires = {pair: Wire() for pair in _pairs(self.names, links)}
        self._places: dict[NodeId, Place] = {}
        self._parts = AsyncExitStack()

    # --- the whole ---

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._parts.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._parts.aclose()

    async def _start(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix="weft-mesh-"))
        self._parts.callback(shutil.rmtree, directory, ignore_errors=True)
        for wire in self._wires.values():
            await wire.start()
            self._parts.push_async_callback(wire.stop)
        self._parts.push_async_callback(self._stop_all)
        for name in self.names:
            dials = [wire for (source, _), wire in self._wires.items() if source == name]
            self._places[name] = Place(name, directory / name, dials)
            await self.restart(name)
        await self.settled()

    async def _stop_all(self) -> None:
        await asyncio.gather(*map(self.stop, self._places))
        for place in self._places.values():
            place.give_port_back()

    async def settled(self, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
        """Wait until all links stand that can, and every node knows what every other one wants. TimeoutError."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._unsettled():
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise TimeoutError(f"after {timeout_s:g} s, {self._unsettled()}") from None

    def _unsettled(self) -> str:
        running = {name: node for name in self.names if (node := self._places[name].node) is not None}
        for (source, target), wire in self._wires.items():
            if not wire.is_cut and source in running and target in running:
                for one, other in ((source, target), (target, source)):
                    if not any(view.connected and view.peer == other for view in running[one].links.links()):
                        return f"{one} has no link to {other}"
        for name, node in running.items():
            for other in self._reached_from(name, running):
                if node.members.states.get(other) != running[other].members.own:
                    return f"{name} has not heard everything about {other}"
        return ""

    def _reached_from(self, name: NodeId, running: Iterable[NodeId]) -> set[NodeId]:
        """The nodes that run and that there is a way to."""
        found, edge, live = {name}, [name], set(running)
        while edge:
            here = edge.pop()
            whole = [pair for pair, wire in self._wires.items() if here in pair and not wire.is_cut]
            near = {node for pair in whole for node in pair} & live - found
            found |= near
            edge += sorted(near)
        return found

    # --- clients ---

    def address(self, name: str) -> str:
        """Where clients find this node."""
        return self._place(name).address

    def client(self, *names: str) -> sdk.Connecting:
        """A client of these nodes, or of all: ``async with mesh.client() as client``."""
        return sdk.connect([self.address(name) for name in names or self.names], insecure=True)

    def node(self, name: str) -> Node:
        """The node itself, to look into: its ``log``, ``members``, ``broker``."""
        node = self._place(name).node
        if node is None:
            raise UsageError(f"{name} does not run")
        return node

    # --- faults ---

    def cut(self, one: str, other: str) -> None:
        """The link between two nodes breaks, and does not come back before ``heal``."""
        self._wire(one, other).cut()

    def heal(self) -> None:
        """Let nodes link again; ``settled`` waits for the links."""
        for wire in self._wires.values():
            wire.heal()

    async def stop(self, name: str) -> None:
        """As SIGTERM: receipts that are owed are given, clients are sent elsewhere."""
        place = self._place(name)
        node, place.node = place.node, None
        if node is not None:
            await node.stop()
            place.keep_port()

    async def kill(self, name: str) -> None:
        """End without a goodbye. Events without a receipt may or may not be lost, as after kill -9."""
        place = self._place(name)
        node, place.node = place.node, None
        if node is None:
            return
        silenced = [wire for pair, wire in self._wires.items() if name in pair and not wire.is_cut]
        for wire in silenced:
            wire.cut()
        await node.stop(drain=False)
        place.keep_port()
        for wire in silenced:
            wire.heal()

    async def lose_disk(self, name: str) -> None:
        """Kill it and delete its disk. When it is started again, its log has a new epoch."""
        place = self._place(name)
        await self.kill(name)
        await asyncio.to_thread(shutil.rmtree, place.data)

    async def restart(self, name: str) -> None:
        """Start a node that does not run, where it was before. ``settled`` waits until it is part of the mesh again."""
        place = self._place(name)
        if place.node is not None:
            raise UsageError(f"{name} runs already")
        values = {
            **self._settings,
            "node.id": name,
            "node.data": place.data,
            "listen.grpc": place.address,
            "peers": [wire.address for wire in place.dials],
        }
        node = Node(load_config(None, {}, values))
        place.give_port_back()
        await node.start()
        place.node, place.address = node, node.grpc_address
        for (_, target), wire in self._wires.items():
            if target == name:
                wire.target = place.address

    # --- names ---

    def _place(self, name: str) -> Place:
        place = self._places.get(NodeId(name))
        if place is None:
            raise UsageError(f"no node {name}", nodes=", ".join(self.names))
        return place

    def _wire(self, one: str, other: str) -> Wire:
        for pair in ((one, other), (other, one)):
            wire = self._wires.get((NodeId(pair[0]), NodeId(pair[1])))
            if wire is not None:
                return wire
        raise UsageError(f"no link between {one} and {other}", links=", ".join(map("-".join, self._wires)))


def _pairs(names: Sequence[NodeId], links: str | Iterable[tuple[str, str]]) -> list[tuple[NodeId, NodeId]]:
    """Who dials whom."""
    if isinstance(links, str):
        if links not in SHAPES:
            raise UsageError(f"no such shape: {links}", known=", ".join(SHAPES))
        shape = SHAPES[links]
        return [(name, names[target]) for number, name in enumerate(names) for target in shape(number, len(names))]
    pairs = [(parse_node_id(one), parse_node_id(other)) for one, other in links]
    for one, other in pairs:
        if one == other or one not in names or other not in names:
            raise UsageError("links are between two nodes of the mesh", link=f"{one}-{other}", nodes=", ".join(names))
    return pairs
