"""The calls of ``Mesh`` with one request: Fetch, Positions, Commit, DropGroup, Topics, Trace, Whoami."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from weft.core.messages import StreamKey
from weft.errors import UsageError, WeftError
from weft.limits import LOOK_BYTES_AT_ONCE, LOOK_STREAMS_AT_ONCE, MIB, WHOAMI_TOPICS_MAX
from weft.log import Log, StreamInfo
from weft.log.errors import EventsLost, PositionExpired
from weft.model import COLUMNS, Batch, EventId, Pattern, Position
from weft.model.traces import TRACEPARENT
from weft.port.access import Caller, check_group
from weft.port.errors import TooLarge, error_message
from weft.port.held import Holding, Use
from weft.port.history import is_archived
from weft.port.node import MeshNode, Moment
from weft.port.pages import (
    read_stream_token_untrusted,
    read_text_token_untrusted,
    room_for,
    stream_token,
)
from weft.port.topics import Known, KnownStreams, read_topic_untrusted, topics_of
from weft.transport.clients.fetching import Piece, RangesReading, read_ranges_untrusted, reply_parts
from weft.transport.clients.values import (
    check_position_count,
    read_pattern_untrusted,
    read_positions_untrusted,
)
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import read_position_untrusted, stream_ref

TRACE_GROUPS_MAX: Final = 256  # listed with one event
TRACEPARENT_CHARS_MAX: Final = 256
REPLY_BYTES: Final = 1 * MIB  # of a fetch that sets no size


class Queries:
    """The methods that serve these calls. An error that a method raises ends its call."""

    def __init__(self, node: MeshNode) -> None:
        self._node = node

    # --- a range of a stream -------------------------------------------------------------------------------------

    async def fetch(self, request: pb.FetchRequest, call: ServerCall, caller: Caller) -> None:
        """Send the ranges part by part. The next part is read when the last one has left, and the caller's account has
        room."""
        with closing(self._node.held.holding(caller.who, Use.FETCH)) as holding:
            await self._fetch(request, call, caller, holding)

    async def _fetch(self, request: pb.FetchRequest, call: ServerCall, caller: Caller, holding: Holding) -> None:
        reading: RangesReading | None = None
        try:
            ranges = read_ranges_untrusted(request)
            for topic in {wanted.stream.topic for wanted in ranges}:
                caller.check_subscribe(Pattern(topic))
            columns = _columns_untrusted(request.columns)
            bytes_max = min(request.bytes_max or REPLY_BYTES, self._node.limits.reply_bytes_max)
            reading = RangesReading(ranges, bytes_max)
            while not reading.is_over:
                await holding.room()
                caller.check()
                pieces = await reading.next(self._node.log, self._node.history)
                if not pieces and not request.more:
                    return
                head, rest = await _reply_parts(pieces, columns, reading.number if request.more else None)
                del pieces
                holding.take(len(head) + len(rest))
                call.write_nowait(rest, head)
                del rest
                await call.wait_sent()
                holding.keep(0)
        except WeftError as error:
            self._node.count_refusal(error)
            told = pb.FetchReply(error=error_message(error), range=reading.number if reading else 0)
            await call.write(told.SerializeToString())

    # --- where streams begin and end -----------------------------------------------------------------------------

    async def positions(self, request: pb.PositionsRequest, caller: Caller) -> pb.PositionsReply:
        pattern = read_pattern_untrusted(request.pattern)
        caller.check_subscribe(pattern)
        if request.group:
            await check_group(self._node.groups, caller, request.group)
        timestamp_us = request.timestamp_us if request.HasField("timestamp_us") else None
        after = read_stream_token_untrusted(request.page.token)
        room = room_for(request)
        reply = pb.PositionsReply(node_id=self._node.node_id, members=[] if after else self._members())
        last: StreamKey | None = None
        read_bytes = 0
        streams = KnownStreams(self._node.log, self._node.history if request.history else None)
        async for known in streams.matching(pattern, after, timestamp_us):
            if room.is_full and last is not None:
                reply.next_page = stream_token(*last)
                break
            place, size = self._place_of(known, request.group, timestamp_us)
            room.take(place.ByteSize())
            reply.streams.append(place)
            last = known.key
            read_bytes += size
            if read_bytes > LOOK_BYTES_AT_ONCE:
                read_bytes = 0
                await asyncio.sleep(0)
        reply.history_problem = streams.problem
        return reply

    def _members(self) -> list[pb.Member]:
        return [pb.Member(node_id=each.node_id, addresses=each.addresses) for each in self._node.members()]

    def _place_of(self, known: Known, group: str, timestamp_us: int | None) -> tuple[pb.PositionsOfStream, int]:
        """Find the positions in a stream; return also how many bytes of batches were read for that."""
        archived, size = known.archived, 0
        if known.info is not None:
            place, size = self._place(known.info, group, timestamp_us)
            start = known.info.start
        else:
            assert archived is not None, "one of the two has it"
            start = archived.runs[-1]
            info = pb.StreamInfo(stream=stream_ref(*known.key), earliest_offset=start, latest_offset=start)
            place = pb.PositionsOfStream(info=info, only_history=True)
        if archived is not None:
            place.history.extend(archived.runs)
            if archived.at is not None and archived.at < start:
                place.timestamp_offset = archived.at
        return place, size

    def _place(self, info: StreamInfo, group: str, timestamp_us: int | None) -> tuple[pb.PositionsOfStream, int]:
        """Do the same for a stream that the log has."""
        log = self._node.log
        first_us, size = _first_timestamp_us(log, info)
        place = pb.PositionsOfStream(
            info=pb.StreamInfo(
                stream=stream_ref(info.stream, info.epoch),
                earliest_offset=info.start,
                latest_offset=info.end,
                bytes=info.bytes,
                first_timestamp_us=first_us,
                last_timestamp_us=max(info.latest_us, 0),
                late_us=info.late_us,
            ),
            group_offset=self._node.groups.position(group, (info.stream, info.epoch)) if group else None,
        )
        if timestamp_us is not None:
            place.timestamp_offset = log.seek(info.stream, info.epoch, timestamp_us)
        return place, size

    async def topics(self, request: pb.TopicsRequest, caller: Caller) -> pb.TopicsReply:
        """List the matching topics that the caller may subscribe to, and hide the rest."""
        pattern = read_pattern_untrusted(request.pattern)
        room = room_for(request)
        after = read_text_token_untrusted(request.page.token)
        streams = KnownStreams(self._node.log, self._node.history if request.history else None)
        topics, last = await topics_of(streams, pattern, caller, room, after)
        return pb.TopicsReply(
            topics=topics, next_page=last.encode(), node_id=self._node.node_id, history_problem=streams.problem
        )

    async def trace(self, request: pb.TraceRequest, caller: Caller) -> pb.TraceReply:
        """Show the way of an event to a caller that may read its topic. What it shows of groups and nodes depends on
        the caller's other rights."""
        place = read_position_untrusted(request.event)
        event = EventId(place.stream, place.epoch, place.offset)
        caller.check_subscribe(Pattern(event.stream.topic))
        way = self._node.way_of(event)
        reply = pb.TraceReply(
            node_id=self._node.node_id,
            members=self._members(),
            sources=way.sources,
            acked_by=way.acked_by,
            since_us=way.since_us,
        )
        self._add_event(reply, event)
        if way.stored is not None:
            reply.stored.CopyFrom(_moment(way.stored))
        for each in way.deliveries:
            told = reply.deliveries.add(when=_moment(each.when))
            if each.group and caller.may_see_group(each.group):
                told.group, told.member = each.group, each.member
            elif not each.group and each.pattern and caller.may_subscribe(Pattern(each.pattern)):
                told.pattern = each.pattern
        self._add_groups(reply, event, caller)
        return reply

    def _add_event(self, reply: pb.TraceReply, event: EventId) -> None:
        try:
            stored = self._node.log.read(event.stream, event.epoch, event.offset, event.offset + 1, 1)
        except WeftError:  # it never was here, or is no longer
            return
        if stored:
            (found,) = Batch.read_stored(stored[0]).events_from(event.offset)[:1]
            reply.kept = True
            reply.timestamp_us = found.timestamp_us
            reply.traceparent = (found.headers or {}).get(TRACEPARENT, "")[:TRACEPARENT_CHARS_MAX]

    def _add_groups(self, reply: pb.TraceReply, event: EventId, caller: Caller) -> None:
        groups = self._node.groups
        for name in filter(caller.may_see_group, groups.names()):
            position = groups.position(name, (event.stream, event.epoch))
            if position is not None and len(reply.groups) < TRACE_GROUPS_MAX:
                reply.groups.add(group=name, handled=position > event.offset)

    async def whoami(self, request: pb.WhoamiRequest, caller: Caller) -> pb.WhoamiReply:
        """Say who is calling. If the caller may not publish to the topics that it asks about, refuse as a publish would
        be refused."""
        if len(request.publish_to) > WHOAMI_TOPICS_MAX:
            raise TooLarge("too many topics in one message", have=len(request.publish_to), limit=WHOAMI_TOPICS_MAX)
        for topic in request.publish_to:
            caller.check_publish(read_topic_untrusted(topic))
        return pb.WhoamiReply(who=caller.who, owner=caller.owner)

    # --- groups --------------------------------------------------------------------------------------------------

    async def commit(self, request: pb.CommitRequest, caller: Caller) -> pb.CommitReply:
        """Move a group. The caller must have the right to use the group and to read all these topics."""
        try:
            self._node.check_open()
            positions = await self._positions_untrusted(request, caller)
            if request.group:
                await check_group(self._node.groups, caller, request.group)
                self._node.quotas.usage(caller).use_group(self._node.groups, request.group)
            await self._node.move_group(request.group, positions)
            return pb.CommitReply()
        except WeftError as error:
            self._node.count_refusal(error)
            return pb.CommitReply(error=error_message(error))

    async def drop_group(self, request: pb.DropGroupRequest, caller: Caller) -> pb.DropGroupReply:
        try:
            self._node.check_open()
            await check_group(self._node.groups, caller, request.group)
            await self._node.drop_group(request.group)
            return pb.DropGroupReply()
        except WeftError as error:
            self._node.count_refusal(error)
            return pb.DropGroupReply(error=error_message(error))

    async def _positions_untrusted(self, request: pb.CommitRequest, caller: Caller) -> tuple[Position, ...]:
        """Read the positions, some in each turn of the loop. A position where the log has nothing is refused here; it
        would fail later, far from the mistake."""
        check_position_count(len(request.positions))
        history = self._node.history
        found: list[Position] = []
        for first in range(0, len(request.positions), LOOK_STREAMS_AT_ONCE):
            some = read_positions_untrusted(request.positions[first : first + LOOK_STREAMS_AT_ONCE])
            for topic in {position.stream.topic for position in some}:
                caller.check_subscribe(Pattern(topic))
            for each in some:
                key = (each.stream, each.epoch)
                if self._node.log.find(*key) is None or is_archived(self._node.log, history, key, each.offset) is None:
                    self._node.log.read(*key, each.offset, each.offset)
            found += some
            await asyncio.sleep(0)
        return tuple(found)


