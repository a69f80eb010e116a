"""From the namespace to the mesh: every event that this bridge hears becomes an event of the mesh.

The payload stays as it came. Headers say who sent it, and that it came from the namespace, so that it never goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from structlog.stdlib import BoundLogger

from weft.coaty.observing import Observation
from weft.errors import PeerError, UsageError, WeftError
from weft.gateway.coaty.learning import Learned, is_learnable
from weft.gateway.coaty.memory import IDENTITY_HEADER, Remembered, identity_of
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.sharing import Bridge, Heard, Held, Sharing
from weft.gateway.coaty.topics import mesh_topic, raw_mesh_topic
from weft.gateway.publishing import Publishing
from weft.limits import COATY_OBSERVED_BYTES_MAX, COATY_OBSERVED_MAX, COATY_PAYLOAD_BYTES_MAX
from weft.model import Receipt
from weft.model import Topic as MeshTopic
from weft.wire.coaty import (
    Advertise,
    CoatyObject,
    CoreType,
    Deadvertise,
    Discover,
    EventType,
    Message,
    Topic,
    Update,
    decode_event_untrusted,
    encode_payload,
    is_coaty_topic,
    parse_topic_untrusted,
)
from weft.wire.coaty.jsonvalues import decode_json_untrusted, encode_json
from weft.wire.coaty.messages import topics_of

BRIDGE_HEADER: Final = "coaty-bridge"  # the agent id of the bridge that carried it over
ISLAND_HEADER: Final = "coaty-island"  # where it was heard: it goes out only on other islands
NOWHERE: Final = "*"  # as an island: it goes out nowhere, because another mesh has carried it already
PEER_HEADER: Final = "coaty-peer"  # the libp2p peer that sent it
SOURCE_HEADER: Final = "coaty-source-id"
CORRELATION_HEADER: Final = "coaty-correlation-id"
TYPE_HEADER: Final = "coaty-object-type"
COATY_KNOWN_MAX: Final = 65_536  # objects; a bridge that asks finds a forgotten one again


@dataclass(slots=True)
class InFigures:
    """Counts since the start; changed in place."""

    published: int = 0
    left_to_others: int = 0  # another bridge carries them over
    taken_over: int = 0  # of those, when the other bridge was gone; counted as published, too
    repeated: int = 0  # the mesh has them already
    rejected: int = 0  # no Coaty events, or impossible on the mesh
    refused: int = 0  # by the node, which is full or shutting down


class Inbound:
    """``island``, ``passes_on(peer, topic)`` and ``has_asked(topic of answers)`` are called for each event. Nothing is
    carried over before ``settle``: until then it is unknown whether another bridge does it."""

    def __init__(
        self,
        namespace: str,
        bridge_id: str,
        publishing: Publishing,
        sharing: Sharing,
        learned: Learned,
        brought: Remembered,
        objects: Objects,
        passes_on: Callable[[str, str], bool],
        has_asked: Callable[[str], bool],
        island: Callable[[], str],
        logger: BoundLogger,
    ) -> None:
        self.figures = InFigures()
        self.held = Held()
        self._namespace = namespace
        self._bridge_id = bridge_id
        self._publishing = publishing
        self._sharing = sharing
        self._learned = learned
        self._brought = brought
        self._objects = objects
        self._passes_on = passes_on
        self._has_asked = has_asked
        self._island = island
        self._logger = logger
        self._is_settled = False
        self._early: dict[str, tuple[str, CoatyObject]] = {}  # found before we were settled, by object id
        self._told_us: dict[str, int] = {}  # when the mesh's state last said something of an object
        self._known: dict[str, str] = {}  # by object id, the last that was advertised or found of it
        self._pending = self._pending_bytes = 0  # given to the node, and not synced yet
        self._room = asyncio.Event()

    async def run(self, heard: Observation[Heard]) -> None:
        """Handle one event after the other. While the node is slow, nothing is taken, which slows agents down."""
        async for event in heard:
            self.heard(event)
            while self._pending >= COATY_OBSERVED_MAX or self._pending_bytes >= COATY_OBSERVED_BYTES_MAX:
                self._room.clear()
                await self._room.wait()

    def heard(self, event: Heard) -> None:
        """Take an event on a topic to which the bridge is subscribed."""
        found = self._read(event)
        if found is None:
            return
        target, message = found
        if message is not None:
            if self._is_among_bridges(event, message):
                return
            self._learn(message)
        if event.identity in self._brought:
            self.figures.repeated += 1
        elif not self._is_settled:
            self.held.keep(event, self._now_s())
        elif not self._is_ours(event):
            self.figures.left_to_others += 1
            self.held.keep(event, self._now_s())
        else:
            self._bring(event, target, message)

    def found(self, source_id: str, existing: CoatyObject) -> None:
        """An object was there before us, or came unheard: for the mesh, it counts as advertised now."""
        if not self._is_settled:
            if len(self._early) < COATY_KNOWN_MAX:
                self._early[existing["objectId"]] = source_id, existing
            return
        identity = self._know(existing)
        if identity in self._brought:
            return
        try:
            message = Message(source_id, Advertise(existing))
            topic, payload = str(topics_of(self._namespace, message)[0]), encode_payload(message)
        except UsageError as error:  # its type fits no topic, or written again it is too long
            self._reject(f"an answer of {source_id}", error)
            return
        event = Heard(topic, payload, identity, source_id)
        read = self._read(event)
        if read is not None:
            self._bring(event, *read)

    def is_told(self, object_id: str, payload: bytes, told_us: int) -> None:
        """What the mesh's state of the namespace has of an object, through any bridge: found, it is not new."""
        if told_us < self._told_us.get(object_id, 0):
            return  # of another bridge, and older
        self._told_us.pop(object_id, None)
        self._told_us[object_id] = told_us
        if len(self._told_us) > COATY_KNOWN_MAX:
            del self._told_us[next(iter(self._told_us))]
        if not payload:
            self._brought.discard(self._known.pop(object_id, ""))
            return
        try:
            told = decode_json_untrusted(payload, "object", COATY_PAYLOAD_BYTES_MAX)
        except PeerError:
            return  # clients of the mesh may write there what they like
        if isinstance(told, dict) and told.get("objectId") == object_id:
            self._brought.add(self._know(told))

    # --- sharing -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Other bridges are known by now, and so is what the mesh has."""
        self._is_settled = True
        self.take_over()
        early, self._early = self._early, {}
        for source_id, existing in early.values():
            self.found(source_id, existing)

    def expire(self) -> None:
        self.held.expire(self._now_s())

    def is_in_mesh(self, identity: str) -> None:
        """Some bridge has carried it over."""
        self._brought.add(identity)
        self.held.release(identity)

    def _is_ours(self, event: Heard) -> bool:
        if event.is_answer:
            return self._has_asked(event.topic) or not self._is_heard_by_who_asked(event)
        return self._sharing.is_ours(event.origin, lambda bridge: self._hears(bridge, event))

    def _is_heard_by_who_asked(self, answer: Heard) -> bool:
        """Within an island, only the bridge that has asked listens to answers; of islands near each other, the first
        asks."""
        island = self._island()
        return any("" < each.island < island and answer.origin in each.beside for each in self._sharing.near)

    def _hears(self, bridge: Bridge, event: Heard) -> bool:
        """Whether a bridge gets what we hear on a topic, and treats it as an event."""
        topic, between = event.topic, self._sharing.near.get(bridge)
        if between is None:
            is_told = self._passes_on(bridge.peer, topic)
        else:
            is_told = event.origin in bridge.beside or any(self._passes_on(peer, topic) for peer in between)
        if not is_told:
            return False
        return not is_learnable(topic, self._namespace) or self._learned.is_heard_by(bridge.agent_id, topic)

    def take_over(self) -> None:
        """Bridges have come or gone: events that were left to gone bridges are now for others."""
        if not self._is_settled:
            return
        for event in self.held.take(self._is_ours):
            read = self._read(event)
            if read is not None and event.identity not in self._brought:
                self.figures.taken_over += 1
                self._bring(event, *read)

    def _is_among_bridges(self, event: Heard, message: Message) -> bool:
        """Whether this is a bridge's question for objects, which is not carried over."""
        return isinstance(message.data, Discover) and (
            message.source_id == self._bridge_id or event.origin in self._learned.bridge_peers
        )

    def _learn(self, message: Message) -> None:
        match message.data:
            case Advertise(advertised):
                self._brought.add(self._know(advertised))  # so that it is not found as well
            case Deadvertise(object_ids):
                for object_id in object_ids:
                    self._brought.discard(self._known.pop(object_id, ""))
            case _:
                pass

    def _know(self, advertised: CoatyObject) -> str:
        """A digest of an object's current content: the same whether it was advertised or found by a query."""
        identity = _identity_of_object(advertised)
        self._known.pop(advertised["objectId"], None)
        self._known[advertised["objectId"]] = identity
        if len(self._known) > COATY_KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return identity

    # --- bringing over -------------------------------------------------------------------------------------------

    def _read(self, event: Heard) -> tuple[MeshTopic, Message | None] | None:
        """Where it goes in the mesh, and what it says, if we can read it; None if it is no Coaty event."""
        try:
            if not is_coaty_topic(event.topic):
                return raw_mesh_topic(self._namespace, event.topic), None
            topic = parse_topic_untrusted(event.topic)
            target = mesh_topic(Topic(self._namespace, topic.event, topic.filter, topic.correlation_id))
            return target, read_message_untrusted(topic, event.payload)
        except (PeerError, UsageError) as error:
            self._reject(event.topic, error)
            return None

    def _reject(self, topic: str, error: WeftError) -> None:
        self.figures.rejected += 1
        self._logger.info("coaty_event_rejected", topic=topic, reason=str(error))

    def _bring(self, event: Heard, target: MeshTopic, message: Message | None) -> None:
        self._pending += 1
        self._pending_bytes += len(event.payload)
        self._brought.add(event.identity)
        key = None if message is None else key_of(message)
        headers = self._headers(event, message)
        self._publishing.add(target, event.payload, key, headers, _Waiting(self, event))
        if message is not None:
            self._objects.happened(message)

    def _headers(self, event: Heard, message: Message | None) -> Mapping[str, str]:
        headers = {
            BRIDGE_HEADER: self._bridge_id,
            ISLAND_HEADER: NOWHERE if event.is_foreign else self._island(),
            IDENTITY_HEADER: event.identity,
            PEER_HEADER: event.origin,
        }
        if message is not None:
            headers[SOURCE_HEADER] = message.source_id
            if message.correlation_id is not None:
                headers[CORRELATION_HEADER] = message.correlation_id
            if isinstance(message.data, Advertise | Update):
                headers[TYPE_HEADER] = message.data.object["objectType"]
        return headers

    # --- what becomes of it --------------------------------------------------------------------------------------

    def settled(self, event: Heard, error: WeftError | None) -> None:
        self._pending -= 1
        self._pending_bytes -= len(event.payload)
        self._room.set()
        if error is None:
            self.figures.published += 1
        else:
            self.figures.refused += 1
            self._brought.discard(event.identity)
            self._logger.warning("coaty_event_refused", reason=str(error))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


