"""Floodsub 1.0 as decisions: which peers want what, and who gets what. It sends nothing, but returns effects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.floodsub import rpc, signing
from weft.wire.libp2p.floodsub.rpc import Message, Rpc, Subscription, check_topic
from weft.wire.libp2p.floodsub.signing import Distrust
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.private_keys import PrivateKey

FLOODSUB_TOPICS_PER_PEER_MAX: Final = 4096  # an open request is a topic; 16 MiB if all are as long as can be
FLOODSUB_SEEN_S: Final = 120.0  # four times as long as the reference remembers
FLOODSUB_SEEN_MAX: Final = 1 << 17  # 120 s at 1,000 messages/s; oldest go first


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``body`` (an RPC without its length) to each of ``peers``."""

    peers: tuple[PeerId, ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Deliver:
    """Give ``message`` to the subscribers here."""

    message: Message


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A neighbour changed what it wants (Coaty's settling time starts again, COA-07)."""

    peer: PeerId
    changes: tuple[Subscription, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message that ``sender`` passed on is not believed."""

    sender: PeerId
    origin: PeerId
    reason: Distrust


ANNOUNCED_AT_ONCE = 512  # topics in one RPC: 2 MiB if all are as long as can be
NOTHING: frozenset[str] = frozenset()

Effect = Send | Deliver | Subscribed | Dropped


class Seen:
    """Which messages have come by, in the order in which they came; bounded in time and number, the oldest go first."""

    def __init__(self, *, seconds_max: float = FLOODSUB_SEEN_S, count_max: int = FLOODSUB_SEEN_MAX) -> None:
        assert count_max > 0, "what was just added must stay"
        self._seconds_max = seconds_max
        self._count_max = count_max
        self._since_s: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    def has(self, message_id: bytes, now_s: float) -> bool:
        since_s = self._since_s.get(message_id)
        return since_s is not None and now_s - since_s < self._seconds_max

    def add(self, message_id: bytes, now_s: float) -> None:
        """Remember ``message_id`` from now on, and forget what is too old or too much."""
        self._since_s.pop(message_id, None)
        self._since_s[message_id] = now_s
        while len(self._since_s) > self._count_max or now_s - self._oldest_s() >= self._seconds_max:
            del self._since_s[next(iter(self._since_s))]

    def _oldest_s(self) -> float:
        return next(iter(self._since_s.values()))


class Router:
    def __init__(self, identity: PrivateKey, seen: Seen | None = None) -> None:
        self._identity = identity
        self._seen = Seen() if seen is None else seen
        self._own_topics: dict[str, None] = {}  # an ordered set, as the next one
        self._open: dict[PeerId, None] = {}  # neighbours that we have a stream to
        self._wanted: dict[PeerId, set[str]] = {}  # by neighbour; one may speak before our stream to it is open

    @property
    def topics(self) -> tuple[str, ...]:
        """What this node is subscribed to."""
        return tuple(self._own_topics)

    def peers_of(self, topic: str) -> frozenset[PeerId]:
        """The neighbours that are subscribed to ``topic``."""
        return frozenset(peer for peer, topics in self._wanted.items() if topic in topics)

    def wants(self, peer: PeerId, topic: str) -> bool:
        """Whether a neighbour is subscribed to ``topic``."""
        return topic in self._wanted.get(peer, NOTHING)

    # --- neighbours ----------------------------------------------------------------------------------------------

    def peer_joined(self, peer: PeerId) -> list[Effect]:
        """A stream to ``peer`` is open: tell it everything we want, and send it what it wants from now on."""
        self._open[peer] = None
        return _announcements([peer], self._own_topics, wanted=True)

    def peer_left(self, peer: PeerId) -> None:
        self._open.pop(peer, None)
        self._wanted.pop(peer, None)

    # --- this node's subscriptions -------------------------------------------------------------------------------

    def subscribe(self, topic: str) -> list[Effect]:
        check_topic(topic)
        if topic in self._own_topics:
            return []
        if len(self._own_topics) >= FLOODSUB_TOPICS_PER_PEER_MAX:
            raise UsageError("too many subscriptions", limit=FLOODSUB_TOPICS_PER_PEER_MAX)
        self._own_topics[topic] = None
        return _announcements(self._open, [topic], wanted=True)

    def unsubscribe(self, topic: str) -> list[Effect]:
        if topic not in self._own_topics:
            return []
        del self._own_topics[topic]
        return _announcements(self._open, [topic], wanted=False)

    # --- messages ------------------------------------------------------------------------------------------------

    def publish(self, topic: str, data: bytes, seqno: bytes, now_s: float) -> list[Effect]:
        """Publish ``data``: to the neighbours that want it, and to this node itself if it is subscribed (COA-01)."""
        message = signing.sign(self._identity, topic, data, seqno)
        # The reference floods a message back to where it came from. It must not be delivered here a second time.
        self._seen.add(message.id, now_s)
        return self._spread(message, self._targets(message, sender=self._identity.peer))

    def receive_rpc(self, sender: PeerId, body: bytes, now_s: float) -> list[Effect]:
        """What follows from an RPC of ``sender``; raise only BadFrame, for which the link should be dropped.

        For a well-formed message that is not believed, only the message is dropped: the sender may have been fooled
        itself.
        """
        received = rpc.decode_untrusted(body)
        effects: list[Effect] = []
        if received.subscriptions:
            self._on_subscriptions(sender, received.subscriptions)
            effects.append(Subscribed(sender, received.subscriptions))
        for message in received.messages:
            effects += self._on_message(sender, message, now_s)
        return effects

    def _on_subscriptions(self, sender: PeerId, changes: tuple[Subscription, ...]) -> None:
        topics = self._wanted.setdefault(sender, set())
        for change in changes:
            if change.wanted:
                topics.add(change.topic)
            else:
                topics.discard(change.topic)
            if len(topics) > FLOODSUB_TOPICS_PER_PEER_MAX:
                raise BadFrame("peer subscribes to too many topics", peer=sender, limit=FLOODSUB_TOPICS_PER_PEER_MAX)

    def _on_message(self, sender: PeerId, message: Message, now_s: float) -> list[Effect]:
        if self._seen.has(message.id, now_s):
            return []
        if message.origin == self._identity.peer:
            return [Dropped(sender, message.origin, Distrust.OWN)]
        targets = self._targets(message, sender)
        if not targets and not self._wants(message):
            return []  # nobody to check it for
        reason = signing.distrust(message)
        if reason is not None:
            return [Dropped(sender, message.origin, reason)]
        # Only now: a forgery that came first must not keep the real message out.
        self._seen.add(message.id, now_s)
        return self._spread(message, targets)

    def _spread(self, message: Message, targets: tuple[PeerId, ...]) -> list[Effect]:
        effects: list[Effect] = []
        if self._wants(message):
            effects.append(Deliver(message))
        if targets:
            effects.append(Send(targets, Rpc(messages=(message,)).encode()))
        return effects

    def _wants(self, message: Message) -> bool:
        return any(topic in self._own_topics for topic in message.topics)

    def _targets(self, message: Message, sender: PeerId) -> tuple[PeerId, ...]:
        """The neighbours that want ``message``, without those that have it: who sent it and who published it."""
        return tuple(
            peer
            for peer in self._open
            if peer not in (sender, message.origin) and not self._wanted.get(peer, NOTHING).isdisjoint(message.topics)
        )


def _announcements(peers: Iterable[PeerId], topics: Iterable[str], *, wanted: bool) -> list[Effect]:
    receivers, changes = tuple(peers), [Subscription(topic, wanted) for topic in topics]
    if not receivers:
        return []
    return [
        Send(receivers, Rpc(subscriptions=tuple(changes[at : at + ANNOUNCED_AT_ONCE])).encode())
        for at in range(0, len(changes), ANNOUNCED_AT_ONCE)
    ]
