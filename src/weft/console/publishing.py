"""Publishing one event from a page, with the checks and the receipt that every client gets."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Final, Literal

import msgspec

from weft.core.messages import Receipted
from weft.errors import UsageError, WeftError
from weft.model import Batch, Event, Receipt, Topic
from weft.port.access import Caller
from weft.port.errors import Busy, TooLarge
from weft.port.held import Use
from weft.port.node import MeshNode
from weft.port.schemas import check_one
from weft.port.topics import read_topic_untrusted

RECEIPT_WAIT_S: Final = 8.0  # for copies at other nodes, if the topic wants some: before the door closes the request
HEADERS_MAX: Final = 64


class WantedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page sends."""

    topic: str
    payload: str = ""
    encoding: Literal["text", "base64"] = "text"
    key: str | None = None
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=HEADERS_MAX)] = {}

    def event(self, now_us: int) -> Event:
        """Raise UsageError."""
        key = self.key.encode() if self.key else None
        return Event(self._payload(), now_us, key, self.headers or None)

    def _payload(self) -> bytes:
        if self.encoding == "text":
            return self.payload.encode()
        try:
            return b64decode(self.payload, validate=True)
        except (BadBase64, ValueError):
            raise UsageError("the payload is not base64") from None


class OnePublish:
    """``PublishClient`` for one event."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        if not self.outcome.done():
            self.outcome.set_result(receipts[0][1].receipt)

    def refused(self, request: int, error: WeftError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def drain(self) -> None:
        """What is owed still comes."""


async def publish(node: MeshNode, caller: Caller, wanted: WantedEvent, now_us: int, now_s: float) -> Receipt:
    """Durable when it returns; raise WeftError. ``now_s`` is of a monotonic clock."""
    return await publish_event(node, caller, read_topic_untrusted(wanted.topic), wanted.event(now_us), now_s)


async def publish_event(node: MeshNode, caller: Caller, topic: Topic, event: Event, now_s: float) -> Receipt:
    caller.check_publish(topic)
    batch = Batch.from_events([event])
    size, limit = len(batch.data), node.limits.batch_bytes_max
    if size > limit:
        raise TooLarge("the event is too large", bytes=size, limit=limit)
    node.quotas.usage(caller).publish(node.log, node.node_id, topic, 1, size, now_s)
    client = OnePublish()
    with closing(node.held.holding(caller.who, Use.PUBLISH)) as holding:
        await holding.room()
        holding.take(size)
        await check_one(node.checks, topic, event.payload)
        node.join(client)
        try:
            node.publish(client, 1, topic, 0, batch, 0)
            async with asyncio.timeout(RECEIPT_WAIT_S):
                return await client.outcome
        except TimeoutError:
            raise Busy("the event is stored, but not yet on as many nodes as its topic requires", topic=topic) from None
        finally:
            node.leave(client)
