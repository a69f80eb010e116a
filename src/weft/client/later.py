"""Events that wait for a later time: they are listed and cancelled at the node where they wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from typing import Final

from weft.client.errors import RETRYABLE, BadNode, Unavailable
from weft.client.nodes import Nodes
from weft.client.start import timestamp_us_of
from weft.errors import UsageError, WeftError
from weft.model import Event, EventId, parse_event_id, parse_topic
from weft.model.event import check_timestamp_us
from weft.model.later import AHEAD_S_MAX, Waiting
from weft.wire.mesh import mesh_pb2 as pb

NODES_ASKED_MAX: Final = 64
PAGES_MAX: Final = 100_000  # from one node: a faulty node could send pages for ever


def due_at_us(deliver_at: datetime) -> int:
    """Check a time. Raise UsageError if it has no time zone, because then it is ambiguous."""
    if deliver_at.tzinfo is None:
        raise UsageError("deliver_at needs a time zone", have=deliver_at.isoformat())
    return timestamp_us_of(deliver_at)


def due_after_us(delay: float | timedelta) -> int:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if not 0 <= seconds <= AHEAD_S_MAX:  # written so that NaN is refused, too
        raise UsageError("a delay is from 0 s to 366 days", delay_s=seconds)
    return round(seconds * 1e6)


class LaterEvents:
    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def list(self) -> tuple[list[Waiting], dict[str, str]]:
        """Return the events that wait at all nodes that can be reached, in the order of their times; and the addresses
        of nodes that cannot be reached, with the reasons."""
        found: dict[EventId, Waiting] = {}
        unreached: dict[str, str] = {}
        asked: set[str] = set()  # node ids
        async for address in self._addresses():
            try:
                await self._ask(address, asked, found)
            except RETRYABLE as error:
                unreached[address] = str(error)
        if not asked:
            raise Unavailable("no node answers", nodes="; ".join(unreached.values())[:500])
        return sorted(found.values(), key=lambda each: (each.due_us, each.id)), unreached

    async def _addresses(self) -> AsyncIterator[str]:
        """Yield all known addresses, and those that are learned meanwhile."""
        seen: set[str] = set()
        while len(seen) < NODES_ASKED_MAX:
            more = [each for each in self._nodes.book.round(self._nodes.last_good) if each not in seen]
            if not more:
                return
            seen.add(more[0])
            yield more[0]

    async def _ask(self, address: str, asked: set[str], found: dict[EventId, Waiting]) -> None:
        token = b""
        for _ in range(PAGES_MAX):
            request = pb.LaterRequest(page=pb.Page(token=token))
            reply = await self._nodes.call_one(
                address, "/weft.mesh.v1.Mesh/Later", request, pb.LaterReply, self._nodes.options.call_timeout_s
            )
            self._nodes.book.learn_untrusted(reply.addresses)
            if not token and reply.node_id in asked:
                return  # the node has several addresses
            asked.add(reply.node_id)
            found.update((each.id, each) for each in _read_all_untrusted(reply.events))
            if not reply.next_page:
                return
            if reply.next_page == token:
                break
            token = reply.next_page
        raise BadNode("the node gives the same page again", node=address)

    async def cancel(self, event: EventId) -> Waiting:
        """Cancel an event at the node where it waits. Raise UsageError if it does not wait there, and Unavailable if
        that node cannot be reached."""
        last: WeftError | None = None
        async for address in self._addresses():
            request = pb.CancelLaterRequest(event=str(event))
            try:
                reply = await self._nodes.call_one(
                    address, "/weft.mesh.v1.Mesh/CancelLater", request, pb.CancelLaterReply
                )
            except RETRYABLE as error:
                last = error
                continue
            self._nodes.book.learn_untrusted(reply.addresses)
            if not reply.elsewhere:
                return _read_untrusted(reply.event)
        raise Unavailable(
            "the node where this event waits cannot be reached",
            node=event.stream.origin,
            last=last or "no node of that name is known",
        )


def _read_all_untrusted(events: Iterable[pb.WaitingEvent]) -> Iterable[Waiting]:
    return map(_read_untrusted, events)


def _read_untrusted(found: pb.WaitingEvent) -> Waiting:
    try:
        check_timestamp_us(found.due_us)
        key = found.key if found.HasField("key") else None
        event = Event(found.payload, found.due_us, key, dict(found.headers) or None)
        return Waiting(parse_event_id(found.event), found.due_us, parse_topic(found.topic), found.partition, event)
    except UsageError as error:
        raise BadNode(f"the node tells of an event that cannot be: {error}") from None
