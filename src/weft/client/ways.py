"""The way of one event through the mesh: every node is asked what it remembers (``weft trace``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from weft.client.errors import BadNode
from weft.client.nodes import Nodes
from weft.client.refs import stream_positions
from weft.errors import UsageError, WeftError
from weft.limits import OFFSET_MAX
from weft.model import EventId, Position, parse_node_id
from weft.wire.mesh import mesh_pb2 as pb

TRACE: Final = "/weft.mesh.v1.Mesh/Trace"
ASKED_AT_ONCE: Final = 16  # nodes at a time
ASKED_MAX: Final = 1000  # nodes in all: in a larger mesh, only the first thousand are asked


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happened, in µs since 1970: at ``at_us`` at the latest, and not before ``not_before_us``. The two
    differ for older events, because nodes remember these less exactly."""

    at_us: int
    not_before_us: int

    @property
    def is_exact(self) -> bool:
        return self.at_us == self.not_before_us


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """A delivery to a member of a group, or to a subscriber with this pattern. If pattern, group and member are all
    empty, this client may not see who got the event."""

    pattern: str
    group: str
    member: str
    when: Moment


@dataclass(frozen=True, slots=True)
class EventHop:
    """What one node says about the event. ``kept``: its log has the event. ``stored``: when it was stored; None: the
    node does not remember, because the event came before ``since_us`` or too long ago. ``groups``: whether each group
    has handled it. ``trouble``: why the node did not answer."""

    node_id: str
    kept: bool = False
    stored: Moment | None = None
    sources: tuple[str, ...] = ()
    acked_by: tuple[str, ...] = ()
    deliveries: tuple[EventDelivery, ...] = ()
    groups: tuple[tuple[str, bool], ...] = ()
    since_us: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class EventWay:
    """The way of an event. ``timestamp_us`` is the event's timestamp, or None if no node that answered has the event.
    ``hops`` are in the order in which the nodes got the event; nodes that do not have it are last."""

    event: EventId
    timestamp_us: int | None
    traceparent: str
    hops: tuple[EventHop, ...]


async def way_of(nodes: Nodes, event: EventId) -> EventWay:
    """Ask all nodes. If the first one refuses, raise that; errors of the other nodes are part of the answer."""
    (place,) = stream_positions([Position(event.stream, event.epoch, event.offset)])
    request = pb.TraceRequest(event=place)
    first: pb.TraceReply = await nodes.call(TRACE, request, pb.TraceReply)
    room = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask(member: pb.Member) -> pb.TraceReply | EventHop:
        name = _node_id_untrusted(member.node_id)
        trouble = "it is known at no address"
        for address in member.addresses:
            try:
                async with room:
                    return await nodes.call_one(address, TRACE, request, pb.TraceReply)
            except WeftError as error:
                trouble = str(error)
        return EventHop(name, trouble=trouble)

    replies = [first, *await asyncio.gather(*map(ask, first.members[:ASKED_MAX]))]
    told = [each for each in replies if isinstance(each, pb.TraceReply)]
    hops = [each if isinstance(each, EventHop) else _hop_untrusted(each) for each in replies]
    found = next((each for each in told if each.kept), None)
    return EventWay(
        event,
        None if found is None else found.timestamp_us,
        "" if found is None else found.traceparent,
        tuple(sorted(hops, key=lambda hop: _order(hop, event.stream.origin))),
    )


def _order(hop: EventHop, origin: str) -> tuple[bool, bool, int, str]:
    """The sort key of a hop. The clocks of nodes differ, so the origin comes first, whatever the times say."""
    at_us = OFFSET_MAX if hop.stored is None else hop.stored.at_us
    return not hop.kept and hop.stored is None, hop.node_id != origin, at_us, hop.node_id


def _hop_untrusted(reply: pb.TraceReply) -> EventHop:
    return EventHop(
        node_id=_node_id_untrusted(reply.node_id),
        kept=reply.kept,
        stored=_moment(reply.stored) if reply.HasField("stored") else None,
        sources=_node_ids_untrusted(reply.sources),
        acked_by=_node_ids_untrusted(reply.acked_by),
        deliveries=tuple(
            EventDelivery(each.pattern, each.group, each.member, _moment(each.when)) for each in reply.deliveries
        ),
        groups=tuple((each.group, each.handled) for each in reply.groups),
        since_us=reply.since_us,
    )


def _moment(moment: pb.TraceMoment) -> Moment:
    return Moment(moment.at_us, moment.not_before_us)


def _node_ids_untrusted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_node_id_untrusted, names))


def _node_id_untrusted(name: str) -> str:
    try:
        return str(parse_node_id(name))
    except UsageError as error:
        raise BadNode(f"the node named one that cannot be: {error}") from None
