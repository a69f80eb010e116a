"""The network side of an agent: its host, Floodsub, its neighbours, which of them are alive, and when it may speak."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from ipaddress import IPv4Address

from weft import __version__
from weft.coaty.dispatch import Dispatch
from weft.coaty.liveliness import LivelinessService
from weft.coaty.neighbourhood import Neighbourhood
from weft.coaty.observing import Observation
from weft.coaty.settling import Publication, Settling
from weft.errors import UsageError, WeftError
from weft.limits import LIBP2P_CONNECTIONS_MAX
from weft.transport.libp2p import Connection, Host, Neighbour, Pubsub
from weft.wire.coaty import (
    EventType,
    LastWill,
    Message,
    NamespaceProblem,
    Topic,
    check_namespace,
    encode_payload,
    in_namespace,
)
from weft.wire.libp2p import Multiaddr, PeerId, PrivateKey, floodsub
from weft.wire.libp2p.floodsub import Subscription


class Tap:
    """Tells a bridge what happens in a namespace beyond its observations. An ordinary agent's does nothing."""

    def heard(self, message: floodsub.Message) -> bool:
        """A message on a topic that we are subscribed to. Whether our own observers get it as well."""
        return True

    def died(self, topic: str, last_will: bytes) -> None:
        """An agent has died: what it would have said."""

    def came(self, peer: PeerId) -> None:
        """A neighbour of our namespace has come. Called once until it has left."""

    def left(self, peer: PeerId) -> None:
        """A peer, neighbour or not, has no connection any longer. It may be said twice."""

    def wants(self, peer: PeerId, changes: Sequence[Subscription]) -> None:
        """A neighbour, of our namespace or not, changed its subscriptions."""


