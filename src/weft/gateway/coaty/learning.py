"""To which topics of the namespace a bridge listens. Pure.

Floodsub has no wildcards, but peers announce what they want. So a bridge listens to every channel, operation, IO
context, raw topic and external IO route that a neighbouring agent, or a neighbour of another bridge of the mesh, has
asked for, because the listener may be anywhere. What only clients of the mesh want has to be configured, because no
agent announces it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from weft.errors import PeerError, UsageError
from weft.gateway.coaty.sharing import Bridge
from weft.limits import MIB
from weft.wire.coaty import EventType, is_coaty_topic, parse_topic_untrusted, require_raw_topic
from weft.wire.libp2p.floodsub import Subscription

LEARNED: Final = frozenset({EventType.CHANNEL, EventType.CALL, EventType.ASSOCIATE})
COATY_REPORT_BYTES_MAX: Final = 1 * MIB  # of one bridge about itself
COATY_REPORT_TOPICS_MAX: Final = 4096  # as many as a peer can subscribe to
COATY_REPORTS_MAX: Final = 1024  # bridges that we listen to; anybody with the rights can claim to be one
COATY_REPORT_S: Final = 60.0  # between reports of a bridge that has nothing new to say
COATY_REPORT_S_MAX: Final = 240.0  # a bridge that was silent for so long is forgotten
COATY_REPORT_PEERS_MAX: Final = 4096  # neighbours that are named; events of others may come twice
TEXT_CHARS_MAX: Final = 256
ADDRESSES_MAX: Final = 8  # a node listens on one


class BridgeReport(msgspec.Struct, frozen=True):
    """What a bridge tells the others over the mesh: its id in the namespace, what its neighbours want (and what is
    configured for it), what it already listens to, and which peers are its neighbours.
    """

    agent: str
    peer: str
    addresses: tuple[str, ...]
    island: str
    wants: tuple[str, ...]
    hears: tuple[str, ...]
    beside: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def decode_report_untrusted(payload: bytes) -> BridgeReport:
    """Read a report; raise only UsageError: any client with the rights can publish there."""
    if len(payload) > COATY_REPORT_BYTES_MAX:
        raise UsageError("report of a bridge is too long", have=len(payload), limit=COATY_REPORT_BYTES_MAX)
    try:
        report = msgspec.json.decode(payload, type=BridgeReport)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"not a report of a bridge: {error}") from None
    texts = (report.agent, report.peer, report.island, *report.addresses, *report.beside)
    if max(map(len, texts)) > TEXT_CHARS_MAX or len(report.addresses) > ADDRESSES_MAX:
        raise UsageError("ids and addresses in the report of a bridge are too long", limit=TEXT_CHARS_MAX)
    if max(len(report.wants), len(report.hears)) > COATY_REPORT_TOPICS_MAX:
        raise UsageError("report of a bridge names too many topics", limit=COATY_REPORT_TOPICS_MAX)
    if len(report.beside) > COATY_REPORT_PEERS_MAX:
        raise UsageError("report of a bridge names too many peers", limit=COATY_REPORT_PEERS_MAX)
    return report


def is_of_object_type(topic: str, namespace: str) -> bool:
    """Whether the topic is for observers of an object type. What comes there also comes under its core type, so it is
    passed on to agents that want it, and not carried over a second time."""
    return topic.startswith((f"coaty/1/{namespace}/ADV:", f"coaty/1/{namespace}/UPD:"))


@lru_cache(maxsize=4096)
def is_learnable(topic: str, namespace: str) -> bool:
    """Whether to listen to the topic if somebody wants it. For all other topics, the bridge listens in any case, or
    they are answers, or belong to another namespace."""
    try:
        if not is_coaty_topic(topic):
            require_raw_topic(topic)
            return True
        found = parse_topic_untrusted(topic)
    except (PeerError, UsageError):
        return False
    return found.namespace == namespace and (found.event in LEARNED or is_of_object_type(topic, namespace))


class Learned:
    """What neighbours and other bridges want. ``topics_max`` bounds the learned topics; configured ones come on top."""

    def __init__(self, namespace: str, configured: Iterable[str], topics_max: int) -> None:
        self._namespace = namespace
        self._configured = tuple(dict.fromkeys(configured))
        self._topics_max = topics_max
        self._announced: dict[str, dict[str, None]] = {}  # by peer, of any namespace
        self._insiders: set[str] = set()
        self._reports: dict[str, tuple[BridgeReport, float]] = {}  # by node, and when it came
        self._hears: dict[str, frozenset[str]] = {}  # by the bridge's agent id
        self.refused = 0  # topics beyond the bound, at the last look

    # --- what happens --------------------------------------------------------------------------------------------

    def announced(self, peer: str, changes: Sequence[Subscription]) -> bool:
        """Return whether this may change anything."""
        named = [change for change in changes if is_learnable(change.topic, self._namespace)]
        topics = self._announced.setdefault(peer, {})
        for change in named:
            if change.wanted:
                topics[change.topic] = None
            else:
                topics.pop(change.topic, None)
        return bool(named)

    def came(self, peer: str) -> None:
        """Raw topics belong to no namespace: they count if a neighbour in ours wants them."""
        self._insiders.add(peer)

    def left(self, peer: str) -> None:
        self._announced.pop(peer, None)
        self._insiders.discard(peer)

    def reported(self, node: str, report: BridgeReport, now_s: float) -> bool:
        """Return whether the bridge was unknown before: it may be another one on the same node, after a restart."""
        known = self._reports.get(node)
        if known is not None or len(self._reports) < COATY_REPORTS_MAX:
            self._reports[node] = (report, now_s)
            self._recount()
        return known is None or known[0].agent != report.agent

    def forget(self, now_s: float) -> None:
        for node, (_, since_s) in list(self._reports.items()):
            if now_s - since_s >= COATY_REPORT_S_MAX:
                del self._reports[node]
                self._recount()

    def _recount(self) -> None:
        self._hears = {report.agent: frozenset(report.hears) for report, _ in self._reports.values()}

    # --- what follows --------------------------------------------------------------------------------------------

    @property
    def reports(self) -> list[BridgeReport]:
        """Of all other bridges that are known."""
        return [report for report, _ in self._reports.values()]

    def bridges(self, gone: Collection[str]) -> list[Bridge]:
        """The same, as bridges with which to share the work. A node that is gone counts as having no neighbours."""
        return [
            Bridge(each.agent, each.peer, each.island, frozenset(() if node in gone else each.beside))
            for node, (each, _) in self._reports.items()
        ]

    def beside(self) -> tuple[str, ...]:
        """Our neighbours, agents and bridges, as other bridges need to know them."""
        return tuple(sorted(self._insiders)[:COATY_REPORT_PEERS_MAX])

    @property
    def bridge_peers(self) -> frozenset[str]:
        return frozenset(report.peer for report in self.reports)

    def wants(self) -> list[str]:
        """What the agents beside us want, and what is configured. Other bridges' subscriptions do not count: otherwise
        two bridges would keep each other's subscriptions alive.
        """
        return list(self._wanted_here())[: self._bound]

    def listened(self) -> list[str]:
        """Everything to which this bridge has to listen."""
        topics = self._wanted_here()
        for report, _ in self._reports.values():
            topics |= dict.fromkeys(topic for topic in report.wants if is_learnable(topic, self._namespace))
        self.refused = max(0, len(topics) - self._bound)
        return list(topics)[: self._bound]

    def is_heard_by(self, agent_id: str, topic: str) -> bool:
        """Whether another bridge has said that it listens to a topic."""
        return topic in self._hears.get(agent_id, ())

    @property
    def _bound(self) -> int:
        return len(self._configured) + self._topics_max

    def _wanted_here(self) -> dict[str, None]:
        topics = dict.fromkeys(self._configured)
        for peer in sorted(self._insiders - self.bridge_peers):
            topics |= self._announced.get(peer, {})
        return topics
