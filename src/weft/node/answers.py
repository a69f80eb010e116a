"""What the node tells operators (``weft status``, ``peers``, ``groups``, ``lag``, ``explain``)."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Final

from google.protobuf.message import DecodeError

from weft import __version__
from weft.core import Broker
from weft.core.messages import StreamKey
from weft.core.policy import GroupPolicy
from weft.core.views import explain, explain_servers, link_lag
from weft.errors import UsageError
from weft.limits import LOOK_BYTES_AT_ONCE, LOOK_STREAMS_AT_ONCE
from weft.log.errors import EventsLost, PositionExpired
from weft.membership import Members, NodeState
from weft.model import Batch, Epoch, NodeId, Position, Stream, Topic
from weft.node.figures import GroupFigures
from weft.node.slices import LOOKED_AT_ONCE, Breath, in_order, log_totals
from weft.port.pages import PageRoom
from weft.transport.clients.values import policy_message
from weft.transport.peers.watching import LinkView
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import read_stream_untrusted, stream_position, stream_ref

AGES_LIKE: Final = 32  # to read the age of one event takes as long as to look at so many streams
EXPLAINED_AT_ONCE: Final = 16  # recipients in one turn of the loop: a path has at most 1,000 nodes, and takes 0.2 ms
PEERS_AT_ONCE: Final = 128  # peers of a page in one turn of the loop: two milliseconds


class NodeAnswers:
    """``Answers`` of the Admin service. ``links`` and ``rtt_ms`` return current values; ``leave`` begins a shutdown."""

    def __init__(
        self,
        broker: Broker,
        members: Members,
        links: Callable[[], Iterable[LinkView]],
        rtt_ms: Callable[[NodeId], float | None],
        listeners: Callable[[], list[str]],
        draining: Callable[[], bool],
        leave: Callable[[], None],
        set_group: Callable[[str, GroupPolicy], Awaitable[None]],
        about: Callable[[], pb.StatusReply],
    ) -> None:
        """``about``: what the parts around the broker add to the status."""
        self._broker = broker
        self._log = broker.log
        self._groups = broker.group_work.groups
        self._members = members
        self._links = links
        self._rtt_ms = rtt_ms
        self._listeners = listeners
        self._draining = draining
        self._leave = leave
        self._set_group = set_group
        self._about = about
        self._started_at_s = time.monotonic()
        self._read_bytes = 0  # how much was read for the ages of events since others had their turn
        self._ordered: tuple[str, list[StreamKey]] = "", []  # the streams of the group that was shown last

    async def status(self) -> pb.StatusReply:
        totals = await log_totals(self._log)
        reply = pb.StatusReply(
            node_id=self._broker.me,
            epoch=self._log.epoch,
            version=__version__,
            uptime_s=int(time.monotonic() - self._started_at_s),
            streams=totals.streams,
            events=totals.events,
            log_bytes=totals.bytes,
            peers_connected=sum(link.connected for link in self._links()),
            nodes_known=len(self._members.states),
            listeners=self._listeners(),
            draining=self._draining(),
        )
        reply.MergeFrom(self._about())
        return reply

    def leave(self) -> pb.LeaveReply:
        self._leave()
        return pb.LeaveReply(node_id=self._broker.me)

    # --- peers ---------------------------------------------------------------------------------------------------

    async def peers(self, room: PageRoom, after: str) -> pb.PeersReply:
        """All other members, with or without a direct link, and plain peers, which are no members. Before them come
        dialled addresses that belong to no known node."""
        views = list(self._links())
        links = {link.peer: link for link in views if link.peer is not None}
        nodes = sorted({*self._members.states, *links} - {self._broker.me})
        reply = pb.PeersReply(node_id=self._broker.me)
        if not after:
            for link in self._unknown(views):
                reply.peers.add(addresses=[link.address], state="connecting", dialled_by_us=True, trouble=link.trouble)
                room.take(reply.peers[-1].ByteSize())
        for number, node in enumerate(nodes[bisect_right(nodes, after) :], 1):
            if number % PEERS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if room.is_full and reply.peers[-1].node_id:
                reply.next_page = reply.peers[-1].node_id.encode()
                break
            lag_events = await self._lag(node)
            peer = self._peer(node, self._members.states.get(node), links.get(node), lag_events)
            room.take(peer.ByteSize())
            reply.peers.append(peer)
        return reply

    async def _lag(self, node: NodeId) -> int:
        lag = link_lag(self._broker, node)
        while True:
            try:
                next(lag)
            except StopIteration as end:
                found: int = end.value
                return found
            await asyncio.sleep(0)  # others have their turn

    def _unknown(self, views: Sequence[LinkView]) -> list[LinkView]:
        known = {address for state in self._members.states.values() for address in state.addresses}
        return [view for view in views if view.peer is None and view.address not in known]

    def _peer(self, node: NodeId, state: NodeState | None, link: LinkView | None, lag_events: int) -> pb.PeerInfo:
        info = pb.PeerInfo(node_id=node, state="alive", lag_events=lag_events)
        if state is not None:
            info.addresses.extend(state.addresses)
            info.state = state.liveness.name.lower()
            info.incarnation = state.incarnation
            info.epoch = state.epoch
            info.neighbours.extend(state.neighbours)
            info.interest.extend(state.interest)
        if link is not None and not link.connected:
            info.trouble = link.trouble
        elif link is not None:
            info.connected = True
            info.dialled_by_us = link.dialled_by_us
            info.queue_frames = link.queue_frames
            info.bytes_sent, info.bytes_received = link.bytes_sent, link.bytes_received
            info.messages_sent, info.messages_received = link.messages_sent, link.messages_received
            info.rtt_us = int((self._rtt_ms(node) or 0) * 1000)
        return info

    async def set_group(self, group: str, policy: GroupPolicy) -> None:
        await self._set_group(group, policy)

    # --- groups --------------------------------------------------------------------------------------------------

    async def groups(self, group: str, shown: Callable[[str], bool], room: PageRoom, token: bytes) -> pb.GroupsReply:
        last, after = _read_group_token_untrusted(token)
        names = [*filter(shown, self._groups.names())]
        if group:
            names = [group] if self._groups.knows(group) else []
        reply = pb.GroupsReply(node_id=self._broker.me)
        for name in names[bisect_left(names, last) :]:
            if room.is_full:
                reply.next_page = pb.GroupsPlace(group=name).SerializeToString()
                return reply
            info = reply.groups.add(group=name)
            if name != last or after is None:
                info.members.extend(sorted(member.name for member in self._groups.members(name)))
                policy = self._groups.policy(name)
                if policy is not None:
                    info.policy.CopyFrom(policy_message(policy))
            room.take(info.ByteSize())
            going_on = await self._group_streams(info, room, after if name == last else None)
            if going_on is not None:
                reply.next_page = going_on
                return reply
            await asyncio.sleep(0)
        return reply

    async def _group_streams(
        self, info: pb.GroupInfo, room: PageRoom, after: tuple[Stream, Epoch] | None
    ) -> bytes | None:
        """Add a group's streams; return the token of the next page if they do not all fit."""
        keys = await self._ordered_streams(info.group)
        first = 0 if after is None else bisect_right(keys, after)
        for number in range(first, len(keys)):
            if room.is_full and number > first:
                after_last = stream_ref(*keys[number - 1])
                token: bytes = pb.GroupsPlace(group=info.group, after=after_last).SerializeToString()
                return token
            offset = self._groups.position(info.group, keys[number])
            if offset is None:
                continue  # the group was dropped meanwhile
            holder = self._groups.holder(info.group, keys[number])
            stream = self._group_stream(Position(*keys[number], offset), "" if holder is None else holder[1])
            room.take(stream.ByteSize())
            info.streams.append(stream)
            if number % LOOK_STREAMS_AT_ONCE == 0 or self._read_bytes > LOOK_BYTES_AT_ONCE:
                self._read_bytes = 0
                await asyncio.sleep(0)
        return None

    async def _ordered_streams(self, group: str) -> list[StreamKey]:
        """A group's streams in order. A caller that asks for one page asks for the next, so the last answer is
        cached."""
        keys = self._groups.streams(group)
        if self._ordered[0] != group or len(self._ordered[1]) != len(keys):
            self._ordered = group, await in_order(keys)
        return self._ordered[1]

    def _group_stream(self, position: Position, member: str) -> pb.GroupStream:
        earliest, latest = 0, position.offset
        if self._log.find(position.stream, position.epoch) is not None:
            here = self._log.info(position.stream, position.epoch)
            earliest, latest = here.start, here.end
        return pb.GroupStream(
            position=stream_position(position),
            earliest_offset=earliest,
            latest_offset=latest,
            member=member,
            lag_us=self._age_us(position, max(position.offset, earliest), latest),
        )

    def _age_us(self, position: Position, first: int, latest: int) -> int:
        """How old the first unhandled event is; 0 if there is none, or it cannot be read."""
        if first >= latest:
            return 0
        try:
            stored = self._log.read(position.stream, position.epoch, first, bytes_max=1)
        except (EventsLost, PositionExpired):
            return 0
        if not stored:
            return 0
        self._read_bytes += len(stored[0])
        times = Batch.read_stored(stored[0]).rows(first).column(0)
        return max(time.time_ns() // 1000 - int(times[0].as_py()), 0)

    async def group_figures(self) -> list[GroupFigures]:
        """The figures of groups, for the metrics. The age is the greatest among the streams with the most to do, as
        many as can be read quickly."""
        breath = Breath()
        return [await self._figures(name, breath) for name in self._groups.names()]

    async def _figures(self, name: str, breath: Breath) -> GroupFigures:
        behind: list[tuple[int, Position]] = []
        for key in self._groups.streams(name):
            offset, state = self._groups.position(name, key), self._log.find(*key)
            if state is not None and offset is not None and state.durable > offset:
                behind.append((state.durable - offset, Position(*key, offset)))
            await breath.take()
        age_us = 0
        for _, position in nlargest(LOOK_STREAMS_AT_ONCE, behind, key=itemgetter(0)):
            age_us = max(age_us, self._group_stream(position, "").lag_us)
            await breath.take(AGES_LIKE + LOOKED_AT_ONCE * self._read_bytes // LOOK_BYTES_AT_ONCE)
            self._read_bytes = 0
        members = len(self._groups.members(name))
        lag_events = sum(lag for lag, _ in behind)
        return GroupFigures(name, members, lag_events, age_us / 1_000_000, *self._groups.failures(name))

    # --- routes --------------------------------------------------------------------------------------------------

    async def explain(self, topic: Topic, origin: NodeId | None, room: PageRoom, after: str) -> pb.ExplainReply:
        """Explain some recipients in each turn of the loop: if the mesh is a chain, their paths are long."""
        reply = pb.ExplainReply(node_id=self._broker.me)
        if not after:
            for each in explain_servers(self._broker, topic, origin):
                reply.servers.add(node_id=each.node_id, pattern=each.pattern, path=each.path, reason=each.reason)
                room.take(reply.servers[-1].ByteSize())
        for number, each in enumerate(explain(self._broker, topic, origin, after), 1):
            if room.is_full and reply.recipients:
                reply.next_page = reply.recipients[-1].node_id.encode()
                break
            found = pb.Recipient(node_id=each.node_id, pattern=each.pattern, path=each.path, reason=each.reason)
            reply.recipients.append(found)
            room.take(found.ByteSize())
            if number % EXPLAINED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return reply


def _read_group_token_untrusted(token: bytes) -> tuple[str, tuple[Stream, Epoch] | None]:
    place = pb.GroupsPlace()
    try:
        place.ParseFromString(token)
        return place.group, read_stream_untrusted(place.after) if place.HasField("after") else None
    except (DecodeError, BadMeshMessage):
        raise UsageError("not the token of a page: send the one that came with the page before") from None