class Peer:
    """One agent's place in its namespace. Made and closed on one event loop."""

    def __init__(
        self,
        namespace: str,
        identity: PrivateKey,
        agent_id: str,
        *,
        listen: tuple[str, int],
        bootstrap: Sequence[Multiaddr],
        interfaces: Sequence[IPv4Address],
        join: Sequence[Publication],
        mortal_ids: Sequence[str],
        connections_max: int = LIBP2P_CONNECTIONS_MAX,
    ) -> None:
        """``mortal_ids`` are the objects that die with the agent, besides its identity."""
        self._namespace = namespace
        self._listen = listen
        self.host = Host(identity, secrets.token_bytes, f"weft/{__version__}", connections_max)
        self._pubsub = Pubsub(self.host, secrets.token_bytes)
        self.errors: Observation[WeftError] = Observation(lambda: None, lambda: None)
        self.states: Observation[bool] = Observation(lambda: None, lambda: None)
        self.dispatch = Dispatch(self._pubsub, self._report)
        self._settling = Settling(join)
        self._timer: asyncio.TimerHandle | None = None
        self._ready = asyncio.Event()
        self._insiders: set[PeerId] = set()  # neighbours that subscribed to a topic of our namespace
        self._watched: set[PeerId] = set()  # those of them that have said who they are
        will = LastWill(str(identity.peer), agent_id, tuple(mortal_ids))
        self._liveliness = LivelinessService(self.host, will, self._carry_out)
        self._neighbourhood = Neighbourhood(self.host, namespace, bootstrap, interfaces)
        self._is_closed = False
        self.distrusted = 0  # messages that were not believed, since the start
        self.tap: Tap = Tap()
        self.host.on_ready, self.host.on_lost, self.host.on_full = self._on_ready, self._on_lost, self._report
        self._pubsub.on_message, self._pubsub.on_changed = self._on_message, self._on_changed
        self._pubsub.on_left, self._pubsub.on_dropped = self._on_left, self._on_dropped

    @property
    def is_online(self) -> bool:
        """Whether at least one neighbour is connected (COA-08). An agent that is not still talks to itself."""
        return bool(self.host.neighbours)

    @property
    def topics(self) -> tuple[str, ...]:
        """What this agent is subscribed to."""
        return self._pubsub.topics

    def wanted_by(self, topic: str) -> frozenset[PeerId]:
        """The neighbours that are subscribed to a topic. Events on it are sent only to these."""
        return self._pubsub.peers_of(topic)

    def sends_to(self, peer: PeerId, topic: str) -> bool:
        """Whether a neighbour gets what is published, or passed on, on a topic."""
        return self._pubsub.sends_to(peer, topic)

    async def start(self) -> None:
        """Join the namespace. If that is not possible, this is reported, and the agent stays alone (COA-04)."""
        for problem in check_namespace(self._namespace):
            self._report(UsageError(str(problem), namespace=repr(self._namespace)))
        await self.host.listen(*self._listen)
        if is_joinable(self._namespace):
            await self._neighbourhood.start()
        self._settling.started(self._now_s())
        self._settle()

    async def ready(self) -> None:
        """Wait until what was deferred is out: join events first, then all that was published meanwhile."""
        await self._ready.wait()

    def dial_soon(self, address: Multiaddr) -> None:
        """Try to connect to a peer that another peer named."""
        if address.peer is not None and not self.host.connections(address.peer):
            self._neighbourhood.dial_soon(address)

    async def publish(self, publications: Sequence[Publication]) -> None:
        if self._is_closed:
            raise UsageError("the agent is closed")
        for publication in publications:
            self._send(self._settling.publish(publication))
        await self._pubsub.drained()

    async def close(self) -> None:
        """Leave. As with the reference there is no goodbye: neighbours notice, and carry out our last will."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._neighbourhood.close()
        await self.host.close()
        self.dispatch.close()
        self.errors.close()
        self.states.close()

    # --- settling ------------------------------------------------------------------------------------------------

    def _send(self, publications: Sequence[Publication]) -> None:
        for publication in publications:
            self._pubsub.publish(publication.topic, publication.payload, publication.seqno)

    def _settle(self) -> None:
        """Send what was deferred if it is time, or come back when it is."""
        self._send(self._settling.settle(self._now_s()))
        if self._settling.is_settled:
            self._ready.set()
        elif (due_s := self._settling.settled_at_s) is not None:
            self._timer = asyncio.get_running_loop().call_at(due_s, self._settle)

    # --- neighbours ----------------------------------------------------------------------------------------------

    def _on_ready(self, connection: Connection, neighbour: Neighbour) -> None:
        if len(self.host.neighbours) == len(self.host.connections(neighbour.peer)) == 1:
            self.states.put(True)
        self._pubsub.ready(connection, neighbour)
        self._watch(neighbour.peer)

    def _on_lost(self, connection: Connection) -> None:
        self._pubsub.lost(connection)
        if not self.host.connections(connection.peer):
            self._watched.discard(connection.peer)
            self._liveliness.lost(connection)
            if not self.is_online and not self._is_closed:
                self.states.put(False)

    def _on_changed(self, peer: PeerId, changes: Sequence[Subscription]) -> None:
        self._settling.changed(self._now_s())
        self.tap.wants(peer, changes)
        if any(change.wanted and in_namespace(change.topic, self._namespace) for change in changes):
            self._insiders.add(peer)
            self._watch(peer)

    def _on_left(self, peer: PeerId) -> None:
        self._insiders.discard(peer)
        self.tap.left(peer)

    def _on_message(self, message: floodsub.Message) -> None:
        if self.tap.heard(message):
            self.dispatch.received(message)

    def _on_dropped(self, dropped: floodsub.Dropped) -> None:
        self.distrusted += 1

    def _watch(self, peer: PeerId) -> None:
        """Report a neighbour once it has said who it is and that it belongs to us. Its later subscriptions are not
        reported: two bridges that asked each other at every one would never stop.
        """
        if peer in self._insiders and peer in self.host.neighbours and peer not in self._watched:
            self._watched.add(peer)
            self._liveliness.joined(peer)
            self.tap.came(peer)

    def _carry_out(self, event: Message) -> None:
        """An agent has died: act as if it had deadvertised itself."""
        topic, payload = str(Topic(self._namespace, EventType.DEADVERTISE)), encode_payload(event)
        self.tap.died(topic, payload)
        self.dispatch.deliver(topic, payload)

    def _report(self, error: WeftError) -> None:
        if not self.errors.is_full:  # nobody has to read them
            self.errors.put(error)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


def is_joinable(namespace: str) -> bool:
    """Whether its topics are valid. By mDNS it may still not be found."""
    return all(problem is NamespaceProblem.UNDISCOVERABLE for problem in check_namespace(namespace))
