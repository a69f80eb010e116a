"""Topics and streams as clients may see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Final

from weft.core.errors import TopicReserved
from weft.core.topics import is_own, selects
from weft.limits import LOOK_STREAMS_AT_ONCE
from weft.log import Log, StreamInfo
from weft.model import Pattern, Topic, parse_topic
from weft.port.access import Caller
from weft.security.acl import OPEN_PREFIXES
from weft.wire.mesh import mesh_pb2 as pb

TOPICS_KEPT_MAX: Final = 16_384  # names that were found good: they come again with every batch


@lru_cache(TOPICS_KEPT_MAX)
def read_topic_untrusted(text: str) -> Topic:
    """A topic that clients may publish to."""
    topic = parse_topic(text)
    if is_own(topic) and not topic.startswith(OPEN_PREFIXES):
        raise TopicReserved("topics below weft. belong to the mesh; publish to another one", topic=topic)
    return topic


def selected(log: Log, pattern: Pattern) -> list[StreamInfo]:
    """Streams as a subscription to the pattern would select them; those that hold nothing and never did left out."""
    return [info for info in log.streams(pattern) if selects(pattern, info.stream.topic)]


async def topics_of(log: Log, pattern: Pattern, caller: Caller) -> list[pb.TopicInfo]:
    """Of those that match, the ones that the caller may subscribe to."""
    found: dict[str, pb.TopicInfo] = {}
    async for info in streams_of(log, pattern):
        if not caller.may_subscribe(Pattern(info.stream.topic)):
            continue
        topic = found.setdefault(info.stream.topic, pb.TopicInfo(topic=info.stream.topic))
        topic.streams += 1
        topic.events += info.end - info.start
        topic.bytes += info.bytes
        topic.last_timestamp_us = max(topic.last_timestamp_us, info.latest_us, 0)
    return list(found.values())


async def streams_of(log: Log, pattern: Pattern) -> AsyncIterator[StreamInfo]:
    """Streams that match, with a breath for others now and then: there may be a hundred thousand."""
    for number, info in enumerate(selected(log, pattern), 1):
        yield info
        if number % LOOK_STREAMS_AT_ONCE == 0:
            await asyncio.sleep(0)
