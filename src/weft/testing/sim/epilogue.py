"""The last act: in a mesh at rest, events go once to every node with a subscriber, and to no other (MSH-02)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from weft.core.messages import Copy
from weft.model import NodeId, parse_topic
from weft.routing import Topology
from weft.testing.sim.group_members import GroupReader
from weft.testing.sim.network import other_end
from weft.testing.sim.publishers import SimPublisher
from weft.testing.sim.schedule import Violation
from weft.testing.sim.subscribers import SimSubscriber
from weft.testing.sim.truth import StreamKey, name_of
from weft.testing.sim.world import World

TOPIC: Final = parse_topic("plant.line9.end")
BATCHES: Final = 2


class Epilogue:
    def __init__(self, world: World) -> None:
        self._world = world
        self._copies: Counter[tuple[NodeId, StreamKey, int]] = Counter()  # receiver, stream, end of the batch

    def perform(self, limit_s: float) -> None:
        """Publish a little at every node, wait until it is everywhere, and look at which way it came."""
        world = self._world
        world.run_until(self._syncing, limit_s, step_s=0.5)
        for node in world.running:
            node.on_copies = self._count
            publisher = SimPublisher(f"e-{node.node_id}", world.desk, [node], [TOPIC], BATCHES)
            world.publishers.append(publisher)
            publisher.run(0.05)
        world.run_until(self._unfinished, limit_s, step_s=0.5)
        self._check_paths()

    def _syncing(self) -> str:
        """A slow disk may still be at work on what came before. A peer that waits too long for it rightly sends
        again."""
        at_work = (node.node_id for node in self._world.running if node.log.appended != node.log.synced)
        return "".join(f"{node} has not synced yet" for node in list(at_work)[:1])

    def _count(self, peer: NodeId, copies: tuple[Copy, ...]) -> None:
        for copy in copies:
            if copy.stream.topic == TOPIC:
                self._copies[(peer, (copy.stream, copy.epoch), copy.batch.end_offset)] += 1

    def _keys(self) -> list[StreamKey]:
        return [key for key in self._world.truth.streams if key[0].topic == TOPIC]

    def _unfinished(self) -> str:
        """Also who wanted only what is new has to get this."""
        for reader in self._world.subscribers:
            for key in self._keys():
                end = self._world.truth.streams[key].end
                if reader.selects(key) and reader.first_wanted(key) < end and reader.positions.get(key) != end:
                    return f"{reader.name} lacks the end of {name_of(key)}"
        return self._world.unfinished()

    def _check_paths(self) -> None:
        wanted_at = self._interested()
        edges = [link.edge for link in self._world.network.links.values() if link.stands]
        topology = Topology(
            {node: [other_end(edge, node) for edge in edges if node in edge] for node in self._world.nodes}
        )
        for (receiver, key, end), times in self._copies.items():
            if times > 1:
                raise Violation(f"{receiver} gets {name_of(key)} up to {end} {times} times, though nothing has changed")
            paths = (topology.path(key[0].origin, node) or () for node in wanted_at)
            if not any(receiver in path for path in paths):
                raise Violation(f"{receiver} gets {name_of(key)}, though nobody there or behind it wants it")

    def _interested(self) -> list[NodeId]:
        """The nodes with a subscriber that wants it."""
        members = [member for book in self._world.groups for member in book.members]
        wanting: list[SimSubscriber | GroupReader] = [*self._world.subscribers, *members]
        readers = [each for each in wanting if each.node is not None]
        keys = self._keys()
        plain = [
            peer.node.node_id for peer in self._world.desk.plain.values() if not peer.gone
        ]  # who cannot say gets everything
        return plain + [each.node.node_id for each in readers if each.node is not None and any(map(each.selects, keys))]
