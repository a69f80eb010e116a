"""Work over very many things in pieces, so that the event loop does not stand still (SEC-05)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from heapq import merge, nsmallest
from typing import Final, NamedTuple

from weft.core.messages import StreamKey
from weft.log import Log
from weft.node.figures import OTHER, TopicFigures

LOOKED_AT_ONCE: Final = 1_024  # things that are added up or sorted in one turn of the loop: a few milliseconds


class Breath:
    """Lets others have their turn after every LOOKED_AT_ONCE things."""

    def __init__(self) -> None:
        self._left = LOOKED_AT_ONCE

    async def take(self, things: int = 1) -> None:
        self._left -= things
        if self._left <= 0:
            self._left = LOOKED_AT_ONCE
            await asyncio.sleep(0)


class LogTotals(NamedTuple):
    streams: int = 0
    events: int = 0
    bytes: int = 0


async def log_totals(log: Log) -> LogTotals:
    """The totals of all streams."""
    states = list(log.states())
    events = size = 0
    for first in range(0, len(states), LOOKED_AT_ONCE):
        some = states[first : first + LOOKED_AT_ONCE]
        events += sum(state.durable - state.start for state in some)
        size += sum(state.bytes_end - state.bytes_start for state in some)
        await asyncio.sleep(0)
    return LogTotals(len(states), events, size)


async def largest_topics(log: Log, most: int) -> list[TopicFigures]:
    """The largest by bytes, and the rest as one. Empty if nobody asked for any."""
    if most == 0:
        return []
    breath = Breath()
    events: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for state in list(log.states()):
        events[state.stream.topic] += state.durable
        sizes[state.stream.topic] += state.bytes_end - state.bytes_start
        await breath.take()
    largest: list[tuple[int, str]] = []
    topics = list(sizes)
    for first in range(0, len(topics), LOOKED_AT_ONCE):
        some = [(-sizes[topic], topic) for topic in topics[first : first + LOOKED_AT_ONCE]]
        largest = nsmallest(most, [*largest, *some])
        await asyncio.sleep(0)
    found = [TopicFigures(topic, events[topic], -size) for size, topic in largest]
    rest_events = sum(events.values()) - sum(each.events for each in found)
    rest_bytes = sum(sizes.values()) - sum(each.size_bytes for each in found)
    return [*found, *([TopicFigures(OTHER, rest_events, rest_bytes)] if len(topics) > most else [])]


async def in_order(keys: Sequence[StreamKey]) -> list[StreamKey]:
    """The same, sorted."""
    runs: list[list[StreamKey]] = []
    for first in range(0, len(keys), LOOKED_AT_ONCE):
        runs.append(sorted(keys[first : first + LOOKED_AT_ONCE]))
        await asyncio.sleep(0)
    breath, ordered = Breath(), list[StreamKey]()
    for key in merge(*runs):
        ordered.append(key)
        await breath.take(4)
    return ordered
