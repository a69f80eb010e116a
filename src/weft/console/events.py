"""The event browser: the newest events of a pattern, within a time range, with a key; and one event as a whole.

Streams are read backwards from their ends, here or at a node that has them. Searches are bounded, and say how far back
they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.console.asking import Asker, Asking
from weft.console.payloads import PAYLOAD_BYTES_MAX, PREVIEW_BYTES_MAX, decoded_untrusted, event_view
from weft.errors import UsageError, WeftError
from weft.limits import EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN, MIB
from weft.log.errors import EventsLost, PositionExpired, UnknownStream
from weft.model import Batch, Epoch, Event, EventId, NodeId, Pattern, Stream, parse_event_id, parse_pattern
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import read_stream_untrusted, stream_ref

EVENTS_SHOWN_MAX: Final = 500
STREAMS_SEARCHED_MAX: Final = 64  # those with the latest events
EVENTS_SEARCHED_MAX: Final = 20_000  # of one search with a key or a time: some hundred milliseconds
READ_AT_ONCE_BYTES: Final = 1 * MIB
READ_BYTES_MAX: Final = 16 * MIB  # of one search
KEY_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Search:
    """``begin_us`` and ``end_us`` are Unix times in microseconds, the end not included."""

    pattern: Pattern
    begin_us: int | None
    end_us: int | None
    key: bytes | None
    count: int

    @classmethod
    def read_untrusted(cls, query: Mapping[str, str]) -> Search:
        """Raise UsageError."""
        key = query.get("key") or None
        if key is not None and len(key.encode()) > KEY_BYTES_MAX:
            raise UsageError("the key is too long", limit=KEY_BYTES_MAX)
        begin_us, end_us = _time_untrusted(query, "begin_us"), _time_untrusted(query, "end_us")
        if begin_us is not None and end_us is not None and begin_us >= end_us:
            raise UsageError("the time range is empty: it ends before it begins")
        count = number_untrusted(query, "count", 100, 1, EVENTS_SHOWN_MAX)
        return cls(parse_pattern(query.get("pattern") or ">"), begin_us, end_us, key and key.encode(), count)

    @property
    def is_narrow(self) -> bool:
        """Whether events may have to be passed over."""
        return self.key is not None or self.begin_us is not None or self.end_us is not None

    def takes(self, event: Event) -> bool:
        return (
            (self.key is None or event.key == self.key)
            and (self.begin_us is None or event.timestamp_us >= self.begin_us)
            and (self.end_us is None or event.timestamp_us < self.end_us)
        )


@dataclass(frozen=True, slots=True)
class Holding:
    """A stream at a node that has it: offsets from ``first`` up to but not including ``end``."""

    node_id: NodeId
    stream: Stream
    epoch: Epoch
    first: int
    end: int
    bytes: int
    latest_us: int


@dataclass(slots=True)
class Budget:
    """What a search may still do. Mutable: it is spent."""

    events: int
    bytes: int


class EventBrowser:
    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def search(self, search: Search, asker: Asker) -> dict[str, Any]:
        """Raise WeftError. The newest first."""
        asker.caller.check_subscribe(search.pattern)
        request = pb.PositionsRequest(pattern=search.pattern, page=pb.Page(limit=0))
        replies = await self._asking.everywhere("Positions", request, asker)
        holdings = holdings_of(self._asking.node.node_id, replies)
        if search.begin_us is not None:
            holdings = [each for each in holdings if each.latest_us >= search.begin_us]
        found: list[tuple[Event, EventId]] = []
        budget = Budget(EVENTS_SEARCHED_MAX, READ_BYTES_MAX)
        for holding in holdings[:STREAMS_SEARCHED_MAX]:
            found += await self._newest(holding, search, asker, budget)
        found.sort(key=lambda each: (each[0].timestamp_us, each[1].offset), reverse=True)
        is_all = len(holdings) <= STREAMS_SEARCHED_MAX and budget.events > 0 and budget.bytes > 0
        return {
            "events": [event_view(place, event, PREVIEW_BYTES_MAX) for event, place in found[: search.count]],
            "complete": is_all and len(found) <= search.count,
            "streams": len(holdings),
            "silent": [node for node, reply in replies.items() if isinstance(reply, WeftError)],
        }

    async def _newest(
        self, holding: Holding, search: Search, asker: Asker, budget: Budget
    ) -> list[tuple[Event, EventId]]:
        """Of one stream, backwards, window by window."""
        found: list[tuple[Event, EventId]] = []
        end = holding.end
        mean_bytes = max(holding.bytes // max(holding.end - holding.first, 1), 1)
        while end > holding.first and len(found) < search.count and budget.events > 0 and budget.bytes > 0:
            wanted = 10 * search.count if search.is_narrow else search.count
            window = max(min(wanted, budget.events, READ_AT_ONCE_BYTES // mean_bytes), 1)
            first = max(end - window, holding.first)
            read = await self._read(holding, first, end, asker, budget)
            budget.events -= end - first
            await asyncio.sleep(0)  # others have their turn
            found += [each for each in reversed(read) if search.takes(each[0])]
            if search.begin_us is not None and read and all(event.timestamp_us < search.begin_us for event, _ in read):
                break
            end = first
        return found[: search.count]

    async def _read(
        self, holding: Holding, first: int, end: int, asker: Asker, budget: Budget
    ) -> list[tuple[Event, EventId]]:
        """In order. What is damaged or gone meanwhile is left out."""
        asking, read = self._asking, []
        while first < end and budget.bytes > 0:
            try:
                if holding.node_id == asking.node.node_id:
                    stored = asking.node.log.read(holding.stream, holding.epoch, first, end, READ_AT_ONCE_BYTES)
                    batches = [Batch.read_stored(each) for each in stored]
                else:
                    request = pb.FetchRequest(
                        stream=stream_ref(holding.stream, holding.epoch), first_offset=first, end_offset=end
                    )
                    fetched = await asking.fetch(holding.node_id, request, asker)
                    batches = [Batch.read_untrusted(each) for each in fetched]
            except (EventsLost, PositionExpired, UnknownStream):
                break
            if not batches:
                break
            for batch in batches:
                budget.bytes -= len(batch.data)
                read += [each for each in placed(holding, batch, first) if each[1].offset < end]
            if batches[-1].end_offset <= first:
                break  # another node's answer that leads nowhere
            first = batches[-1].end_offset
        return read

    async def one(self, text: str, asker: Asker) -> dict[str, Any]:
        """An event by its identity, with as much of its payload as can be shown; raise WeftError."""
        place = parse_event_id(text)
        asker.caller.check_subscribe(Pattern(place.stream.topic))
        for holding in await self._holders(place, asker):
            budget = Budget(1, READ_BYTES_MAX)
            for event, found in await self._read(holding, place.offset, place.offset + 1, asker, budget):
                if found == place:
                    view = event_view(place, event, PAYLOAD_BYTES_MAX)
                    return view | {"decoded": decoded_untrusted(place.stream.topic, event.payload)}
        raise UsageError("no node that can be asked has this event: retention may have removed it", event=text)

    async def _holders(self, place: EventId, asker: Asker) -> list[Holding]:
        request = pb.PositionsRequest(pattern=place.stream.topic, page=pb.Page(limit=0))
        replies = await self._asking.everywhere("Positions", request, asker)
        found = [each for node, reply in replies.items() for each in _holdings_at(node, reply)]
        wanted = [each for each in found if (each.stream, each.epoch) == (place.stream, place.epoch)]
        return [each for each in wanted if each.first <= place.offset < each.end]


def holdings_of(me: NodeId, replies: Mapping[str, Any]) -> list[Holding]:
    """Each stream at one node: this one if it has all that others have. Those with the latest events come first."""
    best: dict[tuple[Stream, Epoch], Holding] = {}
    for node in sorted(replies, key=lambda each: each != me):
        for holding in _holdings_at(node, replies[node]):
            key = (holding.stream, holding.epoch)
            if key not in best or holding.end > best[key].end:
                best[key] = holding
    return sorted(best.values(), key=lambda each: (-each.latest_us, each.stream))


def _holdings_at(node: str, reply: Any) -> Iterable[Holding]:
    if isinstance(reply, WeftError):
        return
    for place in reply.streams:
        info = place.info
        try:
            stream, epoch = read_stream_untrusted(info.stream)
        except WeftError:
            continue  # another node's mistake
        if info.latest_offset > info.earliest_offset:
            yield Holding(
                NodeId(node),
                stream,
                epoch,
                info.earliest_offset,
                info.latest_offset,
                info.bytes,
                info.last_timestamp_us,
            )


def placed(holding: Holding, batch: Batch, first: int) -> list[tuple[Event, EventId]]:
    """The events of a batch from ``first`` on, each with its identity."""
    offset = max(first, batch.base_offset)
    events = batch.events_from(offset)
    return [(event, EventId(holding.stream, holding.epoch, offset + number)) for number, event in enumerate(events)]


def number_untrusted(query: Mapping[str, str], name: str, otherwise: int, least: int, most: int) -> int:
    text = query.get(name, "")
    if not text:
        return otherwise
    if not text.lstrip("-").isdecimal() or len(text) > 20 or not least <= int(text) <= most:
        raise UsageError(f"{name} has to be a number from {least} to {most}")
    return int(text)


def _time_untrusted(query: Mapping[str, str], name: str) -> int | None:
    if not query.get(name):
        return None
    return number_untrusted(query, name, 0, EVENT_TIMESTAMP_US_MIN, EVENT_TIMESTAMP_US_MAX)
