"""Topics and streams as clients may see them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Final

from weft.core.errors import TopicReserved
from weft.core.topics import is_own, selects
from weft.limits import LOOK_STREAMS_AT_ONCE, OFFSET_MAX, PARTITIONS_MAX
from weft.log import Log, StreamInfo
from weft.model import Epoch, NodeId, Pattern, Stream, Topic, parse_topic
from weft.model.owned import read_owned
from weft.port.access import Caller
from weft.port.pages import PageRoom
from weft.wire.mesh import mesh_pb2 as pb

TOPIC_INFO_BYTES: Final = 50  # about, of what is told of a topic beside its name
TOPICS_KEPT_MAX: Final = 16_384  # names that were found good: they come again with every batch


@lru_cache(TOPICS_KEPT_MAX)
def read_topic_untrusted(text: str) -> Topic:
    """A topic that clients may publish to."""
    topic = parse_topic(text)
    if is_own(topic) and read_owned(topic) is None:
        raise TopicReserved("topics below weft. belong to the mesh; publish to another one", topic=topic)
    return topic


async def topics_of(
    log: Log, pattern: Pattern, caller: Caller, room: PageRoom, after: str
) -> tuple[list[pb.TopicInfo], str]:
    """Of those that match, the ones that the caller may subscribe to, as far as there is room; and the last of them if
    there may be more."""
    found: list[pb.TopicInfo] = []
    async for info in streams_of(log, pattern, _behind(after) if after else None):
        name = info.stream.topic
        if not found or found[-1].topic != name:
            if not caller.may_subscribe(Pattern(name)):
                continue
            if room.is_full:
                return found, found[-1].topic
            found.append(pb.TopicInfo(topic=name))
            room.take(len(name) + TOPIC_INFO_BYTES)
        topic = found[-1]
        topic.streams += 1
        topic.events += info.end - info.start
        topic.published += info.end
        topic.bytes += info.bytes
        topic.last_timestamp_us = max(topic.last_timestamp_us, info.latest_us, 0)
    return found, ""


def _behind(topic: str) -> tuple[Stream, Epoch]:
    """A place after all streams of a topic."""
    return Stream(parse_topic(topic), NodeId(chr(sys.maxunicode)), PARTITIONS_MAX - 1), Epoch(OFFSET_MAX)


async def streams_of(log: Log, pattern: Pattern, after: tuple[Stream, Epoch] | None) -> AsyncIterator[StreamInfo]:
    """Streams as a subscription to the pattern would select them, in order; with a breath for others now and then:
    there may be a hundred thousand."""
    while True:
        infos, after = log.streams_after(pattern, after, LOOK_STREAMS_AT_ONCE)
        for info in infos:
            if selects(pattern, info.stream.topic):
                yield info
        if after is None:
            return
        await asyncio.sleep(0)
