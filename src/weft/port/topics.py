"""Topics and streams as clients may see them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Final, NamedTuple

from weft.core.errors import TopicReserved
from weft.core.messages import StreamKey
from weft.core.topics import is_own, selects
from weft.limits import LOOK_STREAMS_AT_ONCE, OFFSET_MAX, PARTITIONS_MAX
from weft.log import Log, StreamInfo
from weft.model import Epoch, NodeId, Pattern, Stream, Topic, parse_topic
from weft.model.topic import read_owned
from weft.port.access import Caller
from weft.port.history import Archived, History, HistoryAway
from weft.port.pages import PageRoom
from weft.wire.mesh import mesh_pb2 as pb

TOPIC_INFO_BYTES: Final = 50  # the rough size of what a reply says about a topic, without its name
TOPICS_KEPT_MAX: Final = 16_384  # names that were found valid: they come again with every batch


@lru_cache(TOPICS_KEPT_MAX)
def read_topic_untrusted(text: str) -> Topic:
    """Read a topic to which clients may publish."""
    topic = parse_topic(text)
    if is_own(topic) and read_owned(topic) is None:
        raise TopicReserved("topics below weft. belong to the mesh; publish to another one", topic=topic)
    return topic


async def topics_of(
    streams: KnownStreams, pattern: Pattern, caller: Caller, room: PageRoom, after: str
) -> tuple[list[pb.TopicInfo], str]:
    """Return the matching topics that the caller may subscribe to, as many as fit. Return also the last of them if
    there may be more."""
    found: list[pb.TopicInfo] = []
    async for (stream, _), info, archived in streams.matching(pattern, _behind(after) if after else None):
        name = stream.topic
        if not found or found[-1].topic != name:
            if not caller.may_subscribe(Pattern(name)):
                continue
            if room.is_full:
                return found, found[-1].topic
            found.append(pb.TopicInfo(topic=name))
            room.take(len(name) + TOPIC_INFO_BYTES)
        topic = found[-1]
        topic.streams += 1
        if info is not None:
            topic.events += info.end - info.start
            topic.published += info.end
            topic.bytes += info.bytes
            topic.last_timestamp_us = max(topic.last_timestamp_us, info.latest_us, 0)
        if archived is not None:
            known_us = topic.history_since_us if topic.history_events else archived.first_us
            topic.history_events += archived.events
            topic.history_since_us = min(known_us, archived.first_us)
    return found, ""


def _behind(topic: str) -> tuple[Stream, Epoch]:
    """A place after all streams of a topic."""
    return Stream(parse_topic(topic), NodeId(chr(sys.maxunicode)), PARTITIONS_MAX - 1), Epoch(OFFSET_MAX)


async def streams_of(log: Log, pattern: Pattern, after: tuple[Stream, Epoch] | None) -> AsyncIterator[StreamInfo]:
    """Yield the streams that a subscription to the pattern would select, in order. Other tasks get their turn now and
    then, because there may be a hundred thousand streams."""
    while True:
        infos, after = log.streams_after(pattern, after, LOOK_STREAMS_AT_ONCE)
        for info in infos:
            if selects(pattern, info.stream.topic):
                yield info
        if after is None:
            return
        await asyncio.sleep(0)


# --- with what archive tables have -----------------------------------------------------------------------------------


class Known(NamedTuple):
    """A stream, and what the log, a table or both have of it."""

    key: StreamKey
    info: StreamInfo | None
    archived: Archived | None


class KnownStreams:
    """Streams of the log and of tables, each once, in order. ``problem``: why tables are missing or incomplete."""

    def __init__(self, log: Log, history: History | None) -> None:
        self._log = log
        self._history = history
        self.problem = ""

    async def matching(
        self, pattern: Pattern, after: StreamKey | None, since_us: int | None = None
    ) -> AsyncIterator[Known]:
        """The streams that a subscription to the pattern would select."""
        infos = streams_of(self._log, pattern, after)
        tables = self._archived(pattern, after, since_us)
        info, archived = await anext(infos, None), await anext(tables, None)
        while info is not None or archived is not None:
            keys = [each for each in (_key_of(info), archived and archived.key) if each is not None]
            key = min(keys)
            is_here, is_there = _key_of(info) == key, archived is not None and archived.key == key
            yield Known(key, info if is_here else None, archived if is_there else None)
            info = await anext(infos, None) if is_here else info
            archived = await anext(tables, None) if is_there else archived

    async def _archived(
        self, pattern: Pattern, after: StreamKey | None, since_us: int | None
    ) -> AsyncIterator[Archived]:
        if self._history is None:
            return
        try:
            async for each in self._history.streams(pattern, after, since_us):
                if selects(pattern, each.stream.topic):
                    yield each
        except HistoryAway as error:
            self.problem = str(error)


def _key_of(info: StreamInfo | None) -> StreamKey | None:
    return None if info is None else (info.stream, info.epoch)