def _first_timestamp_us(log: Log, info: StreamInfo) -> tuple[int, int]:
    """Find the first timestamp, and count the bytes that were read. 0 if the stream is empty, or damaged where it
    begins; readers get that error."""
    try:
        stored = log.read(info.stream, info.epoch, info.start, bytes_max=1)
    except (EventsLost, PositionExpired):
        return 0, 0
    return (Batch.read_stored(stored[0]).timestamp_us_min, len(stored[0])) if stored else (0, 0)


def _moment(moment: Moment) -> pb.TraceMoment:
    return pb.TraceMoment(at_us=moment.at_us, not_before_us=moment.not_before_us)


async def _reply_parts(pieces: list[Piece], columns: list[str], done: int | None) -> tuple[bytes, bytes | memoryview]:
    """Encode a reply. If all columns are wanted, stored batches leave as they are. Otherwise a thread takes out the
    columns, because Arrow releases the GIL meanwhile."""
    if columns:
        return await asyncio.to_thread(reply_parts, pieces, columns, done)
    return reply_parts(pieces, columns, done)


def _columns_untrusted(names: Iterable[str]) -> list[str]:
    columns = list(dict.fromkeys(names))
    unknown = next((name for name in columns if name not in COLUMNS), None)
    if unknown is not None:
        raise UsageError("no such column", column=unknown[:64], known=", ".join(COLUMNS))
    return columns
