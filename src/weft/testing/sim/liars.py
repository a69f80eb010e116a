"""Nodes that lie: about origins, offsets, acks, positions, other nodes, themselves, and lives (SEC-06).

A liar has a certificate of the mesh, so it opens links and signs as itself, and cannot do so as another. It knows what
really happened, and says something else. It has a link to at least one honest node, and is on no path between two of
them: nothing is promised about events that pass through a bad node (docs/security.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final, TypeAlias

from weft import membership
from weft.core import messages as core
from weft.limits import INCARNATION_MAX
from weft.membership import Digest, Gossip, Liveness, NodeState, Signed
from weft.model import Batch, Epoch, NodeId, Position, Stream, Topic, parse_pattern
from weft.testing.sim.calls import SimCall
from weft.testing.sim.loop import Clock, new_loop
from weft.testing.sim.network import Host, Network, SimConnection
from weft.testing.sim.node import SimNode, SimNotary, address_of
from weft.testing.sim.schedule import Schedule
from weft.testing.sim.truth import Truth
from weft.transport.peers.byte_streams import LinkBroken
from weft.transport.peers.links import CONTROL_STREAM, DIAL_NUMBER, EVENT_STREAM
from weft.transport.peers.member_messages import member_message
from weft.transport.peers.messages import message_of
from weft.transport.peers.signed_states import StateNotary
from weft.wire.mesh.features import Feature, Hello
from weft.wire.mesh.frames import write_peer_message
from weft.wire.mesh.lives import Heard, Life, OtherLife, statement
from weft.wire.mesh.peerlink_pb2 import PeerMessage
from weft.wire.rpc import RpcError

PAUSE_S_MAX: Final = 0.4  # between two lies
DIAL_TIMEOUT_S: Final = 3.0
FAR: Final = (0, 1, 2, 7, 1 << 20, 1 << 41, 1 << 43, 1 << 57, (1 << 62) - 1)  # how far off a number is
EVERYTHING: Final = parse_pattern(">")
RUN: Final = b"a life of a liar"  # 16 bytes


class Liar:
    """``peers`` are the honest nodes that it links to, ``nodes`` those that it lies about; ``mesh`` is theirs."""

    def __init__(
        self,
        node_id: NodeId,
        peers: Sequence[SimNode],
        nodes: Sequence[SimNode],
        topics: Sequence[Topic],
        mesh: str,
        *,
        schedule: Schedule,
        network: Network,
        chance: Random,
        truth: Truth,
    ) -> None:
        self.node_id = node_id
        self.lies = 0
        self.loop = new_loop(node_id, schedule, Clock(), chance, 0.0)
        self._host = Host(node_id, self.loop, {})
        self._peers = peers
        self._nodes = nodes
        self._topics = topics
        self._mesh = mesh
        self._schedule = schedule
        self._network = network
        self._chance = chance
        self._truth = truth
        self._notary = SimNotary(node_id)
        self._dials = 0
        self._version = 0
        self._tasks: list[asyncio.Task[None]] = []

    def run(self) -> None:
        """Link to everybody it knows, and lie until ``stop``."""
        for peer in self._peers:
            self._tasks.append(self.loop.run_on(partial(self.loop.create_task, self._keep_linked(peer))))

    def stop(self) -> None:
        for task in self._tasks:
            self.loop.run_on(task.cancel)

    # --- links ---

    async def _keep_linked(self, peer: SimNode) -> None:
        while True:
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    channel = await self._network.dial_plain(self._host, peer.node_id)
                try:
                    await self._lie_to(peer, channel)
                finally:
                    channel.close()
            except (LinkBroken, RpcError, TimeoutError):
                pass  # it was found out, or the node is down
            await asyncio.sleep(self._chance.uniform(0.1, 1.0))

    async def _lie_to(self, peer: SimNode, channel: SimConnection) -> None:
        self._dials += 1
        metadata = ((DIAL_NUMBER, f"1.{self._dials}"),)
        streams: list[SimCall] = []
        for method in (EVENT_STREAM, CONTROL_STREAM):
            stream = await channel.call(method, metadata)
            self._write(stream, PeerMessage(handshake=self._hello(peer).to_message()))
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                if await stream.read() is None:
                    return
            streams.append(stream)
        reading = [self.loop.create_task(_read_all(stream)) for stream in streams]
        try:
            while not any(task.done() for task in reading):
                self._tell(peer, *streams)
                await asyncio.sleep(self._chance.uniform(0.0, PAUSE_S_MAX))
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    def _write(self, stream: SimCall, message: PeerMessage) -> None:
        stream.write_nowait(write_peer_message(message))

    def _hello(self, peer: SimNode) -> Hello:
        """Its own, with the tale of a twin that its peer is to have."""
        twin = Life(1, RUN)
        said = statement(self._mesh, peer.node_id, twin, peer.machinery.life.run)
        other = OtherLife(twin, Heard(peer.machinery.life.run, self._notary.sign(said)))
        life = Life(self._number(1, 1000), self._chance.choice([RUN, RUN[::-1]]))
        return Hello(self.node_id, frozenset(Feature), self._mesh, Epoch(1), self._number(1, 9), (), life, None, other)

    # --- lies ---

    def _tell(self, peer: SimNode, events: SimCall, control: SimCall) -> None:
        self.lies += 1
        tale = self._chance.choice(TALES)
        lie = tale(self, peer)
        self._schedule.note(self.node_id, f"lies to {peer.node_id}: {lie}")
        if isinstance(lie, core.SendCopies | core.SendAcks | core.SendResume):
            self._write(events, message_of(lie))
        elif isinstance(lie, membership.Heartbeat):
            self._write(events, member_message(lie))
        else:
            self._write(control, member_message(lie, frozenset({Feature.SIGNED})))

    def _copies(self, peer: SimNode) -> core.SendCopies:
        """Events of somebody: after the last one, in place of others, or far away."""
        stream, epoch, end = self._some_stream()
        base = min(self._around(end), (1 << 62) - 10)
        batch = Batch.from_columns([b"forged by " + self.node_id.encode()], 1).with_base_offset(base)
        follows = self._chance.choice([base, end, 0])
        copy = core.Copy(stream, epoch, batch, follows, self._coin(), self._coin(), self._around(end))
        return core.SendCopies(peer.node_id, (copy,))

    def _acks(self, peer: SimNode) -> core.SendAcks:
        """That it has what nobody sent, or other events than everybody else."""
        stream, epoch, end = self._some_stream()
        position = Position(stream, epoch, self._around(end))
        return core.SendAcks(peer.node_id, (position,), (position,) if self._coin() else ())

    def _resume(self, peer: SimNode) -> core.SendResume:
        stream, epoch, end = self._some_stream()
        names = [node.node_id for node in self._nodes]
        origins = tuple(self._chance.sample(names, self._chance.randint(0, len(names))))
        leave = tuple(self._chance.sample(names, self._chance.randint(0, 1)))
        position = Position(stream, epoch, self._around(end))
        return core.SendResume(peer.node_id, origins, (position,), leave, self._coin())

    def _states(self, _: SimNode) -> Gossip:
        """Of an honest node, unsigned or signed by the wrong one."""
        node = self._some_node()
        if not node.running:
            return Gossip()
        said = replace(
            node.members.own,
            incarnation=self._number(node.members.own.incarnation),
            version=self._number(node.members.own.version),
            liveness=self._chance.choice(list(Liveness)),
            neighbours=self._some_names(),
            interest=self._chance.choice([(), (EVERYTHING,)]),
            interest_since_us=(),
            addresses=(address_of(self.node_id),),
            signed=None,
        )
        if self._coin():
            signed = StateNotary(self._notary).sign(replace(said, liveness=Liveness.ALIVE))
            said = replace(said, signed=signed)
        return Gossip((said.digest,), (said,), self._coin())

    def _digests(self, _: SimNode) -> Gossip:
        node = self._some_node()
        incarnation = self._number(node.incarnation)
        liveness = self._chance.choice(list(Liveness))
        return Gossip((Digest(node.node_id, incarnation, self._number(1), liveness),), (), self._coin())

    def _of_itself(self, _: SimNode) -> Gossip:
        """Links to everybody, interest in everything, another each time."""
        self._version += 1
        said = NodeState(
            self.node_id,
            1,
            self._version,
            Epoch(1),
            neighbours=self._some_names(),
            interest=self._chance.choice([(), (EVERYTHING,)]),
        )
        signed: Signed | None = StateNotary(self._notary).sign(said)
        return Gossip((), (replace(said, signed=signed),))

    def _ghosts(self, _: SimNode) -> Gossip:
        """Nodes that there are not."""
        ghost = NodeId(f"ghost{self._chance.randint(0, 5)}")
        names = (*self._some_names(), self.node_id)
        return Gossip((), (NodeState(ghost, self._number(1), 1, Epoch(1), neighbours=names),))

    def _pong(self, _: SimNode) -> membership.Message:
        """For somebody else, or to nothing."""
        node = self._some_node()
        sequence = self._chance.randint(0, 50)
        lies: list[membership.Message] = [
            membership.Pong(sequence, node.node_id, self._number(1)),
            membership.PingFor(sequence, node.node_id),
            membership.Ping(sequence),
        ]
        return self._chance.choice(lies)

    def _beat(self, _: SimNode) -> membership.Heartbeat:
        return membership.Heartbeat(self._number(1), self._number(1))

    # --- what to lie about ---

    def _coin(self) -> bool:
        return self._chance.random() < 0.5

    def _some_node(self) -> SimNode:
        return self._chance.choice(self._nodes)

    def _some_names(self) -> tuple[NodeId, ...]:
        names = [*(node.node_id for node in self._nodes), self.node_id]
        return tuple(sorted(self._chance.sample(names, self._chance.randint(0, len(names)))))

    def _number(self, near: int, span: int = 0) -> int:
        return min(near + (self._chance.randint(0, span) if span else self._chance.choice(FAR)), INCARNATION_MAX)

    def _around(self, end: int) -> int:
        return max(0, end + self._chance.choice([-1, 1]) * self._chance.choice(FAR[:-1]))

    def _some_stream(self) -> tuple[Stream, Epoch, int]:
        """One that there is, of an honest node; or one of its own."""
        known = list(self._truth.streams)
        if known and self._chance.random() < 0.8:
            key = self._chance.choice(known)
            return *key, self._truth.streams[key].end
        return Stream(self._chance.choice(self._topics), self.node_id, 0), Epoch(1), self._chance.randint(0, 5)


Lie: TypeAlias = core.SendCopies | core.SendAcks | core.SendResume | membership.Message
TALES: Final[tuple[Callable[[Liar, SimNode], Lie], ...]] = (
    Liar._copies,
    Liar._copies,
    Liar._acks,
    Liar._resume,
    Liar._states,
    Liar._states,
    Liar._digests,
    Liar._of_itself,
    Liar._ghosts,
    Liar._pong,
    Liar._beat,
)


async def _read_all(stream: SimCall) -> None:
    with suppress(RpcError):  # it was found out
        while await stream.read() is not None:
            pass