class _Waiting:
    """Waits for the outcome of one event."""

    __slots__ = ("_event", "_inbound")

    def __init__(self, inbound: Inbound, event: Heard) -> None:
        self._inbound = inbound
        self._event = event

    def published(self, receipt: Receipt, number: int) -> None:
        self._inbound.settled(self._event, None)

    def refused(self, error: WeftError) -> None:
        self._inbound.settled(self._event, error)


def read_message_untrusted(topic: Topic, payload: bytes) -> Message | None:
    """None for an IO value that is just bytes; only its source and its actors know what they mean."""
    try:
        return decode_event_untrusted(topic, payload)
    except PeerError:
        if topic.event is EventType.IO_VALUE:
            return None
        raise


def key_of(message: Message) -> bytes | None:
    """Events of one object, or of one conversation, belong together."""
    if message.correlation_id is not None:
        return message.correlation_id.encode()
    return message.data.object["objectId"].encode() if isinstance(message.data, Advertise) else None


def _identity_of_object(known: CoatyObject) -> str:
    return identity_of(b"object", encode_json(dict(sorted(known.items())), "object", COATY_OBSERVED_BYTES_MAX))


def listened_always(namespace: str) -> list[str]:
    """Topics that need no configuration. What is advertised or updated comes under its core type, whatever else it
    is."""
    typed = [Topic(namespace, event, core) for event in (EventType.ADVERTISE, EventType.UPDATE) for core in CoreType]
    plain = [EventType.DEADVERTISE, EventType.DISCOVER, EventType.QUERY, EventType.IO_VALUE]
    return [str(topic) for topic in [*typed, *(Topic(namespace, event) for event in plain)]]


def listened_by_name(
    namespace: str,
    channels: Iterable[str],
    operations: Iterable[str],
    io_contexts: Iterable[str],
    raw_topics: Iterable[str],
) -> list[str]:
    """Topics that are configured, because no agent announces them."""
    names = {EventType.CHANNEL: channels, EventType.CALL: operations, EventType.ASSOCIATE: io_contexts}
    return [*(str(Topic(namespace, event, name)) for event, named in names.items() for name in named), *raw_topics]
