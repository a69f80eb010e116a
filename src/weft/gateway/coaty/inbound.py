"""From the namespace to the mesh: every event that can be heard becomes an event of the mesh.

The payload stays as it came. Headers say who said it, and that it came from the namespace, so that it never goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from structlog.stdlib import BoundLogger

from weft.coaty.observing import Observation
from weft.errors import PeerError, UsageError, WeftError
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.sharing import Sharing
from weft.gateway.coaty.topics import mesh_topic
from weft.gateway.publishing import Publishing
from weft.limits import COATY_OBSERVED_BYTES_MAX, COATY_OBSERVED_MAX
from weft.model import Receipt
from weft.wire.coaty import (
    Advertise,
    CoreType,
    Deadvertise,
    EventType,
    Message,
    Topic,
    Update,
    decode_event_untrusted,
    parse_topic_untrusted,
)

BRIDGE_HEADER: Final = "coaty-bridge"  # the agent id of the bridge that brought it over
SOURCE_HEADER: Final = "coaty-source-id"
CORRELATION_HEADER: Final = "coaty-correlation-id"
TYPE_HEADER: Final = "coaty-object-type"


@dataclass(slots=True)
class InFigures:
    """Counts since the start; changed in place."""

    published: int = 0
    left_to_others: int = 0  # another bridge brings them over
    rejected: int = 0  # no Coaty events, or not possible on the mesh
    refused: int = 0  # by the node, which is full or shuts down


class Inbound:
    def __init__(
        self,
        namespace: str,
        bridge_id: str,
        publishing: Publishing,
        sharing: Sharing,
        objects: Objects,
        logger: BoundLogger,
    ) -> None:
        self.figures = InFigures()
        self._namespace = namespace
        self._bridge_id = bridge_id
        self._publishing = publishing
        self._sharing = sharing
        self._objects = objects
        self._logger = logger
        self._pending = self._pending_bytes = 0  # handed to the node, and not synced yet
        self._room = asyncio.Event()

    async def run(self, heard: Observation[tuple[str, bytes]]) -> None:
        """One event after the other. While the node is slow nothing is taken, and in the end agents are slowed down."""
        async for topic, payload in heard:
            self.heard(topic, payload)
            while self._pending >= COATY_OBSERVED_MAX or self._pending_bytes >= COATY_OBSERVED_BYTES_MAX:
                self._room.clear()
                await self._room.wait()

    def heard(self, text: str, payload: bytes) -> None:
        """What came on one of the topics that the bridge is subscribed to."""
        try:
            topic = parse_topic_untrusted(text)
            message = decode_event_untrusted(topic, payload)
            target = mesh_topic(Topic(self._namespace, topic.event, topic.filter, topic.correlation_id))
        except (PeerError, UsageError) as error:
            self.figures.rejected += 1
            self._logger.info("coaty_event_rejected", topic=text, reason=str(error))
            return
        self._learn(message)
        if not self._sharing.is_ours(text, payload):
            self.figures.left_to_others += 1
            return
        self._pending += 1
        self._pending_bytes += len(payload)
        self._publishing.add(target, payload, key_of(message), self._headers(message), _Waiting(self, len(payload)))
        self._objects.happened(message)

    def _learn(self, message: Message) -> None:
        match message.data:
            case Advertise(advertised):
                self._sharing.advertised(advertised)
            case Deadvertise(object_ids):
                for object_id in object_ids:
                    self._sharing.deadvertised(object_id)
            case _:
                pass

    def _headers(self, message: Message) -> Mapping[str, str]:
        headers = {BRIDGE_HEADER: self._bridge_id, SOURCE_HEADER: message.source_id}
        if message.correlation_id is not None:
            headers[CORRELATION_HEADER] = message.correlation_id
        if isinstance(message.data, Advertise | Update):
            headers[TYPE_HEADER] = message.data.object["objectType"]
        return headers

    # --- what becomes of it --------------------------------------------------------------------------------------

    def settled(self, size_bytes: int, error: WeftError | None) -> None:
        self._pending -= 1
        self._pending_bytes -= size_bytes
        self._room.set()
        if error is None:
            self.figures.published += 1
        else:
            self.figures.refused += 1
            self._logger.warning("coaty_event_refused", reason=str(error))


class _Waiting:
    """For the outcome of one event."""

    __slots__ = ("_inbound", "_size_bytes")

    def __init__(self, inbound: Inbound, size_bytes: int) -> None:
        self._inbound = inbound
        self._size_bytes = size_bytes

    def published(self, receipt: Receipt, number: int) -> None:
        self._inbound.settled(self._size_bytes, None)

    def refused(self, error: WeftError) -> None:
        self._inbound.settled(self._size_bytes, error)


def key_of(message: Message) -> bytes | None:
    """Events of one object, or of one conversation, belong together."""
    if message.correlation_id is not None:
        return message.correlation_id.encode()
    return message.data.object["objectId"].encode() if isinstance(message.data, Advertise) else None


def listened_topics(
    namespace: str, channels: Iterable[str], operations: Iterable[str], io_contexts: Iterable[str]
) -> list[str]:
    """All topics on which events of interest come. What is advertised or updated comes under its core type, too."""
    filters: dict[EventType, Iterable[str]] = {
        EventType.ADVERTISE: CoreType,
        EventType.UPDATE: CoreType,
        EventType.CHANNEL: channels,
        EventType.CALL: operations,
        EventType.ASSOCIATE: io_contexts,
    }
    named = [Topic(namespace, event, name) for event, names in filters.items() for name in names]
    plain = [EventType.DEADVERTISE, EventType.DISCOVER, EventType.QUERY, EventType.IO_VALUE]
    return [str(topic) for topic in [*named, *(Topic(namespace, event) for event in plain)]]
