"""The last events of topics, anywhere in the mesh: to learn a schema from them, or to check them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import ceil
from operator import attrgetter
from typing import Final

from weft.client.admin import StreamPositions, read_positions_untrusted
from weft.client.errors import RETRYABLE, BadNode, Unavailable
from weft.client.fetch import Fetch, FetchRange
from weft.client.nodes import Nodes
from weft.client.received import Received
from weft.errors import UsageError, WeftError
from weft.model import Pattern
from weft.wire.mesh import mesh_pb2 as pb

SAMPLE_MAX: Final = 100_000  # events in one sample, which memory holds
NODES_ASKED_MAX: Final = 64
PAGES_MAX: Final = 10_000  # from one node: a faulty node could send pages for ever


class Sampling:
    """Asks every node that can be reached. Events that only unreachable nodes have are missing; ``unreached`` names
    these nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.unreached: dict[str, str] = {}  # address -> why

    async def last(self, pattern: Pattern, count: int) -> list[Received]:
        """Return about the last ``count`` events, the oldest first. Each stream contributes equally many. Streams with
        the latest writes are read first."""
        if not 0 < count <= SAMPLE_MAX:
            raise UsageError("so many events cannot be looked at", have=count, limit=SAMPLE_MAX)
        places = await self._places(pattern)
        latest = sorted(places.values(), key=lambda each: -each[1].last_timestamp_us)[:count]
        if not latest:
            return []
        each_of = ceil(count / len(latest))
        found: list[Received] = []
        for address, place in latest:
            found += await self._events(address, place, each_of)
        return sorted(found, key=attrgetter("timestamp_us"))[-count:]

    async def _places(self, pattern: Pattern) -> dict[object, tuple[str, StreamPositions]]:
        """Return each stream that has events, with the address of the node that has the most of it."""
        places: dict[object, tuple[str, StreamPositions]] = {}
        asked: set[str] = set()
        async for address in self._addresses():
            try:
                for place in await self._ask(address, pattern, asked):
                    key = (place.stream, place.epoch)
                    known = places.get(key)
                    if known is None or known[1].latest_offset < place.latest_offset:
                        places[key] = (address, place)
            except RETRYABLE as error:
                self.unreached[address] = str(error)
        if not asked:
            raise Unavailable("no node answers", nodes="; ".join(self.unreached.values())[:500])
        return {key: found for key, found in places.items() if found[1].earliest_offset < found[1].latest_offset}

    async def _addresses(self) -> AsyncIterator[str]:
        """Yield all known addresses, and those that are learned meanwhile."""
        seen: set[str] = set()
        while len(seen) < NODES_ASKED_MAX:
            more = [each for each in self._nodes.book.round(self._nodes.last_good) if each not in seen]
            if not more:
                return
            seen.add(more[0])
            yield more[0]

    async def _ask(self, address: str, pattern: Pattern, asked: set[str]) -> list[StreamPositions]:
        found: list[StreamPositions] = []
        request = pb.PositionsRequest(pattern=pattern, page=pb.Page())
        for _ in range(PAGES_MAX):
            reply = await self._nodes.call_one(
                address,
                "/weft.mesh.v1.Mesh/Positions",
                request,
                pb.PositionsReply,
                self._nodes.options.call_timeout_s,
            )
            if not request.page.token:
                self._nodes.book.learn_untrusted([each for member in reply.members for each in member.addresses])
                if reply.node_id in asked:
                    return []  # the node has several addresses
                asked.add(reply.node_id)
            found += map(read_positions_untrusted, reply.streams)
            if not reply.next_page:
                return found
            if reply.next_page == request.page.token:
                break
            request.page.token = reply.next_page
        raise BadNode("the node gives the same page again", node=address)

    async def _events(self, address: str, place: StreamPositions, count: int) -> list[Received]:
        first = max(place.latest_offset - count, place.earliest_offset)
        fetch = Fetch(self._nodes, [FetchRange(place.stream, place.epoch, first, place.latest_offset)], ())
        found: list[Received] = []
        try:
            async for batches in fetch.from_node(address):
                for batch in batches:
                    found += batch.events()
        except WeftError as error:  # retention has deleted the events meanwhile, or the node is gone
            self.unreached[address] = str(error)
        return found
