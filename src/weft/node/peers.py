"""Between PeerLinks and the rest of the node: feeds what links bring, and counts and logs what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, assert_never

from structlog.stdlib import BoundLogger

from weft import membership
from weft.core import messages as core
from weft.errors import PeerError
from weft.membership import (
    GossipRefused,
    Health,
    HealthChanged,
    MemberChanged,
    MemberForgotten,
    NodeState,
    RoundTrip,
)
from weft.model import NodeId
from weft.node.engine import Engine, News
from weft.node.figures import ConnectionState, PeerFigures
from weft.node.metrics import Metrics
from weft.node.refusals import Refusals
from weft.node.twins import ADVICE, TwinWatch
from weft.security.key_exchange import KeyTalk
from weft.transport.peers.watching import LinkInput
from weft.wire.mesh.features import Feature, Hello
from weft.wire.mesh.lives import Life

STATE_OF: dict[Health, ConnectionState] = {
    Health.HEALTHY: ConnectionState.CONNECTED,
    Health.UNHEALTHY: ConnectionState.UNHEALTHY,
    Health.DISCONNECTED: ConnectionState.DOWN,
}


class KeyPeers(Protocol):
    """Shares API keys with peers that can."""

    def link_up(self, peer: NodeId) -> None: ...

    def link_down(self, peer: NodeId) -> None: ...

    def received(self, peer: NodeId, talk: KeyTalk) -> None: ...


class LinkInputs:
    """LinkListener: both state machines are told of links; the broker gets events, membership its own messages, and
    ``keys`` what is said about API keys, if this node has any."""

    def __init__(self, engine: Engine, twins: TwinWatch, keys: KeyPeers | None) -> None:
        self._engine = engine
        self._twins = twins
        self._keys = keys

    def link_up(self, peer: NodeId, hello: Hello, plain: bool) -> None:
        self._engine.feed_member(membership.LinkUp(peer, gossips=not plain))
        past, calls = (not plain and each in hello.features for each in (Feature.PAST, Feature.CALLS))
        self._engine.feed(core.LinkUp(peer, plain, calls=calls, past=past))
        if self._keys is not None and not plain and Feature.KEYS in hello.features:
            self._keys.link_up(peer)

    def link_down(self, peer: NodeId, reason: str) -> None:
        self._engine.feed_member(membership.LinkDown(peer))
        self._engine.feed(core.LinkDown(peer))
        if self._keys is not None:
            self._keys.link_down(peer)

    def peer_leaves(self, peer: NodeId, incarnation: int) -> None:
        self._engine.feed_member(membership.PeerLeaves(peer, incarnation))

    def received(self, event: LinkInput) -> None:
        self._engine.feed(event)

    def received_member(self, peer: NodeId, message: membership.Message) -> None:
        self._engine.feed_member(membership.MessageReceived(peer, message))

    def twin_found(self, life: Life, told_by: str) -> None:
        self._twins.found(life, told_by)

    def received_keys(self, peer: NodeId, talk: KeyTalk) -> None:
        if self._keys is not None:
            self._keys.received(peer, talk)


class LinkNews:
    """``LinkObserver``: turns news of links, and what membership finds out, into metrics (PL-06) and log lines.

    ``forget`` gets the addresses of members that are gone for good: they need no longer be dialled.
    """

    def __init__(
        self, metrics: Metrics, logger: BoundLogger, refusals: Refusals, forget: Callable[[Iterable[str]], None]
    ) -> None:
        self._metrics = metrics
        self._logger = logger
        self._refusals = refusals
        self._forget = forget
        self._seen: set[NodeId] = set()  # peers that had a link before
        self._addresses: dict[NodeId, tuple[str, ...]] = {}
        self._dialled: dict[str, str] = {}  # address -> the name it counts for: the address itself, until it has a name

    def link_up(self, peer: NodeId, address: str, dialled_by_us: bool, features: Iterable[Feature]) -> None:
        figures = self._metrics.peer(peer)
        figures.state = ConnectionState.CONNECTED
        if peer in self._seen:
            figures.reconnects += 1
        self._seen.add(peer)
        if dialled_by_us:
            self._count_for(address, peer)
        self._logger.info(
            "peer_connected",
            peer=peer,
            address=address,
            dialled=dialled_by_us,
            features=sorted(each.value for each in features),
        )

    def link_down(self, peer: NodeId, reason: str) -> None:
        self._metrics.peer(peer).state = ConnectionState.DOWN
        self._logger.info("peer_disconnected", peer=peer, reason=reason)

    def link_refused(self, address: str, error: PeerError) -> None:
        if not self._refusals.link(address, error):
            self._logger.warning("peer_refused", address=address, reason=str(error))

    def twins_seen(self, peer: NodeId, address: str) -> None:
        self._logger.error("two_nodes_with_one_id", peer=peer, address=address, advice=ADVICE)

    def dialling(self, address: str, peer: NodeId | None) -> None:
        named = peer or next((node for node, addresses in self._addresses.items() if address in addresses), None)
        figures = self._count_for(address, named or address)
        if figures.state is ConnectionState.DOWN:
            figures.state = ConnectionState.CONNECTING

    def _count_for(self, address: str, name: str) -> PeerFigures:
        """The figures for the peer at an address. A peer has one set of figures: first they are under its address, and
        under its name once that is known."""
        if self._dialled.get(address) == address != name:
            self._metrics.forget_peer(address)
        self._dialled[address] = name
        return self._metrics.peer(name)

    def gossip_refused(self, peer: NodeId, what: str) -> None:
        self._refused(peer, "signature", what, 1)

    def dial_failed(self, address: str, reason: str, retry_s: float) -> None:
        figures = self._metrics.peer(self._dialled.get(address, address))
        if figures.state is ConnectionState.CONNECTING:
            figures.state = ConnectionState.DOWN
        self._logger.info("peer_backoff", address=address, reason=reason, retry_s=round(retry_s, 3))

    def sent(self, peer: NodeId, size_bytes: int, latency_s: float) -> None:
        self._metrics.peer(peer).sent(size_bytes, latency_s)

    def received(self, peer: NodeId, size_bytes: int) -> None:
        self._metrics.peer(peer).received(size_bytes)

    def dropped(self, peer: NodeId, frames: int) -> None:
        self._metrics.peer(peer).drops += frames
        self._logger.warning("frames_dropped", peer=peer, frames=frames)

    def hear(self, news: News) -> None:
        match news:
            case MemberChanged(before, after):
                self._addresses[after.node_id] = after.addresses
                if _is_told_to_people(before, after):
                    self._logger.info(
                        "member_changed",
                        member=after.node_id,
                        liveness=after.liveness.name.lower(),
                        incarnation=after.incarnation,
                    )
                if before is not None and before.epoch != after.epoch:
                    self._logger.warning("member_epoch", member=after.node_id, before=before.epoch, after=after.epoch)
            case MemberForgotten(node_id):
                self._metrics.forget_peer(node_id)
                self._seen.discard(node_id)
                self._dialled = {address: name for address, name in self._dialled.items() if name != node_id}
                self._forget(self._addresses.pop(node_id, ()))
                self._logger.info("member_forgotten", member=node_id)
            case HealthChanged(peer, before_health, after_health):
                self._metrics.peer(peer).state = STATE_OF[after_health]
                self._logger.info("peer_health", peer=peer, before=before_health.value, after=after_health.value)
            case RoundTrip(peer, rtt_s):
                self._metrics.peer(peer).rtt_ms = rtt_s * 1000
            case core.EventsGone(peer, topic, first, end):
                self._logger.warning("events_gone", peer=peer, topic=topic, first=first, end=end)
            case core.PeerRefused(peer, fault, what, times):
                self._refused(peer, fault, what, times)
            case GossipRefused(peer, fault, what):
                self._refused(peer, fault, what, 1)
            case _:
                assert_never(news)

    def key_refused(self, peer: NodeId, what: str) -> None:
        """A statement about an API key was not believed."""
        self._refused(peer, "keys", what, 1)

    def _refused(self, peer: NodeId, fault: str, what: str, times: int) -> None:
        self._metrics.peer(peer).refuse(fault, times)
        self._refusals.from_peer(peer, fault, what)


def _is_told_to_people(before: NodeState | None, after: NodeState) -> bool:
    """Whether a change of state is reported: another liveness, or another life. A busy node sends many versions of its
    state, and these are not reported."""
    return before is None or (before.liveness, before.incarnation) != (after.liveness, after.incarnation)
