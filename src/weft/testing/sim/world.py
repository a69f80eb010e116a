"""A whole mesh in virtual time: nodes, the network between them, clients around them, and what is true of it all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from weft import membership
from weft.core import BrokerSettings
from weft.core.groups import GroupSettings
from weft.core.kv import KvSettings
from weft.core.settings import InterestSettings
from weft.membership import NodeState
from weft.model import NodeId, Topic, parse_node_id
from weft.node.machinery import MachinerySettings
from weft.port.later import LaterSettings
from weft.port.node import ClientLimits
from weft.testing.sim.disk import Disk, SimStore
from weft.testing.sim.group_members import GroupBook
from weft.testing.sim.kv import KvBook, SimKvClient
from weft.testing.sim.later import LaterBook, SimLaterClient
from weft.testing.sim.liars import Liar
from weft.testing.sim.loop import Clock
from weft.testing.sim.network import Host, Network
from weft.testing.sim.node import SimNode, address_of, node_at
from weft.testing.sim.publishers import SimPublisher
from weft.testing.sim.requests import RequestBook, SimAsker, SimServer
from weft.testing.sim.schedule import Schedule, Violation, chance_of
from weft.testing.sim.sessions import Desk
from weft.testing.sim.subscribers import SimSubscriber
from weft.testing.sim.truth import EndOf, StreamKey, Truth
from weft.transport.peers.settings import DropPolicy, LinkSettings

CLIENTS: Final = ClientLimits(
    streams_max=1000,
    subscriptions_max=1000,
    batch_bytes_max=1 << 20,
    held_bytes_max=1 << 30,
    caller_bytes_max=1 << 30,
    credit_bytes_max=1 << 30,
    reply_bytes_max=1 << 20,
)
# Clocks differ by a minute, and run at different speeds. Values and what was deleted are forgotten as soon as may be.
KV: Final = KvSettings(skew_ms_max=100_000, grace_s=150.0, cache_bytes_max=200)
LATER: Final = LaterSettings()
MESH: Final = "sim"
PAST_TIMEOUT_S: Final = 80.0  # longer than all troubles together: until then, everybody may come back
MEMBERSHIP: Final = membership.Settings(unreachable_s=15.0, dead_retention_s=12.0)


@dataclass(frozen=True, slots=True)
class Hardware:
    """What machines are like. ``drift``: how far a clock's rate is off at most; ``skew_s``: a wall clock's time."""

    drift: float = 0.0
    skew_s: float = 0.0
    sync_s_max: float = 0.004
    settle_s: float = 0.05
    inline: bool = False  # small writes are synced by the loop
    window_bytes: int = 16_000
    queue_frames_max: int = 8192  # of the outbox of a link
    send_timeout_s: float = 5.0
    drop_policy: DropPolicy = DropPolicy.NEWEST
    patterns_max: int = 224  # told one by one; if there are more, a summary says what is wanted
    expire_after_s: float = GroupSettings().expire_after_s  # of groups that nobody uses


class Lacking(Protocol):
    """Something that waits for events. ``end_of``: how far there is something of a stream; None: nobody can count on
    it."""

    def lacks(self, end_of: EndOf) -> str:
        """What it must still get; empty if it has everything."""


class World:
    def __init__(self, seed: int, hardware: Hardware, *, traces: bool = False) -> None:
        self.seed = seed
        self.schedule = Schedule(traces=traces)
        self.truth = Truth()
        self.network = Network(self.schedule, chance_of(seed, "network"), self)
        self.desk = Desk(self.schedule, chance_of(seed, "clients"), self.truth)
        self.nodes: dict[NodeId, SimNode] = {}
        self.seeds: dict[NodeId, list[NodeId]] = {}  # whose addresses each was given
        self.publishers: list[SimPublisher] = []
        self.subscribers: list[SimSubscriber] = []
        self.groups: list[GroupBook] = []
        self.kv = KvBook(self.truth, lambda: self.running)
        self.kv_clients: list[SimKvClient] = []
        self.requests = RequestBook()
        self.servers: list[SimServer] = []
        self.askers: list[SimAsker] = []
        self.later = LaterBook(self.truth, lambda: list(self.nodes.values()))
        self.later_clients: list[SimLaterClient] = []
        self.liars: list[Liar] = []
        self.truth.is_gone = self._is_gone
        self._hardware = hardware
        self._chance = chance_of(seed, "hardware")

    # --- building ---

    def add_node(self, name: str, seeds: Iterable[NodeId]) -> SimNode:
        """``seeds``: the nodes whose addresses it is given."""
        node_id = parse_node_id(name)
        self.seeds[node_id] = list(seeds)
        hardware, chance = self._hardware, self._chance
        clock = Clock(
            rate=1.0 + chance.uniform(-hardware.drift, hardware.drift),
            offset_s=chance.uniform(0.0, 1000.0),
            skew_us=int(chance.uniform(-hardware.skew_s, hardware.skew_s) * 1e6),
        )
        self.nodes[node_id] = SimNode(
            node_id,
            clock,
            Disk(hardware.sync_s_max * chance.random(), hardware.settle_s, hardware.inline, SimStore()),
            self._settings([address_of(seed) for seed in self.seeds[node_id]]),
            schedule=self.schedule,
            chance=chance_of(self.seed, name),
            network=self.network,
            truth=self.truth,
            on_gone=self.desk.node_gone,
        )
        return self.nodes[node_id]

    def _settings(self, seeds: list[str]) -> MachinerySettings:
        hardware = self._hardware
        broker = BrokerSettings(
            window_bytes=hardware.window_bytes,
            ack_timeout_s=3.0,
            copies_timeout_s=5.0,
            interest=InterestSettings(patterns_max=hardware.patterns_max),
            past_timeout_s=PAST_TIMEOUT_S,
            groups=GroupSettings(release_timeout_s=3.0, expire_after_s=hardware.expire_after_s),
        )
        links = LinkSettings(
            queue_frames_max=hardware.queue_frames_max,
            send_timeout_s=hardware.send_timeout_s,
            drop_policy=hardware.drop_policy,
            backoff_s_min=0.2,
            backoff_s_max=2.0,
            dial_timeout_s=3.0,
        )
        return MachinerySettings(MESH, seeds, MEMBERSHIP, broker, CLIENTS, links, KV, LATER)

    def add_liar(self, name: str, peers: Sequence[SimNode], topics: Sequence[Topic]) -> Liar:
        """Linked to these nodes; it lies about all of them."""
        liar = Liar(
            parse_node_id(name),
            peers,
            list(self.nodes.values()),
            topics,
            MESH,
            schedule=self.schedule,
            network=self.network,
            chance=chance_of(self.seed, name),
            truth=self.truth,
        )
        self.truth.liars.add(liar.node_id)
        self.liars.append(liar)
        return liar

    def host(self, node: NodeId) -> Host | None:
        found = self.nodes.get(node)
        return found.host if found is not None and found.running else None

    # --- what there is to see ---

    @property
    def running(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.running]

    def end_of(self, key: StreamKey) -> int | None:
        """How far there is something of a stream for all subscribers; None: nobody can count on it."""
        stream, epoch = key
        node = self.nodes.get(stream.origin)
        if node is None or (node.running and node.log.epoch == epoch):
            return self.truth.streams[key].end  # a plain peer has all that it ever published
        if not node.retired or node.log.epoch != epoch:
            return None
        return max((self.truth.durable[each.node_id].get(key, 0) for each in self.running), default=0)

    def _is_gone(self, key: StreamKey, offset: int) -> bool:
        """Of copies that began in the middle: no node has it, and none will. Of a log that was lost with its disk,
        copies are not put together again."""
        stream, epoch = key
        is_lost = (stream.origin, epoch) in self.truth.lost
        begins_later = False
        for node in self.nodes.values():
            if node.retired or (node.running and node.log.find(*key) is None):
                continue
            if not node.running:
                return False
            info = node.log.info(*key)
            if info.start <= offset and not is_lost:
                return False
            begins_later = begins_later or (info.late_us is not None and offset < info.start)
        return begins_later

    def disagreement(self) -> str:
        """Which link is missing, or which node does not know of all running nodes exactly what they say about
        themselves."""
        truth = {node.node_id: node.members.own for node in self.running}
        for node in self.running:
            if missing := self._missing_link(node):
                return missing
        for link in self.network.links.values():
            trouble = link.trouble(self.schedule.now_s)
            if trouble and all(map(self.is_running, link.edge)):
                return f"the link {'-'.join(link.edge)} {trouble}"
        for node in self.running:
            states = node.members.states.items()
            seen = {key: state for key, state in states if key in self.nodes and not state.liveness.gone}
            if seen != truth:
                wrong = sorted(key for key in seen.keys() | truth.keys() if seen.get(key) != truth.get(key))
                return f"{node.node_id} has a wrong view of {', '.join(wrong)}"
            routes = node.broker.routes.states.items()
            routed = {key: _routing(state) for key, state in routes if key in self.nodes}
            if routed != {key: _routing(state) for key, state in truth.items()}:
                return f"the broker of {node.node_id} has another view than its membership"
        return ""

    def _missing_link(self, node: SimNode) -> str:
        """What is wrong with a link of this node; empty if all dialled links are up at both ends."""
        for view in node.machinery.links.links():
            if not view.connected and self.is_running(node_at(view.address)):
                return f"{node.node_id} has no link to {view.address}: {view.trouble}"
            other = self.nodes.get(view.peer) if view.connected and view.peer is not None else None
            if other is not None and not (other.running and node.node_id in other.peers):
                return f"{other.node_id} does not know of its link with {node.node_id}"
        return ""

    def is_running(self, node: NodeId) -> bool:
        return node in self.nodes and self.nodes[node].running

    def unfinished(self) -> str:
        """What is not yet right after the faults are over; empty if all is well."""
        for publisher in self.publishers:
            if not publisher.done:
                return f"{publisher.name} has batches without an answer"
        clients: tuple[SimKvClient | SimLaterClient, ...] = (*self.kv_clients, *self.later_clients)
        for client in clients:
            if not client.done:
                return f"{client.name} has more to write"
        for asker in self.askers:
            if not asker.done:
                return f"{asker.name} has more to ask"
        if waiting := self.requests.waiting(self.schedule.now_s):
            return waiting
        readers: tuple[Lacking, ...] = (*self.subscribers, *self.groups, *self.desk.plain.values(), self.kv, self.later)
        found = self.disagreement()
        for reader in readers:
            found = found or reader.lacks(self.end_of)
        return found

    def remembered(self, group: str) -> str:
        """The nodes that still remember a group that nobody uses."""
        for node in self.running:
            if node.broker.group_work.groups.remembers(group) or group in node.log.groups():
                return f"{node.node_id} remembers group {group}, which nobody uses"
        return ""

    def run_until(self, unfinished: Callable[[], str], limit_s: float, step_s: float = 1.0) -> float:
        """Run until nothing is unfinished; return how long it took. A Violation if it takes too long."""
        begin_s = self.schedule.now_s
        while found := unfinished():
            if self.schedule.now_s - begin_s >= limit_s:
                raise Violation(f"{limit_s:.0f} s after the last fault, {found}")
            self.schedule.run(step_s)
        return self.schedule.now_s - begin_s

    def close(self) -> None:
        """What still runs ends here, and not when its memory is taken away."""
        for node in self.running:
            node.loop.die()
        for peer in self.desk.plain.values():
            peer.loop.die()
        for liar in self.liars:
            liar.loop.die()

    def check_logs(self) -> None:
        for node in self.running:
            self.truth.check_log(node.node_id, node.log)
        self.truth.check_refusals()


def _routing(state: NodeState) -> tuple[object, ...]:
    return state.neighbours, state.interest, state.interest_summary
