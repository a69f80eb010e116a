"""What a bridge hears in the namespace, before anything is decided about it: subscriptions, and the events on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from weft.coaty.observing import Observation
from weft.coaty.peer import Peer, Tap
from weft.errors import PeerError, UsageError
from weft.gateway.coaty.learning import Learned, is_of_object_type
from weft.gateway.coaty.memory import Remembered, identity_of
from weft.gateway.coaty.outbound import Questions
from weft.gateway.coaty.sharing import MAGIC, Bridge, Heard, is_marked, said_of
from weft.wire.coaty import RESPONSE_TO, Topic, in_namespace, parse_topic_untrusted
from weft.wire.libp2p import PeerId, floodsub
from weft.wire.libp2p.floodsub import Subscription

COATY_RELAYED_MAX: Final = 512  # questions between agents whose answers are passed on; each is a subscription


class _Question(msgspec.Struct):
    correlationId: str  # noqa: N815


class Listening(Tap):
    """The bridge's ``Tap``. Callbacks: ``on_came`` and ``on_left`` for neighbours of the namespace, ``on_wants`` when a
    neighbour wants something else than before."""

    def __init__(
        self,
        peer: Peer,
        namespace: str,
        mark: bytes,
        always: Iterable[str],
        heard: Remembered,
        said: Remembered,
        learned: Learned,
    ) -> None:
        self.on_came: Callable[[str], None] = lambda peer: None
        self.on_left: Callable[[str], None] = lambda peer: None
        self.on_wants: Callable[[], None] = lambda: None
        self._peer = peer
        self._namespace = namespace
        self._mark = mark
        self._always = frozenset(always)
        self._heard = heard
        self._said = said
        self._learned = learned
        self._target: Observation[Heard] | None = None
        self._bridged: dict[str, Callable[[], None]] = {}  # topics whose events are carried over, and how to leave them
        self._named: set[str] = set()  # those of them that are learned or configured
        self._relayed = Questions(self._relay, COATY_RELAYED_MAX)
        self._deaths = 0
        self.news = asyncio.Event()  # set whenever something was heard
        self._peers: dict[str, PeerId] = {}  # neighbours of the namespace, by their ids as text

    def begin(self, target: Observation[Heard]) -> None:
        """Give everything that is heard to ``target``."""
        self._target = target
        for topic in sorted(self._always):
            self.subscribe(topic)

    # --- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(self, topic: str) -> Callable[[], None]:
        """Carry over what comes on a topic, until the function that this returns is called."""
        leave = self._bridged[topic] = self._peer.dispatch.add(topic, _take_nothing)

        def end() -> None:
            self._bridged.pop(topic, None)
            leave()

        return end

    def listen(self, topics: Sequence[str]) -> tuple[str, ...]:
        """Listen to exactly these of the topics that have to be named; return those that we listen to now."""
        wanted = set(topics)
        for topic in self._named - wanted:
            self._bridged.pop(topic)()
        for topic in [topic for topic in topics if topic not in self._named]:
            try:
                self.subscribe(topic)
            except UsageError:  # as many as a peer can have; the first ones stay
                wanted.discard(topic)
        self._named = wanted
        return tuple(sorted(wanted))

    def passes_on(self, peer: str, topic: str) -> bool:
        """Whether a neighbour gets what we hear on a topic."""
        found = self._peers.get(peer)
        return found is not None and self._peer.sends_to(found, topic)

    def islands_near(self, near: Mapping[Bridge, Iterable[str]], topic: str) -> frozenset[str]:
        """Other islands with an agent between their bridges and us that passes on what is said on a topic: what is said
        there is heard here."""
        if not near or topic not in self._peer.topics:
            return frozenset()
        found = (bridge.island for bridge, peers in near.items() if any(self.passes_on(peer, topic) for peer in peers))
        return frozenset(island for island in found if island)

    def forget(self, now_s: float) -> None:
        self._relayed.forget(now_s)

    def _relay(self, topic: str) -> Callable[[], None]:
        """Answers reach the asker only through neighbours that are subscribed, so a bridge between two agents
        subscribes."""
        return self._peer.dispatch.add(topic, _take_nothing)

    # --- what is heard -------------------------------------------------------------------------------------------

    def heard(self, message: floodsub.Message) -> bool:
        for topic in message.topics:
            self._note_question(topic, message.data)
        self.news.set()
        if is_marked(message.seqno, self._mark):
            self._said.add(said_of(message.seqno))
            return False
        identity = identity_of(message.id)
        self._heard.add(identity)
        is_foreign = is_marked(message.seqno, MAGIC)
        for topic in message.topics:
            if topic in self._bridged and not is_of_object_type(topic, self._namespace):
                is_answer = topic not in self._named and topic not in self._always
                self._put(Heard(topic, message.data, identity, str(message.origin), is_foreign, is_answer))
        return True

    def died(self, topic: str, last_will: bytes) -> None:
        """Each bridge notices a death separately, so there is no common identity: each notice counts."""
        self._deaths += 1
        identity = identity_of(b"will", last_will, str(self._peer.host.peer).encode(), self._deaths.to_bytes(8))
        self._put(Heard(topic, last_will, identity, ""))

    def _put(self, event: Heard) -> None:
        if self._target is not None:
            self._peer.dispatch.put(self._target, event, len(event.payload))

    def _note_question(self, topic: str, payload: bytes) -> None:
        if not in_namespace(topic, self._namespace):
            return
        try:
            event = parse_topic_untrusted(topic).event
            if event not in RESPONSE_TO:
                return
            question = msgspec.json.decode(payload, type=_Question)
            answers = Topic(self._namespace, RESPONSE_TO[event], correlation_id=question.correlationId)
            self._relayed.asked(str(answers), asyncio.get_running_loop().time())
        except (PeerError, UsageError, msgspec.MsgspecError, UnicodeDecodeError):
            return  # no question, or one too many: closer reading will show that

    # --- who comes and goes --------------------------------------------------------------------------------------

    def came(self, peer: PeerId) -> None:
        self._peers[str(peer)] = peer
        self._learned.came(str(peer))
        self.on_came(str(peer))
        self.on_wants()

    def left(self, peer: PeerId) -> None:
        self._peers.pop(str(peer), None)
        self._learned.left(str(peer))
        self.on_left(str(peer))
        self.on_wants()

    def wants(self, peer: PeerId, changes: Sequence[Subscription]) -> None:
        if self._learned.announced(str(peer), changes):
            self.on_wants()


def _take_nothing(topic: str, payload: bytes) -> None:
    """The tap has heard it."""
