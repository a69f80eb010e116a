"""Puts together the parts of a node that decide: membership, broker, clients and links, around one log.

``runtime`` adds sockets, certificates, configuration and gateways. A simulation has the same machinery, with its own
time, chance and connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import Tracer
from structlog.stdlib import BoundLogger

from weft import membership
from weft.core import Broker
from weft.core.kv import KvSettings
from weft.core.messages import Input, Synced
from weft.core.settings import BrokerSettings
from weft.errors import StorageError
from weft.membership import Chance, Members, NodeState
from weft.model import NodeId
from weft.node.calls import NodeCalls
from weft.node.clients import Clients
from weft.node.engine import Engine
from weft.node.hops import Hops
from weft.node.kv import KeyValues
from weft.node.later import Later
from weft.node.metrics import Metrics
from weft.node.peers import KeyPeers, LinkInputs, LinkNews
from weft.node.refusals import Refusals
from weft.node.schedules import MayPublish, Schedules, anybody_may
from weft.node.schema_gate import SchemaGate
from weft.node.schemas import Schemas
from weft.node.storage import Storage
from weft.node.tracing import NodeTracing
from weft.node.twins import TwinWatch
from weft.port.later import LaterSettings
from weft.port.node import ClientLimits
from weft.security.notary import Notary
from weft.transport.peers.gate import PeerGate
from weft.transport.peers.links import PeerLinks
from weft.transport.peers.settings import LinkSettings
from weft.transport.peers.signed_states import StateNotary
from weft.wire.mesh.features import Feature, Hello
from weft.wire.mesh.lives import Life

if TYPE_CHECKING:
    from weft.node.history import NodeHistory

CLIENT_ADDRESSES_MAX: Final = 32  # given to a client: enough to find a living node in a mesh of any size

GOODBYE: Final = "the node is shutting down"


@dataclass(frozen=True, slots=True)
class MachinerySettings:
    """``seeds`` are addresses that are dialled for ever."""

    mesh: str
    seeds: Sequence[str]
    members: membership.Settings
    broker: BrokerSettings
    clients: ClientLimits
    links: LinkSettings
    kv: KvSettings
    later: LaterSettings
    spans_per_s_max: int = 1000


@dataclass(frozen=True, slots=True)
class Outside:
    """What comes from outside. ``now_s`` is a monotonic clock; ``wall_offset_s`` added to it gives Unix time.

    ``wall_us`` is the machine's clock, whatever it is set to meanwhile: it decides when events are due, and which write
    of a key counts.
    """

    now_s: Callable[[], float]
    wall_offset_s: float
    wall_us: Callable[[], int]
    chance: Chance
    gate: PeerGate
    notary: Notary
    life: Life  # of this node
    keys: KeyPeers | None = None  # None: without certificates there are no API keys
    tracer: Tracer | None = None  # None: no spans are made
    may_publish: MayPublish = anybody_may  # whether the owner of a schedule still has the right
    history: NodeHistory | None = None  # None: there are no archive tables


class Machinery:
    """``own`` is what this node says about itself when it starts. ``failed`` is told the error that ends it."""

    def __init__(
        self,
        own: NodeState,
        settings: MachinerySettings,
        outside: Outside,
        storage: Storage,
        metrics: Metrics,
        refusals: Refusals,
        logger: BoundLogger,
        failed: Callable[[StorageError], None],
    ) -> None:
        self.node_id = own.node_id
        self.life = outside.life
        self._settings = settings
        self._storage = storage
        self._logger = logger
        states = StateNotary(outside.notary)
        lacking = {Feature.SIGNED: not states.signs, Feature.KEYS: outside.keys is None}
        self._features = frozenset(each for each in Feature if not lacking.get(each))
        self.broker = Broker(self.node_id, storage.log, settings.broker, outside.wall_offset_s)
        talk = self.broker.group_work
        self.members = Members(own, settings.members, outside.chance, settings.seeds, states.sign, lambda: talk.talked)
        ends = {(state.stream, state.epoch): state.durable for state in storage.log.states()}
        now_us = partial(_unix_us, outside.now_s, outside.wall_offset_s)
        self.hops = Hops(ends, self.broker.subscriptions, now_us)
        self.tracing = None if outside.tracer is None else self._make_tracing(outside.tracer)
        self.clients = Clients(
            self.node_id,
            storage.log,
            self.broker.group_work.groups,
            settings.clients,
            self._feed,
            self._addresses,
            self._other_states,
            metrics,
            refusals.batch,
            self.broker.group_work.dead_topic,
            self.hops,
            self.broker.replication,
            self.tracing,
            outside.history,
        )
        if outside.history is not None:
            outside.history.feed = self._feed
        self.twins = TwinWatch(self.node_id, outside.life, outside.now_s, logger, failed)
        self.kv = KeyValues(
            self.clients,
            settings.kv,
            lambda: outside.wall_us() // 1000,
            self._epoch_of,
        )
        self.clients.checks = self.schema_gate = SchemaGate(outside.now_s, logger)
        self.schemas = Schemas(self.kv, storage.log, self.schema_gate, outside.wall_us)
        self.calls = NodeCalls(
            self.broker.calls, self.clients, self._feed, outside.now_s, int(outside.chance.random() * (1 << 62))
        )
        self.later = Later(self.clients, settings.later, outside.wall_us)
        self.schedules = Schedules(
            self.clients, self.kv, settings.later, self._alive, outside.wall_us, outside.may_publish, logger
        )
        self.news = news = LinkNews(metrics, logger, refusals, self._undial)
        self.engine = Engine(
            self.broker,
            self.members,
            serve=self.clients.perform,
            call=self.calls.perform,
            news=news.hear,
            kick=storage.wake,
            damaged=self._on_damage,
            failed=failed,
            buckets_found=self.kv.follow,
            now_s=outside.now_s,
            watch=self.tracing,
        )
        self.links = PeerLinks(
            self._hello,
            settings.mesh,
            settings.links,
            LinkInputs(self.engine, self.twins, outside.keys),
            outside.chance,
            news,
            outside.gate,
            outside.notary,
            states,
        )
        self.engine.links = self.links

    def _make_tracing(self, tracer: Tracer) -> NodeTracing:
        broker, most = self.broker, self._settings.spans_per_s_max
        return NodeTracing(tracer, self.node_id, broker.log, broker.subscriptions, most)

    def synced(self, event: Synced) -> None:
        """The storage calls this: the data of this event is durable."""
        self.hops.stored(event.advanced)
        self.engine.feed(event)

    def start(self) -> None:
        self.engine.start()
        self.later.start()

    async def drain(self, timeout_s: float) -> None:
        """Send what is owed, within this time, and accept nothing more."""
        self.clients.drain()
        self.calls.drain()
        end_s = asyncio.get_running_loop().time() + timeout_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end_s):
                await self.clients.wait_gone()
        self.engine.finish()  # also if a publisher still waits for copies: group members elsewhere read on
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end_s):
                await self._storage.wait_synced()
                await self.calls.wait_done()
        self.calls.close()

    async def leave(self) -> None:
        """Say goodbye, within ``membership.leave_timeout_s``, and close the links, so that nobody takes this node for
        dead."""
        self.engine.feed_member(membership.Leave())
        await self.engine.left.wait()
        await self.links.stop(GOODBYE, leaving=True)

    def stop(self) -> None:
        """From now on, decide nothing and begin nothing, whether or not ``drain`` was called before."""
        self.engine.stop()
        self.clients.draining = True

    def renew(self) -> None:
        """The node has a new certificate: sign and connect again with it."""
        self.engine.feed_member(membership.SignAgain())
        self.links.renew()

    def fail(self, error: StorageError) -> None:
        """Nothing can be promised any longer."""
        self.engine.stop()
        self.clients.fail(error)
        self.calls.close(error)

    # --- what the parts ask of each other ------------------------------------------------------------------------

    def _feed(self, event: Input) -> None:
        self.engine.feed(event)

    def _hello(self) -> Hello:
        own = self.members.own
        mesh = self._settings.mesh
        return Hello(self.node_id, self._features, mesh, own.epoch, own.incarnation, own.addresses, self.life)

    def _undial(self, addresses: Iterable[str]) -> None:
        for address in set(addresses).difference(self._settings.seeds):
            self.links.undial(address)

    def _addresses(self) -> list[str]:
        """Where clients may go: here, or to other nodes that are alive."""
        others = (state.addresses[0] for state in self._other_states() if state.addresses and not state.liveness.gone)
        return [*self.members.own.addresses, *islice(others, CLIENT_ADDRESSES_MAX - 1)]

    def _other_states(self) -> list[NodeState]:
        """The states of other nodes, even if they are down or have said goodbye: they hold what was published there."""
        return [state for state in self.members.states.values() if state.node_id != self.node_id]

    def _alive(self) -> list[NodeId]:
        return [state.node_id for state in self.members.states.values() if not state.liveness.gone]

    def _epoch_of(self, node: NodeId) -> int:
        """The epoch of the log that a node has now; 0 if nothing is known about it."""
        state = self.members.states.get(node)
        return 0 if state is None else state.epoch

    def _on_damage(self, error: StorageError) -> None:
        """A stream that peers want cannot be read any further: the node goes on with the others."""
        self.clients.count_loss(error)
        self._logger.error("log_damage", reason=str(error), advice="weft log check")


def _unix_us(now_s: Callable[[], float], wall_offset_s: float) -> int:
    return int((now_s() + wall_offset_s) * 1_000_000)
